"""Instants in Slurm's text: seconds since 1970, or ISO dates without a zone."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirage.errors import ConfigurationError, LineError, shown
from mirage.job_state import MISSING
from mirage.slurm_words.absent import is_absent
from mirage.slurm_words.numbers import whole_number

LATEST_S = 4_102_444_800
"""2100-01-01: no job of a trace is submitted, starts or ends later. A date beyond is a mistake, and would make every
step through the weeks of a trace an endless one."""

_MINUTE_END = 16
"""``2023-03-09T12:48`` has 16 characters."""


class LocalClock:
    """Reads local times of one zone as seconds since 1970-01-01 UTC.

    An hour that occurs twice, when summer time ends, is read as its first occurrence; one that never occurs
    is read with the offset that held before it.

    Args:
        timezone: A name of the IANA data base: ``UTC``, ``America/Chicago``.

    Raises:
        ConfigurationError: There is no such zone.
    """

    def __init__(self, timezone: str = "UTC") -> None:
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"there is no time zone {shown(timezone)}; use a name such as UTC or America/Chicago"
            ) from error
        self._minutes: dict[str, int] = {}

    def seconds(self, text: str) -> int:
        """Seconds since 1970 of an ISO time, with or without an offset, or of a bare integer.

        ``Unknown``, ``None`` and the empty string are ``MISSING``.

        Raises:
            LineError: The text is no time.
        """
        if text[4:5] == "-" and text[_MINUTE_END:17] == ":" and len(text) == 19:
            minute = self._minutes.get(text[:_MINUTE_END])
            second = text[17:]
            if minute is not None and second.isascii() and second.isdecimal() and second < "60":
                return minute + int(second)
        return self._uncached(text)

    def _uncached(self, text: str) -> int:
        word = text.strip()
        if is_absent(word):
            return MISSING
        if (instant_s := whole_number(word)) is not None:
            return instant_s or MISSING
        try:
            moment = datetime.fromisoformat(word)
            if moment.tzinfo is not None:
                return int(moment.timestamp())
            seconds = int(moment.replace(tzinfo=self._zone).timestamp())
        except (ValueError, OverflowError) as error:
            raise LineError("not a time", repr(text), "write it as 2023-03-09T12:48:05") from error
        if len(word) == 19:
            self._minutes[word[:_MINUTE_END]] = seconds - moment.second
        return seconds


def instant_s(text: str) -> int:
    """Seconds since 1970 of a number or an ISO time in this machine's zone.

    ``MISSING`` for none and for nonsense.
    """
    word = text.strip()
    if (number := whole_number(word)) is not None:
        return number or MISSING
    if is_absent(word):
        return MISSING
    try:
        return int(time.mktime(time.strptime(word[:19], "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return MISSING
