"""Actions of executors: they start and finish tasks, move to other jobs, wait in pools."""

from __future__ import annotations

from numba import int64, void

from mirage.dag.simulator.dag_arrays import (
    NO_EXECUTOR,
    NO_JOB,
    NO_STAGE,
    SPARK_SCHED_SIM,
    STATE_TYPE,
    WORLD_TYPE,
    DagState,
    DagWorld,
)
from mirage.dag.simulator.durations import duration_ms, wave_of
from mirage.dag.simulator.events import push_event, replace_event
from mirage.dag.simulator.stage_decision import held, is_ready, may_pick
from mirage.kernel.compile import kernel


@kernel()
def change_demand(world: DagWorld, state: DagState, stage: int, by: int) -> None:
    """Changes the demand of a stage, and updates its children when its saturation changes."""
    row = state.stages[stage]
    wanted = row.demand > 0
    row.demand += by
    wants = row.demand > 0
    if wants == wanted:
        return
    fixed = world.stages[stage]
    job = state.jobs[fixed.job]
    change = 1 if wants else -1
    job.unsaturated += change
    if row.waits_for == 0:
        job.open += change
    for k in range(fixed.first_child, fixed.first_child + fixed.n_children):
        child = state.stages[world.children[k]]
        was_open = child.demand > 0 and child.waits_for == 0
        child.waits_for += change
        is_open = child.demand > 0 and child.waits_for == 0
        job.open += int(is_open) - int(was_open)


@kernel()
def start_task(world: DagWorld, state: DagState, executor: int, stage: int, continues: bool) -> None:
    """Starts the stage's next task on an executor that is at its job.

    Args:
        continues: Whether it has just finished another task of this stage, whose end is still the first event.
    """
    clock, row, fixed = state.clock[0], state.stages[stage], world.stages[stage]
    job, executor_row = state.jobs[fixed.job], state.executors[executor]
    task = fixed.tasks - row.remaining
    wave = wave_of(state, executor, stage)
    lasts_ms = duration_ms(world, state, stage, task, wave)
    job.usual_work_ms -= fixed.rough_ms
    job.remaining_work_ms += (row.remaining - 1) * lasts_ms - row.remaining * row.last_ms
    row.last_ms = lasts_ms
    row.remaining -= 1
    row.running += 1
    if row.remaining == 0:
        job.unstarted -= 1
    change_demand(world, state, stage, -1)
    if clock.n_log < len(state.log):
        run = state.log[clock.n_log]
        run.stage, run.task, run.executor, run.wave = stage, task, executor, wave
        run.start_ms, run.end_ms = clock.now_ms, clock.now_ms + lasts_ms
        clock.n_log += 1
    clock.running_ms += lasts_ms
    if continues:
        replace_event(state, clock.now_ms + lasts_ms)
    else:
        executor_row.stage = stage
        row.executors += 1
        push_event(state, clock.now_ms + lasts_ms, executor)
    executor_row.last_stage = stage


@kernel()
def send(world: DagWorld, state: DagState, executor: int, stage: int) -> None:
    """Sends the executor to a stage of another job."""
    clock, executor_row, row = state.clock[0], state.executors[executor], state.stages[stage]
    if executor_row.job != NO_JOB:
        state.jobs[executor_row.job].local -= 1
    executor_row.job, executor_row.stage, executor_row.last_stage, executor_row.moving = NO_JOB, stage, NO_STAGE, 1
    row.moving += 1
    state.jobs[world.stages[stage].job].moving += 1
    change_demand(world, state, stage, -1)
    clock.moves += 1
    clock.moving_ms += world.settings[0].moving_ms
    push_event(state, clock.now_ms + world.settings[0].moving_ms, executor)


@kernel()
def _instead(world: DagWorld, state: DagState, executor: int) -> int:
    """The next target of an executor that comes too late: its job, then others by arrival."""
    here = state.executors[executor].job
    if here != NO_JOB and state.jobs[here].active:
        found = _any_stage(world, state, here)
        if found != NO_STAGE:
            return found
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        if job != here and held(state, job) < world.settings[0].executors:
            found = _any_stage(world, state, job)
            if found != NO_STAGE:
                return found
    return NO_STAGE


@kernel()
def _any_stage(world: DagWorld, state: DagState, job: int) -> int:
    if state.jobs[job].open > 0:
        first = world.jobs[job].first_stage
        for stage in range(first, first + world.jobs[job].n_stages):
            if may_pick(state, stage):
                return int(stage)
    return NO_STAGE


@kernel()
def idle(world: DagWorld, state: DagState, executor: int, was_promised: bool) -> None:
    """The executor waits: at its job while that has tasks to start, else in the general pool.

    Args:
        was_promised: Whether it had a destination, none included. In the environment of 2023 such an executor stays
            warm at its job: its next task there is not a fresh one.
    """
    clock, executor_row = state.clock[0], state.executors[executor]
    executor_row.stage = NO_STAGE
    if not was_promised or world.settings[0].environment != SPARK_SCHED_SIM:
        executor_row.last_stage = NO_STAGE
    if executor_row.job != NO_JOB:
        job = state.jobs[executor_row.job]
        if job.active and job.unstarted > 0:
            executor_row.next, job.pool = job.pool, executor
            job.in_pool += 1
            return
        job.local -= 1
        job.gone += 1
        executor_row.job, executor_row.last_stage = NO_JOB, NO_STAGE
    executor_row.next, clock.pool = clock.pool, executor
    clock.in_pool += 1


@kernel(void(WORLD_TYPE, STATE_TYPE, int64, int64))
def go(world: DagWorld, state: DagState, executor: int, stage: int) -> None:
    """Directs a free executor to a stage, or to another one if it comes too late.

    Functions that few events call are compiled on their own: inlining everything takes long to compile.
    """
    if state.stages[stage].remaining == 0:
        stage = _instead(world, state, executor)
        if stage == NO_STAGE:
            idle(world, state, executor, True)
            return
    if state.executors[executor].job != world.stages[stage].job:
        send(world, state, executor, stage)
    elif is_ready(state, stage):
        start_task(world, state, executor, stage, False)
    else:
        idle(world, state, executor, False)


@kernel()
def arrive(world: DagWorld, state: DagState, executor: int) -> None:
    """Handles an executor that reaches its job, which may have ended in the meantime."""
    executor_row = state.executors[executor]
    stage = executor_row.stage
    job = world.stages[stage].job
    executor_row.moving, executor_row.stage = 0, NO_STAGE
    state.stages[stage].moving -= 1
    state.jobs[job].moving -= 1
    change_demand(world, state, stage, 1)
    if state.jobs[job].active:
        executor_row.job = job
        state.jobs[job].local += 1
    go(world, state, executor, stage)


@kernel()
def take_pool(state: DagState, job: int) -> int:
    """Takes all executors from a job's pool, or with -1 from the general one.

    Returns the first; the others follow by ``next``.
    """
    if job == NO_JOB:
        clock = state.clock[0]
        executor = int(clock.pool)
        clock.pool, clock.in_pool = NO_EXECUTOR, 0
    else:
        row = state.jobs[job]
        executor = int(row.pool)
        row.pool, row.in_pool = NO_EXECUTOR, 0
    return executor


@kernel()
def return_to_pool(state: DagState, job: int, executor: int) -> None:
    """Returns an executor, and those that follow it by ``next``, to their former pool."""
    while executor != NO_EXECUTOR:
        executor_row = state.executors[executor]
        after = executor_row.next
        if job == NO_JOB:
            clock = state.clock[0]
            executor_row.next, clock.pool = clock.pool, executor
            clock.in_pool += 1
        else:
            row = state.jobs[job]
            executor_row.next, row.pool = row.pool, executor
            row.in_pool += 1
        executor = after


@kernel()
def empty_pool(world: DagWorld, state: DagState, job: int) -> None:
    """Moves all executors that wait at a job to the general pool if it has nothing to start."""
    row = state.jobs[job]
    if row.active and row.unstarted > 0:
        return
    executor = take_pool(state, job)
    while executor != NO_EXECUTOR:
        after = state.executors[executor].next
        idle(world, state, executor, False)
        executor = after
