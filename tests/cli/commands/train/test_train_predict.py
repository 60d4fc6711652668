"""``mirage train predict``: from a trace to a model and its card."""

import json

import numpy as np
import pytest

from mirage.cli import main
from mirage.predict.waits.wait_model import load_wait_model
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")
pytest.importorskip("safetensors", reason="pip install mirage-hpc[predict]")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    rng, n = np.random.default_rng(0), 900
    submit_s = 1_700_000_000 + np.sort(rng.integers(0, 10 * 86_400, n))
    start_s = submit_s + rng.integers(1, 9000, n)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    columns = {"submit_s": submit_s, "start_s": start_s, "end_s": start_s + 60, "limit_s": np.full(n, 3600)}
    write_trace(JobTable.build(range(n), **columns, nodes=np.ones(n, dtype=int), user=["a"] * n), path)
    return path


def test_a_model_and_its_card(trace, tmp_path, capsys):
    assert main(["train", "predict", str(trace), "-o", str(tmp_path / "waits.model"), "--refit-days", "30"]) == 0
    printed = capsys.readouterr()
    assert "waits of jobs.csv" in printed.out
    assert "coverage 80" in printed.out
    assert "900 jobs written to" in printed.err
    assert "warning" not in printed.err
    assert load_wait_model(tmp_path / "waits.model").card.trained_on.rows == 900


def test_the_card_as_json(trace, tmp_path, capsys):
    out = str(tmp_path / "waits.model")
    assert main(["train", "predict", str(trace), "-o", out, "--refit-days", "30", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["kind"] == "waits"
    assert 0.5 < card["figures"]["coverage_80"] <= 1
    assert card["trained_on"]["trace"] == "jobs.csv"


def test_a_place_that_cannot_be_written_is_refused_before_the_work(trace, tmp_path, capsys):
    assert main(["train", "predict", str(trace), "-o", str(tmp_path / "none" / "waits.model")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_a_trace_without_requests_is_a_warning(trace, tmp_path, capsys):
    table = read_trace(trace).table
    write_trace(table.with_columns(limit_s=np.full(900, -1), nodes=np.full(900, -1)), tmp_path / "bare.csv")
    assert main(["train", "predict", str(tmp_path / "bare.csv"), "-o", str(tmp_path / "m"), "--refit-days", "30"]) == 0
    printed = capsys.readouterr().err
    for what in ("time limit", "number of nodes"):
        assert f"bare.csv has a {what}, so the model cannot use it; add it to the trace" in printed


def test_a_trace_that_is_too_short_is_refused(trace, tmp_path, capsys):
    short = tmp_path / "short.csv"
    short.write_text("".join(trace.read_text().splitlines(keepends=True)[:50]))
    assert main(["train", "predict", str(short), "-o", str(tmp_path / "m")]) == 1
    assert "needs 500" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_help_shows_examples(capsys):
    assert main(["train", "predict", "--help"]) == 0
    assert "mirage train predict jobs.log.gz -o waits.model" in capsys.readouterr().out
