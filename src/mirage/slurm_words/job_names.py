"""Job names folded: names that differ only by a number, an index or their case become one.

``train_v3_017`` and ``Train_v3_018`` are runs of the same kind of job for a model that learns from the past; so are
``sweep[12]``, ``run-2023-01-05`` and names that end in a hash.
"""

from __future__ import annotations

import re
from functools import lru_cache

NUMBER = "#"
"""The character for a number inside a folded name."""

LONGEST = 64
"""Most characters of a folded name; later ones do not distinguish kinds of jobs."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_HASH = re.compile(r"(?<![^\W\d_])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![^\W\d_])")
"""Eight or more hexadecimal digits, at least one of them decimal, not next to another letter."""

_DIGITS = re.compile(r"\d+(?:\.\d+)*")
_SPACES = re.compile(r"\s+")
_TRAILING = " _-.,:;/|+=~%()[]{}<>" + NUMBER


@lru_cache(maxsize=1 << 16)
def fold_name(name: str) -> str:
    """The name in lower case, with ``#`` for numbers, without trailing numbers and separators.

    Names that consist of nothing else become one ``#``; the empty name stays empty.
    """
    word = _SPACES.sub(" ", name.strip()).lower()
    for pattern in (_UUID, _HASH, _DIGITS):
        word = pattern.sub(NUMBER, word)
    return word[:LONGEST].rstrip(_TRAILING) or (word[:1] and NUMBER)
