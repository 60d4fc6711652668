"""The job table as CSV: columns by name, whole seconds, empty cells for missing values.

``UNLIMITED`` is spelled out and states are given by name. Columns may come in any order and all are optional except
``job_id``; an unknown column is an error, not ignored. A table that was written reads back unchanged.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from mirage.array_types import Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import LineError, TraceError, UnknownName
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.unicode import valid_unicode
from mirage.trace.formats.csv_columns import CsvColumns
from mirage.trace.formats.decompress import decode, most_lines, pieces
from mirage.trace.formats.plausible_times import without_impossible_times
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.table_builder import TableBuilder
from mirage.trace.formats.table_pieces import PIECE_BYTES, TablePieces
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

COLUMNS = ("job_id", *INT_COLUMNS, *LABEL_COLUMNS)

_GANGS = (
    "If it is a workload of mirage schedule, read it with --columns "
    "job_id=job_id,submit_s=submit_s,elapsed_s=run_s,gpus=gpus,nodes==1"
)

_OTHERS = (
    "Map the columns with --columns; for mirage schedule, with mirage trace convert --columns, or begin with "
    "job_id,submit_s,run_s,gpus"
)

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_PROGRESS_LINES = 8192
_STATES = {state.name: int(state) for state in JobState}


def read_csv(data: bytes, tally: ReadTally) -> JobTable:
    """Reads the table in a CSV file.

    Args:
        data: The text; its first row names the columns.
        tally: Receives the counts and unreadable records; a record may span lines.

    Raises:
        TraceError: A column is unknown or ``job_id`` is missing; or reading is strict and a row cannot be read.
    """
    tally.unit = "record"
    end = data.find(b"\n") + 1 or len(data)
    head = data[:end].removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
    if b'"' in head or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return _read_records(data, tally)
    names = head.decode("utf-8", errors="replace").split(",") if head else []
    _count_header(names, tally)
    reader, table = _Reader(names, tally), TablePieces(most_lines(data))
    position, unread = end, b""
    for piece in pieces(data, PIECE_BYTES, end):
        position += len(piece)
        unread += piece
        if (found := reader.read(unread, last=position == len(data))) is not None:
            table.append(found)
            unread = b""
        tally.progress(position, len(data))
    return table.table()


def _count_header(names: Sequence[str], tally: ReadTally) -> None:
    tally.lines += 1
    tally.header += 1
    _check_columns(names, tally)


def _read_records(data: bytes, tally: ReadTally) -> JobTable:
    """Reads a table record by record."""
    records = csv_records(decode(data, tally), tally)
    _, names = next(records, (1, []))
    tally.lines -= 1
    _count_header(names, tally)
    return _table(records, names, tally)


def _table(records: Iterator[tuple[int, list[str]]], names: Sequence[str], tally: ReadTally) -> JobTable:
    table = TableBuilder(names)
    for line, cells in records:
        if not cells:
            tally.blank += 1
            continue
        if "job_id" in cells and 2 * sum(cell in COLUMNS for cell in cells) > len(cells):  # of concatenated files
            if cells != names:
                raise tally.other_heading(line, "line 1")
            tally.header += 1
            continue
        try:
            table.append(line, _values(cells, names))
        except LineError as bad:
            tally.reject(line, bad)
    return table.table(tally)


class _Reader:
    """Reads text record by record, or all at once where it is regular.

    Args:
        names: The columns.
        tally: Receives the counts and unreadable records.
    """

    def __init__(self, names: Sequence[str], tally: ReadTally) -> None:
        self._names, self._tally, self._line = names, tally, 2

    def read(self, text: bytes, last: bool) -> JobTable | None:
        """Returns the records of some lines; ``None`` if the last of them continues after these.

        Args:
            text: Complete lines.
            last: Whether there is no further text.
        """
        table = self._at_once(text if text.endswith(b"\n") else text + b"\n")
        if table is None:
            table = self._by_record(text, last)
        if table is not None:
            self._line += text.count(b"\n")
        return table

    def _at_once(self, text: bytes) -> JobTable | None:
        if b"\r" in text and b'"' not in text and text.count(b"\r") == text.count(b"\r\n"):
            text = text.replace(b"\r\n", b"\n")
        cells = CsvColumns.of(text, len(self._names))
        if cells is None or b"job_id" in text:  # a further heading
            return None
        columns: dict[str, Any] = {}
        for place, name in enumerate(self._names):
            column = _column(cells, place, name)
            if column is None:
                return None
            columns[name] = column
        n = len(cells.begins)
        self._tally.lines += n
        table = JobTable.build(columns.pop("job_id"), **columns)
        return without_impossible_times(table, np.arange(self._line, self._line + n), self._tally)

    def _by_record(self, text: bytes, last: bool) -> JobTable | None:
        decoded = decode(text, self._tally)
        if not last and _is_open(decoded):
            return None
        return _table(csv_records(decoded, self._tally, first=self._line), self._names, self._tally)


def _is_open(text: str) -> bool:
    """Whether text ends inside a quoted cell."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        try:
            next(reader)
        except StopIteration:
            return False
        except csv.Error as error:
            if "unexpected end" in str(error):
                return True


def _column(cells: CsvColumns, place: int, name: str) -> Any:
    """Returns a column for ``JobTable.build``; ``None`` if a cell is not a plain value."""
    if name == "job_id":
        return cells.texts(place)
    if name in INT_COLUMNS and name != "state":
        numbers = cells.integers(place)
        return (
            numbers if numbers is not None or name != "limit_s" else _spelled(cells, place, {"UNLIMITED": UNLIMITED_S})
        )
    return _spelled(cells, place, _STATES) if name == "state" else cells.labels(place)


def _spelled(cells: CsvColumns, place: int, spelled: Mapping[str, int]) -> Ints | None:
    """Returns a column of words and numbers; ``None`` if a cell is neither."""
    labels = cells.labels(place)
    values = []
    for word in labels.names:
        if word not in spelled and (spelled is _STATES or not _INTEGER.fullmatch(word)):
            return None
        values.append(spelled[word] if word in spelled else int(word))
    return np.array([*values, MISSING], dtype=np.int64)[labels.codes]


def csv_records(text: str, tally: ReadTally, delimiter: str = ",", first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Yields every record with the number of its first line; records are counted.

    Args:
        text: The text.
        tally: Receives the counts.
        delimiter: Separator between two cells.
        first: Number of the first line.

    Raises:
        TraceError: Reading is strict and a record is not CSV.
    """
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + first
        if not line % _PROGRESS_LINES:
            tally.progress(stream.tell(), len(text))
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            tally.lines += 1
            tally.reject(line, LineError("not CSV", str(error), "check the quotes"))
            continue
        tally.lines += 1
        yield line, cells


def _check_columns(names: Sequence[str], tally: ReadTally) -> None:
    for name in names:
        if name not in COLUMNS:
            remedy = _GANGS if name == "run_s" else _OTHERS
            raise TraceError(f"{tally.path}:1: {UnknownName('column', name, COLUMNS)} {remedy}")
    check_each_once(names, tally)


def check_each_once(names: Sequence[str], tally: ReadTally) -> None:
    """Checks the columns of a job table.

    Raises:
        TraceError: A column is there twice, or there is no ``job_id``.
    """
    for name in names:
        if names.count(name) > 1:
            raise TraceError(f"{tally.path}:1: the column {name} is there {names.count(name)} times; leave one")
    if "job_id" not in names:
        raise TraceError(f"{tally.path}:1: the column job_id is missing: every job needs one")


def _values(cells: Sequence[str], names: Sequence[str]) -> list[int | str]:
    if len(cells) != len(names):
        raise LineError(
            "wrong number of fields", f"{len(cells)} instead of {len(names)}", "quote names that hold commas"
        )
    return [_value(cell, name) for cell, name in zip(cells, names)]


def _value(cell: str, name: str) -> int | str:
    if name == "job_id" and not cell:
        raise LineError("no job id", repr(cell), "every job needs one")
    if name not in INT_COLUMNS:
        return cell
    if name == "state" and cell in _STATES:
        return _STATES[cell]
    if name == "limit_s" and cell == "UNLIMITED":
        return UNLIMITED_S
    if not cell:
        return MISSING
    if name == "state":
        raise LineError("not a state", f"state is {cell!r}", f"expected one of {', '.join(_STATES)}")
    if not _INTEGER.fullmatch(cell):
        raise LineError("not a value of its column", f"{name} is {cell!r}", "expected whole seconds or a count")
    return int(cell)


def csv_bytes(table: JobTable) -> bytes:
    """Returns the table as CSV, UTF-8, with one line feed after every row."""
    columns = [_cells(table, name) for name in COLUMNS]
    text = _csv_text(columns, csv.QUOTE_MINIMAL)
    if "\r" in text:  # readers take it for a line end, but the writer does not quote it by itself
        text = _csv_text(columns, csv.QUOTE_ALL)
    return valid_unicode(text).encode()


def _csv_text(columns: Sequence[Sequence[str]], quoting: Literal[0, 1]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=quoting)
    writer.writerow(COLUMNS)
    writer.writerows(zip(*columns))
    return text.getvalue()


def _cells(table: JobTable, name: str) -> list[str]:
    if name == "job_id":
        return [str(job) for job in table.job_id]
    column = getattr(table, name)
    if name in LABEL_COLUMNS:
        labels: list[str] = column.values()
        return labels
    if name == "state":
        return [JobState(code).name for code in column.tolist()]
    spelled = {MISSING: "", UNLIMITED_S: "UNLIMITED"} if name == "limit_s" else {MISSING: ""}
    return [spelled.get(value, str(value)) for value in column.tolist()]
