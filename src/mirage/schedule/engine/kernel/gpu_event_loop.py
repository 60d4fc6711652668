"""The event loop: processes the next events and calls the scheduler.

Within one instant the order is fixed: jobs' own events by id, loans that end, servers that inference takes by force,
inference demand and its announcements, submissions; then one call of the scheduler. Inference takes servers only after
the scheduler has had the chance to return them at the same instant.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float64, int64

from mirage.kernel.compile import kernel
from mirage.kernel.reference import by_reference
from mirage.schedule.engine.kernel.apply_plan import apply_plan
from mirage.schedule.engine.kernel.event_heap import is_current, pop_event, remove_outdated
from mirage.schedule.engine.kernel.gpu_arrays import (
    ALL_OVER,
    LIVELOCK,
    NEEDS_PLAN,
    NEEDS_ROOM,
    NEVER_S,
    ON_SERVERS,
    PLAN_BUFFER_TYPE,
    REACHED,
    SCHEDULER_TYPE,
    STATE_TYPE,
    STUCK,
    WAKES_TOO_SOON,
    WORLD_TYPE,
    GpuState,
    GpuWorld,
    PlanBuffer,
    situation_of,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import admit, makes_progress, process_event
from mirage.schedule.engine.kernel.server_loans import announce_demand, change_demand, enforce_returns, take_by_force

MOST_IDLE_CALLS = 10_000
"""Limit of successive calls in which a scheduler leaves jobs waiting while nothing runs and no event is due."""


MOST_WITHOUT_PROGRESS = 1_000
"""Limit of successive times that jobs lose or change GPUs without progress on them, before a run counts as livelock;
plus 100 for each active job."""


@kernel()
def next_event_s(world: GpuWorld, state: GpuState) -> float:
    """Time of the next event in the cluster; ``NEVER_S`` if there is none."""
    clock = state.clock[0]
    while clock.n_heap > 0 and not is_current(state, 0):
        pop_event(clock, state.heap)
    soonest = clock.next_return_s
    if clock.n_heap > 0:
        soonest = min(soonest, state.heap[0].due)
    if clock.arrived < len(world.jobs):
        soonest = min(soonest, world.jobs[clock.arrived].submit_s)
    if clock.demand_applied < len(world.demand):
        soonest = min(soonest, world.demand[clock.demand_applied].time_s)
    if clock.notices < len(world.notices):
        soonest = min(soonest, world.notices[clock.notices].time_s)
    soonest = min(soonest, clock.force_s)
    return float(max(soonest, clock.now_s))


@kernel()
def next_round_s(world: GpuWorld, state: GpuState, from_s: float) -> float:
    """Time of the first round at or after a time, and later than the last call."""
    round_s = world.settings[0].round_s
    if math.isinf(round_s):
        return NEVER_S
    rounds = max(math.ceil(from_s / round_s), 1.0)
    while rounds * round_s <= state.clock[0].called_at_s:
        rounds += 1.0
    return float(rounds * round_s)


@kernel()
def has_room(state: GpuState, events: int, places: int) -> bool:
    """Whether the logs have room for a number of events with a number of locations."""
    clock = state.clock[0]
    return bool(
        clock.n_segments + events <= len(state.segments)
        and clock.n_phases + events <= len(state.phases)
        and clock.n_placement_rows + places <= len(state.placement_rows)
        and clock.n_decisions + events <= len(state.decisions)
        and clock.n_loans + events <= len(state.loans)
    )


@kernel(forceinline=False)
def process_due_events(world: GpuWorld, state: GpuState) -> bool:
    """Process all events due now; False if a log is too small to continue."""
    clock, heap = state.clock[0], state.heap
    if clock.n_heap > len(heap) - 2 * clock.n_live - 8:
        remove_outdated(state)
    if clock.n_news > len(state.news) // 2:
        return False
    while clock.n_heap > 0 and heap[0].due <= clock.now_s:
        if not has_room(state, 1, 0):
            return False
        is_valid, job_id = is_current(state, 0), heap[0].order
        pop_event(clock, heap)
        if is_valid:
            process_event(world, state, state.live[state.slot_of[job_id]])
    if clock.next_return_s <= clock.now_s:
        enforce_returns(world, state)
    if clock.force_s <= clock.now_s:
        take_by_force(world, state)
    change_demand(world, state)
    announce_demand(world, state)
    while clock.arrived < len(world.jobs) and world.jobs[clock.arrived].submit_s <= clock.now_s:
        admit(world, state, clock.arrived)
        clock.arrived += 1
    return True


@kernel()
def apply_planned_actions(world: GpuWorld, state: GpuState, buffer: PlanBuffer) -> bool:
    """Apply the plan in the plan buffer; False if a log is too small for it."""
    clock = state.clock[0]
    places = len(state.chunks)  # each holds at least one GPU
    if not has_room(state, 2 * clock.planned + 1, places):
        return False
    if clock.n_heap > len(state.heap) - 2 * clock.planned - 8:
        remove_outdated(state)
    applied = apply_plan(world, state, buffer, clock.planned)
    clock.planned = 0
    if applied > 0:
        clock.idle_calls = 0
    return True


@kernel()
def is_call_possible(world: GpuWorld, state: GpuState) -> bool:
    """Whether there are active jobs, or news of servers that the scheduler wants."""
    clock = state.clock[0]
    return bool(clock.n_live > 0 or clock.happened & world.settings[0].called_on & ON_SERVERS)


@kernel()
def is_call_due(world: GpuWorld, state: GpuState) -> bool:
    """Whether to call the scheduler now."""
    clock = state.clock[0]
    if clock.happened & world.settings[0].called_on or clock.wake_s <= clock.now_s:
        return True
    return bool(next_round_s(world, state, clock.now_s) <= clock.now_s)


@kernel(forceinline=False)
def is_livelock(state: GpuState) -> bool:
    """Whether the run is a livelock: jobs change GPUs again and again without progress.

    It is not, as long as a job makes progress on GPUs that it held before.
    """
    clock = state.clock[0]
    if clock.without_progress <= MOST_WITHOUT_PROGRESS + 100 * clock.n_live:
        return False
    for slot in range(clock.n_live):
        job = state.live[slot]
        if (
            makes_progress(job)
            and job.speed > 0.0
            and state.segments[job.segment].start_s <= clock.without_progress_since_s
        ):
            clock.without_progress = 0  # this job will end
            return False
    return True


@kernel(int64(WORLD_TYPE, STATE_TYPE, PLAN_BUFFER_TYPE, SCHEDULER_TYPE, float64))
def advance(
    arrays_world: GpuWorld, arrays_state: GpuState, arrays_buffer: PlanBuffer, scheduler: Any, until_s: float
) -> int:
    """Advance time until ``until_s`` inclusive, or until the caller is needed.

    Returns:
        ``REACHED``; ``NEEDS_PLAN`` (the caller decides, and writes its plan into the plan buffer); ``NEEDS_ROOM``
        (enlarge the logs and call again); ``ALL_OVER``; ``STUCK`` (jobs wait, nothing runs or will happen, and nothing
        is started); ``WAKES_TOO_SOON`` (the scheduler requests a call at a time that is not later than now);
        ``LIVELOCK`` (jobs change GPUs again and again without progress).
    """
    world, state, buffer = by_reference(arrays_world), by_reference(arrays_state), by_reference(arrays_buffer)
    clock = state.clock[0]
    situation = situation_of(world, state, buffer)
    while True:
        if clock.planned > 0 and not apply_planned_actions(world, state, buffer):
            return NEEDS_ROOM
        event_s = next_event_s(world, state)
        next_call_s = NEVER_S
        if clock.n_live > 0:
            next_call_s = max(min(next_round_s(world, state, clock.now_s), clock.wake_s), clock.now_s)
        due_s = min(event_s, next_call_s)
        if due_s == NEVER_S:
            return ALL_OVER if clock.n_live == 0 else STUCK
        if due_s > until_s:
            clock.now_s = max(clock.now_s, until_s)
            return REACHED
        if event_s == NEVER_S and clock.n_pending == clock.n_live:
            clock.idle_calls += 1
            if clock.idle_calls > MOST_IDLE_CALLS:
                return STUCK
        clock.now_s = due_s
        if not process_due_events(world, state):
            return NEEDS_ROOM
        if is_call_possible(world, state) and is_call_due(world, state):
            if clock.wake_s <= clock.now_s:
                clock.wake_s = NEVER_S
            if is_livelock(state):
                return LIVELOCK
            clock.called_at_s = clock.now_s
            actions = scheduler(situation)
            if actions < 0:
                return NEEDS_PLAN
            if not clock.wake_s > clock.now_s:
                return WAKES_TOO_SOON
            clock.happened = 0
            clock.n_news = 0
            clock.planned = actions
