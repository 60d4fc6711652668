"""Decisions: a stage and a number of executors in one integer, and their conditions."""

from __future__ import annotations

from mirage.dag.simulator.dag_arrays import NO_STAGE, DagState, DagWorld
from mirage.kernel.compile import kernel

NOTHING = -1
"""The decision to pick no stage: executors without a destination become idle."""

_SHIFT = 16
MOST_EXECUTORS = 2**_SHIFT - 1


@kernel()
def decision(stage: int, executors: int) -> int:
    """The decision to give a number of free executors to a stage; it takes what it can use."""
    return int(stage << _SHIFT | executors)


@kernel()
def stage_of(decided: int) -> int:
    """The stage of a decision that is not ``NOTHING``."""
    return int(decided >> _SHIFT)


@kernel()
def executors_of(decided: int) -> int:
    """The number of executors of a decision that is not ``NOTHING``."""
    return int(decided & MOST_EXECUTORS)


@kernel()
def held(state: DagState, job: int) -> int:
    """Executors that a job has, that move to it, and that are promised to it by others."""
    row = state.jobs[job]
    return int(row.local + row.moving + row.committed)


@kernel()
def under_limit(state: DagState, job: int, limit: int) -> int:
    """Executors to add until a job reaches its limit; below 1 if it has reached it.

    The free executors of the source do not count as its job's own: they are being given away.
    """
    clock = state.clock[0]
    room = limit - held(state, job)
    return int(room + clock.free if job == clock.source_job else room)


@kernel()
def takes_more(world: DagWorld, state: DagState, job: int) -> bool:
    """Whether a job can get more executors: it does not have all, or it is the source."""
    return bool(job == state.clock[0].source_job or held(state, job) < world.settings[0].executors)


@kernel()
def may_pick(state: DagState, stage: int) -> bool:
    """Whether a stage of an active job may be picked.

    It wants executors, all its parents are saturated, and it is not picked in this round yet.
    """
    row = state.stages[stage]
    return bool(row.demand > 0 and row.waits_for == 0 and row.picked_round != state.clock[0].round_number)


@kernel()
def is_ready(state: DagState, stage: int) -> bool:
    """Whether all parents of a stage have finished, so that its tasks can start at once."""
    return bool(state.stages[stage].runs_after == 0)


@kernel()
def first_stage_to_pick(world: DagWorld, state: DagState, job: int) -> int:
    """The first stage of a job that may be picked, ready ones first; -1 for none."""
    if state.jobs[job].open == 0:
        return NO_STAGE
    found = NO_STAGE
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if may_pick(state, stage):
            if is_ready(state, stage):
                return int(stage)
            if found == NO_STAGE:
                found = stage
    return int(found)
