"""Conversion of jobs and a cluster to the arrays of an episode.

Templates of jobs become arrays once, for many episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.dag.simulator.dag_arrays import (
    CLOCK,
    COMMITMENT,
    DECIMA_2019,
    EVENT,
    EXECUTOR,
    JOB,
    JOB_STATE,
    NIL,
    NO_EXECUTOR,
    NO_JOB,
    NO_STAGE,
    RUN,
    SETTINGS,
    SPARK_SCHED_SIM,
    STAGE,
    STAGE_STATE,
    WAVE,
    DagState,
    DagWorld,
)
from mirage.dag.simulator.stage_decision import MOST_EXECUTORS
from mirage.dag.workload.dag_arrivals import DagArrivals
from mirage.dag.workload.templates import FIRST, FRESH, LEVELS, REST, JobTemplate
from mirage.errors import ConfigurationError, UnknownName
from mirage.kernel.record_arrays import Records, records

ENVIRONMENTS = {"spark-sched-sim": SPARK_SCHED_SIM, "decima-2019": DECIMA_2019}
"""The published environments by name.

In that of 2019 executors that find no stage to go to are not offered again when they finish, and those that wait at a
job are fresh; in the other one an executor without a committed destination counts as fresh, and one that was promised
nothing stays warm at its job."""


LONGEST_S = 1e6
"""Longest time of a move to another job, and of a warm-up."""


@dataclass(frozen=True, slots=True)
class DagCluster:
    """Executors, and the cost of moving them.

    Attributes:
        executors: Their number.
        moving_s: Time to move to another job.
        warm_up_s: Added to an executor's first task where no fresh one was measured.
        noise: Durations are stretched by a factor drawn from 1 ± ``noise``.
        environment: One of ``ENVIRONMENTS``.
    """

    executors: int = 50
    moving_s: float = 2.0
    warm_up_s: float = 1.0
    noise: float = 0.0
    environment: str = "spark-sched-sim"

    def __post_init__(self) -> None:
        if not 1 <= self.executors <= MOST_EXECUTORS:
            raise ConfigurationError(f"{self.executors} executors; there are 1 to {MOST_EXECUTORS}")
        for what, seconds in (("moving to another job", self.moving_s), ("warming up", self.warm_up_s)):
            if not 0 <= seconds <= LONGEST_S:
                raise ConfigurationError(f"{what} cannot take {seconds:g} s; give 0 to {LONGEST_S:,.0f} s")
        if not 0 <= self.noise < 1:
            raise ConfigurationError(f"the noise is {self.noise:g}; it must be from 0 to below 1")
        if self.environment not in ENVIRONMENTS:
            raise UnknownName("environment", self.environment, ENVIRONMENTS)


def make_world(templates: Sequence[JobTemplate], arrivals: DagArrivals, cluster: DagCluster, seed: int) -> DagWorld:
    """The fixed arrays of an episode.

    Args:
        templates: Kinds of jobs.
        arrivals: Times and templates of the jobs.
        cluster: The executors.
        seed: Of the durations.

    Raises:
        ConfigurationError: An arrival refers to an unknown template.
    """
    if len(arrivals) and not 0 <= arrivals.template.min() <= arrivals.template.max() < len(templates):
        raise ConfigurationError(f"there are {len(templates)} kinds of jobs, but an arrival is of another one")
    packed = pack_templates(tuple(templates), round(cluster.warm_up_s * 1000))
    settings = records(SETTINGS, 1)
    settings[0] = (
        cluster.executors, round(cluster.moving_s * 1000), ENVIRONMENTS[cluster.environment], cluster.noise,
    )  # fmt: skip
    pieces = packed.graphs
    sizes = np.array([len(templates[kind].stages) for kind in arrivals.template], np.int64)
    jobs = records(JOB, len(arrivals))
    jobs.arrival_ms, jobs.template, jobs.n_stages = arrivals.arrival_ms, arrivals.template, sizes
    jobs.first_stage = np.cumsum(sizes) - sizes
    stages = np.concatenate([pieces[kind].stages for kind in arrivals.template]).view(np.recarray)
    stages.job = np.repeat(np.arange(len(arrivals)), sizes)
    n_parents = np.array([len(pieces[kind].parents) for kind in arrivals.template], np.int64)
    shift = np.repeat(np.cumsum(n_parents) - n_parents, sizes)  # as many edges to parents as to children
    stages.first_parent += shift
    stages.first_child += shift
    begin = np.repeat(jobs.first_stage, n_parents)
    levels, chance = _levels(cluster.executors)
    return DagWorld(
        settings,
        jobs,
        stages,
        np.concatenate([pieces[kind].parents for kind in arrivals.template]) + begin,
        np.concatenate([pieces[kind].children for kind in arrivals.template]) + begin,
        packed.waves,
        packed.durations_ms,
        levels,
        chance,
        np.random.Generator(np.random.PCG64([seed, 0x0DA6])).integers(2**32, size=len(stages)),
    )


def initial_state(world: DagWorld, *, log: bool = False) -> DagState:
    """The state before the first arrival.

    Args:
        world: The fixed arrays.
        log: Whether each task that runs is recorded.
    """
    executors, jobs, stages = int(world.settings[0].executors), len(world.jobs), len(world.stages)
    fixed = world.stages
    state = DagState(
        records(CLOCK, 1), records(JOB_STATE, jobs), records(STAGE_STATE, stages), records(EXECUTOR, executors),
        np.zeros(jobs, np.int64), records(COMMITMENT, 2 * executors + 2), records(EVENT, executors),
        records(RUN, int(fixed.tasks.sum()) if log else 0),
    )  # fmt: skip
    clock = state.clock[0]
    clock.in_pool, clock.pool = executors, 0
    for name in ("source_job", "source_stage", "executor", "round_head", "round_tail"):
        clock[name] = NIL
    state.executors.job, state.executors.stage, state.executors.last_stage = NO_JOB, NO_STAGE, NO_STAGE
    state.executors.next = np.append(np.arange(1, executors), NO_EXECUTOR)
    state.commitments.next = np.append(np.arange(1, len(state.commitments)), NIL)
    state.stages.remaining = state.stages.demand = fixed.tasks
    state.stages.waits_for = state.stages.runs_after = fixed.n_parents
    state.stages.picked_round = state.stages.commitment = NIL
    state.stages.last_ms = fixed.rough_ms
    state.jobs.unfinished = state.jobs.unstarted = state.jobs.unsaturated = world.jobs.n_stages
    state.jobs.pool = NO_EXECUTOR
    if stages:
        state.jobs.open = np.add.reduceat((fixed.n_parents == 0).astype(np.int64), world.jobs.first_stage)
        state.jobs.usual_work_ms = np.add.reduceat(fixed.tasks * fixed.rough_ms, world.jobs.first_stage)
        state.jobs.remaining_work_ms = state.jobs.usual_work_ms
    return state


def _levels(executors: int) -> tuple[Ints, Floats]:
    """Per number of local executors the measured levels around it, and the lower one's chance."""
    levels, chance = np.zeros((executors + 1, 2), np.int64), np.ones(executors + 1)
    for count in range(executors + 1):
        upper = min(int(np.searchsorted(LEVELS, count)), len(LEVELS) - 1)
        between = upper > 0 and LEVELS[upper - 1] < count < LEVELS[upper]
        lower = upper - 1 if between else upper
        levels[count] = lower, upper
        if between:
            chance[count] = (count - LEVELS[lower]) / (LEVELS[upper] - LEVELS[lower])
    return levels, chance


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """One job's graph.

    Attributes:
        stages: STAGE, with indices into the next two counted from 0.
        parents: Of one stage after the other, as numbers of the job's stages.
        children: In the same form.
    """

    stages: Records
    parents: Ints
    children: Ints


@dataclass(frozen=True, slots=True)
class PackedTemplates:
    """Many templates.

    Attributes:
        graphs: By template.
        waves: WAVE, shape (stages of all templates, levels, 3).
        durations_ms: All durations, one wave after another.
    """

    graphs: tuple[PackedGraph, ...]
    waves: Records
    durations_ms: NDArray[np.int32]


@lru_cache(maxsize=4)
def pack_templates(templates: tuple[JobTemplate, ...], warm_up_ms: int) -> PackedTemplates:
    """Puts graphs and durations into arrays, with each gap in the measurements filled."""
    graphs, first_profile = [], 0
    for template in templates:
        graphs.append(_packed_graph(template, first_profile))
        first_profile += len(template.stages)
    return PackedTemplates(tuple(graphs), *_packed_durations(templates, warm_up_ms))


def _packed_durations(templates: Sequence[JobTemplate], warm_up_ms: int) -> tuple[Any, NDArray[np.int32]]:
    profiles = [stage for template in templates for stage in template.stages]
    waves = records(WAVE, len(profiles), len(LEVELS), 3)
    place: dict[int, int] = {}  # of arrays already added
    pieces: list[NDArray[np.int32]] = []
    filled = 0
    for row, profile in enumerate(profiles):
        for level, executors in enumerate(LEVELS):
            for wave in (FRESH, FIRST, REST):
                measured, added_ms = profile.measured(wave, executors, warm_up_ms)
                if id(measured) not in place:
                    place[id(measured)] = filled
                    pieces.append(measured)
                    filled += len(measured)
                waves[row, level, wave] = (place[id(measured)], len(measured), added_ms)
    return waves, np.concatenate(pieces)


def _packed_graph(template: JobTemplate, first_profile: int) -> PackedGraph:
    n = len(template.stages)
    stages = records(STAGE, n)
    stages.tasks = [stage.tasks for stage in template.stages]
    rough = [stage.rough_ms for stage in template.stages]
    stages.rough_ms = np.rint(rough)
    stages.profile = first_profile + np.arange(n)
    stages.critical_ms = np.rint(template.longest_path_ms(rough))
    work = stages.tasks * stages.rough_ms
    stages.below_ms = [sum(int(work[other]) for other in below) for below in template.stages_below()]
    parents: list[int] = []
    children: list[int] = []
    for stage in range(n):
        stages[stage].first_parent, stages[stage].first_child = len(parents), len(children)
        parents += sorted(parent for parent, child in template.edges if child == stage)
        children += sorted(child for parent, child in template.edges if parent == stage)
        stages[stage].n_parents = len(parents) - stages[stage].first_parent
        stages[stage].n_children = len(children) - stages[stage].first_child
    return PackedGraph(stages, np.array(parents, np.int64), np.array(children, np.int64))
