"""Actions of executors: they start and finish tasks, move to other jobs, wait in pools."""

from __future__ import annotations

from numba import int64, void

from mirage.dag.simulator.arrays import NOBODY, SPARK_SCHED_SIM, STATE_TYPE, WORLD_TYPE, State, World
from mirage.dag.simulator.decision import held, is_ready, may_pick
from mirage.dag.simulator.durations import duration_ms, wave_of
from mirage.dag.simulator.events import push_event, replace_event
from mirage.sim.kernel.compile import kernel


@kernel()
def change_demand(world: World, state: State, stage: int, by: int) -> None:
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
def start_task(world: World, state: State, executor: int, stage: int, goes_on: bool) -> None:
    """Starts the stage's next task on an executor that is at its job.

    Args:
        goes_on: Whether it has just finished another task of this stage, and the end of that is still the first event.
    """
    clock, row, fixed = state.clock[0], state.stages[stage], world.stages[stage]
    job, who = state.jobs[fixed.job], state.executors[executor]
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
    if goes_on:
        replace_event(state, clock.now_ms + lasts_ms)
    else:
        who.stage = stage
        row.executors += 1
        push_event(state, clock.now_ms + lasts_ms, executor)
    who.last_stage = stage


@kernel()
def send(world: World, state: State, executor: int, stage: int) -> None:
    """Sends the executor to a stage of another job."""
    clock, who, row = state.clock[0], state.executors[executor], state.stages[stage]
    if who.job != NOBODY:
        state.jobs[who.job].local -= 1
    who.job, who.stage, who.last_stage, who.moving = NOBODY, stage, NOBODY, 1
    row.moving += 1
    state.jobs[world.stages[stage].job].moving += 1
    change_demand(world, state, stage, -1)
    clock.moves += 1
    clock.moving_ms += world.settings[0].moving_ms
    push_event(state, clock.now_ms + world.settings[0].moving_ms, executor)


@kernel()
def _instead(world: World, state: State, executor: int) -> int:
    """The next target of an executor that comes too late: its job, then others by arrival."""
    here = state.executors[executor].job
    if here != NOBODY and state.jobs[here].active:
        found = _any_stage(world, state, here)
        if found != NOBODY:
            return found
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        if job != here and held(state, job) < world.settings[0].executors:
            found = _any_stage(world, state, job)
            if found != NOBODY:
                return found
    return NOBODY


@kernel()
def _any_stage(world: World, state: State, job: int) -> int:
    if state.jobs[job].open > 0:
        first = world.jobs[job].first_stage
        for stage in range(first, first + world.jobs[job].n_stages):
            if may_pick(state, stage):
                return int(stage)
    return NOBODY


@kernel()
def idle(world: World, state: State, executor: int, was_promised: bool) -> None:
    """The executor waits: at its job while that has tasks to start, else in the general pool.

    Args:
        was_promised: Whether it had a destination, none included. In the environment of 2023 such an executor stays
            warm at its job: its next task there is not a fresh one.
    """
    clock, who = state.clock[0], state.executors[executor]
    who.stage = NOBODY
    if not was_promised or world.settings[0].environment != SPARK_SCHED_SIM:
        who.last_stage = NOBODY
    if who.job != NOBODY:
        job = state.jobs[who.job]
        if job.active and job.unstarted > 0:
            who.next, job.pool = job.pool, executor
            job.in_pool += 1
            return
        job.local -= 1
        job.gone += 1
        who.job, who.last_stage = NOBODY, NOBODY
    who.next, clock.pool = clock.pool, executor
    clock.in_pool += 1


@kernel(void(WORLD_TYPE, STATE_TYPE, int64, int64))
def go(world: World, state: State, executor: int, stage: int) -> None:
    """Directs a free executor to a stage, or to another one if it comes too late.

    Functions that few events call are compiled on their own: inlining everything takes long to compile.
    """
    if state.stages[stage].remaining == 0:
        stage = _instead(world, state, executor)
        if stage == NOBODY:
            idle(world, state, executor, True)
            return
    if state.executors[executor].job != world.stages[stage].job:
        send(world, state, executor, stage)
    elif is_ready(state, stage):
        start_task(world, state, executor, stage, False)
    else:
        idle(world, state, executor, False)


@kernel()
def arrive(world: World, state: State, executor: int) -> None:
    """Handles an executor that reaches its job, which may have ended in the meantime."""
    who = state.executors[executor]
    stage = who.stage
    job = world.stages[stage].job
    who.moving, who.stage = 0, NOBODY
    state.stages[stage].moving -= 1
    state.jobs[job].moving -= 1
    change_demand(world, state, stage, 1)
    if state.jobs[job].active:
        who.job = job
        state.jobs[job].local += 1
    go(world, state, executor, stage)


@kernel()
def take_pool(state: State, job: int) -> int:
    """Takes all executors from a job's pool, or with -1 from the general one.

    Returns the first; the others follow by ``next``.
    """
    if job == NOBODY:
        clock = state.clock[0]
        executor = int(clock.pool)
        clock.pool, clock.in_pool = NOBODY, 0
    else:
        row = state.jobs[job]
        executor = int(row.pool)
        row.pool, row.in_pool = NOBODY, 0
    return executor


@kernel()
def put_back(state: State, job: int, executor: int) -> None:
    """Returns an executor, and those that follow it by ``next``, to their former pool."""
    while executor != NOBODY:
        who = state.executors[executor]
        after = who.next
        if job == NOBODY:
            clock = state.clock[0]
            who.next, clock.pool = clock.pool, executor
            clock.in_pool += 1
        else:
            row = state.jobs[job]
            who.next, row.pool = row.pool, executor
            row.in_pool += 1
        executor = after


@kernel()
def empty_pool(world: World, state: State, job: int) -> None:
    """Moves all executors that wait at a job to the general pool if it has nothing to start."""
    row = state.jobs[job]
    if row.active and row.unstarted > 0:
        return
    executor = take_pool(state, job)
    while executor != NOBODY:
        after = state.executors[executor].next
        idle(world, state, executor, False)
        executor = after
