"""Columns of regular CSV text, parsed all rows at once.

Text is regular if every line has the same number of cells, and no cell has a quote. All other text is read row by row.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.trace.table import Labels

Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]

LONGEST_NUMBER = 18
"""Longer integers may not fit in 64 bits."""

LONGEST_CELL = PADDING = 128
"""Longer cells would waste memory in a rectangular array."""

_COMMA, _LINE_END, _MINUS = ord(","), ord("\n"), ord("-")

_WORD = 8
"""Octets of a word. A word is read with its first octet lowest."""

_LOW = np.array([(1 << 8 * octets) - 1 for octets in range(_WORD + 1)], dtype=np.uint64)
"""Masks of the first 0 to 8 octets of a word."""

_ZEROS = np.uint64(0x3030303030303030)
"""The text of eight digits 0."""


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
        if not lengths.any():
            return np.full(len(lengths), MISSING, dtype=np.int64)
        begins = self.begins[:, column] + PADDING
        negative = (self.octets[begins] == _MINUS) & (lengths > 1)
        digits = lengths - negative
        longest = int(digits.max())
        if longest > LONGEST_NUMBER:
            return None
        values = np.zeros(len(lengths), dtype=np.int64)
        for last in range(0, longest, _WORD):  # eight digits at a time, from the end
            before = _LOW[_WORD - np.clip(digits - last, 0, _WORD)]
            word = (self._words(begins + lengths - last - _WORD) & ~before) | (_ZEROS & before)
            number = _eight_digits(word)
            if number is None:
                return None
            values += number * 10**last
        values[negative] *= -1
        values[lengths == 0] = MISSING
        return values

    def labels(self, column: int) -> Labels:
        """Returns a column of names."""
        if not self.lengths[:, column].any():
            return Labels.missing(len(self.lengths))
        words = self._cells(column)
        if (words == words[0]).all():
            return Labels.of([_name(words[0])])[np.zeros(len(words), dtype=np.intp)]
        _, first, code = np.unique(_keys(words), return_index=True, return_inverse=True)
        if not (words == words[first[code]]).all():  # two names of one key
            _, first, code = np.unique(words, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        names = [_name(words[row]) for row in first[order].tolist()]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        if "" in names:
            empty = names.index("")
            names.pop(empty)
            place = np.where(place == empty, MISSING, place - (place > empty))
        return Labels(place[code.reshape(-1)], tuple(names))

    def texts(self, column: int) -> NDArray[np.str_] | None:
        """Returns a column of texts; ``None`` if one is empty, or not ASCII."""
        cells = self._cells(column).view(np.uint8)
        if not self.lengths[:, column].min() or cells.max() >= 128:
            return None
        width = int(self.lengths[:, column].max())
        found: NDArray[np.str_] = cells[:, :width].astype(np.uint32).view(f"<U{width}").reshape(-1)
        return found

    def _cells(self, column: int) -> Words:
        """Returns the cells of a column, with zeros after each; shape (rows, words)."""
        begins, lengths = self.begins[:, column] + PADDING, self.lengths[:, column]
        cells = np.empty((len(lengths), max(-(-int(lengths.max()) // _WORD), 1)), dtype="<u8")
        for k in range(cells.shape[1]):
            np.bitwise_and(
                self._words(begins + k * _WORD), _LOW[np.clip(lengths - k * _WORD, 0, _WORD)], out=cells[:, k]
            )
        return cells

    def _words(self, places: NDArray[np.intp]) -> Words:
        """Returns the words that begin at some places of the padded text."""
        at_every_octet: Words = np.ndarray(len(self.octets) - _WORD + 1, dtype="<u8", buffer=self.octets, strides=1)
        return at_every_octet[places]


def _name(words: Words) -> str:
    return words.tobytes().rstrip(b"\0").decode("utf-8")


def _eight_digits(words: Words) -> Ints | None:
    """Returns the numbers that words spell in eight digits; ``None`` if one has another octet.

    Neighbours are joined three times: digits to pairs, pairs to fours, fours to the number.
    """
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    if (((words & high) != _ZEROS) | (((words + np.uint64(0x0606060606060606)) & high) != _ZEROS)).any():
        return None
    words = ((words & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(10 * 2**8 + 1)) >> np.uint64(8)
    words = ((words & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 2**16 + 1)) >> np.uint64(16)
    words = ((words & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10_000 * 2**32 + 1)) >> np.uint64(32)
    return words.astype(np.int64)


def _keys(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns a number for every row of words; it is faster to sort than the words."""
    keys = np.zeros(len(words), dtype=np.uint64)
    for k in range(words.shape[1]):
        keys = (keys ^ words[:, k]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return keys
