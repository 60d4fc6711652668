"""The summary of a trace on the terminal, line by line, at several widths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.job_state import JobState
from mirage.report.terminal.trace_text import print_trace, sparkline
from mirage.trace.formats.read_report import ReadReport
from mirage.trace.read_trace import Trace
from mirage.trace.statistics.summary import describe
from mirage.trace.statistics.utilization import Period
from mirage.trace.table import JobTable
from tests.support.printed_text import printed

BEGIN_S = 1_704_067_200  # 2024-01-01T00:00:00Z
REPORT = ReadReport("jobs.csv", "csv", "line", 2345, 1, 0, 0, 0, 1200, 0, 6, {}, {}, {})

FIRST, LATER = (0, 1, 2), (960, 960, 984)
"""Hours of submission: three jobs on New Year's Day, and three forty days later."""

JOBS = JobTable.build(
    range(6),
    submit_s=[BEGIN_S + hour * HOUR_S for hour in (*FIRST, *LATER)],
    start_s=[*(BEGIN_S + hour * HOUR_S for hour in (0, 2, 4, 960, 961)), -1],
    end_s=[BEGIN_S + hour * HOUR_S for hour in (10, 12, 5, 960, 985, 1008)],
    elapsed_s=[hours * HOUR_S for hours in (10, 10, 1, 0, 24, 0)],
    limit_s=[hours * HOUR_S for hours in (10, 20, 2, 1, 23, 1)],
    nodes=[1, 2, 4, 1, 8, 2],
    gpus=[4, 8, 16, 4, 32, 8],
    cpus=[1] * 6,
    state=[int(JobState[name]) for name in ("COMPLETED", "COMPLETED", "FAILED", "COMPLETED", "COMPLETED", "CANCELLED")],
    user=[*"aabbcc"],
    partition=["gpu"] * 5 + ["long"],
)


def lines_of(table: JobTable, width: int, encoding: str = "utf-8") -> list[str]:
    trace, statistics = Trace(table, REPORT), describe(table)
    return printed(lambda console: print_trace(trace, statistics, console), width, encoding=encoding)


SIZES_AND_SHARES = [
    "",
    "<dim>nodes  jobs  share  node-hours  share</>",
    "1         2  33.3%          10   4.4%",
    "2         2  33.3%          20   8.8%",
    "3-4       1  16.7%           4   1.8%",
    "5-8       1  16.7%         192  85.0%",
    "",
    "<dim>states      </>COMPLETED 4, CANCELLED 1, FAILED 1",
    "<dim>partitions  </>gpu 5, long 1",
    "<dim>limits      </>40.0% of jobs use 99 % or more, 1 run over",
    "<dim>oddities    </>zero duration 1, never started 1",
    "",
    "<bold>busy nodes</>: mean 0.2, peak 8, inferred capacity about 8",
]
MONTHS = ["<dim>month    mean  peak</>", "2024-01   0.0     7", "2024-02   0.8     8"]


def test_a_trace_on_a_wide_terminal() -> None:
    lines = lines_of(JOBS, 110)
    assert lines[:10] == [
        "<bold>jobs.csv</>  csv, 2,345 lines: 6 jobs, 1,200 steps, 0 skipped",
        "submitted 2024-01-01T00:00:00Z to 2024-02-11T00:00:00Z (41-00:00:00), 3 users",
        "",
        "<dim>             jobs      mean    median       p75       p90       p95       p99         max</>",
        "wait            5  00:48:00  01:00:00  01:00:00  01:36:00  01:48:00  01:57:36    02:00:00",
        "run             5  09:00:00  10:00:00  10:00:00  18:24:00  21:12:00  23:26:24  1-00:00:00",
        "limit           6  09:30:00  06:00:00  17:30:00  21:30:00  22:15:00  22:51:00    23:00:00",
        "run / limit     5      0.61      0.50      1.00      1.03      1.03      1.04        1.04",
        "nodes           6         3         2       3.5         6         7       7.8           8",
        "GPUs            6        12         8        14        24        28      31.2          32",
    ]
    assert lines[10:23] == SIZES_AND_SHARES
    assert lines[23] == "<green>▄▂" + "▁" * 105 + "▅██</>"
    assert lines[24] == "<dim>2024-01-01" + " " * 90 + "2024-02-11</>"
    assert lines[25:] == MONTHS


def test_a_trace_on_a_narrow_terminal() -> None:
    lines = lines_of(JOBS, 62)
    assert lines[1:11] == [
        "submitted 2024-01-01T00:00:00Z to 2024-02-11T00:00:00Z",
        "(41-00:00:00), 3 users",
        "",
        "<dim>             jobs    median       p90         max</>",
        "wait            5  01:00:00  01:36:00    02:00:00",
        "run             5  10:00:00  18:24:00  1-00:00:00",
        "limit           6  06:00:00  21:30:00    23:00:00",
        "run / limit     5      0.50      1.03        1.04",
        "nodes           6         2         6           8",
        "GPUs            6         8        24          32",
    ]
    assert lines[11:24] == SIZES_AND_SHARES
    assert lines[24:] == ["<green>▃" + "▁" * 59 + "▄█</>", "<dim>2024-01-01" + " " * 42 + "2024-02-11</>", *MONTHS]


def test_a_terminal_with_room_for_five_columns() -> None:
    assert "<dim>             jobs    median       p75       p90       p99         max</>" in lines_of(JOBS, 80)


def test_a_terminal_that_has_no_such_signs() -> None:
    lines = lines_of(JOBS, 60, "latin-1")
    assert "<green>-" + "_" * 57 + ":#</>" in lines


def test_a_trace_with_next_to_no_columns() -> None:
    table = JobTable.build([1, 2], submit_s=[-1, -1], state=[int(JobState.COMPLETED), int(JobState.CANCELLED)])
    names = ("wait       ", "run        ", "limit      ", "run / limit", "nodes      ", "GPUs       ")
    assert lines_of(table, 80)[1:] == [
        "times of submission not recorded, users not recorded",
        "",
        "<dim>             jobs  mean  median  p75  p90  p95  p99  max</>",
        *(f"<dim>{name}     0     -       -    -    -    -    -    -</>" for name in names),
        "",
        "<dim>states      </>COMPLETED 1, CANCELLED 1",
        "<dim>oddities    </>never started 1",
    ]


def test_what_is_recorded_in_part() -> None:
    table = JobTable.build([1, 2], submit_s=[BEGIN_S, BEGIN_S + 60], nodes=[1, 1], user=["a", ""])
    lines = lines_of(table, 100)
    assert lines[1] == "submitted 2024-01-01T00:00:00Z to 2024-01-01T00:01:00Z (00:01:00), 1 user"
    assert "1         2  100.0%           0      -" in lines


def test_unlimited_jobs_are_counted() -> None:
    table = JOBS.with_columns(limit_s=np.array([UNLIMITED_S, *JOBS.limit_s[1:]]))
    assert "<dim>limits      </>25.0% of jobs use 99 % or more, 1 run over, 1 unlimited" in lines_of(table, 100)


def test_eight_partitions_are_named_and_the_others_counted() -> None:
    def partitions_line(count: int) -> str:
        names = [f"p{k}" for k in range(count)]
        table = JobTable.build(range(count), submit_s=[BEGIN_S] * count, partition=names)
        (line,) = [line for line in lines_of(table, 200) if line.startswith("<dim>partitions")]
        return line

    assert partitions_line(8) == "<dim>partitions  </>p0 1, p1 1, p2 1, p3 1, p4 1, p5 1, p6 1, p7 1"
    assert partitions_line(9).endswith("p7 1, 1 more")


@pytest.mark.parametrize(("months", "printed_monthly"), [(24, True), (25, False)])
def test_two_years_are_printed_month_by_month(months: int, printed_monthly: bool) -> None:
    trace, statistics = Trace(JOBS, REPORT), describe(JOBS)
    assert statistics.busy is not None
    periods = tuple(Period(BEGIN_S + 31 * DAY_S * k, 1234.5, 2345) for k in range(months))
    many = replace(statistics, busy=replace(statistics.busy, months=periods, mean=1234.5, peak=2345, capacity=6789))
    lines = printed(lambda console: print_trace(trace, many, console), 100)
    assert ("2024-01  1,234.5  2,345" in lines) is printed_monthly
    assert "<bold>busy nodes</>: mean 1,234.5, peak 2,345, inferred capacity about 6,789" in lines


@pytest.mark.parametrize(
    ("values", "top", "bars"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 7, "▁▂▃▄▅▆▇█"),
        ([-1, 0.4, 0.6, 9], 7, "▁▁▂█"),
        ([1, 2], 0, "▁▁"),
        ([], 1, ""),
    ],
)
def test_a_line_of_bars(values: list[float], top: float, bars: str) -> None:
    assert sparkline(values, top) == bars


def test_a_line_of_other_bars() -> None:
    assert sparkline([0, 0.5, 1], 1, "abc") == "abc"


def test_without_a_terminal_the_summary_is_plain_and_wide(capsys: pytest.CaptureFixture[str]) -> None:
    print_trace(Trace(JOBS, REPORT), describe(JOBS))
    written = capsys.readouterr().out
    assert "\x1b" not in written
    assert max(len(line) for line in written.splitlines()) == 140
