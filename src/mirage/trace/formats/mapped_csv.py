"""Reader of CSV files with columns that are mapped to the job table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, LineError, TraceError, UnknownName
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.states import UNHEARD_STATE, true_lifetime_s
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.column_cells import WAIT, Value, cell_reader, is_unheard_state
from mirage.trace.formats.column_mapping import ColumnMap, Source
from mirage.trace.formats.decompress import decode
from mirage.trace.formats.job_table_csv import csv_records
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.sacct_row import OVER_THE_HOUR
from mirage.trace.formats.table_builder import JobRecord, TableBuilder
from mirage.trace.table import JobTable

DELIMITERS = (",", ";", "\t", "|")

LOCAL_TIME = "time that names no zone (read as UTC; --timezone names another)"

SINCE_1970_S = 10**8
"""Larger instants are counted from 1970, not from the beginning of a trace; a start at 0 is then no start."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the job table: the position of its cells, and their reader."""

    target: str
    place: int
    constant: str
    read: Any

    def value(self, cells: Sequence[str]) -> Value:
        """Returns the value of a row.

        Raises:
            LineError: The cell has no valid value.
        """
        cell = self.constant if self.place < 0 else cells[self.place]
        try:
            value: Value = self.read(cell)
        except LineError as bad:
            raise LineError(bad.reason, f"{self.target} is {cell!r}", str(bad).rpartition("; ")[2]) from None
        return value


def read_mapped_csv(
    data: bytes,
    tally: ReadTally,
    columns: ColumnMap,
    clock: LocalClock,
    *,
    delimiter: str | None,
    zone_configured: bool,
) -> JobTable:
    """Reads the job table from a CSV file with arbitrary columns.

    Args:
        data: The text; its first row that is not a comment names the columns.
        tally: Receives the counts and unreadable records; a record may span lines.
        columns: Maps columns of the job table to those of the file.
        clock: Reads times without a zone.
        delimiter: Separator between two cells; None to detect it in the first row.
        zone_configured: Whether the zone of such times was configured; otherwise they are noted.

    Raises:
        TraceError: A mapped column is missing; or reading is strict and a row cannot be read.
        ConfigurationError: The delimiter has more than one character.
    """
    tally.unit = "record"
    text = decode(data, tally)
    if delimiter is not None and len(delimiter) != 1:
        raise ConfigurationError(f"a CSV has one character between two cells, not {delimiter!r}")
    records = csv_records(text, tally, delimiter or detect_delimiter(text, columns))
    where, names = _header(records, tally, columns)
    local = None if zone_configured else LOCAL_TIME
    located = _located(columns, names, f"{tally.path}:{where}", tally, clock, local)
    rows = _Rows(located, len(names), tally, clock)
    mapped = {names[column.place] for column in located if column.place >= 0}
    table = TableBuilder()
    for line, cells in records:
        if not any(cells):
            tally.blank += 1
            continue
        bare = [cell.strip() for cell in cells]
        if bare == names or 2 * len(mapped.intersection(bare)) > max(len(mapped), 2):  # of concatenated files
            if bare != names:
                raise tally.other_heading(line, f"line {where}")
            tally.header += 1
            continue
        try:
            table.append(line, rows.record(len(table.lines) + 1, cells))
        except LineError as bad:
            tally.reject(line, bad)
    return table.table(tally)


def detect_delimiter(text: str, columns: ColumnMap) -> str:
    """Detects the delimiter with most mapped columns, then most cells, in the first row."""
    head = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")

    def found(delimiter: str) -> tuple[int, int]:
        try:
            names = next(csv.reader(io.StringIO(head), delimiter=delimiter), [])
        except csv.Error:
            return 0, 0
        bare = {name.strip() for name in names}
        return sum(name in bare for name in columns.columns), len(names)

    return max(DELIMITERS, key=found)


def _header(records: Iterator[tuple[int, list[str]]], tally: ReadTally, columns: ColumnMap) -> tuple[int, list[str]]:
    """Returns line and names of the columns: the first row that is not a comment."""
    wanted = set(columns.columns)
    for line, cells in records:
        names = [cell.strip() for cell in cells]
        if not any(names):
            tally.blank += 1
        elif names[0].startswith("#") and not wanted & set(names):
            tally.comment += 1
        else:
            tally.header += 1
            return line, names
    raise TraceError(f"{tally.path}: no row has the names of the columns; --columns needs one")


def _located(
    columns: ColumnMap, names: list[str], where: str, tally: ReadTally, clock: LocalClock, local: str | None
) -> list[_Column]:
    """Returns the columns of the job table and their positions in a row.

    Raises:
        TraceError: The file does not have such a column, or has two.
    """

    def note() -> None:
        if local is not None:
            tally.notes[local] += 1

    made = []
    for target, source in columns.sources.items():
        column, unit = _as_named(source, names)
        if column and column not in names:
            constant = f" For the value {column} in every row, write {target}=={column}" if column.isdecimal() else ""
            raise TraceError(f"{where}: for {target}: {UnknownName('column of the file', column, names)}{constant}")
        if names.count(column) > 1:
            raise TraceError(f"{where}: {names.count(column)} columns are called {column!r}; rename all but one")
        place = names.index(column) if column else -1
        made.append(_Column(target, place, source.constant, cell_reader(target, unit, clock, note)))
    return made


def _as_named(source: Source, names: list[str]) -> tuple[str, str]:
    """Column and unit; the unit may be in the column's own name, as in ``Runtime [h]``."""
    return (source.text if source.text in names and source.column else source.column, source.unit)


class _Rows:
    """Creates records of the job table from rows of cells."""

    def __init__(self, columns: list[_Column], width: int, tally: ReadTally, clock: LocalClock) -> None:
        self._columns, self._width, self._notes, self._clock = columns, width, tally.notes, clock
        self._state = next((column for column in columns if column.target == "state"), None)

    def record(self, number: int, cells: Sequence[str]) -> JobRecord:
        """Returns the job in a row; ``number`` is its id if the file has none.

        Raises:
            LineError: The row has too many or too few cells, or one that cannot be read.
        """
        if len(cells) != self._width:
            raise LineError(
                "wrong number of fields",
                f"{len(cells)} instead of {self._width}",
                "quote cells that hold the delimiter",
            )
        values: dict[str, Any] = {column.target: column.value(cells) for column in self._columns}
        if self._state is not None and self._state.place >= 0 and is_unheard_state(cells[self._state.place]):
            self._notes[UNHEARD_STATE] += 1
        return self._lived({"job_id": str(number), **values})

    def _lived(self, values: dict[str, Any]) -> JobRecord:
        """Completes a record: start from the wait, and no times without an event."""
        wait_s = values.pop(WAIT, MISSING)
        job = JobRecord(**values)
        start_s, end_s = job.start_s, job.end_s
        if MISSING not in (wait_s, job.submit_s):
            start_s = job.submit_s + wait_s
        if job.submit_s >= SINCE_1970_S:
            start_s, end_s = start_s or MISSING, end_s or MISSING
        if self._over_the_hour(start_s, end_s, job.elapsed_s):
            start_s, end_s = self._clock.with_elapsed(start_s, end_s, job.elapsed_s)
            self._notes[OVER_THE_HOUR] += 1
        if end_s == MISSING and MISSING not in (start_s, job.elapsed_s):
            end_s = start_s + job.elapsed_s
        start_s, end_s = true_lifetime_s(JobState(job.state), start_s, end_s, job.elapsed_s, None, self._notes)
        return job._replace(start_s=start_s, end_s=end_s)

    def _over_the_hour(self, start_s: int, end_s: int, elapsed_s: int) -> bool:
        """Whether the run time is an hour off, and a time is in the hour that is repeated."""
        if min(start_s, end_s, elapsed_s - 1) < 0 or abs(end_s - start_s - elapsed_s) != HOUR_S:
            return False
        return self._clock.repeats(start_s) or self._clock.repeats(end_s)
