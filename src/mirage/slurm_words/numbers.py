"""Whole numbers in the text of a trace, where anything may stand instead."""

from __future__ import annotations

import re

from mirage.job_state import MISSING

_DIGITS = re.compile(r"[0-9]{1,15}")
"""Longer numbers are mistakes, and would not survive a multiplication in 64 bits."""


def whole_number(text: str) -> int | None:
    """The number that up to fifteen digits make, ``None`` for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else None


def count_or_missing(text: str) -> int:
    """The number that the digits make, ``MISSING`` for any other text."""
    return int(text) if _DIGITS.fullmatch(text) else MISSING
