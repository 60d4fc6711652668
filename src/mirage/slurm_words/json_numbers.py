"""Numbers in Slurm's JSON: plain, as text, null, or with ``set`` and ``infinite``.

Slurm stores "no value" as the second largest and "infinite" as the largest number of a field's width (slurm.h:
``NO_VAL16`` 0xfffe, ``INFINITE16`` 0xffff, ``NO_VAL`` 0xfffffffe, ``INFINITE`` 0xffffffff, ``NO_VAL64`` and
``INFINITE64`` likewise), and old versions print these numbers. 65534 is an ordinary number in a field of 32 bits, so a
reader gives the width of its field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm_words.numbers import whole_number

_WIDTHS = (16, 32, 64)
_NO_NUMBERS = (math.inf, -math.inf)
_LARGEST = 2**40
"""Numbers from here on are errors, both for seconds and for counts."""


def json_number(value: Any, *, infinite: int = UNLIMITED_S, bits: int = 32) -> float:
    """A number in any of Slurm's forms; ``MISSING`` where there is none.

    There is none if it is unset, null, NO_VAL or negative.

    Args:
        value: ``5``, ``"5"``, ``null`` or ``{"set": true, "infinite": false, "number": 5}``.
        infinite: Returned where Slurm reports the number as infinite.
        bits: The width of the field in Slurm; the largest numbers of this and greater widths have their own meaning.

    Raises:
        ValueError: It is none of these, or larger than any number in Slurm.
    """
    if isinstance(value, Mapping):
        if value.get("infinite") is True:
            return infinite
        inner = value.get("number") if value.get("set") else None
        if isinstance(inner, Mapping):
            raise ValueError(f"{value!r} is not a number")
        return json_number(inner, infinite=infinite, bits=bits)
    if value is None or value == "":
        return MISSING
    number = whole_number(value.strip()) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or number in _NO_NUMBERS or number != number:
        raise ValueError(f"{value!r} is not a number")
    widths = [2**width for width in _WIDTHS if width >= bits]
    if any(number == width - 1 for width in widths):
        return infinite
    if number < 0 or any(number == width - 2 for width in widths):
        return MISSING
    if number >= _LARGEST:
        raise ValueError("the number is larger than any number in Slurm")
    return number


def number_or(value: Any, otherwise: float = MISSING, *, bits: int = 32) -> float:
    """The number, or a default where none can be read."""
    try:
        number = json_number(value, bits=bits)
    except (ValueError, OverflowError):
        return otherwise
    return otherwise if number == MISSING else number
