"""Edge cases by name: episodes that differ from the usual ones in one point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from mirage.dag.workload.dag_arrivals import DagArrivals, queries_of
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import UnknownName

_SPLIT_STREAM = 1
"""Added to the seed: the choice of split jobs is drawn apart from the choice of jobs."""


class Mix(StrEnum):
    """The mix of jobs of an episode.

    Attributes:
        USUAL: As drawn.
        LARGE_JOB: The first one of the largest size, and all others of the smallest; the queries are those drawn.
            Templates of one size, for example when their number is no multiple of 22, stay as drawn.
        SPLIT_STAGE: As drawn, but half of them, by chance, have their largest first stage split.
    """

    USUAL = "usual"
    LARGE_JOB = "large-job"
    SPLIT_STAGE = "split-stage"

    def of(self, usual: DagArrivals, seed: int, templates: int) -> DagArrivals:
        """Replaces the usual jobs of an episode by those of the mix.

        Args:
            usual: The jobs as drawn.
            seed: Of the episode.
            templates: Number of templates that they are drawn from, by sizes; those of ``templates`` come after them.
        """
        if self is Mix.LARGE_JOB:
            queries = queries_of(templates)
            first = np.arange(len(usual)) == 0
            return replace(usual, template=usual.template % queries + np.where(first, templates - queries, 0))
        if self is Mix.SPLIT_STAGE:
            is_split = np.random.default_rng([seed, _SPLIT_STREAM]).random(len(usual)) < 0.5
            return replace(usual, template=usual.template + templates * is_split)
        return usual

    def templates(self, usual: tuple[JobTemplate, ...]) -> tuple[JobTemplate, ...]:
        """The kinds of jobs of the mix, the usual ones first."""
        return _with_split_ones(usual) if self is Mix.SPLIT_STAGE else usual


@lru_cache(maxsize=4)
def _with_split_ones(usual: tuple[JobTemplate, ...]) -> tuple[JobTemplate, ...]:
    """Templates and a split one of each; cached, since packed arrays are cached by identity."""
    return (*usual, *map(split, usual))


def split(template: JobTemplate) -> JobTemplate:
    """Splits the largest first stage of a job: one task becomes a new stage that it waits for.

    A job with one task in each of its first stages stays as it is.
    """
    children = {child for _, child in template.edges}
    roots = [stage for stage in range(len(template.stages)) if stage not in children]
    largest = max(roots, key=lambda stage: template.stages[stage].tasks)
    profile, new = template.stages[largest], len(template.stages)
    if profile.tasks < 2:
        return template
    stages = list(template.stages)
    stages[largest] = replace(profile, tasks=profile.tasks - 1)
    stages.append(replace(profile, tasks=1))
    return JobTemplate(f"{template.name} split", (*template.edges, (new, largest)), tuple(stages))


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """Episodes that differ from the usual ones in one point.

    Attributes:
        about: The point, in words.
        executors: Their number; None for the usual one.
        jobs: Of an episode; None for the usual number.
        gap_s: Mean time between two arrivals; None for the usual one.
        moving_s: Time for an executor to move to another job; None for the usual one.
        noise: Stretches durations; None for the usual one.
        mix: Which jobs come.
    """

    about: str
    executors: int | None = None
    jobs: int | None = None
    gap_s: float | None = None
    moving_s: float | None = None
    noise: float | None = None
    mix: Mix = Mix.USUAL

    @property
    def setting(self) -> str:
        """Executors and jobs, 50/200 where not given, in the form of ``mirage.dag.setting``."""
        return f"{self.executors or 50}/{self.jobs or 200}"


EDGE_CASES = {
    "gap-15": EdgeCase("jobs come every 15 s", gap_s=15.0),
    "gap-45": EdgeCase("jobs come every 45 s", gap_s=45.0),
    "gap-75": EdgeCase("jobs come every 75 s", gap_s=75.0),
    "executors-10": EdgeCase("10 executors", executors=10, jobs=50),
    "executors-25": EdgeCase("25 executors", executors=25, jobs=100),
    "executors-100": EdgeCase("100 executors", executors=100),
    "moving-delay-0": EdgeCase("executors get to another job at once", moving_s=0.0),
    "moving-delay-10": EdgeCase("executors need 10 s to get to another job", moving_s=10.0),
    "noise-0.5": EdgeCase("durations are stretched by up to ± 50 %", noise=0.5),
    "large-job": EdgeCase(
        "one job of the largest size, then jobs of the smallest every 4 s", jobs=60, gap_s=4.0, mix=Mix.LARGE_JOB
    ),
    "split-stage": EdgeCase(
        "half of the jobs have their largest first stage split in one task and the rest", mix=Mix.SPLIT_STAGE
    ),
}
"""By name; what they leave out is as usual: 50 executors, 200 jobs every 25 s, 2 s to move, measured durations."""


def edge_case_of(name: str) -> EdgeCase:
    """The edge case of a name.

    Raises:
        UnknownName: No edge case has that name.
    """
    if name not in EDGE_CASES:
        raise UnknownName("edge case", name, EDGE_CASES)
    return EDGE_CASES[name]
