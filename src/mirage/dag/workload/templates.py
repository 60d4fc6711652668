"""Templates of jobs: a graph of stages, and measured durations of each stage's tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError

FRESH, FIRST, REST = range(3)
"""Waves: first task of an executor from elsewhere, of one new to the stage, and all others."""

LEVELS = (5, 10, 20, 40, 50, 60, 80, 100)
"""Numbers of executors with measured durations; between them one of both neighbours is drawn."""

Durations = Mapping[int, NDArray[np.int32]]
"""Measured durations in milliseconds, by the number of executors that the job had."""

LONGEST_MS = 10**9
"""Longest duration of one task: eleven days."""

MOST_TASKS = 10**6
"""Most tasks of one stage."""

_SHOWN = 16
"""Hexadecimal digits of a digest that are shown."""


@dataclass(frozen=True, slots=True, eq=False)
class StageProfile:
    """The measurements of a stage's tasks.

    Attributes:
        tasks: Their number in the stage.
        fresh_ms: First tasks of executors that came from elsewhere.
        first_ms: First tasks of executors that were at the job.
        rest_ms: All further tasks.

    Raises:
        ConfigurationError: There are no tasks, or a duration is impossible.
    """

    tasks: int
    fresh_ms: Durations
    first_ms: Durations
    rest_ms: Durations

    def __post_init__(self) -> None:
        if not 1 <= self.tasks <= MOST_TASKS:
            raise ConfigurationError(f"a stage of {self.tasks} tasks is impossible; it has 1 to {MOST_TASKS:,}")
        for wave in (self.fresh_ms, self.first_ms, self.rest_ms):
            for measured in wave.values():
                wrong = measured[(measured < 1) | (measured > LONGEST_MS)]
                if len(wrong):
                    raise ConfigurationError(f"a task of {wrong[0]} ms is impossible; it lasts 1 to {LONGEST_MS:,} ms")

    @property
    def rough_ms(self) -> float:
        """The mean over all measurements."""
        everything = [*self.fresh_ms.values(), *self.first_ms.values(), *self.rest_ms.values()]
        return float(np.concatenate(everything).mean())

    def measured(self, wave: int, executors: int, warm_up_ms: int) -> tuple[NDArray[np.int32], int]:
        """Durations of a wave at one of the ``LEVELS``, and what to add to each.

        Where a wave was not measured the nearest one replaces it: the first one for a fresh executor, longer by the
        warm-up, and for further tasks; a fresh executor's for the first one. A stage with fewer tasks than executors
        was measured with at most as many executors as it has tasks.
        """
        count = executors if executors in self.first_ms else max(self.first_ms)
        waves = (self.fresh_ms, self.first_ms, self.rest_ms)
        fresh, first, rest = (measured.get(count, np.zeros(0, np.int32)) for measured in waves)
        added_ms = warm_up_ms if wave == FRESH and not len(fresh) else 0
        for found in {FRESH: (fresh, first), FIRST: (first, fresh), REST: (rest, first, fresh)}[wave]:
            if len(found):
                return found, added_ms
        raise ConfigurationError(f"nothing was measured of a stage of {self.tasks} tasks with {count} executors")


@dataclass(frozen=True, slots=True, eq=False)
class JobTemplate:
    """A kind of job.

    Attributes:
        name: For messages and tables.
        edges: Pairs of stages, the second of which needs the output of the first.
        stages: Their profiles.
    """

    name: str
    edges: tuple[tuple[int, int], ...]
    stages: tuple[StageProfile, ...]

    def __post_init__(self) -> None:
        n = len(self.stages)
        if n == 0:
            raise ConfigurationError(f"the job {self.name} has no stages; it has one at least")
        if any(not (0 <= a < n and 0 <= b < n) for a, b in self.edges):
            raise ConfigurationError(f"the job {self.name} has {n} stages, but an edge to one that is not there")
        self.topological_order()

    @property
    def work_s(self) -> float:
        """Executor-seconds, roughly."""
        return sum(stage.tasks * stage.rough_ms for stage in self.stages) / 1000

    def topological_order(self) -> tuple[int, ...]:
        """Stages in an order with parents before children.

        Raises:
            ConfigurationError: The graph has a cycle.
        """
        waits_for = [0] * len(self.stages)
        for _, child in self.edges:
            waits_for[child] += 1
        order = [stage for stage, count in enumerate(waits_for) if count == 0]
        for stage in order:
            for parent, child in self.edges:
                if parent == stage:
                    waits_for[child] -= 1
                    if waits_for[child] == 0:
                        order.append(child)
        if len(order) < len(self.stages):
            raise ConfigurationError(f"the stages of the job {self.name} wait for each other in a cycle")
        return tuple(order)

    def longest_path_ms(self, lengths_ms: Sequence[float]) -> tuple[float, ...]:
        """Per stage the longest path from its start to the job's end, for given durations."""
        longest = list(map(float, lengths_ms))
        for stage in reversed(self.topological_order()):
            after = [longest[child] for parent, child in self.edges if parent == stage]
            longest[stage] = lengths_ms[stage] + max(after, default=0.0)
        return tuple(longest)

    def stages_below(self) -> tuple[frozenset[int], ...]:
        """Per stage itself and all that come after it."""
        below: list[frozenset[int]] = [frozenset()] * len(self.stages)
        for stage in reversed(self.topological_order()):
            after = (below[child] for parent, child in self.edges if parent == stage)
            below[stage] = frozenset([stage]).union(*after)
        return tuple(below)


def templates_digest(templates: Sequence[JobTemplate]) -> str:
    """Number and ordered digest of templates, as ``154 kinds of jobs, 8c5e...``."""
    whole = hashlib.sha256()
    for template in templates:
        whole.update(repr((template.name, template.edges, len(template.stages))).encode())
        for stage in template.stages:
            whole.update(repr(stage.tasks).encode())
            for wave in (stage.fresh_ms, stage.first_ms, stage.rest_ms):
                for level in sorted(wave):
                    whole.update(repr((level, len(wave[level]))).encode() + wave[level].astype("<i8").tobytes())
                whole.update(b";")
    return f"{len(templates)} kinds of jobs, {whole.hexdigest()[:_SHOWN]}"
