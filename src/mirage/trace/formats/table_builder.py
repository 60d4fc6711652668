"""A job as readers of rows represent it, and the builder of a table from such rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mirage.job_state import MISSING, JobState
from mirage.trace.formats.plausible_times import without_impossible_times
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.repeated_rows import with_first_sizes
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable, Labels


class JobRecord(NamedTuple):
    """A row of the job table; names, units and missing values as in the table."""

    job_id: str
    submit_s: int = MISSING
    eligible_s: int = MISSING
    start_s: int = MISSING
    end_s: int = MISSING
    elapsed_s: int = MISSING
    limit_s: int = MISSING
    nodes: int = MISSING
    gpus: int = MISSING
    cpus: int = MISSING
    memory_mib: int = MISSING
    priority: int = MISSING
    state: int = JobState.UNKNOWN
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    dependency: str = ""


class TableBuilder:
    """Builder of a table, row by row, without an object per row.

    Args:
        names: The columns of the rows.
    """

    def __init__(self, names: Sequence[str] = JobRecord._fields) -> None:
        self._names = names
        self._columns: list[Any] = [_column(name) for name in names]
        self.lines = array("q")

    def append(self, line: int, row: Iterable[Any]) -> None:
        """Add a row, and the line it was read from."""
        for column, value in zip(self._columns, row):
            column.append(value)
        self.lines.append(line)

    def table(self, tally: ReadTally) -> JobTable:
        """Returns the table of all rows with possible times; the others are rejected.

        Raises:
            TraceError: Reading is strict and a row has an impossible time.
        """
        named = zip(self._names, self._columns)
        columns = {name: column.labels() if name in LABEL_COLUMNS else column for name, column in named}
        return without_impossible_times(with_first_sizes(JobTable.build(**columns), tally), self.lines, tally)


class _LabelColumn:
    """A growing column of names; each name is stored once."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._codes = array("q")

    def append(self, name: str) -> None:
        self._codes.append(self._code.setdefault(name, len(self._code)) if name else MISSING)

    def labels(self) -> Labels:
        return Labels(np.array(self._codes, dtype=np.int64), tuple(self._code))


def _column(name: str) -> Any:
    if name in LABEL_COLUMNS:
        return _LabelColumn()
    return array("q") if name in INT_COLUMNS else []
