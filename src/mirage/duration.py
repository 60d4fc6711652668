"""Durations in Slurm's form, ``[days-]hours:minutes:seconds``.

Slurm reads a bare number as *minutes* and ``a:b`` as minutes:seconds. After days, ``d-h`` and ``d-h:m`` are hours and
minutes (sbatch(1), ``--time``). The suffixes ``s m h d w`` are an extension of Mirage, for options that are not
sbatch's.
"""

from __future__ import annotations

import re

from mirage.errors import ConfigurationError, shown

UNLIMITED_S = 2**40
"""No time limit: about 35,000 years in seconds, and still safe to add to a date."""

MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60, 3_600, 86_400, 604_800

_SUFFIX_S = {"s": 1, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": WEEK_S}
_SUFFIXED = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d+)?", re.ASCII)
_UNLIMITED = frozenset({"unlimited", "infinite", "-1"})


def parse_duration_s(text: str) -> int:
    """Returns the seconds of a duration in Slurm's form or with a unit (``90m``, ``1.5h``).

    A duration of ``UNLIMITED_S`` or more means no limit.

    Args:
        text: ``2-00:00:00``, ``48:00:00``, ``30`` (minutes), ``2-12``, ``4h``, ``2d``, ``UNLIMITED``.

    Raises:
        ConfigurationError: The text is not a duration.
    """
    word = text.strip().lower()
    if word in _UNLIMITED:
        return UNLIMITED_S
    if suffixed := _SUFFIXED.fullmatch(word):
        return min(round(float(suffixed[1]) * _SUFFIX_S[suffixed[2]]), UNLIMITED_S)
    clock = _CLOCK.fullmatch(word)
    if clock is None:
        raise ConfigurationError(
            f"{shown(text)} is no duration; write it as Slurm does (2-00:00:00, 48:00:00, 30:00) "
            "or with a unit (90m, 4h, 2d)"
        )
    days, first, second, third = (int(part) if part else 0 for part in clock.groups())
    if clock[1] is not None or clock[4] is not None:
        return min(days * DAY_S + first * HOUR_S + second * MINUTE_S + third, UNLIMITED_S)
    return first * MINUTE_S + second


def parse_limit_s(text: str) -> int:
    """Returns the seconds of a job's time limit; 0 means no limit, as in sbatch.

    Args:
        text: A duration in the forms that ``parse_duration_s`` accepts.

    Raises:
        ConfigurationError: The text is not a duration.
    """
    return parse_duration_s(text) or UNLIMITED_S


def format_duration(seconds: int) -> str:
    """Returns a duration as Slurm prints it: ``2-00:00:00``, ``04:30:00``, ``UNLIMITED``."""
    if seconds >= UNLIMITED_S:
        return "UNLIMITED"
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    days, rest = divmod(int(rest), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, secs = divmod(rest, MINUTE_S)
    clock = f"{hours:02d}:{minutes:02d}:{secs:02d}"
    return f"{sign}{days}-{clock}" if days else f"{sign}{clock}"
