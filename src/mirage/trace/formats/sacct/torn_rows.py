"""Rows of ``sacct -P`` with a ``|`` inside a field: put together again where there is only one way to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from mirage.errors import LineError
from mirage.slurm_words.states import is_known_state
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.record import JobRecord
from mirage.trace.formats.sacct.row import RowParser

_FREE_TEXT = (
    *("jobname", "comment", "admincomment", "systemcomment", "submitline", "constraints", "extra"),
    *("workdir", "stdin", "stdout", "stderr"),
)
"""The fields a user writes, so that a ``|`` may stand in them."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown|None|)", re.ASCII)
_DURATION = re.compile(r"((\d+-)?\d+:\d\d(:\d\d)?(\.\d+)?|UNLIMITED|Partition_Limit|INVALID|)", re.ASCII)
_DIGITS = re.compile(r"\d*", re.ASCII)
_TRES = re.compile(r"([\w/:.-]+=[^,=|]+(,|$))*")
_SHAPES = {
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(("elapsed", "timelimit"), _DURATION),
    **dict.fromkeys(("elapsedraw", "uid", "gid", "nnodes", "ncpus", "alloccpus", "reqcpus"), _DIGITS),
    **dict.fromkeys(("alloctres", "reqtres"), _TRES),
    "exitcode": re.compile(r"(\d+:\d+|)", re.ASCII),
}
"""What a field must look like before a row with too many separators is believed."""


class Rejoiner:
    """Finds the field of a row that holds separators of its own.

    Args:
        fields: The names of the columns.
        clock: Reads local times.
    """

    def __init__(self, fields: Sequence[str], clock: LocalClock) -> None:
        self._parser = RowParser(fields, clock, Counter())

    def rejoin(self, cells: Sequence[str]) -> list[str]:
        """The cells of the row, one a column.

        Every field that a user writes is tried as the one that was torn. Readings that break the form of
        some other field fall away; if those that are left agree on the job, any of them will do.

        Raises:
            LineError: No reading, or readings that differ.
        """
        readings: dict[JobRecord | None, list[str]] = {}
        for candidate in self._candidates(cells):
            try:
                is_step = self._parser.is_step(candidate)
                readings.setdefault(None if is_step else self._parser.job(candidate), candidate)
            except LineError:
                continue
        if len(readings) != 1:
            raise LineError(
                "too many fields",
                f"{len(cells)} of {self._parser.width}",
                "a | inside a name that can be read in more than one way; put JobName last in sacct -o"
                if readings
                else "a | inside a name, or another field list than the header's",
            )
        return next(iter(readings.values()))

    def _candidates(self, cells: Sequence[str]) -> Iterator[list[str]]:
        surplus = len(cells) - self._parser.width
        for name in _FREE_TEXT:
            column = self._parser.at.get(name)
            if column is None:
                continue
            torn = slice(column, column + surplus + 1)
            candidate = [*cells[:column], "|".join(cells[torn]), *cells[torn.stop :]]
            if self._is_plausible(candidate):
                yield candidate

    def _is_plausible(self, cells: Sequence[str]) -> bool:
        at = self._parser.at
        in_shape = all(shape.fullmatch(cells[at[name]]) for name, shape in _SHAPES.items() if name in at)
        return in_shape and ("state" not in at or is_known_state(cells[at["state"]]))
