"""Numbers in the text of Slurm and of traces, plain or with a suffix."""

from __future__ import annotations

import re

from mirage.job_state import MISSING

_DIGITS = re.compile(r"[0-9]{1,15}")
"""Longer numbers are errors, and would overflow in a multiplication in 64 bits."""

_SUFFIXED = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([KMGT])", re.IGNORECASE)
_SUFFIX = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
"""Slurm's clients abbreviate numbers by 1024 (convert_num_unit), counts as well as bytes."""


def whole_number(text: str) -> int | None:
    """The number in up to fifteen digits; ``None`` for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else None


def count_or_missing(text: str) -> int:
    """The number of ``8`` or of ``1.5K``; ``MISSING`` for any other text."""
    if suffixed := _SUFFIXED.fullmatch(text):
        return round(float(suffixed[1]) * _SUFFIX[suffixed[2].upper()])
    return int(text) if _DIGITS.fullmatch(text) else MISSING


def count_of(text: str, otherwise: int = 0) -> int:
    """A count as the clients print it: ``8``, ``2-4`` (the least), ``1K``, ``4.0``.

    Any other text gives the default.
    """
    word = text.strip().partition("-")[0]
    if (count := count_or_missing(word)) != MISSING:
        return count
    try:
        return int(float(word))
    except (ValueError, OverflowError):
        return otherwise


def signed(text: str) -> int:
    """An integer with or without a sign; 0 for any other text."""
    number = whole_number(text.strip().removeprefix("-")) or 0
    return -number if text.strip().startswith("-") else number


def decimal(text: str) -> float:
    """The number in the text; 0 where there is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0
