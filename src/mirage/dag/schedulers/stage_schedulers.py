"""Schedulers of stages by name, built-in or from entry points.

The entry-point group is ``mirage.stage_schedulers``. A scheduler is written as its name and parameters: ``fair``,
``capped:0.25:1.5``. An entry point names a ``StageSchedulerSpec``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, shown
from mirage.registry import Registry, call_entry, load_entry, load_kernel, unusable


@dataclass(frozen=True, slots=True)
class StageScheduler:
    """A scheduler that can run.

    Attributes:
        name: As requested.
        decider: The compiled decision function (``mirage.dag.simulator.dag_arrays.DECIDER``).
        parameters: Its parameters, and memory for its values between decisions.
        seeded: Whether it decides at random; ``parameters[0]`` is then the seed.
        most_jobs: Number of jobs in the system that it considers, by arrival; None for all.
    """

    name: str
    decider: Callable[..., int]
    parameters: Floats
    seeded: bool = False
    most_jobs: int | None = None

    @property
    def entry(self) -> str:
        """``module:attribute`` of the decision function."""
        return f"{self.decider.__module__}:{self.decider.__qualname__}"

    def __reduce__(self) -> tuple[Callable[..., StageScheduler], tuple[Any, ...]]:
        """Pickles it by the name of its decision function: compiled code stays in its process.

        Raises:
            ConfigurationError: The function is not an attribute of a module.
        """
        module, _, name = self.entry.partition(":")
        if getattr(sys.modules.get(module), name, None) is not self.decider:
            raise ConfigurationError(
                f"the scheduler {self.name} uses {self.entry}, which another process cannot import; "
                "define the function at the top of a module, or use one process"
            )
        return _with_decider, (self.entry, self.name, self.parameters, self.seeded, self.most_jobs)

    def parameters_for(self, seed: int) -> Floats:
        """A copy of the parameters for an episode."""
        parameters = self.parameters.copy()
        if self.seeded:
            parameters[0] = seed
        return parameters


def _with_decider(entry: str, name: str, parameters: Floats, seeded: bool, most_jobs: int | None) -> StageScheduler:
    return StageScheduler(name, load_entry(entry), parameters, seeded, most_jobs)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A numeric parameter from ``least`` to ``most``; with ``whole`` an integer."""

    name: str
    default: float
    least: float
    most: float
    whole: bool = False

    def takes(self, number: float) -> bool:
        """Whether a number is valid for the parameter; NaN is not."""
        return self.least <= number <= self.most and not (self.whole and number != int(number))

    @property
    def range(self) -> str:
        """The valid values, for messages."""
        if self.whole and self.most - self.least == 1:
            return f"{self.least:g} or {self.most:g}"
        return f"a {'whole ' if self.whole else ''}number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class StageSchedulerSpec:
    """The declaration of a scheduler.

    Attributes:
        entry: ``module:attribute`` of the decision function; with ``makes``, of a function that makes a scheduler from
            its whole name and the list of its parameters as text.
        summary: One line for menus.
        parameters: What may follow its name.
        makes: Whether the entry makes the scheduler.
        work_conserving: Whether it lets no executor become idle while a stage may be picked.
    """

    entry: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    makes: bool = False
    work_conserving: bool = True

    def load(self) -> Callable[..., Any]:
        """Imports the object that ``entry`` refers to.

        Raises:
            ConfigurationError: It cannot be imported, or is not compiled with the signature of a scheduler.
        """
        from mirage.dag.simulator.dag_arrays import DECIDER

        if self.makes:
            made: Callable[..., Any] = load_entry(self.entry)
            return made
        return load_kernel(self.entry, DECIDER, "@kernel(DECIDER)")

    def make(self, text: str, given: Sequence[str] = ()) -> StageScheduler:
        """Makes the scheduler.

        Args:
            text: Its name and parameters, as requested.
            given: The parameters, as text.

        Raises:
            ConfigurationError: A parameter is invalid, or the scheduler cannot be loaded.
        """
        if not self.makes:
            return StageScheduler(text, self.load(), _numbers(text, given, self.parameters))
        made = call_entry(self.entry, text, list(given))
        if not isinstance(made, StageScheduler):
            raise unusable(self.entry, f"makes {shown(made)} of {shown(text)}, not a StageScheduler")
        return made


TREE = "tree"
"""The scheduler that a file stands for; its first parameter is the path."""

_HERE, _TEACHERS = "mirage.dag.schedulers", "mirage.dag.decima.decima_schedulers"
_A, _B = Parameter("a", 0.25, -4, 4), Parameter("b", 1.5, 0.01, 100)
_SHARE = Parameter("share", 1, 0.01, 1)
SCHEDULERS: dict[str, StageSchedulerSpec] = {
    "fifo": StageSchedulerSpec(
        f"{_HERE}.fifo:fifo",
        "first come, first served; fifo:1 takes stages by number",
        (Parameter("by-number", 0, 0, 1, whole=True),),
    ),
    "fair": StageSchedulerSpec(
        f"{_HERE}.fair:fair",
        "equal shares of the jobs that want executors; fair:1 of all jobs in the system",
        (Parameter("all", 0, 0, 1, whole=True),),
        work_conserving=False,
    ),
    "weighted-fair": StageSchedulerSpec(
        f"{_HERE}.weighted_fair:weighted_fair",
        "shares by a power of total work; 1 is naive, the best one is tuned",
        (Parameter("exponent", 1, -4, 4),),
    ),
    "sjf": StageSchedulerSpec(
        f"{_HERE}.sjf:sjf", "least remaining work first, up to a share of the executors", (_SHARE,)
    ),
    "sjf-critical-path": StageSchedulerSpec(
        f"{_HERE}.sjf:sjf_critical_path", "sjf with stages by the longest path to the job's end", (_SHARE,)
    ),
    "critical-path": StageSchedulerSpec(
        f"{_HERE}.critical_path:critical_path", "the stage with the longest path to its job's end first, of all jobs"
    ),
    "critical-path-local": StageSchedulerSpec(
        f"{_HERE}.critical_path:critical_path_local",
        "critical-path, but executors stay at their job, and stages that cannot start are skipped while others can",
    ),
    "equal-finish": StageSchedulerSpec(
        f"{_HERE}.equal_finish:equal_finish",
        "shares with which all jobs would end together; equal-finish:1 serves those first that would end last",
        (Parameter("longest first", 0, 0, 1, whole=True),),
    ),
    "capped": StageSchedulerSpec(
        f"{_HERE}.capped:capped", "least remaining work first, up to a cap by remaining work: P(a, b)", (_A, _B)
    ),
    "capped-by-load": StageSchedulerSpec(
        f"{_HERE}.capped:capped_by_load",
        "P(a, b), and another P(a, b) above a number of jobs per executor",
        (_A, _B, Parameter("busy a", 0, -4, 4), Parameter("busy b", 3, 0.01, 100), Parameter("jobs", 0.3, 0, 1e6)),
    ),
    "decima": StageSchedulerSpec(
        f"{_TEACHERS}:decima",
        "a deep network with the weights in a file: decima:FILE; draws its decisions",
        makes=True,
        work_conserving=False,
    ),
    "decima-argmax": StageSchedulerSpec(
        f"{_TEACHERS}:decima_argmax",
        "decima with its most likely decision: decima-argmax:FILE",
        makes=True,
        work_conserving=False,
    ),
    TREE: StageSchedulerSpec(
        "mirage.dag.distilled.tree_policy:make_tree",
        "a small tree that people read and edit; the path of a tree's file works too",
        makes=True,
        work_conserving=False,
    ),
}
"""Name → specification."""

_REGISTRY = Registry(
    "scheduler of stages",
    "mirage.stage_schedulers",
    SCHEDULERS,
    lambda _, found: found if isinstance(found, StageSchedulerSpec) else None,
    "a StageSchedulerSpec",
)


def known_schedulers() -> tuple[str, ...]:
    """Names of all schedulers, built-in or from installed packages; imports nothing."""
    return _REGISTRY.names()


def scheduler_spec(name: str) -> StageSchedulerSpec:
    """Finds a scheduler by its name without parameters.

    Raises:
        UnknownName: No scheduler has that name.
        ConfigurationError: Two packages register the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)


def make_scheduler(text: str) -> StageScheduler:
    """Makes a scheduler from its name and parameters, as ``capped:0.25:1.5``.

    The path of a file is that of a tree.

    Raises:
        UnknownName: No scheduler has that name.
        ConfigurationError: A parameter is invalid, or there is no such file.
    """
    name, *given = text.split(":")
    if name not in known_schedulers():
        if Path(text).is_file():
            name, given = TREE, [text]
        elif os.sep in name or name.endswith(".txt"):
            raise ConfigurationError(
                f"there is no file {text}; name a tree's file, or one of {', '.join(known_schedulers())}"
            )
    spec = scheduler_spec(name)
    return spec.make(text, given)


def _numbers(text: str, given: Sequence[str], parameters: Sequence[Parameter]) -> Floats:
    if len(given) > len(parameters):
        takes = ":".join(parameter.name.upper() for parameter in parameters)
        raise ConfigurationError(
            f"{shown(text)} has {len(given)} parameters; the scheduler takes {takes if takes else 'none'}"
        )
    numbers = np.array([parameter.default for parameter in parameters] or [0.0], dtype=np.float64)
    for place, (word, parameter) in enumerate(zip(given, parameters)):
        try:
            numbers[place] = float(word)
        except ValueError:
            numbers[place] = np.nan
        if not parameter.takes(float(numbers[place])):
            raise ConfigurationError(
                f"{shown(word)} cannot be the parameter {parameter.name!r} of {shown(text)}; give {parameter.range}"
            )
    return numbers
