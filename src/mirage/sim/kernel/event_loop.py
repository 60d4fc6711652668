"""The event loop: the next event, and when the discipline is called.

Within one second the order is fixed: segments end, nodes become free after their turnover, capacity changes, held jobs
become eligible, jobs are submitted, and then the discipline runs once on the result.
"""

from __future__ import annotations

from typing import Any

from numba import int64

from mirage.kernel.compile import kernel
from mirage.kernel.heap import pop
from mirage.sim.kernel.arrays import (
    AFTER_NONE,
    DISCIPLINE_TYPE,
    NEEDS_POLICY,
    NEEDS_ROOM,
    NEVER_S,
    NO_JOB,
    REACHED,
    REFUSED_PLAN,
    RUNNING,
    SCRATCH_TYPE,
    STARTED_WATCHED,
    STATE_TYPE,
    WORLD_TYPE,
    Scratch,
    State,
    World,
    reference,
)
from mirage.sim.kernel.job_lifecycle import FREED, REPLAN, admit, call_at, finish, has_slot, met, wake_held
from mirage.sim.kernel.plan_actions import apply_plan
from mirage.sim.kernel.resources.holding import free_completed
from mirage.sim.kernel.resources.node_changes import change_level


@kernel()
def next_event_s(world: World, state: State) -> int:
    """Time of the next event; ``NEVER_S`` when there is none."""
    clock, heap = state.clock[0], state.heap
    while clock.n_heap > 0 and state.live[heap[0].slot].stamp != heap[0].stamp:
        pop(clock, heap)
    soonest = clock.timer_s
    if clock.n_heap > 0:
        soonest = min(soonest, heap[0].due)
    if clock.n_completing > 0:
        soonest = min(soonest, state.completing[0].until_s)
    if clock.arrived < len(world.jobs):
        soonest = min(soonest, world.jobs[clock.arrived].submit_s)
    if clock.changed_capacity < len(world.changes):
        soonest = min(soonest, world.changes[clock.changed_capacity].time_s)
    for k in range(clock.n_held):
        job = state.live[state.held[k]]
        if job.begin_s > clock.now_s or job.after_kind == AFTER_NONE or met(state, job):
            soonest = min(soonest, job.begin_s)
    return int(max(soonest, clock.now_s))


@kernel()
def change_capacity(world: World, state: State) -> None:
    """Apply the capacity changes that are due; nodes in use leave as they become free.

    A change of no nodes is the announcement of a reservation, which requires a new plan.
    """
    clock = state.clock[0]
    while clock.changed_capacity < len(world.changes):
        change = world.changes[clock.changed_capacity]
        if change.time_s > clock.now_s:
            break
        change_level(world, change, state.free)
        clock.ended_since |= FREED | REPLAN
        clock.changed_capacity += 1


@kernel()
def happen(world: World, state: State) -> bool:
    """Process everything due now; False when the arrays are too small to continue."""
    clock, heap = state.clock[0], state.heap
    now = clock.now_s
    while clock.n_heap > 0 and heap[0].due <= now:
        slot, stamp = heap[0].slot, heap[0].stamp
        pop(clock, heap)
        if state.live[slot].stamp == stamp:
            finish(world, state, slot)
    if clock.n_completing > 0 and free_completed(world, state):
        clock.ended_since |= FREED
    change_capacity(world, state)
    if clock.n_held > 0:
        wake_held(state)
    while clock.arrived < len(world.jobs) and world.jobs[clock.arrived].submit_s <= now:
        if not has_slot(state):
            return False
        admit(world, state, world.jobs[clock.arrived])
        clock.arrived += 1
    if clock.timer_s <= now:
        clock.timer_s = NEVER_S
    return True


@kernel()
def wake_now(state: State) -> None:
    """Make the discipline run at once, whatever happens next."""
    call_at(state, state.clock[0].now_s)


@kernel()
def watched_runs(state: State) -> bool:
    """Whether the watched job is running."""
    slot = state.clock[0].watch_slot
    return bool(slot != NO_JOB and state.live[slot].status == RUNNING)


@kernel(int64(WORLD_TYPE, STATE_TYPE, SCRATCH_TYPE, DISCIPLINE_TYPE, int64))
def advance(world: World, state: State, scratch: Scratch, discipline: Any, until_s: int) -> int:
    """Let time pass until ``until_s`` inclusive, or until something needs the caller.

    Returns:
        ``REACHED``, ``STARTED_WATCHED`` (the watched job runs), ``NEEDS_POLICY`` (the discipline leaves the decision to
        its caller), ``NEEDS_ROOM`` (enlarge the arrays and call again) or ``REFUSED_PLAN``.
    """
    clock = state.clock[0]
    situation = reference(world, state, scratch)
    while True:
        due_s = next_event_s(world, state)
        if due_s > until_s:
            clock.now_s = max(clock.now_s, until_s)
            return REACHED
        if len(state.log) - clock.n_log < 2 * clock.n_running + 2:
            return NEEDS_ROOM
        clock.now_s = due_s
        if not happen(world, state):
            return NEEDS_ROOM
        actions = discipline(situation)
        if actions < 0:
            return NEEDS_POLICY
        if actions > len(state.log) - clock.n_log:  # each may end a segment
            wake_now(state)
            return NEEDS_ROOM
        if actions > 0 and not apply_plan(world, state, scratch, actions):
            return REFUSED_PLAN
        if watched_runs(state):
            return STARTED_WATCHED
