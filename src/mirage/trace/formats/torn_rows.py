"""Rows of ``sacct -P`` with a separator or a line end inside a field, joined again.

The fields that Slurm writes have patterns (times, counts, lists of resources); those that users write have none. A row
with too many cells is read in every way in which each of Slurm's fields matches its pattern. Of these readings the ones
with the fewest torn fields count; if they agree on the job, any of them is correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from mirage.errors import LineError
from mirage.slurm_words.states import is_known_state
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.field_shapes import FREE_TEXT, LISTS, SEVERAL_LINES, shape_of
from mirage.trace.formats.sacct_row import RowParser
from mirage.trace.formats.table_builder import JobRecord

_MOST_READINGS = 256
"""A row with more possible readings is rejected."""

_MOST_TORN = 3
"""Fields torn at once: a comment also occurs in the submit line, and so may the job's name."""


class Rejoiner:
    """Finds the fields of a row that contain separators.

    Args:
        fields: The names of the columns.
        clock: Reads local times.
        delimiter: Separator between the cells.
    """

    def __init__(self, fields: Sequence[str], clock: LocalClock, delimiter: str = "|") -> None:
        self._parser = RowParser(fields, clock, Counter())
        self._delimiter = delimiter
        self._names = self._parser.names
        self._shapes = [shape_of(name) for name in self._names]
        self._is_list = [delimiter == "," and (name in LISTS or "tres" in name) for name in self._names]
        self._is_free = [name in FREE_TEXT for name in self._names]

    def rejoin(self, cells: Sequence[str]) -> list[str]:
        """Returns the cells of the row, one per column.

        Raises:
            LineError: There is no reading, or readings differ.
        """
        for torn in range(_MOST_TORN + 1):
            candidates = list(islice(self._readings(cells, torn), _MOST_READINGS + 1))
            readings = self._jobs(candidates)
            if len(readings) > 1 or len(candidates) > _MOST_READINGS:
                raise self._unreadable(cells, "can be read in more than one way; put JobName last in sacct -o")
            if readings:
                return next(iter(readings.values()))
        raise self._unreadable(cells, "fits no field, or another field list than the header's")

    @property
    def ends_in_several_lines(self) -> bool:
        """Whether users write line ends in the last field."""
        return self._names[-1] in SEVERAL_LINES

    def begins_row(self, cells: Sequence[str]) -> bool:
        """Whether the cells begin a new row, judged up to the job's number and beyond.

        The check stops at the first free text after the number.
        """
        if len(cells) <= self._parser.id_column:
            return False
        if self._parser.id_column < len(cells) - 1 < len(self._names) - 1:
            cells = cells[:-1]  # a line end, or the end of the file, may have cut it
        free = (k for k, is_free in enumerate(self._is_free) if is_free and k > self._parser.id_column)
        end = min(next(free, len(self._names)), len(cells), len(self._names))
        return all(self._fits(k, cells[k]) for k in range(end))

    def _jobs(self, candidates: Sequence[list[str]]) -> dict[JobRecord | None, list[str]]:
        """Returns the readings that give a job, by the job; ``None`` represents a step."""
        readings: dict[JobRecord | None, list[str]] = {}
        for candidate in candidates:
            try:
                is_step = self._parser.is_step(candidate)
                readings.setdefault(None if is_step else self._parser.job(candidate), candidate)
            except LineError:
                continue
        return readings

    def _readings(self, cells: Sequence[str], torn: int) -> Iterator[list[str]]:
        """Yields every way to read the row with a given number of torn free texts."""
        dead_ends: set[tuple[int, int, int]] = set()

        def rest(column: int, cell: int, left: int) -> Iterator[list[str]]:
            if column == len(self._names):
                if cell == len(cells) and not left:
                    yield []
                return
            if (column, cell, left) in dead_ends:
                return
            found = False
            most = len(cells) - cell - (len(self._names) - column) + 1
            wide = self._is_list[column] or (left and self._is_free[column])
            for width in range(1, (most if wide else min(most, 1)) + 1):
                text = self._delimiter.join(cells[cell : cell + width])
                if not self._fits(column, text):
                    continue
                used = 1 if width > 1 and self._is_free[column] else 0
                for tail in rest(column + 1, cell + width, left - used):
                    found = True
                    yield [text, *tail]
            if not found:
                dead_ends.add((column, cell, left))

        return rest(0, 0, torn)

    def _fits(self, column: int, text: str) -> bool:
        if not self._shapes[column].fullmatch(text):
            return False
        return self._names[column] != "state" or is_known_state(text)

    def _unreadable(self, cells: Sequence[str], why: str) -> LineError:
        cell_count = f"{len(cells)} of {self._parser.width}"
        return LineError("too many fields", cell_count, f"a {self._delimiter} inside a name that {why}")
