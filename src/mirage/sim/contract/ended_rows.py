"""Ended jobs of a simulation in one growing table, shared by its views and branches.

A view shows the last rows of the table without a copy. Written rows never change; a branch that diverges from the
branch that appended rows continues in a table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records
from mirage.policy.view import MOST_ENDED, Ended
from mirage.sim.contract.job_labels import JobLabels, label
from mirage.sim.kernel.arrays import BY_PREEMPTION, BY_RESIZE

COLUMNS = ("user", "nodes", "limit_s", "submit_s", "start_s", "end_s", "name", "account", "cpus")
"""The rows of the table, in order: the columns of ``Ended``."""

LEAST_ROOM = 256


class RowBuffer:
    """A table that grows at its end.

    Attributes:
        rows: Shape (columns, capacity).
        shown: Read-only view of ``rows``, from which views are sliced.
        filled: Number of rows written, by any branch.
    """

    def __init__(self, room: int) -> None:
        self.rows: Ints = np.empty((len(COLUMNS), room), dtype=np.int64)
        self.shown = self.rows.view()
        self.shown.setflags(write=False)
        self.filled = 0


@dataclass(frozen=True, slots=True)
class EndedRows:
    """The ended jobs of one branch at one time; a value.

    Attributes:
        table: Where they are written; later rows may be of another branch.
        count: Number of the branch's own rows, the first of the table.
        entered: Number of segments of the branch's log, including its past, that have been entered.
    """

    table: RowBuffer
    count: int = 0
    entered: int = 0

    def caught_up(
        self, past: Sequence[Records], log: Records, logged: int, entered: int, labels: JobLabels
    ) -> EndedRows:
        """The rows with the segments entered that were logged since.

        Args:
            past: Segments before those in the log.
            log: The branch's own log.
            logged: Number of segments in the log.
            entered: Number of segments in total, past and log.
        """
        if entered == self.entered:
            return self
        stretches, ends = _latest(past, log, logged, entered - self.entered)
        table, count = self._with_room(ends, MOST_ENDED - ends)
        codes, injected = labels.book.codes, labels.injected
        for segments, first, last in stretches:
            count += enter(segments, first, last, codes, injected, table.rows, count)
        table.filled = count
        return EndedRows(table, count, entered)

    def ended(self) -> Ended:
        """The last of them, as columns of a view."""
        return Ended(*self.table.shown[:, max(self.count - MOST_ENDED, 0) : self.count])

    def _with_room(self, more: int, needed: int) -> tuple[RowBuffer, int]:
        """A table with room for ``more`` rows of this branch, and the number of rows it holds.

        Args:
            needed: Number of the present rows that are still needed.
        """
        table = self.table
        if table.filled == self.count and self.count + more <= table.rows.shape[1]:
            return table, self.count
        n_retained = min(needed, self.count)
        larger = RowBuffer(max(4 * (n_retained + more), LEAST_ROOM))
        larger.rows[:, :n_retained] = table.rows[:, self.count - n_retained : self.count]
        return larger, n_retained


def _latest(past: Sequence[Records], log: Records, logged: int, n_new: int) -> tuple[list[Any], int]:
    """The ranges of new segments with the last ends, oldest first, and their number of ends."""
    stretches: list[Any] = []
    ends = 0
    for segments in (log, *reversed(past)):
        last = logged if segments is log else len(segments)
        oldest = max(last - n_new, 0)
        first, found = reach_back(segments, oldest, last, MOST_ENDED - ends)
        stretches.insert(0, (segments, first, last))
        ends, n_new = ends + found, n_new - (last - oldest)
        if n_new <= 0 or ends == MOST_ENDED:
            break
    return stretches, ends


@kernel()
def is_end(segment: Any) -> bool:
    """Whether a job ended with a segment; a preemption or a change of size is not an end."""
    return bool(segment.why != BY_PREEMPTION and segment.why != BY_RESIZE)


@kernel()
def reach_back(segments: Any, first: int, last: int, wanted: int) -> tuple[int, int]:
    """Where the last ``wanted`` ends in a range begin, and their number, which may be less."""
    row, found = last, 0
    while row > first and found < wanted:
        row -= 1
        if is_end(segments[row]):
            found += 1
    return row, found


@kernel()
def enter(segments: Any, first: int, last: int, codes: Any, injected: Any, rows: Any, at: int) -> int:
    """Write the ends in a range of segments into the table from row ``at``; returns the count."""
    place = at
    for row in range(first, last):
        segment = segments[row]
        if is_end(segment):
            rows[0, place] = segment.user
            rows[1, place] = segment.width
            rows[2, place] = segment.limit_s
            rows[3, place] = segment.submit_s
            rows[4, place] = segment.start_s
            rows[5, place] = segment.end_s
            rows[6, place] = label(codes, injected, 0, segment.id)
            rows[7, place] = label(codes, injected, 1, segment.id)
            rows[8, place] = segment.cpus
            place += 1
    return place - at
