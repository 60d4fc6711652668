"""The executor rule beside a tree: how many executors a stage gets, in a few numbers that are settings of the tree.

A job may hold at most ``cap = max(1, ceil(factor x N x W^power / sum of W^power))`` executors, where W is its work, N
the executors of the cluster, and the sum is over jobs that want executors: power 0 gives all the same, 1 gives each
what its work asks for, and a negative one prefers the small. The numbers are other ones where the system is crowded::

    settings:
        crowded_from: 40 %          # jobs per executor
        cap: 0.25 1.5               # power, factor
        most: 80 %                  # of all executors, for any job
        keep: 120 %                 # of its cap, for the job whose executors these are
        new: 80 %                   # of its cap, for a job that has no executor
        tasks_each: 1               # tasks that a stage has at least for each executor that it is given
        early: 100 %                # of its job's room, for a stage whose tasks cannot start yet
        crowded_cap: 0 2
        spare: yes                  # where no job has room under its cap, the cap is N
        even: yes                   # no more executors than it takes to end the stage in as many rounds of tasks
        work: usual                 # tasks not started x the usual duration of each; last: x that of the last one
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from mirage.distill.units import Unit, number_of, written
from mirage.errors import ConfigurationError, UnknownName, shown

YES, NO = "yes", "no"

USUAL, LAST = "usual", "last"

_UNITS = {
    "most": Unit.SHARE,
    "keep": Unit.SHARE,
    "new": Unit.SHARE,
    "tasks_each": Unit.NUMBER,
    "early": Unit.SHARE,
}


@dataclass(frozen=True, slots=True)
class Cap:
    """How many executors jobs and stages get at a load.

    Attributes:
        power: Of a job's work, by which shares are given.
        factor: By which the shares of all jobs together exceed the executors.
        most: Part of all executors that any job may hold.
        keep: What the cap of the job is multiplied by whose executors these are.
        new: What the cap of a job is multiplied by that has no executor.
        tasks_each: Tasks that a stage has at least for each executor that it is given.
        early: Part of its job's room that a stage gets whose tasks cannot start yet.
    """

    power: float = 0.0
    factor: float = 1000.0
    most: float = 1.0
    keep: float = 1.0
    new: float = 1.0
    tasks_each: float = 1.0
    early: float = 1.0

    def __post_init__(self) -> None:
        if not -4 <= self.power <= 4 or not 0 < self.factor <= 1000:
            raise ConfigurationError(
                f"the cap has the power {self.power} and the factor {self.factor}; give a power from -4 to 4 and a "
                "factor above 0 and up to 1000"
            )
        if not 0 < self.most <= 1 or not 0.1 <= self.keep <= 10:
            raise ConfigurationError(
                f"most is {self.most} and keep is {self.keep}; give a share above 0 %, and from 10 % to 1000 %"
            )
        if not 0.1 <= self.new <= 10:
            raise ConfigurationError(f"new is {self.new}; give a share from 10 % to 1000 %")
        if not 0 < self.tasks_each <= 1000 or not 0 <= self.early <= 1:
            raise ConfigurationError(
                f"tasks_each is {self.tasks_each} and early is {self.early}; give up to 1000 tasks, and a share"
            )


@dataclass(frozen=True, slots=True)
class ExecutorRule:
    """The rule beside a tree.

    Attributes:
        crowded_from: Jobs per executor from which on the system is crowded; infinity for never.
        quiet: The cap below that.
        crowded: The cap from there on.
        spare: Whether the cap is lifted where no candidate has room under it.
        even: Whether a stage gets no more executors than it takes to end it in as many rounds of tasks.
        usual: Whether work is told by the usual durations of tasks, and not by the last one of each stage.
    """

    crowded_from: float = math.inf
    quiet: Cap = Cap()
    crowded: Cap = Cap()
    spare: bool = True
    even: bool = False
    usual: bool = False

    def __post_init__(self) -> None:
        if not self.crowded_from >= 0:
            raise ConfigurationError(
                f"crowded_from is {written(self.crowded_from, Unit.SHARE)}; give a share from 0 %: jobs per executor"
            )

    def settings(self) -> tuple[tuple[str, str], ...]:
        """The rule as settings of a tree; ``rule_of`` reads them."""
        return tuple(self._settings())

    def _settings(self) -> Iterator[tuple[str, str]]:
        parts = [("", self.quiet)]
        if self.crowded_from < math.inf:
            yield "crowded_from", written(self.crowded_from, Unit.SHARE)
            parts.append(("crowded_", self.crowded))
        for prefix, cap in parts:
            yield f"{prefix}cap", f"{written(cap.power, Unit.NUMBER)} {written(cap.factor, Unit.NUMBER)}"
            for key, unit in _UNITS.items():
                yield f"{prefix}{key}", written(getattr(cap, key), unit)
        yield "spare", YES if self.spare else NO
        yield "even", YES if self.even else NO
        yield "work", USUAL if self.usual else LAST


_CAP_KEYS = tuple(f"{prefix}{key}" for prefix in ("", "crowded_") for key in ("cap", *_UNITS))

KEYS = ("crowded_from", *_CAP_KEYS, "spare", "even", "work")
"""Settings that are known."""


def rule_of(settings: Mapping[str, str]) -> ExecutorRule:
    """The rule that the settings of a tree tell; what they do not tell is no limit.

    Raises:
        UnknownName: A setting means nothing here.
        ConfigurationError: One is no number, or out of its range.
    """
    for key in settings:
        if key not in KEYS:
            raise UnknownName("setting", key, KEYS)
    crowded_from = settings.get("crowded_from")
    if crowded_from is None:
        for key in settings:
            if key.startswith("crowded_"):
                raise ConfigurationError(f"the setting {key} means nothing without crowded_from; add or remove one")
    return ExecutorRule(
        math.inf if crowded_from is None else _number("crowded_from", crowded_from, Unit.SHARE),
        _cap(settings, ""),
        _cap(settings, "crowded_"),
        _is_first(settings, "spare", YES, NO, default=YES),
        _is_first(settings, "even", YES, NO, default=NO),
        _is_first(settings, "work", USUAL, LAST, default=LAST),
    )


def _is_first(settings: Mapping[str, str], key: str, first: str, second: str, *, default: str) -> bool:
    text = settings.get(key, default)
    if text not in (first, second):
        raise ConfigurationError(f"the setting {key} is {shown(text)}; write {first} or {second}")
    return text == first


def _cap(settings: Mapping[str, str], prefix: str) -> Cap:
    told: dict[str, float] = {}
    if (text := settings.get(f"{prefix}cap")) is not None:
        words = text.split()
        if len(words) != 2:
            raise ConfigurationError(f"the setting {prefix}cap is {shown(text)}; write a power and a factor: 0.25 1.5")
        told["power"], told["factor"] = (_number(f"{prefix}cap", word, Unit.NUMBER) for word in words)
    for key, unit in _UNITS.items():
        if (text := settings.get(f"{prefix}{key}")) is not None:
            told[key] = _number(f"{prefix}{key}", text, unit)
    return Cap(**{field.name: told[field.name] for field in fields(Cap) if field.name in told})


def _number(key: str, text: str, unit: Unit) -> float:
    try:
        return number_of(text, unit)
    except ConfigurationError as error:
        raise ConfigurationError(f"the setting {key}: {error}") from error
