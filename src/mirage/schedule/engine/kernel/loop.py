"""The event loop: what happens next, and when the scheduler is asked.

Within one instant the order is fixed: jobs' own events by id, loans that end, inference demand, submissions; then the
scheduler looks once at the result.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float64, int64

from mirage.schedule.engine.kernel.arrays import (
    ALL_OVER,
    ASKS,
    DESK_TYPE,
    IN_VAIN,
    NEEDS_ROOM,
    NEVER_S,
    REACHED,
    SCHEDULER_TYPE,
    STATE_TYPE,
    STUCK,
    WAKES_TOO_SOON,
    WORLD_TYPE,
    Desk,
    State,
    World,
)
from mirage.schedule.engine.kernel.event_heap import alive, drop_dead, pop_event
from mirage.schedule.engine.kernel.life.lifecycle import admit, event_of, works
from mirage.schedule.engine.kernel.life.loans import change_demand, enforce_returns
from mirage.schedule.engine.kernel.plan_actions import apply_plan
from mirage.schedule.engine.kernel.reference import by_reference, situation_of
from mirage.sim.kernel.compile import kernel

MOST_IDLE_ASKS = 10_000
"""So many times in a row a scheduler may leave jobs waiting while nothing runs and nothing is to come."""


MOST_IN_VAIN = 1_000
"""So many times in a row, and 100 more for each active job, jobs may lose or change GPUs on which none has gained
anything."""


@kernel()
def next_event_s(world: World, state: State) -> float:
    """When something happens in the cluster next; ``NEVER_S`` when nothing will."""
    clock = state.clock[0]
    while clock.n_heap > 0 and not alive(state, 0):
        pop_event(clock, state.heap)
    soonest = clock.next_return_s
    if clock.n_heap > 0:
        soonest = min(soonest, state.heap[0].due_s)
    if clock.arrived < len(world.jobs):
        soonest = min(soonest, world.jobs[clock.arrived].submit_s)
    if clock.demand_seen < len(world.demand):
        soonest = min(soonest, world.demand[clock.demand_seen].time_s)
    return float(max(soonest, clock.now_s))


@kernel()
def next_round_s(world: World, state: State, from_s: float) -> float:
    """The first round at or after a time that has not been held."""
    round_s = world.settings[0].round_s
    if math.isinf(round_s):
        return NEVER_S
    rounds = max(math.ceil(from_s / round_s), 1.0)
    while rounds * round_s <= state.clock[0].asked_at_s:
        rounds += 1.0
    return float(rounds * round_s)


@kernel()
def has_room(state: State, events: int, places: int) -> bool:
    """Whether the logs can take so many events, with so many places."""
    clock = state.clock[0]
    return bool(
        clock.n_segments + events <= len(state.segments)
        and clock.n_phases + events <= len(state.phases)
        and clock.n_seats + places <= len(state.seats)
        and clock.n_decisions + events <= len(state.decisions)
        and clock.n_loans + events <= len(state.loans)
    )


@kernel(forceinline=False)
def happen(world: World, state: State) -> bool:
    """Process everything due now; False when a log is too small to go on."""
    clock, heap = state.clock[0], state.heap
    if clock.n_heap > len(heap) - 2 * clock.n_live - 8:
        drop_dead(state)
    if clock.n_news > len(state.news) // 2:
        return False
    while clock.n_heap > 0 and heap[0].due_s <= clock.now_s:
        if not has_room(state, 1, 0):
            return False
        stands, job_id = alive(state, 0), heap[0].id
        pop_event(clock, heap)
        if stands:
            event_of(world, state, state.live[state.slot_of[job_id]])
    if clock.next_return_s <= clock.now_s:
        enforce_returns(world, state)
    change_demand(world, state)
    while clock.arrived < len(world.jobs) and world.jobs[clock.arrived].submit_s <= clock.now_s:
        admit(world, state, clock.arrived)
        clock.arrived += 1
    return True


@kernel()
def carry_out_plan(world: World, state: State, desk: Desk) -> bool:
    """Apply the plan that lies on the desk; False when a log is too small for it."""
    clock = state.clock[0]
    places = len(state.chunks)  # each holds a GPU at least
    if not has_room(state, 2 * clock.planned + 1, places):
        return False
    if clock.n_heap > len(state.heap) - 2 * clock.planned - 8:
        drop_dead(state)
    applied = apply_plan(world, state, desk, clock.planned)
    clock.planned = 0
    if applied > 0:
        clock.idle_asks = 0
    return True


@kernel()
def is_asked(world: World, state: State) -> bool:
    """Whether the scheduler is to be asked now."""
    clock = state.clock[0]
    if clock.happened & world.settings[0].asked_on or clock.wake_s <= clock.now_s:
        return True
    return bool(next_round_s(world, state, clock.now_s) <= clock.now_s)


@kernel(forceinline=False)
def is_in_vain(state: State) -> bool:
    """Whether jobs are put on and off GPUs without end, and none works meanwhile on what it held before."""
    clock = state.clock[0]
    if clock.vain <= MOST_IN_VAIN + 100 * clock.n_live:
        return False
    for slot in range(clock.n_live):
        job = state.live[slot]
        if works(job) and job.speed > 0.0 and state.segments[job.segment].start_s <= clock.vain_since_s:
            clock.vain = 0  # this one will end
            return False
    return True


@kernel(int64(WORLD_TYPE, STATE_TYPE, DESK_TYPE, SCHEDULER_TYPE, float64))
def advance(arrays_world: World, arrays_state: State, arrays_desk: Desk, scheduler: Any, until_s: float) -> int:
    """Let time pass until ``until_s`` inclusive, or until something needs the caller.

    Returns:
        ``REACHED``; ``ASKS`` (the caller decides, and leaves its plan on the desk); ``NEEDS_ROOM`` (enlarge the logs
        and call again); ``ALL_OVER``; ``STUCK`` (jobs wait, nothing runs or will happen, and nothing is started);
        ``WAKES_TOO_SOON`` (the scheduler wants to be asked again at a time that is not later than now); ``IN_VAIN``
        (jobs are put on and off GPUs without end, and none gains anything).
    """
    world, state, desk = by_reference(arrays_world), by_reference(arrays_state), by_reference(arrays_desk)
    clock = state.clock[0]
    situation = situation_of(world, state, desk)
    while True:
        if clock.planned > 0 and not carry_out_plan(world, state, desk):
            return NEEDS_ROOM
        event_s = next_event_s(world, state)
        asks_s = NEVER_S
        if clock.n_live > 0:
            asks_s = max(min(next_round_s(world, state, clock.now_s), clock.wake_s), clock.now_s)
        due_s = min(event_s, asks_s)
        if due_s == NEVER_S:
            return ALL_OVER if clock.n_live == 0 else STUCK
        if due_s > until_s:
            clock.now_s = max(clock.now_s, until_s)
            return REACHED
        if event_s == NEVER_S and clock.n_pending == clock.n_live:
            clock.idle_asks += 1
            if clock.idle_asks > MOST_IDLE_ASKS:
                return STUCK
        clock.now_s = due_s
        if not happen(world, state):
            return NEEDS_ROOM
        if clock.n_live > 0 and is_asked(world, state):
            if clock.wake_s <= clock.now_s:
                clock.wake_s = NEVER_S
            if is_in_vain(state):
                return IN_VAIN
            clock.asked_at_s = clock.now_s
            actions = scheduler(situation)
            if actions < 0:
                return ASKS
            if not clock.wake_s > clock.now_s:
                return WAKES_TOO_SOON
            clock.happened = 0
            clock.n_news = 0
            clock.planned = actions
