"""Shared parts of schedulers: the source's job first, then others in order, up to a cap."""

from __future__ import annotations

from math import ceil

from mirage.dag.simulator.dag_arrays import NO_JOB, NO_STAGE, DagState, DagWorld
from mirage.dag.simulator.stage_decision import (
    NOTHING,
    decision,
    first_stage_to_pick,
    held,
    may_pick,
    takes_more,
    under_limit,
)
from mirage.kernel.compile import kernel


@kernel()
def serve_source(world: DagWorld, state: DagState) -> int:
    """Gives all free executors to the source's own job, if it has a stage to pick."""
    clock = state.clock[0]
    if clock.source_job == NO_JOB:
        return NOTHING
    stage = first_stage_to_pick(world, state, clock.source_job)
    return NOTHING if stage == NO_STAGE else decision(stage, clock.free)


@kernel()
def serve_by_arrival(world: DagWorld, state: DagState, cap: int, by_number: bool) -> int:
    """Serves the source's job without a cap, then other jobs by arrival up to the cap.

    Args:
        world: Fixed arrays of the episode.
        state: Its changing arrays.
        cap: The executors that a job may have.
        by_number: Whether other jobs' stages go by their number, instead of ready stages first.
    """
    decided = serve_source(world, state)
    if decided != NOTHING:
        return decided
    clock = state.clock[0]
    for k in range(clock.n_active):
        job = state.active[k]
        room = cap - held(state, job)
        if room > 0 and job != clock.source_job:
            stage = lowest_stage_to_pick(world, state, job) if by_number else first_stage_to_pick(world, state, job)
            if stage != NO_STAGE:
                return decision(stage, min(room, clock.free))
    return NOTHING


@kernel()
def lowest_stage_to_pick(world: DagWorld, state: DagState, job: int) -> int:
    """The stage with the lowest number that may be picked; -1 for none."""
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if may_pick(state, stage):
            return int(stage)
    return NO_STAGE


@kernel()
def total_weight(state: DagState, exponent: float) -> float:
    """The sum over the jobs in the system of their remaining work to a power."""
    total = 0.0
    for k in range(state.clock[0].n_active):
        total += float(max(1, state.jobs[state.active[k]].remaining_work_ms)) ** exponent
    return total


@kernel()
def cap_of(world: DagWorld, state: DagState, job: int, exponent: float, factor: float, total: float) -> int:
    """The executors that a job may have."""
    weight = float(max(1, state.jobs[job].remaining_work_ms)) ** exponent
    return int(max(1, ceil(factor * world.settings[0].executors * weight / total)))


@kernel()
def least_work(state: DagState, above: float, after: int) -> int:
    """The unserved active job with the least remaining work; -1 if all are served.

    Args:
        above: Remaining work of the job served last, in milliseconds.
        after: That job; of two with equal work the earlier arrival comes first.
    """
    found, least = NO_JOB, 0.0
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        work = float(state.jobs[job].remaining_work_ms)
        later = work > above or (work == above and job > after)
        if later and (found == NO_JOB or work < least):
            found, least = job, work
    return int(found)


@kernel()
def offer(world: DagWorld, state: DagState, job: int, cap: int, by_path: bool) -> int:
    """The decision for a job up to a cap; free executors of the source do not count as held.

    Args:
        world: Fixed arrays of the episode.
        state: Its changing arrays.
        job: An active one.
        cap: The executors that it may have.
        by_path: Whether to pick the stage farthest from the job's end, instead of the first one.
    """
    if state.jobs[job].open == 0:
        return NOTHING
    clock = state.clock[0]
    room = under_limit(state, job, cap)
    if job == clock.source_job and cap >= world.settings[0].executors:
        room = clock.free  # others may be on their way to it, but without a cap it retains its own
    if room < 1 or not takes_more(world, state, job):
        return NOTHING
    stage = critical_stage_to_pick(world, state, job) if by_path else first_stage_to_pick(world, state, job)
    return NOTHING if stage == NO_STAGE else decision(stage, min(room, clock.free))


@kernel()
def serve_by_work(world: DagWorld, state: DagState, exponent: float, factor: float, fixed: int, by_path: bool) -> int:
    """The source's job, then others by ascending remaining work, each up to its cap.

    Args:
        world: Fixed arrays of the episode.
        state: Its changing arrays.
        exponent: Of ``cap_of``.
        factor: Of ``cap_of``.
        fixed: The cap of every job where it is not 0.
        by_path: See ``offer``.
    """
    source = state.clock[0].source_job
    total = 0.0 if fixed else total_weight(state, exponent)
    if source != NO_JOB:
        cap = fixed if fixed else cap_of(world, state, source, exponent, factor, total)
        decided = offer(world, state, source, cap, by_path)
        if decided != NOTHING:
            return decided
    work, job = -1.0, NO_JOB
    for _ in range(state.clock[0].n_active):
        job = least_work(state, work, job)
        work = float(state.jobs[job].remaining_work_ms)
        if job != source:
            cap = fixed if fixed else cap_of(world, state, job, exponent, factor, total)
            decided = offer(world, state, job, cap, by_path)
            if decided != NOTHING:
                return decided
    return NOTHING


@kernel()
def critical_stage_to_pick(world: DagWorld, state: DagState, job: int) -> int:
    """The stage of a job that may be picked with the longest path; -1 for none."""
    found, farthest = NO_STAGE, -1
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if may_pick(state, stage) and world.stages[stage].critical_ms > farthest:
            found, farthest = stage, world.stages[stage].critical_ms
    return int(found)
