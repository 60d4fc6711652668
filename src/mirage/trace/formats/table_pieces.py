"""A job table from pieces: a reader of a large file makes a table of some lines at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable, Labels

PIECE_BYTES = 1 << 23
"""Text that is parsed at a time. Its arrays take several times as much memory, but only for a while."""

_OFTEN_EQUAL = (("cpus", "nodes"), ("eligible_s", "submit_s"))
"""Columns that are one array if they are equal."""


class TablePieces:
    """Joins tables, one after the other, in columns that are allocated once.

    Args:
        most: Upper bound of the number of rows. The system provides memory only for rows that are written.
    """

    def __init__(self, most: int) -> None:
        self._most, self._rows = most, 0
        self._job_id = np.empty(most, dtype="<U1")
        self._columns: dict[str, Ints] = {}
        self._code: dict[str, dict[str, int]] = {name: {} for name in LABEL_COLUMNS}

    def append(self, piece: JobTable) -> None:
        """Add the rows of a piece."""
        if piece.job_id.dtype.itemsize > self._job_id.dtype.itemsize:
            wider = np.empty(self._most, dtype=piece.job_id.dtype)
            wider[: self._rows] = self._job_id[: self._rows]
            self._job_id = wider
        self._job_id[self._rows : self._rows + len(piece)] = piece.job_id
        for name in INT_COLUMNS:
            self._write(name, getattr(piece, name))
        for name in LABEL_COLUMNS:
            labels = getattr(piece, name)
            code = self._code[name]
            place = np.array([*(code.setdefault(one, len(code)) for one in labels.names), MISSING], dtype=np.int64)
            self._write(name, place[labels.codes])
        self._rows += len(piece)

    def _write(self, name: str, values: Ints) -> None:
        if name not in self._columns:
            if (values == MISSING).all():
                return
            self._columns[name] = np.empty(self._most, dtype=np.int64)
            self._columns[name][: self._rows] = MISSING
        self._columns[name][self._rows : self._rows + len(values)] = values

    def table(self) -> JobTable:
        """Returns the table of all rows.

        Columns that are missing in every piece are one array, and so are columns that are equal in every piece.
        """
        found: dict[str, Any] = {name: column[: self._rows] for name, column in self._columns.items()}
        for name, other in _OFTEN_EQUAL:
            if name in found and other in found and (found[name] == found[other]).all():
                found[name] = found[other]
        for name, code in self._code.items():
            if name in found:
                found[name] = Labels(found[name], tuple(code))
        return JobTable.build(self._job_id[: self._rows], **found)
