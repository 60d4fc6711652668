"""``mirage compare``: from a trace to results, killed on the way."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mirage.cli import main
from tests.support.waiting import until

pytest.importorskip("pyarrow", reason="pip install mirage-hpc[learn]")
pytest.importorskip("matplotlib", reason="pip install mirage-hpc[plot]")

BEGIN_S = 1_669_852_800  # 2022-12-01
DAYS = 76
POLICIES = "reactive,what-if:2,holds:by=correction,oracle"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Eleven weeks on four nodes, with a burst every other day."""
    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    days = np.concatenate([random.uniform(0, DAYS, 4 * DAYS), np.repeat(np.arange(0.3, DAYS, 2), 12)])
    lines = ["job_id,submit_s,elapsed_s,limit_s,nodes"]
    for k, submit_s in enumerate(np.sort(BEGIN_S + days * 86_400).astype(int)):
        run_s = int(random.integers(1200, 30_000))
        lines.append(f"{k},{submit_s},{run_s},{2 * run_s},{random.choice([1, 1, 2])}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def arguments(trace):
    windows = ["--link-nodes", "2", "--link-limit", "8:00:00", "--start", "2022-12-03", "--every", "84h"]
    tried = ["--methods", "correction", "--policies", POLICIES, "--seeds", "0-1", "--cost-ratios", "1"]
    options = ["--step", "4h", "--months", "2023-01,2023-02", "--futures", "2", "--workers", "1"]
    return ["compare", trace, "-N", "4", "--discipline", "easy", *windows, *tried, *options]


@pytest.mark.slow
def test_a_killed_comparison_resumes_to_the_same_results(arguments, tmp_path, capsys):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([sys.executable, "-m", "mirage", *arguments, "-o", str(killed)], stderr=subprocess.PIPE)
    try:
        until(lambda: any(path.stat().st_size for path in killed.glob("played/*.jsonl")), 20, "nothing is played")
    finally:
        process.kill()
        process.communicate()
    assert not (killed / "results.json").exists()
    trained = {path: path.stat().st_mtime_ns for path in killed.glob("models/*.model")}
    assert len(trained) == 4
    assert main([*arguments, "-o", str(killed)]) == 0
    assert {path: path.stat().st_mtime_ns for path in killed.glob("models/*.model")} == trained
    printed = capsys.readouterr()
    assert "links of 2 nodes at 1 : 1" in printed.out
    assert "results.md" in printed.err
    assert main([*arguments, "-o", str(whole), "--data", str(killed / "hand-overs.data")]) == 0
    reports = [json.loads((folder / "results.json").read_text()) for folder in (whole, killed)]
    assert reports[0] == reports[1]
    data = ["--data", str(killed / "hand-overs.data")]
    assert main([*arguments, "-o", str(whole), *data, "--nodes", "5"]) == 1
    assert "was made with other values of cluster and nodes" in capsys.readouterr().err
    assert main([*arguments, "-o", str(whole), *data, "--max-job-test", "60"]) == 1
    assert "was made with other values of settings" in capsys.readouterr().err
    assert {"results.md", "frontier-2-nodes.svg", "frontier-2-nodes.png"} <= {path.name for path in whole.iterdir()}
    assert (whole / "results.md").read_text() == (killed / "results.md").read_text()
    rows = {row["policy"]: row for row in reports[0]["rows"] if row["load"] == "all"}
    assert set(rows) == {*POLICIES.split(","), "correction"}
    assert rows["reactive"]["windows"] == reports[0]["windows"]


def test_months_must_have_windows_and_methods_must_be_known(arguments, tmp_path, capsys):
    out = ["-o", str(tmp_path / "out")]
    assert main([*arguments, *out, "--methods", "bosted"]) == 1
    assert "boosted" in capsys.readouterr().err
    assert main([*arguments, *out, "--months", "2023-13"]) == 1
    assert "2023-13" in capsys.readouterr().err
    assert main([*arguments, *out, "--against", "lead:7"]) == 1
    assert "cannot compare with 'lead:7', which is not judged" in capsys.readouterr().err
    assert main([*arguments, *out, "--months", "2023-01,2024-05"]) == 1
    assert "no windows in 2024-05 to test on; the first one begins on 2022-12-05, the last" in capsys.readouterr().err
    assert main([*arguments, *out, "--months", "2019-01"]) == 1
    assert capsys.readouterr().err.endswith("no windows in 2019-01 to test on; the first one begins on 2022-12-05\n")
    assert not (tmp_path / "out" / "hand-overs.data").exists()


def test_help_shows_examples(capsys):
    assert main(["compare", "--help"]) == 0
    assert "mirage compare jobs.log.gz --nodes 76" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--methods none --trees 7", "--trees is for forest, random-forest-2023, xgboost-2023; leave it out"),
        ("--methods correction,forest --epochs 3", "--epochs is for transformer, transformer-dqn, "),
    ],
)
def test_options_that_no_compared_method_uses_are_refused(options, message, tmp_path, capsys):
    words = ["compare", "jobs.csv", "--months", "2023-01", *options.split(), "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("epochs", "message"),
    [
        ("²", "'²' is neither N nor METHOD=N"),
        ("12,0", "'0' is neither N nor METHOD=N"),
        ("moe=", "'moe=' is neither N nor METHOD=N"),
        ("moe=3,magic=2", "'magic=2' is neither N nor METHOD=N"),
        ("3,moe-pg=2,moe=2", "--epochs limits moe-pg, which is not compared; name it with --methods"),
    ],
)
def test_epochs_that_are_no_number_or_of_no_compared_method_are_refused(epochs, message, tmp_path, capsys):
    words = ["compare", "jobs.csv", "--months", "2023-01", "--methods", "moe,forest", "--epochs", epochs]
    assert main([*words, "-o", str(tmp_path / "out")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
