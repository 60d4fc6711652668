"""Rows of one job are one row; attempts remain, each with its own wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mirage.job_state import MISSING, JobState
from mirage.trace.formats import repeated_rows
from mirage.trace.formats.plausible_times import STARTS_FIRST
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.repeated_rows import EARLIER, RESIZED, without_repeats
from mirage.trace.read_trace import Trace, read_trace
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

HEADER = "JobID|Submit|Eligible|Start|End|Elapsed|Timelimit|NNodes|State|User"
DAY = "2024-03-01T"


def sacct(job: str, submit: str, eligible: str, start: str, end: str, state: str, nodes: int = 3) -> str:
    def at(clock: str) -> str:
        return f"{DAY}{clock}" if clock[:1].isdigit() else clock

    return f"{job}|{at(submit)}|{at(eligible)}|{at(start)}|{at(end)}||04:00:00|{nodes}|{state}|ada"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    def read_rows(*rows: str, header: str = HEADER, **options: str) -> Trace:
        (tmp_path / "jobs.txt").write_text("\n".join([header, *rows]) + "\n")
        return read_trace(tmp_path / "jobs.txt", **options)

    return read_rows


def swf(job: int, submit: int, wait: int, run: int, user: int) -> str:
    return f"{job} {submit} {wait} {run} 4 -1 -1 5 7200 -1 1 {user} 2 9 1 5 -1 -1"


def record(job: int, submit: int, start: int, end: int) -> dict[str, object]:
    time = {"submission": submit, "eligible": submit, "start": start, "end": end, "elapsed": end - start}
    return {"job_id": job, "time": time, "state": {"current": ["COMPLETED"]}, "user": "ada", "allocation_nodes": 3}


TABLE = JobTable.build(
    ["7", "8", "9"], submit_s=[500, 640, 700], start_s=[620, 650, 960], end_s=[900, 800, 1500], nodes=[3, 1, 5],
    user=["ada", "bob", "ada"], state=[JobState.COMPLETED] * 3,
)  # fmt: skip


def test_rows_that_are_equal_in_every_field_are_one_in_every_format(tmp_path: Path) -> None:
    twice = TABLE[np.array([0, 1, 2, 1, 2])]
    lines = [swf(7, 500, 120, 280, 1), swf(8, 640, 10, 150, 2), swf(9, 700, 260, 540, 1)]
    records = [record(7, 500, 620, 900), record(8, 640, 650, 800), record(9, 700, 960, 1500)]
    (tmp_path / "a.swf").write_text("\n".join([*lines, *lines[1:]]) + "\n")
    (tmp_path / "a.json").write_text(json.dumps({"jobs": [*records, *records[1:]]}))
    write_trace(twice, tmp_path / "a.csv")
    write_trace(twice, tmp_path / "a.parquet")
    rows = [sacct(str(k), "08:00:00", "08:00:00", f"09:0{k}:00", "10:00:00", "COMPLETED") for k in (7, 8, 9)]
    (tmp_path / "a.txt").write_text("\n".join([HEADER, *rows, *rows[1:]]) + "\n")
    for name in ("a.swf", "a.json", "a.csv", "a.parquet", "a.txt"):
        report = read_trace(tmp_path / name).report
        assert (report.jobs, report.merged, report.accounted) == (3, 2, report.lines), name
        assert report.notes[repeated_rows.EQUAL] == 2, name
        assert repeated_rows.ATTEMPT not in report.notes, name


def test_the_later_row_of_an_attempt_counts(read: Callable[..., Trace]) -> None:
    trace = read(
        sacct("4", "08:00:00", "08:00:00", "08:30:00", "Unknown", "RUNNING"),
        sacct("5", "08:10:00", "08:10:00", "08:40:00", "09:00:00", "COMPLETED"),
        sacct("4", "08:00:00", "08:00:00", "08:30:00", "11:00:00", "TIMEOUT"),
        sacct("5", "08:10:00", "08:10:00", "08:40:00", "09:20:00", "FAILED"),
    )
    assert trace.table.job_id.tolist() == ["4", "5"]
    assert trace.table.run_s.tolist() == [9000, 2400]
    assert trace.table.state.tolist() == [JobState.TIMEOUT, JobState.FAILED]
    assert trace.report.notes == {repeated_rows.EARLIER: 2}
    assert (trace.report.merged, trace.report.accounted) == (2, trace.report.lines)


def test_an_unfinished_row_does_not_replace_an_end(read: Callable[..., Trace]) -> None:
    ended = sacct("4", "08:00:00", "08:00:00", "08:30:00", "11:00:00", "TIMEOUT")
    assert read(ended, sacct("4", "08:00:00", "08:00:00", "08:30:00", "Unknown", "RUNNING")).table.run_s[0] == 9000


def test_a_row_from_before_the_start_is_the_same_job(read: Callable[..., Trace]) -> None:
    waiting = sacct("4", "08:00:00", "08:00:00", "Unknown", "Unknown", "PENDING")
    started = sacct("4", "08:00:00", "08:00:00", "08:30:00", "11:00:00", "COMPLETED")
    trace = read(waiting, started)
    assert (trace.table.run_s.tolist(), trace.report.notes) == ([9000], {repeated_rows.EARLIER: 1})
    newest_first = read(started, waiting)
    assert newest_first.table.state.tolist() == [JobState.COMPLETED]
    requeued = read(sacct("4", "08:00:00", "08:00:00", "08:30:00", "11:00:00", "NODE_FAIL"), waiting)
    assert requeued.table.state.tolist() == [JobState.NODE_FAIL, JobState.PENDING]


def test_a_job_that_was_resized_twice_is_one_job_of_its_first_size(read: Callable[..., Trace]) -> None:
    trace = read(
        sacct("1", "08:00:00", "08:00:05", "09:00:00", "10:00:00", "RESIZING", nodes=5),
        sacct("2", "08:30:00", "08:30:00", "09:00:00", "09:30:00", "COMPLETED", nodes=2),
        sacct("1", "10:00:00", "10:00:00", "09:00:00", "10:20:00", "RESIZING", nodes=3),
        sacct("1", "10:20:00", "10:20:00", "09:00:00", "11:00:00", "TIMEOUT", nodes=1),
        sacct("3", "09:00:01", "09:00:01", "09:00:00", "11:00:00", "COMPLETED", nodes=4),
    )
    jobs = trace.table
    assert (jobs.job_id.tolist(), jobs.nodes.tolist()) == (["2", "1", "3"], [2, 5, 4])
    assert (jobs.wait_s.tolist(), jobs.run_s.tolist()) == ([1800, 3600, -1], [1800, 7200, 7200])
    assert jobs.state.tolist() == [JobState.COMPLETED, JobState.TIMEOUT, JobState.COMPLETED]
    assert trace.report.notes == {RESIZED: 2, EARLIER: 2, STARTS_FIRST: 1}


def test_each_attempt_waits_from_its_eligible(read: Callable[..., Trace]) -> None:
    trace = read(
        sacct("4", "08:00:00", "08:00:00", "08:30:00", "09:00:00", "NODE_FAIL"),
        sacct("4", "08:00:00", "09:02:00", "09:12:00", "10:00:00", "PREEMPTED"),
        sacct("4", "08:00:00", "08:00:00", "10:25:00", "11:00:00", "COMPLETED"),  # its Eligible is the first one
        sacct("6", "08:00:00", "08:20:00", "08:50:00", "09:00:00", "COMPLETED"),  # begins later, but only once
    )
    assert trace.table.wait_s.tolist() == [1800, 600, 1500, 3000]
    assert trace.report.notes == {repeated_rows.ATTEMPT: 2, repeated_rows.ITS_OWN_WAIT: 2}
    assert trace.report.merged == 0


def test_attempts_with_submissions_of_their_own_have_these(read: Callable[..., Trace]) -> None:
    trace = read(
        sacct("4", "09:01:00", "09:03:00", "09:12:00", "10:00:00", "COMPLETED"),
        sacct("4", "08:00:00", "08:00:00", "08:30:00", "09:00:00", "NODE_FAIL"),
    )
    assert trace.table.wait_s.tolist() == [660, 1800]
    assert trace.report.notes == {repeated_rows.ATTEMPT: 1}


def test_rows_without_a_submission_are_one_only_if_they_are_equal() -> None:
    table = JobTable.build(
        ["4", "4", "5", "4"], start_s=[100, 100, 200, 100], end_s=[150, 170, 260, 150], nodes=[1, 1, 2, 1]
    )
    tally = ReadTally("x")
    assert without_repeats(table, tally).end_s.tolist() == [170, 260, 150]
    assert (tally.merged, tally.notes) == (1, {repeated_rows.EQUAL: 1, repeated_rows.ATTEMPT: 1})


@pytest.mark.parametrize("unknown", ["-1", ""])
def test_rows_of_unknown_ids_are_different_jobs(unknown: str) -> None:
    table = JobTable.build([unknown] * 3, submit_s=[5] * 3, start_s=[7] * 3, end_s=[9] * 3)
    tally = ReadTally("x")
    assert len(without_repeats(table, tally)) == 3
    assert tally.merged == 0


def test_ids_of_one_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_rows, "_hashed", lambda columns, n: np.zeros(n, dtype=np.uint64))
    table = JobTable.build(["1", "2", "1", "30"], submit_s=[5, 5, 5, 5], start_s=[7, 7, 7, 7], end_s=[9, 9, 9, 9])
    assert without_repeats(table, ReadTally("x")).job_id.tolist() == ["2", "1", "30"]


def test_an_empty_table_stays_empty() -> None:
    assert len(without_repeats(JobTable.build([]), ReadTally("x"))) == 0


def test_labels_differ_too() -> None:
    table = JobTable.build(["1", "1"], submit_s=[5, 5], start_s=[7, 7], end_s=[9, 9], user=["ada", "bob"])
    tally = ReadTally("x")
    assert without_repeats(table, tally).user.values() == ["bob"]
    assert tally.notes == {repeated_rows.EARLIER: 1}
    assert MISSING not in without_repeats(table, tally).end_s
