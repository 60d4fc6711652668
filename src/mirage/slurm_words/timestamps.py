"""Times in Slurm's text: seconds since 1970, or ISO dates without a zone."""

from __future__ import annotations

import re
import time
from datetime import datetime
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, WEEK_S
from mirage.errors import ConfigurationError, LineError, shown
from mirage.job_state import MISSING
from mirage.slurm_words.absent import is_absent
from mirage.slurm_words.numbers import whole_number

LATEST_S = 4_102_444_800
"""2100-01-01: no job of a trace is submitted, starts or ends later. A later date is an error, and would make every loop
over the weeks of a trace practically endless."""

_UNIT_S = {"second": 1, "minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S, "week": WEEK_S, "": 1}
_FROM_NOW = re.compile(r"now(?:\+(\d{1,9})([a-z]*?)s?)?")
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:z|[+-]\d\d:\d\d)?)?", re.ASCII)
_NAMED_HOURS = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}

_MINUTE_END = 16
"""``2023-03-09T12:48`` has 16 characters."""


class LocalClock:
    """Reads local times of one zone as seconds since 1970-01-01 UTC.

    An hour that occurs twice, when summer time ends, is read as its first occurrence; one that does not exist is read
    with the offset that was valid before it.

    Args:
        timezone: A name of the IANA database: ``UTC``, ``America/Chicago``.

    Raises:
        ConfigurationError: There is no such zone.
    """

    def __init__(self, timezone: str = "UTC") -> None:
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            near = get_close_matches(timezone, available_timezones(), n=1) if "/" in timezone else []
            names = near[0] if near else "UTC, America/Chicago or Asia/Kolkata: abbreviations have several meanings"
            raise ConfigurationError(f"there is no time zone {shown(timezone)}; use a name such as {names}") from error
        self._minutes: dict[str, int] = {}

    def seconds(self, text: str) -> int:
        """Seconds since 1970 of an ISO time, with or without an offset, or of a bare integer.

        ``Unknown``, ``None`` and the empty string are ``MISSING``.

        Raises:
            LineError: The text is not a time.
        """
        if text[4:5] == "-" and text[_MINUTE_END:17] == ":" and len(text) == 19:
            minute = self._minutes.get(text[:_MINUTE_END])
            second = text[17:]
            if minute is not None and second.isascii() and second.isdecimal() and second < "60":
                return minute + int(second)
        return self._uncached(text)

    def repeats(self, instant_s: int) -> bool:
        """Whether local clocks show the same time again an hour later, as summer time ends."""
        here, later = (datetime.fromtimestamp(instant_s + more, self._zone) for more in (0, HOUR_S))
        return here.replace(tzinfo=None) == later.replace(tzinfo=None)

    def with_elapsed(self, start_s: int, end_s: int, elapsed_s: int) -> tuple[int, int]:
        """A start and an end that differ by an hour of summer time, with the recorded run time.

        Local times do not tell the two hours apart that have the same name. Where the zone is not known, they do not
        show the change either.

        Args:
            start_s: As read.
            end_s: As read, an hour more or less than ``elapsed_s`` after the start.
            elapsed_s: The recorded run time.
        """
        if end_s - start_s > elapsed_s and self.repeats(start_s):
            return end_s - elapsed_s, end_s
        return start_s, start_s + elapsed_s

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

    ``MISSING`` for none and for any other text.
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


def next_instant_s(text: str, now_s: int) -> int:
    """Seconds since 1970 of a time as ``sbatch --begin`` takes it, in this machine's zone.

    ``now+2hours``, ``16:30`` (the next one), ``noon``, ``tomorrow``, ``2026-01-31``, ``2026-01-31T12:00:05``, also with
    an offset from UTC. The forms ``MMDDYY`` and ``MM/DD/YY`` are not read: their order differs between countries.

    Raises:
        ConfigurationError: It is none of these.
    """
    word = text.strip().lower()
    there = time.localtime(now_s)
    from_now = _FROM_NOW.fullmatch(word)
    if from_now is not None and (from_now[2] or "") in _UNIT_S:
        return now_s + int(from_now[1] or 0) * _UNIT_S[from_now[2] or ""]
    if word in ("today", "tomorrow"):
        return _local_s(there, int(word == "tomorrow"), 0, 0, 0)
    of_day = _TIME_OF_DAY.fullmatch(_NAMED_HOURS.get(word, word))
    if of_day is not None:
        hour, minute, second = (int(part or 0) for part in of_day.groups())
        if hour < 24 and minute < 60 and second < 60:
            today_s = _local_s(there, 0, hour, minute, second)
            return today_s if today_s >= now_s else _local_s(there, 1, hour, minute, second)
    try:
        if _DATE.fullmatch(word):
            return int(datetime.fromisoformat(word.upper()).timestamp())
    except (ValueError, OverflowError):
        pass
    raise ConfigurationError(
        f"{shown(text)} is not a time; write it as 2026-01-31T12:00, 2026-01-31, 16:30, tomorrow or now+3days"
    )


def _local_s(day: time.struct_time, later: int, hour: int, minute: int, second: int) -> int:
    """A time of a day, or of ``later`` days after it, in this machine's zone."""
    return int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday + later, hour, minute, second, 0, 0, -1)))
