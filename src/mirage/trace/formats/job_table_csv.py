"""The job table as CSV: columns by name, whole seconds, empty cells for missing values.

``UNLIMITED`` is spelled out and states are given by name. Columns may come in any order and all are optional except
``job_id``; an unknown column is an error, not ignored. A table that was written reads back unchanged.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from mirage.duration import UNLIMITED_S
from mirage.errors import LineError, TraceError, UnknownName
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.unicode import valid_unicode
from mirage.trace.formats.decompress import decode
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.table_builder import TableBuilder
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

COLUMNS = ("job_id", *INT_COLUMNS, *LABEL_COLUMNS)

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
    rows = csv_records(decode(data, tally), tally)
    _, names = next(rows, (1, []))
    tally.header += 1
    _check_columns(names, tally)
    table = TableBuilder(names)
    for line, cells in rows:
        if not cells:
            tally.blank += 1
            continue
        try:
            table.append(line, _values(cells, names))
        except LineError as bad:
            tally.reject(line, bad)
    return table.table(tally)


def csv_records(text: str, tally: ReadTally, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields every record with the number of its first line; records are counted.

    Raises:
        TraceError: Reading is strict and a record is not CSV.
    """
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + 1
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
            raise TraceError(f"{tally.path}:1: {UnknownName('column', name, COLUMNS)}")
    if "job_id" not in names or len(set(names)) < len(names):
        raise TraceError(f"{tally.path}:1: the columns are {', '.join(names)}; each once, and job_id among them")


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
    if not _INTEGER.fullmatch(cell) or name == "state":
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
