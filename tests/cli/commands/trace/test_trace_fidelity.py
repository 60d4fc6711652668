"""``mirage trace fidelity``: a simulated history against the recorded one, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mirage.cli import main
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

HOUR, DAY = 3600, 86_400
DAY0 = 20_000 * DAY
"""2024-10-04."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three weeks of jobs on four nodes, jobs.csv; half an hour later each, later.csv."""
    monkeypatch.chdir(tmp_path)
    submit_s = DAY0 + np.arange(0, 21 * 24, 6) * HOUR
    table = JobTable.build(
        [f"j{k}" for k in range(len(submit_s))],
        submit_s=submit_s,
        start_s=submit_s + HOUR,
        end_s=submit_s + 4 * HOUR,
        elapsed_s=[3 * HOUR] * len(submit_s),
        limit_s=[4 * HOUR] * len(submit_s),
        nodes=1 + np.arange(len(submit_s)) % 2,
    )
    write_trace(table, "jobs.csv")
    half_s = HOUR // 2
    write_trace(table.with_columns(start_s=table.start_s + half_s, end_s=table.end_s + half_s), "later.csv")
    return tmp_path


def reported(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["trace", "fidelity", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_schedule_in_place_of_the_trace_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("schedule.csv").write_text(f"id,submit,start,end\nj0,{DAY0},{DAY0 + 9},{DAY0 + 99}\n")
    assert "schedule.csv is a simulated schedule, and jobs.csv is none; exchange" in refused(
        capsys, "schedule.csv", "jobs.csv"
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str, status: int = 1) -> str:
    assert main(["trace", "fidelity", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    return " ".join(err.split())


def test_a_schedule_by_mirage_simulate_is_read_as_it_is(folder, capsys) -> None:
    assert main(["simulate", "jobs.csv", "--nodes", "4", "--discipline", "fcfs", "-o", "simulated.csv"]) == 0
    capsys.readouterr()
    found = reported(capsys, "jobs.csv", "simulated.csv", "--format", "csv")
    assert found["recorded"] == "jobs.csv"
    assert found["simulated"] == "simulated.csv"
    assert found["counts"]["compared"] == 84
    assert found["mean_wait_ratio"]["value"] == 0
    assert found["starts"]["mean_absolute_s"] == found["recorded_wait_s"]["mean"] == HOUR
    assert found["moving_average"]["mape"] == 1


def test_the_table(folder, capsys) -> None:
    assert main(["trace", "fidelity", "jobs.csv", "later.csv"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[:2] == [
        "later.csv compared with jobs.csv",
        "submitted 2024-10-04 to 2024-10-24: 84 jobs compared of 84 recorded",
    ]
    assert "moving average  off by 50.0% over 8 windows of 14 days (+50.0% in the mean, 50.0% at most)" in lines
    assert next(line for line in lines if line.startswith("all jobs")).split() == [
        "all", "jobs", "84", "01:00:00", "01:30:00", "0.50", "1.00", "-"
    ]  # fmt: skip


def test_any_known_format_and_one_of_another_tool(folder, capsys) -> None:
    assert main(["trace", "convert", "later.csv", "later.parquet"]) == 0
    Path("other.csv").write_text(
        "job;began;asked\n" + "".join(f"j{k};{DAY0 + 6 * k * HOUR + 60};{DAY0 + 6 * k * HOUR}\n" for k in range(80))
    )
    capsys.readouterr()
    assert reported(capsys, "jobs.csv", "later.parquet")["starts"]["mean_s"] == HOUR / 2
    mapped = "job_id=job,submit_s=asked,start_s=began"
    found = reported(capsys, "--simulated-columns", mapped, "jobs.csv", "other.csv")
    assert (found["counts"]["compared"], found["counts"]["only_recorded"]) == (80, 4)
    assert found["simulated_wait_s"]["mean"] == 60


def test_a_span_of_submissions(folder, capsys) -> None:
    found = reported(capsys, "jobs.csv", "later.csv", "--from", "2024-10-05", "--until", "2024-10-07")
    assert (found["counts"]["compared"], found["from"], found["until"]) == (
        8, "2024-10-05T00:00:00Z", "2024-10-07T00:00:00Z",
    )  # fmt: skip
    assert "--from must be before --until" in refused(
        capsys, "jobs.csv", "later.csv", "--from", "2024-10-07", "--until", "2024-10-07", status=2
    )
    printed = refused(capsys, "jobs.csv", "later.csv", "--from", "2025-01-01")
    assert "was submitted in the span; choose another --from and --until" in printed


@pytest.mark.parametrize("kind", ["svg", "html"])
def test_a_chart_is_drawn_next_to_the_table(folder, capsys, kind) -> None:
    assert main(["trace", "fidelity", "jobs.csv", "later.csv", "--plot", f"a.{kind}"]) == 0
    assert "later.csv compared with jobs.csv" in Path(f"a.{kind}").read_text()
    assert capsys.readouterr().out.startswith("later.csv compared with")


def test_a_chart_that_cannot_be_drawn_is_refused_before_anything_is_read(folder, capsys) -> None:
    printed = refused(capsys, "absent.csv", "later.csv", "--plot", "a.png")
    assert "cannot draw into a.png: its name must end in .svg or .html" in printed
    assert "there is no folder" in refused(capsys, "absent.csv", "later.csv", "--plot", "no/a.svg")


def test_files_that_do_not_fit_are_named_with_what_to_do(folder, capsys) -> None:
    assert "absent.csv: cannot be read: No such file" in refused(capsys, "jobs.csv", "absent.csv")
    Path("bare.csv").write_text("submit,start,end\n1,2,3\n")
    printed = refused(capsys, "jobs.csv", "bare.csv")
    assert "bare.csv:1: this is no schedule with the ids of jobs: its first row must be id,submit,start,end" in printed
    printed = refused(capsys, "jobs.csv", "bare.csv", "--simulated-columns", "submit_s=submit,start_s=start")
    assert "--simulated-columns names no job_id" in printed
    Path("strange.csv").write_text("id,submit,start,end\nx1,1,2,3\n")
    printed = refused(capsys, "jobs.csv", "strange.csv")
    assert "84 jobs with ids as j0, j1, j2 are recorded, 1 job with ids as x1 simulated" in printed
    Path("torn.csv").write_text("id,submit,start,end\nj0,1,2\n")
    assert "torn.csv:2: wrong number of fields: 3 instead of 4" in refused(capsys, "jobs.csv", "torn.csv")


def test_two_traces_on_one_standard_input_are_refused(capsys) -> None:
    assert main(["trace", "fidelity", "-", "-"]) == 2
    assert "RECORDED and SIMULATED cannot both be standard input; name one file" in capsys.readouterr().err


def test_swf_counts_from_a_beginning_of_its_own(folder, capsys) -> None:
    rows = [f"{k} {6 * k * HOUR} {HOUR} {3 * HOUR} 1 -1 -1 1 {4 * HOUR} -1 1 1 1 -1 -1 -1 -1 -1" for k in range(1, 40)]
    Path("log.swf").write_text(f"; UnixStartTime: {DAY0}\n" + "\n".join(rows) + "\n")
    assert main(["simulate", "log.swf", "--processors", "4", "--discipline", "fcfs", "-o", "simulated.csv"]) == 0
    capsys.readouterr()
    found = reported(capsys, "log.swf", "simulated.csv")
    assert (found["shift_s"], found["counts"]["compared"], found["counts"]["submitted_apart"]) == (DAY0, 39, 0)
    assert found["busy_nodes"]["recorded_mean"] > 0
