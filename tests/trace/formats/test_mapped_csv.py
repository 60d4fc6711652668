"""CSV files of any make, read as their columns are named."""

from __future__ import annotations

import bz2
import gzip
import io
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import ConfigurationError, TraceError
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.column_mapping import parse_columns
from mirage.trace.formats.job_table_csv import COLUMNS, csv_bytes
from mirage.trace.formats.mapped_csv import read_mapped_csv
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.sacct_row import OVER_THE_HOUR
from mirage.trace.read_trace import Trace, read_trace
from mirage.trace.table import JobTable

NOON_S = 1_619_870_400
MAP = "job_id=id,submit_s=submitted,start_s=began,end_s=over,limit_s=timelimit[min],nodes=n,user=uid,state=how"
ROWS = [
    ["id", "submitted", "began", "over", "timelimit", "n", "uid", "how", "more"],
    ["7", "2021-05-01 12:00:00", "2021-05-01 12:01:00", "2021-05-01 12:11:00", "30", "2", "ada", "COMPLETED", "x, y"],
    ["8", "2021-05-01 12:00:30", "2021-05-01 12:11:00", "2021-05-01 12:41:00", "30", "1", "bob", "TIMEOUT", ""],
]


def written(rows: list[list[str]], path: Path, delimiter: str = ",") -> str:
    text = io.StringIO()
    for row in rows:
        text.write(delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in row) + "\n")
    path.write_text(text.getvalue())
    return str(path)


def read(rows: list[list[str]], tmp_path: Path, columns: str = MAP, **how: object) -> Trace:
    return read_trace(written(rows, tmp_path / "jobs.csv"), columns=columns, **how)  # type: ignore[arg-type]


def changed(line: int, **cells: str) -> list[list[str]]:
    """The rows with some cells of one line changed."""
    row = [cells.get(name, cell) for name, cell in zip(ROWS[0], ROWS[line - 1])]
    return [*ROWS[: line - 1], row, *ROWS[line:]]


def test_columns_by_name_and_unit(tmp_path: Path) -> None:
    trace = read(ROWS, tmp_path)
    table, report = trace.table, trace.report
    assert table.job_id.tolist() == ["7", "8"]
    assert (table.submit_s - NOON_S).tolist() == [0, 30]
    assert table.wait_s.tolist() == [60, 630]
    assert table.run_s.tolist() == [600, 1800]
    assert table.limit_s.tolist() == [1800, 1800]
    assert table.nodes.tolist() == [2, 1]
    assert table.user.values() == ["ada", "bob"]
    assert table.state.tolist() == [JobState.COMPLETED, JobState.TIMEOUT]
    assert set(table.gpus) == {MISSING}
    assert (report.format, report.unit, report.lines, report.header, report.jobs) == ("csv", "record", 3, 1, 2)
    assert report.accounted == report.lines
    assert report.notes == {"time that names no zone (read as UTC; --timezone names another)": 6}


def test_a_zone_that_is_named_is_no_news(tmp_path: Path) -> None:
    trace = read(ROWS, tmp_path, timezone="America/Chicago")
    assert trace.table.submit_s[0] == NOON_S + 5 * 3600
    assert trace.report.notes == {}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("is_given", [True, False])
def test_the_delimiter_is_found(delimiter: str, is_given: bool, tmp_path: Path) -> None:
    """Also where another stands more often in the first row."""
    rows = [[*ROWS[0][:-1], (";,|\t" * 12).replace(delimiter, "")], *ROWS[1:]]
    path = written(rows, tmp_path / "jobs.csv", delimiter)
    trace = read_trace(path, columns=MAP, delimiter=delimiter if is_given else None)
    assert trace.table.job_id.tolist() == ["7", "8"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_files_and_byte_order_marks(pack: object, tmp_path: Path) -> None:
    path = written(ROWS, tmp_path / "plain.csv")
    (tmp_path / "packed").write_bytes(pack(b"\xef\xbb\xbf" + Path(path).read_bytes()))  # type: ignore[operator]
    assert read_trace(tmp_path / "packed", columns=MAP).table.job_id.tolist() == ["7", "8"]


def test_comments_blank_lines_and_quoted_cells(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        '# made by hand\n\n" id ","user ""name"""\n7,"two\nlines, and a comma"\n\n8,\n', encoding="utf-8"
    )
    trace = read_trace(tmp_path / "jobs.csv", columns='job_id=id,name=user "name"')
    assert trace.table.name.values() == ["two\nlines, and a comma", ""]
    report = trace.report
    assert (report.comment, report.header, report.blank, report.jobs) == (1, 1, 2, 2)
    assert report.accounted == report.lines


def test_a_column_with_a_name_that_ends_as_a_unit_does(tmp_path: Path) -> None:
    rows = [["Runtime [s]", "Limit [h]", "Limit"], ["60", "7", "2"]]
    for columns, expected in (
        ("elapsed_s=Runtime [s],limit_s=Limit [h]", (60, 7 * 3600)),
        ("elapsed_s=Runtime [s][min],limit_s=Limit [h][s]", (3600, 7)),
        ("elapsed_s=Runtime [s],limit_s=Limit[h]", (60, 2 * 3600)),
    ):
        table = read(rows, tmp_path, columns).table
        assert (table.elapsed_s[0], table.limit_s[0]) == expected


def test_rows_are_numbered_and_constants_hold_for_all(tmp_path: Path) -> None:
    rows = [["t", "d", "g"], ["10", "66.0", "1"], ["x", "1", "1"], ["20", "2951.0", "4"]]
    trace = read(rows, tmp_path, "submit_s=t,elapsed_s=d,gpus=g,nodes==2,limit_s==1-00:00:00,state==COMPLETED,user==me",
                 on_error="skip")  # fmt: skip
    table = trace.table
    assert table.job_id.tolist() == ["1", "2"]
    assert (table.nodes.tolist(), table.limit_s.tolist()) == ([2, 2], [86_400, 86_400])
    assert (table.user.values(), set(table.state)) == (["me", "me"], {JobState.COMPLETED})
    assert table.run_s.tolist() == [66, 2951]


def test_what_follows_from_wait_and_run_time(tmp_path: Path) -> None:
    rows = [["t", "w", "d"], ["100", "5", "30"], ["0", "0", ""], ["50", "", "20"]]
    table = read(rows, tmp_path, "submit_s=t,wait_s=w[min],elapsed_s=d").table
    assert table.start_s.tolist() == [400, 0, MISSING]
    assert table.end_s.tolist() == [430, MISSING, MISSING]
    assert table.wait_s.tolist() == [300, 0, MISSING]
    assert table.run_s.tolist() == [30, MISSING, 20]


def test_jobs_that_have_not_run_have_no_start_and_no_end(tmp_path: Path) -> None:
    rows = [["t", "b", "e", "how"]]
    rows += [[str(NOON_S), b, e, how] for b, e, how in [
        ("0", "0", "PENDING"), (str(NOON_S), "0", "RUNNING"), (str(NOON_S + 9), str(NOON_S + 9), "CANCELLED"),
        ("0", str(NOON_S + 9), "FAILED"), (str(NOON_S), str(NOON_S + 9), "weird"),
    ]]  # fmt: skip
    trace = read(rows, tmp_path, "submit_s=t,start_s=b,end_s=e,state=how")
    assert (trace.table.start_s - NOON_S).tolist() == [MISSING - NOON_S, 0, MISSING - NOON_S, MISSING - NOON_S, 0]
    assert trace.table.run_s.tolist() == [MISSING, MISSING, MISSING, MISSING, 9]
    assert trace.report.notes == {
        "job that ended while it was pending (no start, whatever sacct shows)": 1,
        "row in a state that is not one of Slurm's base states (read as UNKNOWN)": 1,
    }
    early = read([["t", "b", "e"], ["0", "0", "10"]], tmp_path, "submit_s=t,start_s=b,end_s=e").table
    assert early.run_s.tolist() == [10], "a trace may begin at 0"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (changed(3, timelimit="1,5"), ":3: not a duration: limit_s is '1,5'; expected a number (1.5), or days-"),
        (changed(3, began="later"), ":3: not a time: start_s is 'later'; write it as"),
        (changed(2, n="two"), ":2: not a count: nodes is 'two'; expected a whole number"),
        (changed(2, id=""), ":2: no job id: job_id is ''; every job needs one"),
        (changed(3, submitted="2121-05-01"), ":3: time out of range: submit_s is"),
        ([*ROWS, ["9"]], ":4: wrong number of fields: 1 instead of 9; quote cells that hold the delimiter"),
        ([*ROWS, ['"9']], ":4: not CSV"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_or_counted(rows: list[list[str]], words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        read(rows, tmp_path)
    assert f"jobs.csv{words}" in str(refused.value)
    report = read(rows, tmp_path, on_error="skip").report
    reason = words.split(": ")[1]
    assert {why: entry.count for why, entry in report.skipped.items()} == {reason: 1}
    assert report.skipped[reason].first_line == int(words[1])
    assert report.accounted == report.lines
    assert report.jobs == len(rows) - 2


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        read([["# note"], *ROWS], tmp_path, "submit_s=submited,nodes=n")
    assert str(refused.value).endswith(
        "jobs.csv:2: for submit_s: unknown column of the file 'submited'. Did you mean 'submitted'? "
        "Known: began, how, id, more, n, over, submitted, timelimit, uid."
    )
    with pytest.raises(TraceError, match=r"uid\. For the value 1 in every row, write nodes==1$"):
        read([["# note"], *ROWS], tmp_path, "submit_s=submitted,nodes=1")
    with pytest.raises(TraceError, match="2 columns are called 'n'; rename all but one"):
        read([["n", "n"], ["1", "2"]], tmp_path, "nodes=n")
    with pytest.raises(TraceError, match="no row has the names of the columns"):
        read([["# only a comment"]], tmp_path, "nodes=n")


def test_columns_are_of_a_csv_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="columns are mapped in a csv only; the format is 'swf'"):
        read(ROWS, tmp_path, format="swf")
    assert len(read(ROWS, tmp_path, format="csv").table) == 2
    with pytest.raises(ConfigurationError, match="one character between two cells, not '::'"):
        read(ROWS, tmp_path, delimiter="::")


def test_progress_is_reported(tmp_path: Path) -> None:
    is_given: list[tuple[int, int]] = []
    rows = [["t"], *[[str(k)] for k in range(20_000)]]
    read(rows, tmp_path, "submit_s=t", progress=lambda done, total: is_given.append((done, total)))
    assert len(is_given) >= 2
    assert all(0 < done <= total for done, total in is_given)


def test_a_job_over_the_repeated_hour_has_its_run_time(tmp_path: Path) -> None:
    rows = ["t,a,b,e", "2024-10-27 01:00:00,2024-10-27 01:30:00,2024-10-27 02:15:00,6300"]
    rows += ["2024-10-28 01:00:00,2024-10-28 01:30:00,2024-10-28 02:15:00,6300"]  # no hour is repeated on this day
    columns = "submit_s=t,start_s=a,end_s=b,elapsed_s=e"
    cells = [row.split(",") for row in rows]
    trace = read(cells, tmp_path, columns, timezone="Europe/Berlin")
    assert trace.table.run_s.tolist() == [6300, 2700]
    assert trace.report.notes == {OVER_THE_HOUR: 1}
    assert read(cells, tmp_path, columns, timezone="UTC").table.run_s.tolist() == [2700, 2700]


@pytest.mark.parametrize("on_error", ["strict", "skip"])
def test_concatenated_files(tmp_path: Path, on_error: str) -> None:
    trace = read([*ROWS[:2], [f" {ROWS[0][0]}", *ROWS[0][1:]], ROWS[2]], tmp_path, on_error=on_error)
    assert (trace.table.job_id.tolist(), trace.report.header, trace.report.skipped) == (["7", "8"], 2, {})
    for other in ([*reversed(ROWS[0])], [*ROWS[0][:5], "hosts"]):
        with pytest.raises(TraceError, match=r"jobs\.csv:4: the line is a heading with other columns than line 2; exp"):
            read([["# made by us"], *ROWS[:2], other, ROWS[2]], tmp_path, on_error=on_error)
    named = [["id", "uid"], ["7", "id"], ["8", "uid"], ["id", "uid"], ["9", "ada"]]
    assert read(named, tmp_path, "job_id=id,user=uid").table.user.values() == ["id", "uid", "ada"]


INTEGERS = st.integers(0, 4_000_000_000)


@given(st.lists(st.tuples(INTEGERS, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 99)), max_size=20))
def test_the_job_table_s_own_csv_is_read_alike_by_its_own_names(jobs: list[tuple[int, int, int, int]]) -> None:
    """Written by us, read by the mapping that gives every column its own name."""
    submit, wait, run, nodes = (np.array(column, dtype=np.int64) for column in (zip(*jobs) if jobs else [[]] * 4))
    table = JobTable.build(
        range(len(jobs)), submit_s=submit, start_s=submit + wait, end_s=np.minimum(submit + wait + run, 4_102_444_800),
        nodes=nodes, user=[f"u{n}" for n in nodes],
    )  # fmt: skip
    if not jobs:
        return
    columns = ",".join(f"{name}={name}" for name in COLUMNS)
    again = read_mapped_csv(
        csv_bytes(table), ReadTally("x"), parse_columns(columns), LocalClock(), delimiter=None, zone_configured=True
    )
    for field in fields(JobTable):
        one, other = getattr(table, field.name), getattr(again, field.name)
        assert one.values() == other.values() if hasattr(one, "values") else one.tolist() == other.tolist(), field.name
