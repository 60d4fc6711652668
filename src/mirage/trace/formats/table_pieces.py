"""A job table from pieces: a reader of a large file makes a table of some lines at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable, Labels

PIECE_BYTES = 1 << 23
"""Text that is parsed at a time. Its arrays take several times as much memory, but only for a while."""

_OFTEN_EQUAL = (("cpus", "nodes"), ("eligible_s", "submit_s"))
"""Columns that are one array if they are equal."""


class TablePieces:
    """Joins tables, one after the other; the pieces are released while they are joined."""

    def __init__(self) -> None:
        self._job_id: list[Any] = []
        self._columns: dict[str, list[NDArray[Any] | int]] = {name: [] for name in (*INT_COLUMNS, *LABEL_COLUMNS)}
        self._code: dict[str, dict[str, int]] = {name: {} for name in LABEL_COLUMNS}

    def append(self, piece: JobTable) -> None:
        """Add the rows of a piece."""
        self._job_id.append(piece.job_id)
        for name in INT_COLUMNS:
            self._columns[name].append(_narrow(getattr(piece, name)))
        for name in LABEL_COLUMNS:
            labels = getattr(piece, name)
            code = self._code[name]
            place = np.array([*(code.setdefault(one, len(code)) for one in labels.names), MISSING], dtype=np.int64)
            self._columns[name].append(_narrow(place[labels.codes]))

    def table(self) -> JobTable:
        """Returns the table, and forgets the pieces.

        Columns that are missing in every piece are one array, and so are columns that are equal in every piece.
        """
        lengths = [len(piece) for piece in self._job_id]
        job_id = np.concatenate(self._job_id) if self._job_id else np.zeros(0, dtype=np.str_)
        self._job_id.clear()
        missing = np.full(len(job_id), MISSING, dtype=np.int64)
        columns: dict[str, Any] = {}
        for name, pieces in self._columns.items():
            columns[name] = _joined(pieces, lengths, missing)
            pieces.clear()
        for name, other in _OFTEN_EQUAL:
            if (columns[name] == columns[other]).all():
                columns[name] = columns[other]
        for name, code in self._code.items():
            columns[name] = Labels(columns[name], tuple(code))
        return JobTable(job_id=job_id, **columns)


def _narrow(values: Ints) -> NDArray[Any] | int:
    """Returns the values in 32 bits if they fit; ``MISSING`` if they all are."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if low == high == MISSING:
        return MISSING
    return values.astype(np.int32) if low >= -(2**31) and high < 2**31 else values


def _joined(pieces: list[NDArray[Any] | int], lengths: list[int], missing: Ints) -> Ints:
    if all(isinstance(piece, int) for piece in pieces):
        return missing
    joined = np.empty(len(missing), dtype=np.int64)
    at = 0
    for k, length in enumerate(lengths):
        joined[at : at + length] = pieces[k]
        pieces[k] = MISSING
        at += length
    return joined
