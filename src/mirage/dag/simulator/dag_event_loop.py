"""The event loop: tasks end, executors reach a job, jobs arrive, the scheduler decides.

In the same millisecond arrivals of jobs come first, then events in the order of their addition.
"""

from __future__ import annotations

from typing import Any

from numba import int64

from mirage.dag.simulator.dag_arrays import (
    DECIDER_TYPE,
    NEVER_MS,
    NIL,
    NO_EXECUTOR,
    NO_JOB,
    NO_STAGE,
    PARAMETERS_TYPE,
    SPARK_SCHED_SIM,
    STATE_TYPE,
    WORLD_TYPE,
    DagState,
    DagWorld,
)
from mirage.dag.simulator.dynamics import arrive, empty_pool, idle, start_task
from mirage.dag.simulator.events import pop_event, soonest_ms
from mirage.dag.simulator.rounds import begin_round, decide, end_round_without_choice, has_choice, leave_stage, release
from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import remove_at

ENDED, NEEDS_DECISION, REFUSED, STALLED = range(4)
"""Results of the loop: all jobs have ended; a decision is needed; a decision is invalid; none was made although nothing
moves any more."""


@kernel()
def _let_time_pass(state: DagState, now_ms: int) -> None:
    clock = state.clock[0]
    clock.in_system_ms += clock.n_active * (now_ms - clock.now_ms)
    clock.now_ms = now_ms


@kernel()
def _job_arrives(state: DagState) -> None:
    clock = state.clock[0]
    job = clock.arrived
    clock.arrived += 1
    state.jobs[job].active = 1
    state.active[clock.n_active] = job
    clock.n_active += 1
    if clock.in_pool > 0:
        begin_round(state, NO_JOB, NO_STAGE, NO_EXECUTOR)


@kernel()
def _job_ends(world: DagWorld, state: DagState, job: int) -> None:
    clock = state.clock[0]
    state.jobs[job].active = 0
    state.jobs[job].end_ms = clock.now_ms
    clock.finished += 1
    place = 0
    while state.active[place] != job:
        place += 1
    remove_at(state.active, place, clock.n_active)
    clock.n_active -= 1
    empty_pool(world, state, job)


@kernel()
def _stage_ends(world: DagWorld, state: DagState, stage: int) -> bool:
    """Updates the children of a finished stage; whether one of them can start now."""
    fixed = world.stages[stage]
    state.jobs[fixed.job].unfinished -= 1
    frees = False
    for k in range(fixed.first_child, fixed.first_child + fixed.n_children):
        child = state.stages[world.children[k]]
        child.runs_after -= 1
        if child.runs_after == 0:
            frees = True
    return frees


@kernel()
def _task_ends(world: DagWorld, state: DagState, executor: int) -> None:
    """Handles the first event, the end of an executor's task."""
    executor_row = state.executors[executor]
    stage = executor_row.stage
    row = state.stages[stage]
    job = world.stages[stage].job
    row.running -= 1
    row.finished += 1
    if row.remaining > 0:
        start_task(world, state, executor, stage, True)
        return
    pop_event(state)
    frees = False
    if row.finished == world.stages[stage].tasks:
        frees = _stage_ends(world, state, stage)
        if state.jobs[job].unfinished == 0:
            _job_ends(world, state, job)
    promised = row.commitment != NIL
    if promised:
        release(world, state, executor)
    elif frees:
        leave_stage(state, executor)
        idle(world, state, executor, False)
    elif world.settings[0].environment == SPARK_SCHED_SIM:
        executor_row.last_stage = NO_STAGE
    if frees:
        begin_round(state, job, NO_STAGE, NO_EXECUTOR)
    elif not promised:
        begin_round(state, job, stage, executor)


@kernel()
def _offer_latecomers(world: DagWorld, state: DagState) -> None:
    """Offers executors that have begun to wait since one of the source's stages became ready.

    No executor waited there at that time. The offer ends with the next round, and exists in the environment of
    spark-sched-sim only.
    """
    clock = state.clock[0]
    if world.settings[0].environment == SPARK_SCHED_SIM:
        clock.free = state.jobs[clock.source_job].in_pool
    else:
        clock.source_job = NO_JOB


@kernel()
def _wake(state: DagState) -> bool:
    """Offers idle executors again if nothing moves, those of jobs first; False at the end."""
    clock = state.clock[0]
    if clock.offered_again > clock.n_active:
        return False
    if clock.offered_again < clock.n_active:
        begin_round(state, state.active[clock.offered_again], NO_STAGE, NO_EXECUTOR)
    else:
        begin_round(state, NO_JOB, NO_STAGE, NO_EXECUTOR)
    clock.offered_again += 1
    return True


@kernel(int64(WORLD_TYPE, STATE_TYPE))
def next_decision(world: DagWorld, state: DagState) -> int:
    """Runs until a decision is needed, all jobs have ended or nothing moves any more.

    Returns:
        ``NEEDS_DECISION``, ``ENDED`` or ``STALLED``.
    """
    clock = state.clock[0]
    while True:
        if clock.source_job != NO_JOB and clock.free == 0:
            _offer_latecomers(world, state)
        if clock.free > 0:
            if has_choice(world, state):
                return NEEDS_DECISION
            end_round_without_choice(world, state)
        if clock.finished == len(world.jobs):
            return ENDED
        due_ms = soonest_ms(state)
        arrives = clock.arrived < len(world.jobs) and world.jobs[clock.arrived].arrival_ms <= due_ms
        if arrives:
            _let_time_pass(state, world.jobs[clock.arrived].arrival_ms)
            _job_arrives(state)
        elif due_ms == NEVER_MS:
            if not _wake(state):
                return STALLED
            continue
        else:
            _let_time_pass(state, due_ms)
            executor = state.heap[0].executor
            if state.executors[executor].moving:
                arrive(world, state, pop_event(state))
            else:
                _task_ends(world, state, executor)
        clock.offered_again = 0


@kernel(int64(WORLD_TYPE, STATE_TYPE, int64))
def apply(world: DagWorld, state: DagState, decided: int) -> int:
    """Applies a decision and runs until the next one is needed; ``REFUSED`` if invalid."""
    if not decide(world, state, decided):
        return REFUSED
    return next_decision(world, state)


@kernel(int64(WORLD_TYPE, STATE_TYPE, DECIDER_TYPE, PARAMETERS_TYPE, int64))
def run(world: DagWorld, state: DagState, decider: Any, parameters: Any, times: int) -> int:
    """Runs the whole episode with one scheduler.

    Args:
        world: Fixed arrays of the episode.
        state: Its changing arrays.
        decider: The scheduler.
        parameters: Its parameters.
        times: Number of times that each decision is made, of which the last counts: more than once to time it.
    """
    answer = next_decision(world, state)
    while answer == NEEDS_DECISION:
        for _ in range(times - 1):
            decider(world, state, parameters)
        if not decide(world, state, decider(world, state, parameters)):
            return REFUSED
        answer = next_decision(world, state)
    return answer
