"""Columns of regular CSV text, parsed all rows at once.

Text is regular if every line has the same number of cells, and no cell has a quote. All other text is read row by row.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.trace.table import Labels

Octets = NDArray[np.uint8]

LONGEST_NUMBER = 18
"""Longer integers may not fit in 64 bits."""

LONGEST_CELL = PADDING = 128
"""Longer cells would waste memory in a rectangular array."""

_COMMA, _LINE_END, _MINUS = ord(","), ord("\n"), ord("-")
_WORD = 8


class CsvColumns(NamedTuple):
    """The cells of regular text.

    Attributes:
        octets: The text, with ``PADDING`` zeros before and after it.
        begins: Shape (rows, columns), place of the first octet of each cell in the text.
        lengths: Shape (rows, columns).
    """

    octets: Octets
    begins: NDArray[np.intp]
    lengths: NDArray[np.intp]

    @classmethod
    def of(cls, text: bytes, columns: int) -> Self | None:
        """Finds the cells; ``None`` if the text is not regular, or not UTF-8.

        Args:
            text: Complete lines, with line feeds.
            columns: Number of cells in each line.
        """
        if any(odd in text for odd in (b'"', b"\r", b"\0")) or not text:
            return None
        octets = np.frombuffer(text, dtype=np.uint8)
        if not text.isascii():
            try:
                text.decode("utf-8")
            except UnicodeDecodeError:
                return None
        ends = np.flatnonzero((octets == _COMMA) | (octets == _LINE_END))
        if len(ends) % columns:
            return None
        is_line_end = (octets[ends] == _LINE_END).reshape(-1, columns)
        if not is_line_end[:, -1].all() or is_line_end[:, :-1].any():
            return None
        begins = np.empty(len(ends), dtype=np.intp)
        begins[0] = 0
        begins[1:] = ends[:-1] + 1
        lengths = (ends - begins).reshape(-1, columns)
        if lengths.max() > LONGEST_CELL:
            return None
        return cls(np.pad(octets, PADDING), begins.reshape(-1, columns), lengths)

    def integers(self, column: int) -> Ints | None:
        """Returns a column of integers; ``None`` if a cell is none. Empty cells are ``MISSING``."""
        lengths = self.lengths[:, column]
        longest = int(lengths.max())
        if not longest:
            return np.full(len(lengths), MISSING, dtype=np.int64)
        if longest > LONGEST_NUMBER + 1:
            return None
        ends = self.begins[:, column] + lengths
        digits = sliding_window_view(self.octets, longest)[ends - longest + PADDING]
        place = np.arange(longest)
        digits -= np.uint8(ord("0"))
        negative = (self.octets[self.begins[:, column] + PADDING] == _MINUS) & (lengths > 1)
        digits[place < (longest - lengths + negative)[:, None]] = 0
        if (digits > 9).any() or (lengths - negative).max() > LONGEST_NUMBER:
            return None
        values = np.zeros(len(lengths), dtype=np.int64)
        for k in range(longest):
            values *= 10
            values += digits[:, k]
        values[negative] *= -1
        values[lengths == 0] = MISSING
        return values

    def labels(self, column: int) -> Labels:
        """Returns a column of names."""
        if not self.lengths[:, column].any():
            return Labels.missing(len(self.lengths))
        cells = self._cells(column)
        words = cells.view(np.uint64)
        _, first, code = np.unique(_keys(words), return_index=True, return_inverse=True)
        if not (words == words[first[code]]).all():  # two names of one key
            _, first, code = np.unique(words, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        names = [cells[row].tobytes().rstrip(b"\0").decode("utf-8") for row in first[order].tolist()]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        if "" in names:
            empty = names.index("")
            names.pop(empty)
            place = np.where(place == empty, MISSING, place - (place > empty))
        return Labels(place[code.reshape(-1)], tuple(names))

    def texts(self, column: int) -> NDArray[np.str_] | None:
        """Returns a column of texts; ``None`` if one is empty, or not ASCII."""
        cells = self._cells(column)
        if not self.lengths[:, column].min() or cells.max() >= 128:
            return None
        width = int(self.lengths[:, column].max())
        found: NDArray[np.str_] = cells[:, :width].astype(np.uint32).view(f"<U{width}").reshape(-1)
        return found

    def _cells(self, column: int) -> Octets:
        """Returns the cells of a column as rows of octets, with zeros after each."""
        begins, lengths = self.begins[:, column], self.lengths[:, column]
        longest = int(lengths.max())
        width = max(-(-longest // _WORD), 1) * _WORD
        cells = sliding_window_view(self.octets, width)[begins + PADDING]
        cells[np.arange(width) >= lengths[:, None]] = 0
        return cells


def _keys(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns a number for every row of words; it is faster to sort than the words."""
    keys = np.zeros(len(words), dtype=np.uint64)
    for k in range(words.shape[1]):
        keys = (keys ^ words[:, k]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys
