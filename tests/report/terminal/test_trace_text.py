"""The summary of a trace on the terminal, sign by sign."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mirage.report.terminal.console_table import PLAIN_WIDTH
from mirage.report.terminal.trace_text import print_trace, sparkline
from mirage.trace.read_trace import Trace, read_trace
from mirage.trace.statistics.summary import describe

HEAD = "JobID|User|State|Submit|Start|End|Timelimit|NNodes|Partition\n"


def row(k: int) -> str:
    """Job k of sixteen: waits 1 to 3 h and 5 min, runs for weeks on 1 to 6 nodes."""
    limit = "UNLIMITED" if k % 5 == 0 else "40-00:00:00"
    times = (
        f"2024-01-{15 + k:02d}T08:00:00|2024-01-{15 + k:02d}T{9 + k % 3:02d}:05:00|2024-02-{10 + k % 10:02d}T09:05:00"
    )
    return f"{k}|{'abc'[k % 3]}|{'COMPLETED' if k % 4 else 'TIMEOUT'}|{times}|{limit}|{1 + k % 6}|gpu\n"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.chdir(tmp_path)
    Path("sacct.txt").write_text(HEAD + "".join(row(k) for k in range(1, 17)))
    return read_trace("sacct.txt")


def printed(trace: Trace, width: int) -> list[str]:
    out = io.StringIO()
    print_trace(trace, describe(trace.table), Console(file=out, width=width, highlight=False))
    return out.getvalue().splitlines()


def test_the_names_of_columns_are_no_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,nodes\n1,2\n2,3\n")
    assert printed(read_trace(tmp_path / "t.csv"), 300)[0].endswith("  csv, 2 records: 2 jobs, 0 steps, 0 skipped")


def test_the_whole_of_it(trace: Trace) -> None:
    lines = printed(trace, 110)
    bars = lines.pop(23)
    assert lines == [
        "sacct.txt  sacct, 17 lines: 16 jobs, 0 steps, 0 skipped",
        "submitted 2024-01-16T08:00:00Z to 2024-01-31T08:00:00Z (15-00:00:00), 3 users",
        "",
        "             jobs         mean       median          p75          p90          p95          p99          max",
        "wait           16     02:05:00     02:05:00     03:05:00     03:05:00     03:05:00     03:05:00     03:05:00",
        "run            16  21-14:00:00  25-22:00:00  25-23:00:00  26-00:00:00  26-00:00:00  26-00:00:00  26-00:00:00",
        "limit          13  40-00:00:00  40-00:00:00  40-00:00:00  40-00:00:00  40-00:00:00  40-00:00:00  40-00:00:00",
        "run / limit    13         0.55         0.65         0.65         0.65         0.65         0.65         0.65",
        "nodes          16          3.5          3.5            5          5.5            6            6            6",
        "GPUs            0            -            -            -            -            -            -            -",
        "",
        "nodes  jobs  share  node-hours  share",
        "1         2  12.5%       1,008   3.5%",
        "2         3  18.8%       3,258  11.4%",
        "3-4       6  37.5%      11,406  39.8%",
        "5-8       5  31.2%      12,969  45.3%",
        "",
        "states      COMPLETED 12, TIMEOUT 4",
        "partitions  gpu 16",
        "limits      0.0% of jobs use 99 % or more, 0 run over, 3 unlimited",
        "oddities    none",
        "",
        "busy nodes: mean 35.1, peak 56, inferred capacity about 56",
        "2024-01-16" + " " * 90 + "2024-02-19",
        "month    mean  peak",
        "2024-01  28.2    56",
        "2024-02  40.9    56",
    ]
    assert len(bars) == 110
    assert bars == "".join(sorted(bars[:60])) + bars[60:80] + "".join(sorted(bars[80:], reverse=True)), (
        "rises, then falls"
    )
    assert (bars[0], bars[70], bars[-1]) == ("▁", "█", "▁")


@pytest.mark.parametrize(("width", "head"), [
    (110, ["jobs", "mean", "median", "p75", "p90", "p95", "p99", "max"]),
    (100, ["jobs", "median", "p75", "p90", "p99", "max"]),
    (60, ["jobs", "median", "p90", "max"]),
])  # fmt: skip
def test_a_narrower_terminal_gets_fewer_columns_and_whole_numbers(trace: Trace, width: int, head: list[str]) -> None:
    lines = printed(trace, width)
    shown = next(k for k, line in enumerate(lines) if line.split()[:1] == ["jobs"])
    assert lines[shown].split() == head
    assert lines[shown + 2].split() == ["run", "16", *printed_values(head[1:])]
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)


def printed_values(names: list[str]) -> list[str]:
    run = {"mean": "21-14:00:00", "median": "25-22:00:00", "p75": "25-23:00:00"}
    return [run.get(name, "26-00:00:00") for name in names]


def test_what_is_not_recorded_and_what_is_odd_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("jobs.csv")
    rows = ["1,,0,100,5", "2,,0,0,5", "3,,,50,5", *(f"{k},p\x1b{k},0,10,{k}" for k in range(4, 16))]
    path.write_text("job_id,partition,start_s,end_s,nodes\n" + "\n".join(rows) + "\n")
    found = read_trace(str(path))
    lines = printed(found, 110)
    assert lines[1] == "times of submission not recorded, users not recorded"
    assert next(line for line in lines if line.startswith("wait")).split() == ["wait", "0", *["-"] * 7]
    partitions = next(line for line in lines if line.startswith("partitions"))
    assert partitions.endswith("4 more")
    assert "p?4 1, p?5 1" in partitions
    assert partitions.count(",") == 8
    assert [line for line in lines if line.startswith("oddities")] == ["oddities    zero duration 1, never started 1"]


def test_a_long_time_without_a_submission_is_odd(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    days = (0, 1, 19_000, 19_001)
    path.write_text("job_id,submit_s,nodes\n" + "".join(f"{day},{day * 86_400},1\n" for day in days))
    assert "oddities    days in a row without a submission 18,999" in printed(read_trace(str(path)), 110)


def test_a_file_gets_plain_lines_of_one_width(trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    print_trace(trace, describe(trace.table))
    assert capsys.readouterr().out.splitlines() == printed(trace, PLAIN_WIDTH)


def test_bars_are_as_high_as_their_share() -> None:
    assert sparkline([-1, 0, 5, 10, 99], 10, "abc") == "aabcc"
    assert sparkline([1, 2], 0, "abc") == "aa"


def test_a_terminal_of_other_signs_gets_plain_bars(trace: Trace) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="latin-1") as out:
        print_trace(trace, describe(trace.table), Console(file=out, width=60, highlight=False))
        out.flush()
        lines = raw.getvalue().decode("latin-1").splitlines()
    (bars,) = [line for line in lines if set(line) <= set("_.-:=+*#") and len(line) == 60]
    assert "#" in bars
