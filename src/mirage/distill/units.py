"""Numbers in the text of a tree: ``6h``, ``1d 4h``, ``80 %``, ``12``; round numbers.

The text is exact: reading it gives the same float. Numbers are therefore rounded before a tree is final, not when it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from enum import StrEnum

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from mirage.errors import ConfigurationError, shown

FLAG_THRESHOLD = 0.5
"""Flags are 0 or 1, and this is between."""

EASY_STEPS = 50
"""A number is easy to read if it is fewer steps than this from zero: 48, 0.25, ``6h 30min``."""

MOST_DIGITS = 18
"""Decimals that the simplest number of an interval may have below its first digit; floats have no more."""

_UNIT_S = {"w": WEEK_S, "d": DAY_S, "h": HOUR_S, "min": MINUTE_S, "m": MINUTE_S, "s": 1}
_WRITTEN_S = (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S))
_ROUND_S = (
    *(days * DAY_S for days in (10, 5, 2, 1)),
    *(hours * HOUR_S for hours in (12, 6, 4, 2, 1)),
    *(minutes * MINUTE_S for minutes in (30, 15, 10, 5, 2, 1)),
    *(30, 10, 5, 2),
)
"""Step sizes of durations, in seconds; finer ones are decimal."""

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"
_PLAIN = re.compile(rf"[+-]?{_NUMBER}", re.ASCII)
_PER_CENT = re.compile(rf"([+-]?{_NUMBER})\s*%", re.ASCII)
_DURATION = re.compile(rf"([+-]?)({_NUMBER}\s*[a-z]+(?:\s+{_NUMBER}\s*[a-z]+)*)", re.ASCII)
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)", re.ASCII)


class Unit(StrEnum):
    """The unit of a number, which decides how it is written.

    Attributes:
        NUMBER: Nodes, jobs, any plain number.
        DURATION: Seconds, written as ``1d 4h``.
        SHARE: A part of one, written in per cent.
        FLAG: 0 or 1, written as ``if not weekend:``.
    """

    NUMBER = "number"
    DURATION = "duration"
    SHARE = "share"
    FLAG = "flag"


_FORMS = {
    Unit.NUMBER: "a number; write it as 12 or 0.5",
    Unit.FLAG: "a number; write it as 0 or 1",
    Unit.SHARE: "a share; write it in per cent, as 80 %",
    Unit.DURATION: "a duration; write it as 6h, 30min, 45s or 1d 4h",
}


def written(value: float, unit: Unit) -> str:
    """A finite number in its unit, so that ``number_of`` gives the same float."""
    exact = Decimal(repr(float(value)))
    if unit is Unit.SHARE:
        return f"{_decimal(exact * 100)} %"
    if unit is not Unit.DURATION:
        return _decimal(exact)
    size = abs(exact)
    if size >= 10**9:
        return f"{_decimal(exact)}s"
    parts, rest = [], size
    for name, seconds in _WRITTEN_S:
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{_decimal(count)}{name}")
    if rest or not parts:
        parts.append(f"{_decimal(rest)}s")
    return ("-" if exact < 0 else "") + " ".join(parts)


def _decimal(number: Decimal) -> str:
    """A decimal number without trailing zeros, with an exponent if very large or small."""
    short = number.normalize()
    return f"{short:f}" if not number or -7 < short.adjusted() < 16 else f"{short:e}"


def number_of(text: str, unit: Unit) -> float:
    """The number in a text of a unit.

    Raises:
        ConfigurationError: The text is not of this unit, or too large for a float.
    """
    value = _decimal_of(text.strip(), unit)
    if value is None or abs(number := float(value)) == float("inf"):
        raise ConfigurationError(f"{shown(text.strip())} is not {_FORMS[unit]}")
    return number


def _decimal_of(text: str, unit: Unit) -> Decimal | None:
    if unit is Unit.SHARE:
        share = _PER_CENT.fullmatch(text)
        return Decimal(share[1]) / 100 if share else None
    if unit is not Unit.DURATION:
        return Decimal(text) if _PLAIN.fullmatch(text) else None
    duration = _DURATION.fullmatch(text)
    if duration is None:
        return Decimal(0) if text == "0" else None
    parts = _PART.findall(duration[2])
    if any(name not in _UNIT_S for _, name in parts):
        return None
    size = sum((Decimal(count) * _UNIT_S[name] for count, name in parts), Decimal(0))
    return -size if duration[1] == "-" else size


def simplest(low: float, high: float, near: float, unit: Unit) -> tuple[float, bool]:
    """The simplest number t of low < t <= high; of equally simple ones the nearest to a wish.

    Args:
        low: Below every answer.
        high: Above low.
        near: The preferred value, the wish.
        unit: Decides what is simple: 6 h is 21,600 s.

    Returns:
        The number, and whether it is easy to read.
    """
    if unit is Unit.FLAG:
        return FLAG_THRESHOLD, True
    if low < 0 <= high:
        return 0.0, True
    bottom, top, wish = (Decimal(repr(float(value))) for value in (low, high, near))
    for step in _steps(max(abs(bottom), abs(top)), unit):
        least = (bottom / step).to_integral_value(ROUND_FLOOR) + 1
        most = (top / step).to_integral_value(ROUND_FLOOR)
        if least <= most:
            count = min(max((wish / step).to_integral_value(ROUND_HALF_UP), least), most)
            number = float(count * step)
            if low < number <= high:
                return number, abs(count) < EASY_STEPS
    return high, False


def _steps(size: Decimal, unit: Unit) -> Iterator[Decimal]:
    """Step sizes for numbers of a magnitude, the coarsest first."""
    first = size.adjusted() + 1
    if unit is Unit.DURATION:
        yield from (Decimal(step) for step in _ROUND_S if step <= 10 * size)
        first = min(first, 0)
    for exponent in range(first, first - MOST_DIGITS, -1):
        yield Decimal(1).scaleb(exponent)
        yield Decimal(5).scaleb(exponent - 1)
        yield Decimal(2).scaleb(exponent - 1)
