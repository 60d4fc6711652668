"""Rounds of decisions: executors of one source are promised to stages, and then go there.

A round begins when executors need a destination. Its source is a stage that has no task left to start (all of its
executors, most of which still run), the pool of a job with a stage that has just become ready, or the general pool
when a job arrives. It ends when every executor has a destination or no more is chosen; the rest become idle.
"""

from __future__ import annotations

from numba import boolean, int64, void

from mirage.dag.simulator.dag_arrays import (
    NIL,
    NO_JOB,
    NO_STAGE,
    SPARK_SCHED_SIM,
    STATE_TYPE,
    WORLD_TYPE,
    DagState,
    DagWorld,
)
from mirage.dag.simulator.dynamics import change_demand, empty_pool, go, idle, return_to_pool, take_pool
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, may_pick, stage_of, takes_more
from mirage.kernel.compile import kernel


@kernel()
def begin_round(state: DagState, job: int, stage: int, executor: int) -> None:
    """Begins a round with a stage, or a job's pool, or with -1 for both the general pool."""
    clock = state.clock[0]
    clock.source_job, clock.source_stage, clock.executor = job, stage, executor
    if stage != NO_STAGE:
        clock.free = state.stages[stage].executors - state.stages[stage].promised
        if not state.jobs[job].active:
            clock.source_job = NO_JOB
    elif job != NO_JOB:
        clock.free = state.jobs[job].in_pool
    else:
        clock.free = clock.in_pool
    clock.round_number += 1
    clock.round_head, clock.round_tail = NIL, NIL


@kernel()
def has_choice(world: DagWorld, state: DagState) -> bool:
    """Whether any stage may be picked."""
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        if state.jobs[job].open > 0 and takes_more(world, state, job):
            first = world.jobs[job].first_stage
            for stage in range(first, first + world.jobs[job].n_stages):
                if may_pick(state, stage):
                    return True
    return False


@kernel()
def _promise(state: DagState, stage: int, executors: int) -> None:
    """Appends a promise: a number of executors of the source go to a stage."""
    clock = state.clock[0]
    entry = clock.free_entry
    clock.free_entry = state.commitments[entry].next
    promise = state.commitments[entry]
    promise.stage, promise.count, promise.next = stage, executors, NIL
    if clock.round_tail == NIL:
        clock.round_head = entry
    else:
        state.commitments[clock.round_tail].next = entry
    clock.round_tail = entry
    clock.free -= executors


@kernel()
def leave_stage(state: DagState, executor: int) -> None:
    """Removes the executor from its stage."""
    executor_row = state.executors[executor]
    state.stages[executor_row.stage].executors -= 1
    executor_row.stage = NO_STAGE


@kernel()
def _fulfil(world: DagWorld, state: DagState, executor: int, stage: int) -> None:
    """Sends a free executor where it was promised to go."""
    if stage == NO_STAGE:
        idle(world, state, executor, True)
        return
    job = world.stages[stage].job
    state.stages[stage].committed -= 1
    if state.executors[executor].job != job:
        state.jobs[job].committed -= 1
    change_demand(world, state, stage, 1)
    go(world, state, executor, stage)


@kernel(void(WORLD_TYPE, STATE_TYPE, int64))
def release(world: DagWorld, state: DagState, executor: int) -> None:
    """Sends the executor from its stage to the target of the stage's first promise."""
    clock, stage = state.clock[0], state.executors[executor].stage
    row = state.stages[stage]
    entry = row.commitment
    promise = state.commitments[entry]
    target = promise.stage
    promise.count -= 1
    row.promised -= 1
    if promise.count == 0:
        row.commitment = promise.next
        promise.next, clock.free_entry = clock.free_entry, entry
    leave_stage(state, executor)
    _fulfil(world, state, executor, target)


@kernel()
def _add_promises(state: DagState, stage: int) -> None:
    """Appends the promises of this round to those of earlier ones."""
    clock, row = state.clock[0], state.stages[stage]
    entry = clock.round_head
    while entry != NIL:
        row.promised += state.commitments[entry].count
        entry = state.commitments[entry].next
    if row.commitment == NIL:
        row.commitment = clock.round_head
        return
    last = row.commitment
    while state.commitments[last].next != NIL:
        last = state.commitments[last].next
    state.commitments[last].next = clock.round_head


@kernel()
def _share_out(world: DagWorld, state: DagState, job: int) -> None:
    """Sends the executors of a job's pool, or with -1 of the general one, to their promises."""
    clock = state.clock[0]
    executor = take_pool(state, job)  # one that is too early for its stage waits again, and is not sent twice
    entry = clock.round_head
    while entry != NIL:
        promise = state.commitments[entry]
        for _ in range(promise.count):
            following = state.executors[executor].next
            _fulfil(world, state, executor, promise.stage)
            executor = following
        after = promise.next
        promise.next, clock.free_entry = clock.free_entry, entry
        entry = after
    return_to_pool(state, job, executor)
    if job != NO_JOB:
        empty_pool(world, state, job)


@kernel()
def _close_round(state: DagState) -> None:
    """Clears the source; late executors may then turn to stages that were picked in the round."""
    clock = state.clock[0]
    clock.free = 0
    clock.source_job, clock.source_stage = NO_JOB, NO_STAGE
    clock.round_number += 1


@kernel(void(WORLD_TYPE, STATE_TYPE))
def end_round(world: DagWorld, state: DagState) -> None:
    """Ends a round: free executors go where promised; the rest become idle."""
    clock = state.clock[0]
    if clock.source_stage != NO_STAGE:
        if clock.free > 0:
            _promise(state, NO_STAGE, clock.free)
        _add_promises(state, clock.source_stage)
        release(world, state, clock.executor)
    else:
        clock.free = 0
        _share_out(world, state, clock.source_job)
    _close_round(state)


@kernel()
def end_round_without_choice(world: DagWorld, state: DagState) -> None:
    """Ends a round without a stage to pick.

    In the environment of 2019 all executors of the source become idle, also those that run its last tasks; in the other
    one these are offered again when they finish.
    """
    clock = state.clock[0]
    if clock.source_stage != NO_STAGE and world.settings[0].environment == SPARK_SCHED_SIM:
        leave_stage(state, clock.executor)
        idle(world, state, clock.executor, True)
        _close_round(state)
    else:
        end_round(world, state)


@kernel(boolean(WORLD_TYPE, STATE_TYPE, int64))
def decide(world: DagWorld, state: DagState, decided: int) -> bool:
    """Applies a decision, and ends the round if it is complete; False for an invalid decision."""
    clock = state.clock[0]
    clock.decisions += 1
    if decided == NOTHING:
        end_round(world, state)
        return True
    stage, executors = stage_of(decided), executors_of(decided)
    if stage < 0 or stage >= len(state.stages) or executors < 1 or not may_pick(state, stage):
        return False
    job = world.stages[stage].job
    if not state.jobs[job].active or not takes_more(world, state, job):
        return False
    executors = min(executors, state.stages[stage].demand, clock.free)
    state.stages[stage].picked_round = clock.round_number
    _promise(state, stage, executors)
    state.stages[stage].committed += executors
    change_demand(world, state, stage, -executors)
    if job != clock.source_job:
        state.jobs[job].committed += executors
    if clock.free == 0 or not has_choice(world, state):
        end_round(world, state)
    return True
