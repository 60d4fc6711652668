"""Rows of sacct that span several lines.

Scripts in ``--wrap``, comments and names may contain line ends, and sacct prints them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_MOST_LINES = 200
"""A row of more lines is assumed to be truncated."""


@dataclass
class LineReader:
    """Numbered lines with a push-back buffer.

    Attributes:
        source: The lines that are not blank.
    """

    source: Iterator[tuple[int, str]]
    _returned: deque[tuple[int, str]] = field(default_factory=deque)

    def __iter__(self) -> LineReader:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._returned.popleft() if self._returned else next(self.source)

    def push_back(self, lines: Sequence[tuple[int, str]]) -> None:
        """Push lines back, so that they come next again."""
        self._returned.extendleft(reversed(lines))


def continuation(
    line: str, lines: LineReader, begins_row: Callable[[str], bool], read: Callable[[str], list[str] | None]
) -> tuple[list[str] | None, int]:
    """Returns the cells of a row that begins with a short line, and the count of lines added.

    Args:
        line: The first line.
        lines: Those that follow; lines that do not belong to the row are put back.
        begins_row: Whether a line begins a row of its own.
        read: Returns the cells of a row in these lines, ``None`` if they are not a row.
    """
    taken: list[tuple[int, str]] = []
    while len(taken) < _MOST_LINES and (following := next(lines, None)) is not None:
        if begins_row(following[1]):
            lines.push_back([following])
            break
        taken.append(following)
        if (cells := read("\n".join([line, *(text for _, text in taken)]))) is not None:
            return cells, len(taken)
    lines.push_back(taken)
    return None, 0
