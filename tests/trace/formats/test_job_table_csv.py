"""The job table as CSV: all rows at once give what row by row gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import TraceError
from mirage.job_state import MISSING
from mirage.trace.formats import csv_columns, job_table_csv
from mirage.trace.formats.csv_columns import CsvColumns
from mirage.trace.formats.job_table_csv import COLUMNS, csv_bytes, read_csv
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from tests.support.job_tables import assert_same, job_tables

HEADER = "job_id,submit_s,limit_s,nodes,state,user,name"
ROWS = ["7,100,UNLIMITED,3,COMPLETED,ada,train", "12,240,,5,,,", "x1,-1,600,1,FAILED,bob,train"]


def read(text: str | bytes, size: int, regular: bool, on_error: str = "skip") -> tuple[JobTable, ReadTally]:
    """Reads a text in pieces, all rows of a regular piece at once or not."""
    tally = ReadTally("x", on_error)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_table_csv, "PIECE_BYTES", size)
        if not regular:
            patch.setattr(CsvColumns, "of", classmethod(lambda cls, text, columns: None))
        table = read_csv(text.encode() if isinstance(text, str) else text, tally)
    return table, tally


def assert_alike(text: str | bytes) -> tuple[JobTable, ReadTally]:
    whole, counted = read(text, 10**9, regular=False)
    for size in (1, 45, 90, 10**9):
        table, tally = read(text, size, regular=True)
        assert_same(table, whole)
        assert tally.close(len(table)) == counted.close(len(whole)), size
    return whole, counted


def test_regular_text_is_not_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table_csv, "_table", None)
    table = read_csv("\n".join([HEADER, *ROWS, ""]).encode(), ReadTally("x"))
    assert table.job_id.tolist() == ["7", "12", "x1"]
    assert table.user.values() == ["ada", "", "bob"]
    assert table.state.tolist() == [3, MISSING, 5]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [*ROWS, ""],
        [ROWS[0], "", *ROWS[1:]],
        [*ROWS, "9,1,2"],
        [*ROWS, ",1,2,3,FAILED,a,b"],
        [*ROWS, "9,1,2,3,0,a,b"],
        [*ROWS, "9,1,2,+3,FAILED,a,b"],
        [*ROWS, "9,1,2,3-1,FAILED,a,b"],
        [*ROWS, "9,1,2,-,FAILED,a,b"],
        [*ROWS, f"9,1,2,{'9' * 18},FAILED,a,b", f"9,1,2,{'9' * 19},FAILED,a,b", f"9,1,2,-{'9' * 18},FAILED,a,b"],
        [*ROWS, f"9,1,2,3,FAILED,{'long' * 50},b"],
        [*ROWS, '9,1,2,3,FAILED,"a,a","b ""x"""'],
        [*ROWS, '9,1,2,3,FAILED,"a', 'line, and more",b', *ROWS[1:]],
        [*ROWS, '9,1,2,3,FAILED,a"b,c', "10,5,2,3,FAILED,a,c"],
        [*ROWS, '9,1,2,3,FAILED,"open,c'],
        [*ROWS, "9,1,2,3,FAILED,née,日本", "10,1,2,3,FAILED,née,日"],
        [*ROWS, "9é,1,2,3,FAILED,a,b"],
        [*ROWS, "9,1,2,3,FAILED,a\0b,c"],
        [*ROWS, "9,1,2,3,FAILED,a\rb,c"],
        [f"{row}\r" for row in ROWS],
        [f"{row}\r" for row in [*ROWS, "9,x,2,3,FAILED,a,b"]],
        [],
    ],
)
def test_all_rows_at_once_give_what_row_by_row_gives(rows: list[str]) -> None:
    for end in ("", "\n"):
        assert_alike("\n".join([HEADER, *rows]) + end)


@pytest.mark.parametrize("odd", [*"/:@-+. ", "é", "\x7f", "\xb5"])
@pytest.mark.parametrize("at", range(9))
def test_no_other_octet_counts_as_a_digit(odd: str, at: int) -> None:
    table, _ = assert_alike(f"job_id,submit_s\n1,123456789\n2,{'123456789'[:at]}{odd}{'123456789'[at:]}\n")
    assert table.submit_s.tolist() == [123456789]


def test_bytes_that_are_not_utf8_are_noted() -> None:
    table, tally = assert_alike(f"{HEADER}\n{ROWS[0]}\n9,1,2,3,FAILED,a".encode() + b"\xe0,b\n")
    assert table.user.values() == ["ada", "a\ufffd"]
    assert sum(tally.notes.values()) == 1


@pytest.mark.parametrize("header", [f'"job_id"{HEADER[6:]}', f"\ufeff{HEADER}", f"{HEADER}\r"])
def test_other_forms_of_the_header(header: str) -> None:
    table, _ = assert_alike("\n".join([header, *ROWS]))
    assert table.job_id.tolist() == ["7", "12", "x1"]


def test_a_bad_row_of_a_later_piece_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_table_csv, "PIECE_BYTES", 50)
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *ROWS, "9,1,2,many,FAILED,a,b", ""]))
    with pytest.raises(TraceError, match=r"t\.csv:5: not a value of its column: nodes is 'many'"):
        read_trace(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *ROWS, "9,1,2,-7,FAILED,a,b", ""]))
    with pytest.raises(TraceError, match=r"t\.csv:5: negative count: nodes is -7"):
        read_trace(tmp_path / "t.csv")


@pytest.mark.parametrize("size", [1, 45, 10**9])
@pytest.mark.parametrize("header", [HEADER, "job_id,user,name"])
def test_concatenated_tables(header: str, size: int) -> None:
    rows = [",".join(row.split(",")[: len(header.split(","))]) for row in ROWS]
    text = "\n".join([header, *rows[:2], header, rows[2], ""])
    table, tally = read(text, size, regular=True, on_error="strict")
    assert (table.job_id.tolist(), tally.header) == (["7", "12", "x1"], 2)
    other = ",".join([header.split(",")[0], *reversed(header.split(",")[1:])])
    for unlike in (other, f"{header},cost"):
        with pytest.raises(TraceError, match="x:4: the line is a heading with other columns than line 1; export"):
            read(text.replace(f"\n{header}", f"\n{unlike}"), size, regular=True, on_error="skip")


def test_a_job_with_the_name_of_a_column_is_a_job() -> None:
    table, tally = assert_alike("job_id,user,name\ntrain,ada,job_id\njob_id,bob,nodes_\n")
    assert (table.job_id.tolist(), tally.header) == (["train", "job_id"], 1)


def test_names_of_one_key_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_columns, "_keys", lambda words: words[:, 0] % 2)
    rows = [f"{k},1,2,3,FAILED,{user},n" for k, user in enumerate(["b", "d", "", "b", "f", "d"])]
    table, _ = read("\n".join([HEADER, *rows]), 10**9, regular=True)
    assert table.user.values() == ["b", "d", "", "b", "f", "d"]
    assert table.user.names == ("b", "d", "f")


@settings(max_examples=60, deadline=None)
@given(table=job_tables(), size=st.integers(1, 400))
def test_any_table_is_read_back_in_pieces(table: JobTable, size: int) -> None:
    again, _ = read(csv_bytes(table), size, regular=True, on_error="strict")
    assert_same(again, table)


@settings(max_examples=60, deadline=None)
@given(garbage=st.text(alphabet='0123456789,-"\n\ré x', max_size=200), at=st.integers(0, 100))
def test_damaged_text_is_read_alike(garbage: str, at: int) -> None:
    text = "\n".join([HEADER, *ROWS, ""])
    at = max(at, len(HEADER) + 1)
    assert_alike(text[:at] + garbage + text[at:])


def test_the_columns_that_a_file_does_not_have_are_one_array() -> None:
    table, _ = read("\n".join([HEADER, *ROWS]), 10**9, regular=True)
    absent = [getattr(table, name) for name in ("eligible_s", "start_s", "gpus", "memory_mib")]
    assert all(np.shares_memory(absent[0], one) for one in (*absent, table.account.codes))
    some = table[np.array([2, 0])]
    assert np.shares_memory(some.eligible_s, some.qos.codes)
    assert len(COLUMNS) == 19
