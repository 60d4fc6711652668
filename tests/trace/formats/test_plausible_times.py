"""Impossible and odd times: the same rule in every format."""

import gzip
import json
import time

import pytest

from mirage.cli import main
from mirage.errors import ConfigurationError, TraceError
from mirage.slurm_words.timestamps import LATEST_S
from mirage.trace.formats.plausible_times import ENDS_FIRST, RUNS_ON, STARTS_FIRST
from mirage.trace.read_trace import read_trace
from mirage.trace.statistics.summary import describe
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

SUBMIT_S, START_S, END_S = 1_705_305_600, 1_705_305_900, 1_705_309_500


def csv_rows(rows):
    return "\n".join(["job_id,submit_s,start_s,end_s", *(f"{k},{a},{b},{c}" for k, (a, b, c) in enumerate(rows, 1))])


def sacct_rows(rows):
    return "\n".join(
        ["JobID|State|Submit|Start|End", *(f"{k}|COMPLETED|{a}|{b}|{c}" for k, (a, b, c) in enumerate(rows, 1))]
    )


def json_rows(rows):
    jobs = [
        {"job_id": k, "state": {"current": "COMPLETED"}, "time": {"submission": a, "start": b, "end": c}}
        for k, (a, b, c) in enumerate(rows, 1)
    ]
    return json.dumps({"jobs": jobs})


def swf_rows(rows):
    return "\n".join(
        ["; UnixStartTime: 0", *(f"{k} {a} {b - a} {c - b} 4" + " -1" * 13 for k, (a, b, c) in enumerate(rows, 1))]
    )


TEXTS = {"csv": csv_rows, "sacct": sacct_rows, "sacct-json": json_rows}
GOOD = (SUBMIT_S, START_S, END_S)


@pytest.fixture
def write(tmp_path):
    def write_rows(name, *rows):
        path = tmp_path / "trace"
        if name == "parquet":
            submit_s, start_s, end_s = zip(*rows)
            ids = [str(k) for k in range(1, len(rows) + 1)]
            table = JobTable.build(ids, submit_s=submit_s, start_s=start_s, end_s=end_s)
            write_trace(table, path, "parquet")
        else:
            path.write_text((TEXTS | {"swf": swf_rows})[name](rows) + "\n")
        return path

    return write_rows


@pytest.mark.parametrize("name", ["csv", "parquet", "sacct", "sacct-json", "swf"])
@pytest.mark.parametrize("late_s", [LATEST_S + 1, 253_402_300_799, 10**12])
def test_a_time_after_2099_is_refused_in_every_format_or_skipped(write, name, late_s):
    path = write(name, GOOD, (SUBMIT_S, START_S, late_s))
    with pytest.raises(
        TraceError, match=r"trace:\d: time out of range: end_s is \d+; instants lie between 1970 and 2100"
    ):
        read_trace(path)
    trace = read_trace(path, on_error="skip")
    assert trace.table.job_id.tolist() == ["1"]
    assert trace.report.skipped["time out of range"].count == 1
    assert trace.report.accounted == trace.report.lines


@pytest.mark.parametrize("name", ["csv", "parquet", "sacct", "sacct-json", "swf"])
def test_the_last_second_of_the_century_is_read(write, name):
    assert read_trace(write(name, (SUBMIT_S, START_S, LATEST_S))).table.end_s.tolist() == [LATEST_S]


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59", "123456789012345", "2100-01-02T00:00:00"])
def test_a_wild_time_is_refused_before_anyone_walks_the_weeks_to_it(tmp_path, capsys, text):
    path = tmp_path / "sacct.txt"
    path.write_text(
        f"JobID|State|Submit|Start|End\n1|COMPLETED|{SUBMIT_S}|{START_S}|{END_S}\n2|COMPLETED|{text}|{text}|{text}\n"
    )
    begun = time.process_time()
    assert main(["trace", "info", str(path)]) == 1
    assert "sacct.txt:3: time out of range: submit_s is " in capsys.readouterr().err
    assert main(["trace", "info", "--skip-bad-lines", str(path)]) == 0
    assert time.process_time() - begun < 30  # it took minutes and gigabytes
    out, err = capsys.readouterr()
    assert "submitted 2024-01-15T08:00:00Z to 2024-01-15T08:00:00Z" in out
    assert "None" not in out
    assert "the first of 1 skipped for this" in err


@pytest.mark.parametrize("text", ["1969-12-31T23:59:58", "0001-01-01T00:00:00"])
def test_a_time_before_1970_is_refused(tmp_path, text):
    (tmp_path / "sacct.txt").write_text(f"JobID|State|Submit\n1|COMPLETED|{text}\n")
    with pytest.raises(TraceError, match=r"sacct\.txt:2: negative time: submit_s is -\d+"):
        read_trace(tmp_path / "sacct.txt")


@pytest.mark.parametrize(("column", "value"), [("submit_s", -2), ("elapsed_s", -60), ("limit_s", -5), ("start_s", -9)])
@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_negative_seconds_are_refused(tmp_path, name, column, value):
    write_trace(JobTable.build(["1"], **{column: [value]}), tmp_path / "t", name)
    with pytest.raises(TraceError, match=f"negative time: {column} is {value}; leave out what is not known"):
        read_trace(tmp_path / "t")


@pytest.mark.parametrize("name", ["csv", "parquet", "sacct", "sacct-json"])
def test_rows_in_an_odd_order_are_read_and_counted(write, name):
    odd = write(name, GOOD, (SUBMIT_S, START_S, START_S - 1), (START_S + 1, START_S, END_S), GOOD)
    trace = read_trace(odd)
    assert trace.report.jobs == 4
    notes = {what: count for what, count in trace.report.notes.items() if "attempt" not in what}
    assert notes == {ENDS_FIRST: 1, STARTS_FIRST: 1}
    statistics = describe(trace.table)
    assert (statistics.wait_s.count, statistics.run_s.count) == (3, 3)


@pytest.mark.parametrize(("elapsed", "run_s"), [("00:00:00", -1), ("", -1), ("00:20:00", 1200)])
def test_the_run_time_of_a_row_that_ends_before_it_starts_is_elapsed_if_that_is_known(tmp_path, elapsed, run_s):
    times = "2024-01-15T08:00:00|2024-01-15T09:00:00|2024-01-15T08:30:00"
    (tmp_path / "sacct.txt").write_text(f"JobID|State|Submit|Start|End|Elapsed\n1|COMPLETED|{times}|{elapsed}\n")
    assert read_trace(tmp_path / "sacct.txt").table.run_s.tolist() == [run_s]


def test_equal_instants_are_not_odd(write):
    assert read_trace(write("csv", (5, 5, 5))).report.notes == {}


def test_a_compressed_wild_time_is_refused_too(tmp_path):
    (tmp_path / "t.gz").write_bytes(gzip.compress(csv_rows([(1, 2, 10**15)]).encode()))
    with pytest.raises(TraceError, match="time out of range"):
        read_trace(tmp_path / "t.gz")


def test_the_first_second_of_1970_is_a_time_like_any_other(write):
    assert read_trace(write("csv", (0, 5, 0))).report.notes == {ENDS_FIRST: 1}
    assert read_trace(write("csv", (5, 0, 9))).report.notes == {STARTS_FIRST: 1}
    assert read_trace(write("csv", (0, 0, 0))).report.notes == {}


def limited(tmp_path, limits):
    path = tmp_path / "limited.csv"
    rows = "\n".join(f"{k},{SUBMIT_S},{limit_s},3600" for k, limit_s in enumerate(limits))
    path.write_text(f"job_id,submit_s,limit_s,elapsed_s\n{rows}\n")
    return read_trace(path).report.notes


def test_limits_in_another_unit_are_noted(tmp_path):
    """Jobs of an hour with a limit of 120 "seconds", which are minutes.

    A few such rows are nothing unusual.
    """
    assert limited(tmp_path, [120] * 2 + [7200] * 8) == {RUNS_ON: 2}
    assert limited(tmp_path, [120] + [7200] * 9) == {}
    assert limited(tmp_path, [3000] * 10) == {}, "600 s beyond, and that is 330 + 270 of slack"
    assert limited(tmp_path, [2999] * 10) == {RUNS_ON: 10}


def test_a_trace_without_a_name_is_refused():
    with pytest.raises(ConfigurationError, match="the name of the trace is empty"):
        read_trace("")
