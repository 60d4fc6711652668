"""Cells of a CSV file as values of the job table.

They are instants, durations, counts, states and names, each with its units.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError, LineError
from mirage.job_state import MISSING
from mirage.slurm_words.absent import is_absent, text_of
from mirage.slurm_words.states import is_known_state, job_state
from mirage.slurm_words.time_limits import is_no_limit
from mirage.slurm_words.timestamps import LocalClock
from mirage.slurm_words.tres import memory_mib, tres_count, tres_gpus, tres_memory_mib
from mirage.slurm_words.unicode import valid_unicode

Value = int | str
ReadCell = Callable[[str], Value]

WAIT = "wait_s"
INSTANTS = ("submit_s", "eligible_s", "start_s", "end_s")
DURATIONS = ("elapsed_s", "limit_s", WAIT)
COUNTS = ("nodes", "gpus", "cpus", "priority")
MEMORY = "memory_mib"

UNITS: dict[str, float] = {"ms": 1e-3, "s": 1, "min": MINUTE_S, "h": HOUR_S, "d": DAY_S}
"""Seconds of a unit."""

MEMORY_UNITS: dict[str, float] = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024, "TiB": 1024**2}
"""MiB of a unit."""

CLOCK = "slurm"
"""The unit of a duration in Slurm's form, in which a bare number counts minutes."""

RESOURCES = "tres"
"""The unit of a count in a list of Slurm's: ``cpu=4,gres/gpu=2,node=1``."""

_NUMBER = re.compile(r"[-+]?(?:\d{1,18}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,2})?", re.ASCII)
_DAYS_AND_CLOCK = re.compile(r"(\d{1,6}) days? (?:\+?)(\d{1,2}:\d{2}:\d{2})(?:\.\d+)?", re.ASCII)
_ZONE = re.compile(r"(?:[zZ]|[-+]\d\d:?(?:\d\d)?(?::?\d\d)?)$")
_WITHOUT_ZONE = len("2021-05-01T12")
_REMEMBERED = 1 << 14
"""Cells of a column with cached values."""

_LARGEST = 10**15
_NO_LIMIT = ("unlimited", "infinite")
_EMPTY = frozenset({"nat", "nan", "na", "<na>"})
"""Words of pandas and R for a missing value."""

_TRES = re.compile(r"[a-z][\w/:.-]*=[^,=]+(,[a-z][\w/:.-]*=[^,=]+)*,?", re.IGNORECASE)


def check_unit(target: str, unit: str) -> None:
    """Reject a unit that a column of the job table cannot have.

    Raises:
        ConfigurationError: The column has no such unit, or a form of it has no date.
    """
    if target in INSTANTS and "%" in unit:
        if not _reads_dates(unit):
            raise ConfigurationError(f"{target}: the form {unit} reads no whole date; write one as %d.%m.%Y %H:%M")
        return
    if not unit or unit in _units_of(target):
        return
    known = ", ".join(_units_of(target)) or "no unit"
    also = ", or a form as %d.%m.%Y %H:%M" if target in INSTANTS else ""
    raise ConfigurationError(f"{target} has no unit {unit!r}; it takes {known}{also}")


def _reads_dates(form: str) -> bool:
    day = datetime(2001, 2, 13, tzinfo=UTC)
    try:
        return datetime.strptime(day.strftime(form), form).date() == day.date()
    except ValueError:
        return False


def _units_of(target: str) -> tuple[str, ...]:
    if target in INSTANTS:
        return tuple(UNITS)
    if target in DURATIONS:
        return (*UNITS, CLOCK)
    if target == MEMORY:
        return (*MEMORY_UNITS, RESOURCES)
    return (RESOURCES,) if target in COUNTS and target != "priority" else ()


def cell_reader(target: str, unit: str, clock: LocalClock, local: Callable[[], None]) -> ReadCell:
    """Returns the function that reads the cells of a column.

    Args:
        clock: Reads times without a zone.
        local: Called for each of those.
    """
    if target in INSTANTS:
        return _formatted(unit, clock, local) if "%" in unit else _instant(UNITS.get(unit, 1), clock, local)
    if target == "job_id":
        return _job_id
    return lru_cache(_REMEMBERED)(_repetitive(target, unit))


def _repetitive(target: str, unit: str) -> ReadCell:
    """Returns the function that reads the cells of a column with many repeated values."""
    if target in DURATIONS:
        return _clock_form if unit == CLOCK else _duration(UNITS.get(unit, 1))
    if target == MEMORY and unit != RESOURCES:
        return _memory(MEMORY_UNITS.get(unit, 1))
    if target in (*COUNTS, MEMORY):
        return _resource(target) if unit == RESOURCES else _count
    if target == "state":
        return _state
    return _name if target == "name" else text_of


def _is_empty(word: str) -> bool:
    """Whether a cell without blanks around it gives no value."""
    return is_absent(word) or word.lower() in _EMPTY


def _instant(unit_s: float, clock: LocalClock, local: Callable[[], None]) -> ReadCell:
    def read(cell: str) -> int:
        word = cell.strip()
        if word[4:5] != "-":
            if (number := _number(word)) is not None:
                return _scaled(number, unit_s, cell)
            if _is_empty(word):
                return MISSING
        instant_s = clock.seconds(word)
        if len(word) <= _WITHOUT_ZONE or _ZONE.search(word, 10) is None:
            local()
        return instant_s

    return read


def _formatted(form: str, clock: LocalClock, local: Callable[[], None]) -> ReadCell:
    def read(cell: str) -> int:
        word = cell.strip()
        if _is_empty(word):
            return MISSING
        try:
            moment = datetime.strptime(word, form)
        except ValueError as error:
            raise LineError("not a time", repr(cell), f"expected the form {form}") from error
        if moment.tzinfo is not None:
            return int(moment.timestamp())
        local()
        return clock.seconds(moment.isoformat(timespec="seconds"))

    return read


def _duration(unit_s: float) -> ReadCell:
    def read(cell: str) -> int:
        word = cell.strip()
        if (number := _number(word)) is not None:
            return _scaled(number, unit_s, cell)
        if word.lower() in _EMPTY or is_no_limit(word):
            return MISSING
        if ":" not in word and word.lower() not in _NO_LIMIT:
            raise LineError("not a duration", repr(cell), "expected a number (1.5), or days-hours:minutes:seconds")
        return _clock_form(cell)

    return read


def _clock_form(cell: str) -> int:
    """Reads a duration as Slurm writes it, or as pandas does: ``3 days 00:00:00``."""
    word = cell.strip()
    if "." in word and (minutes := _number(word)) is not None:
        return _scaled(minutes, MINUTE_S, cell)
    if word.lower() in _EMPTY or is_no_limit(word):
        return MISSING
    if found := _DAYS_AND_CLOCK.fullmatch(word):
        word = f"{found[1]}-{found[2]}"
    try:
        return min(parse_duration_s(word), UNLIMITED_S)
    except ConfigurationError as error:
        raise LineError("not a duration", repr(cell), "expected days-hours:minutes:seconds") from error


def _resource(target: str) -> ReadCell:
    def read(cell: str) -> int:
        word = cell.strip()
        if _is_empty(word):
            return MISSING
        if not _TRES.fullmatch(word):
            raise LineError("not a list of resources", repr(cell), "expected the form cpu=8,mem=16G,gres/gpu=2")
        if target == "gpus":
            return tres_gpus(word)
        if target == MEMORY:
            return tres_memory_mib(word)
        return tres_count(word, target.removesuffix("s"))

    return read


def _memory(unit_mib: float) -> ReadCell:
    def read(cell: str) -> int:
        word = cell.strip()
        if (number := _number(word)) is not None:
            return _scaled(number, unit_mib, cell)
        if _is_empty(word):
            return MISSING
        if (size := memory_mib(word)) == MISSING:
            raise LineError("not a size of memory", repr(cell), "expected a number, or a size as 16G")
        return size

    return read


def _count(cell: str) -> int:
    word = cell.strip()
    number = _number(word)
    if number is not None:
        if number != int(number):
            raise LineError("not a count", repr(cell), "expected a whole number")
        return _scaled(number, 1, cell)
    if _is_empty(word):
        return MISSING
    raise LineError("not a count", repr(cell), "expected a whole number")


def _state(cell: str) -> int:
    return int(job_state(cell))


@lru_cache(_REMEMBERED)
def is_unheard_state(cell: str) -> bool:
    """Whether a cell holds a word that is not a state of Slurm's."""
    return not is_known_state(cell)


def _job_id(cell: str) -> str:
    word = valid_unicode(cell.strip())
    if not word:
        raise LineError("no job id", repr(cell), "every job needs one, or leave job_id out to number the rows")
    return word


def _name(cell: str) -> str:
    return valid_unicode(cell)


def _number(word: str) -> float | None:
    """Returns a number; None for anything else, including ``nan``."""
    if not _NUMBER.fullmatch(word):
        return None
    return int(word) if word.isdecimal() else float(word)


def _scaled(number: float, unit_s: float, cell: str) -> int:
    """Returns a number in seconds, or MiB, rounded down; −1 means unknown.

    Raises:
        LineError: It is negative, or implausibly large.
    """
    if number == MISSING:
        return MISSING
    scaled = number * unit_s
    if scaled < 0:
        raise LineError("negative number", repr(cell), "leave out what is not known")
    if not scaled < _LARGEST:
        raise LineError("number out of range", repr(cell), "check the unit")
    return math.floor(scaled)
