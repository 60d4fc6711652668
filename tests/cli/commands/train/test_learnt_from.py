"""Data sets and dates that a training cannot use are refused before the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import main

pytest.importorskip("pyarrow", reason="pip install mirage-hpc[learn]")
pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")

HEAD = "job_id,submit_s,elapsed_s,limit_s,nodes"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A job every three hours for forty days from 1970-01-01."""
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([HEAD, *(f"{k},{k * 10_800},600,1200,1" for k in range(320))]) + "\n")
    return str(path)


def data_set(folder: Path, **others: Any) -> str:
    """The manifest of a data set of another trace and cluster."""
    folder.mkdir()
    plan = {"protocol": "warm", "start_s": 864_000, "windows": 2, "every_s": 86_400, "step_s": 1800, "lead_in_s": 0}
    world = {"trace": "another", "cluster": "another", "nodes": 7, "discipline": "easy", "settings": "SlurmSettings()"}
    known = {
        "schema": 1,
        "shard_s": 345_600,
        "link_nodes": [1],
        "link_limit_s": [3600],
        "seed": 0,
        "futures": 2,
        "views": True,
    }
    (folder / "manifest.json").write_text(json.dumps(plan | world | known | others))
    return str(folder)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that fails."""
    assert main(words) != 0
    return capsys.readouterr().err


def test_a_data_set_of_another_trace_and_cluster_is_refused(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = data_set(tmp_path / "data"), str(tmp_path / "model")
    message = refused(capsys, "train", "forest", trace, "-N", "8", "--data", data, "-o", out)
    assert f"{data} was made with other values of trace and cluster and nodes and settings; give the options" in message


def test_a_data_set_of_outcomes_only_is_refused(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = data_set(tmp_path / "data", views=False), str(tmp_path / "model")
    message = refused(capsys, "train", "forest", trace, "--data", data, "-o", out)
    assert f"{data} holds outcomes only, as it was made with --labels-only; make a data set without it" in message


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--discipline slurm", "--discipline"),
        ("--link-limit 2h --every 1d --step 10m", "--link-limit, --step"),
        (
            "--start 1970-01-12 --windows 3 --protocol published --futures 4",
            "--start, --windows, --protocol, --futures",
        ),
    ],
)
def test_options_that_a_data_set_was_not_made_with_are_refused(
    options: str, named: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = data_set(tmp_path / "data"), str(tmp_path / "model")
    message = refused(capsys, "train", "forest", trace, "--data", data, *options.split(), "-o", out)
    assert f"{data} was made with other values of {named}, and defines the windows; leave " in message


def test_options_that_a_data_set_was_made_with_are_accepted(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = data_set(tmp_path / "data"), str(tmp_path / "model")
    windows = "--start 1970-01-11 --windows 2 --every 1d --step 30m --protocol warm --seed 5"
    options = f"--discipline easy --link-limit 1h --futures 2 {windows}"
    message = refused(capsys, "train", "forest", trace, "--data", data, *options.split(), "-o", out)
    assert f"{data} lacks 1 of its 1 shards" in message


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            "train forest TRACE --settings lonestar6 --gpus-per-node 8 --max-job-test 5",
            "with --data, --gpus-per-node, --settings, --max-job-test needs",
        ),
        ("train forest TRACE --timezone America/Chicago --format csv", "with --data, --format, --timezone needs TRACE"),
        ("explain reactive --nodes 8", "with --data, --nodes needs TRACE and its cluster"),
        (
            "explain reactive TRACE --skip-impossible --skip-bad-lines",
            "with --data, --skip-impossible, --skip-bad-lines needs",
        ),
    ],
)
def test_options_of_a_trace_that_is_not_compared_with_the_data_set_are_refused(
    words: str, named: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = data_set(tmp_path / "data"), str(tmp_path / "out")
    message = refused(capsys, *words.replace("TRACE", trace).split(), "--data", data, "-o", out)
    assert named in message


def test_a_size_that_a_data_set_does_not_have_is_refused(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = data_set(tmp_path / "data", link_nodes=[1, 8]), str(tmp_path / "model")
    message = refused(capsys, "train", "forest", "nosuch.csv", "--data", data, "-o", out)
    assert "nosuch.csv: there is no such trace that can be read; check the path" in message
    message = refused(capsys, "train", "forest", trace, "--data", data, "--link-nodes", "8,2,4", "-o", out)
    assert f"{data} has links of 1, 8 nodes, and none of 2, 4; make a data set with them, or leave them" in message


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        ("--until 1970-01-25 --tune-until 1970-01-20", "--until must come before --tune-until"),
        ("--until 1971-01-01", "--until 1971-01-01 is after the last job of the trace, 1970-02-09; give an earlier"),
        ("--until 1970-01-03", "--until 1970-01-03 leaves no window to train on: the first link is submitted 1970-01-"),
    ],
)
def test_dates_that_leave_nothing_are_refused_before_a_data_set_is_made(
    dates: str, message: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")
    words = ["train", "forest", trace, "-N", "8", "--link-limit", "6h", *dates.split(), "-o", out]
    assert message in refused(capsys, *words)
    assert not Path(f"{out}.data").exists()


@pytest.mark.parametrize(
    "command", ["evaluate", "learn dataset -o OUT", "train forest -o OUT", "explain reactive -o OUT",
                "compare --months 2026-01 --methods none -o OUT", "simulate"],
)  # fmt: skip
def test_a_trace_without_usable_jobs_is_refused_with_the_reason(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,elapsed_s,limit_s\n" + "".join(f"{k},{k * 9000},600,1200\n" for k in range(30)))
    first, *rest = command.replace("OUT", str(tmp_path / "out")).split()
    positional = [rest.pop(0)] if rest and not rest[0].startswith("-") else []
    message = refused(capsys, first, *positional, str(path), "-N", "8", *rest)
    assert f"{path} has no job to simulate; left out: 30 that tell no nodes" in message
