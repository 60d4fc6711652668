"""The executor rule of a tree: the number of executors for a stage, set in the tree.

A job may hold at most ``cap = max(1, ceil(factor x N x W^power / sum of W^power))`` executors, where W is its work, N
the executors of the cluster, and the sum is over jobs that want executors: power 0 gives equal shares, 1 shares in
proportion to work, and a negative one prefers small jobs. Where the system is crowded other numbers hold, and
others again from ``crowded2_from`` on, from ``crowded3_from`` on, and so on::

    settings:
        crowded_from: 40 %          # jobs per executor
        crowded2_from: 150 %
        cap: 0.25 1.5               # power, factor
        most: 80 %                  # of all executors, for any job
        keep: 120 %                 # of its cap, for the job that releases these executors
        new: 80 %                   # of its cap, for a job that has no executor
        tasks_each: 1               # least number of tasks of a stage per executor that it gets
        early: 100 %                # of its job's room, for a stage with tasks that cannot start yet
        crowded_cap: 0 2
        crowded2_cap: 0 4
        spare: yes                  # if no job is below its cap, the cap is N
        even: yes                   # no more executors than it takes to end the stage in as many rounds of tasks
        work: usual                 # unstarted tasks x the usual duration of each; last: x that of the last one
        crowded2_even: no           # these three hold at each load without a value of its own

A number that is not set for a load is no limit there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from mirage.distill.units import Unit, number_of, written
from mirage.errors import ConfigurationError, UnknownName, shown

_UNITS = {
    "most": Unit.SHARE,
    "keep": Unit.SHARE,
    "new": Unit.SHARE,
    "tasks_each": Unit.NUMBER,
    "early": Unit.SHARE,
}

_FIELDS = {"keep": "source_share"}
"""Fields of ``Cap`` whose setting has another name."""

_WORDS = {"spare": ("yes", "no"), "even": ("yes", "no"), "work": ("usual", "last")}
"""The texts of these settings: where it holds, and where it does not."""

MOST_LOADS = 8
"""Largest number of load ranges of a rule; more are hard to read."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The numbers of executors for jobs and stages at a load.

    Attributes:
        power: Exponent of a job's work in its share.
        factor: Ratio of the sum of all shares to the executors.
        most: Part of all executors that any job may hold.
        source_share: Multiplies the cap of the job that releases these executors.
        new: Multiplies the cap of a job that has no executor.
        tasks_each: Least number of tasks of a stage per executor that it gets.
        early: Part of its job's room for a stage with tasks that cannot start yet.
        spare: Whether the cap is lifted if no candidate's job is below it.
        even: Whether a stage gets no more executors than it takes to end it in as many rounds of tasks.
        usual: Whether work uses the usual durations of tasks, instead of the last one of each stage.
    """

    power: float = 0.0
    factor: float = 1000.0
    most: float = 1.0
    source_share: float = 1.0
    new: float = 1.0
    tasks_each: float = 1.0
    early: float = 1.0
    spare: bool = True
    even: bool = False
    usual: bool = False

    def __post_init__(self) -> None:
        if not -4 <= self.power <= 4 or not 0 < self.factor <= 1000:
            raise ConfigurationError(
                f"the cap has the power {self.power} and the factor {self.factor}; give a power from -4 to 4 and a "
                "factor above 0 and up to 1000"
            )
        if not 0 < self.most <= 1 or not 0.1 <= self.source_share <= 10:
            raise ConfigurationError(
                f"most is {self.most} and keep is {self.source_share}; give a share above 0 %, and from 10 % to 1000 %"
            )
        if not 0.1 <= self.new <= 10:
            raise ConfigurationError(f"new is {self.new}; give a share from 10 % to 1000 %")
        if not 0 < self.tasks_each <= 1000 or not 0 <= self.early <= 1:
            raise ConfigurationError(
                f"tasks_each is {self.tasks_each} and early is {self.early}; give up to 1000 tasks, and a share"
            )


@dataclass(frozen=True, slots=True)
class ExecutorRule:
    """The executor rule of a tree.

    Attributes:
        quiet: The cap below the first of these loads.
        crowded: Pairs of a load in jobs per executor and the cap from there on, by load.
    """

    quiet: Cap = Cap()
    crowded: tuple[tuple[float, Cap], ...] = ()

    def __post_init__(self) -> None:
        if len(self.crowded) >= MOST_LOADS:
            raise ConfigurationError(f"the rule has {len(self.crowded) + 1} ranges of load; give up to {MOST_LOADS}")
        before = -math.inf
        for number, (load, _) in enumerate(self.crowded, start=1):
            given = f"{_prefix(number)}from is {written(load, Unit.SHARE)}"
            if not load >= 0:
                raise ConfigurationError(f"{given}; give a share from 0 %: jobs per executor")
            if load <= before:
                least = f"{_prefix(number - 1)}from, {written(before, Unit.SHARE)}"
                raise ConfigurationError(f"{given}; give a share above {least}")
            before = load

    @property
    def ranges(self) -> tuple[tuple[float, float, Cap], ...]:
        """Each cap with its range of loads: lower end, upper end (exclusive), cap."""
        loads = [load for load, _ in self.crowded]
        caps = [self.quiet, *(cap for _, cap in self.crowded)]
        return tuple(zip([-math.inf, *loads], [*loads, math.inf], caps, strict=True))

    def settings(self) -> tuple[tuple[str, str], ...]:
        """The rule as settings of a tree, in the form that ``rule_of`` reads."""
        return tuple(self._settings())

    def _settings(self) -> Iterator[tuple[str, str]]:
        for number, (load, _) in enumerate(self.crowded, start=1):
            yield f"{_prefix(number)}from", written(load, Unit.SHARE)
        for number, (_, _, cap) in enumerate(self.ranges):
            yield f"{_prefix(number)}cap", f"{written(cap.power, Unit.NUMBER)} {written(cap.factor, Unit.NUMBER)}"
            for key, unit in _UNITS.items():
                yield f"{_prefix(number)}{key}", written(getattr(cap, _field(key)), unit)
        yield from _word_settings(self.quiet).items()
        for number, (_, cap) in enumerate(self.crowded, start=1):
            for key, text in _word_settings(cap).items():
                if text != _word_settings(self.quiet)[key]:
                    yield f"{_prefix(number)}{key}", text


def _field(key: str) -> str:
    """The field of ``Cap`` that a setting gives."""
    return _FIELDS.get(key, key)


def _prefix(number: int) -> str:
    """The prefix of the settings of a range of load, counted from 0."""
    return "" if number == 0 else "crowded_" if number == 1 else f"crowded{number}_"


def _word_settings(cap: Cap) -> dict[str, str]:
    """The settings of a cap that are words."""
    holds = (cap.spare, cap.even, cap.usual)
    return {key: words[0] if held else words[1] for (key, words), held in zip(_WORDS.items(), holds, strict=True)}


_CAP_KEYS = ("cap", *_UNITS, *_WORDS)

KEYS = ("crowded_from", *(f"{_prefix(number)}{key}" for number in (0, 1) for key in _CAP_KEYS))
"""Known settings; those of further loads, ``crowded2_from`` and so on, come in addition."""

_NUMBERED = re.compile(r"crowded([2-9])?_(.+)", re.ASCII)


def rule_of(settings: Mapping[str, str]) -> ExecutorRule:
    """Reads the rule from the settings of a tree; absent numbers are no limit.

    Raises:
        UnknownName: A setting is unknown.
        ConfigurationError: A value is not a number, or out of its range.
    """
    loads: list[float] = []
    while (text := settings.get(f"{_prefix(len(loads) + 1)}from")) is not None:
        loads.append(_number(f"{_prefix(len(loads) + 1)}from", text, Unit.SHARE))
    for key in settings:
        numbered = _NUMBERED.fullmatch(key)
        if (numbered[2] if numbered else key) not in ((*_CAP_KEYS, "from") if numbered else _CAP_KEYS):
            raise UnknownName("setting", key, KEYS)
        if numbered and int(numbered[1] or 1) > len(loads):
            absent = f"{_prefix(len(loads) + 1)}from"
            raise ConfigurationError(f"the setting {key} has no effect without {absent}; add or remove one")
    return ExecutorRule(
        _cap(settings, ""), tuple((load, _cap(settings, _prefix(k))) for k, load in enumerate(loads, start=1))
    )


def _holds(settings: Mapping[str, str], prefix: str, key: str, default: str) -> bool:
    """Whether a word setting holds, at a load or, if absent there, in general."""
    yes, no = _WORDS[key]
    name = f"{prefix}{key}" if f"{prefix}{key}" in settings else key
    text = settings.get(name, default)
    if text not in (yes, no):
        raise ConfigurationError(f"the setting {name} is {shown(text)}; write {yes} or {no}")
    return text == yes


def _cap(settings: Mapping[str, str], prefix: str) -> Cap:
    given: dict[str, float] = {}
    if (text := settings.get(f"{prefix}cap")) is not None:
        words = text.split()
        if len(words) != 2:
            raise ConfigurationError(f"the setting {prefix}cap is {shown(text)}; write a power and a factor: 0.25 1.5")
        given["power"], given["factor"] = (_number(f"{prefix}cap", word, Unit.NUMBER) for word in words)
    for key, unit in _UNITS.items():
        if (text := settings.get(f"{prefix}{key}")) is not None:
            given[_field(key)] = _number(f"{prefix}{key}", text, unit)
    numbers = {field.name: given[field.name] for field in fields(Cap) if field.name in given}
    spare, even, usual = (_holds(settings, prefix, key, text) for key, text in _word_settings(Cap()).items())
    return Cap(**numbers, spare=spare, even=even, usual=usual)


def _number(key: str, text: str, unit: Unit) -> float:
    try:
        return number_of(text, unit)
    except ConfigurationError as error:
        raise ConfigurationError(f"the setting {key}: {error}") from error
