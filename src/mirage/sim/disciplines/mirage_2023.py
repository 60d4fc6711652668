"""The queue of the published Mirage simulator (SC'23), to the minute, for comparison.

Whole anonymous nodes, time in minutes counted from ``epoch_s``. Each minute jobs start in strict priority order until
one does not fit; every tenth minute instead, the queue is planned on 288 slots of 600 s by requested limits, and what
lands in the first slot starts. Priority is 100·nodes/N at submission and grows by 7000 a week for everybody alike, so
the order of two jobs never changes.

Times must have been brought to the minute grid (``mirage.sim.jobs.to_minutes``).
"""

from __future__ import annotations

from typing import Any

from mirage.sim.kernel.arrays import (
    DISCIPLINE,
    NOBODY,
    Reference,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.compile import kernel
from mirage.sim.kernel.lifecycle import call_at, pending, start, unqueue
from mirage.sim.kernel.reference import dereference

SLOTS = 288
SLOT_S = 600
REPLAN_EVERY_S = 600
JOBS_PLANNED = 3000
WEIGHT_SIZE = 100.0
WEIGHT_AGE = 7000.0
MAX_AGE_S = 7.0 * 86_400
"""The published settings; this discipline has no others, whatever a ``slurm.conf`` says."""


@kernel()
def order_by_priority(world: World, state: State) -> None:
    """Sort the jobs queued since the last look, the tail of the queue, into it; stable."""
    clock, live, queue = state.clock[0], state.live, pending(state)
    setting = world.settings[0]
    n = clock.n_pending
    for k in range(max(n - clock.arrived_since, 0), n):
        slot = queue[k]
        job = live[slot]
        at_submission = WEIGHT_SIZE * job.nodes / setting.nodes
        since = (job.eligible_s - setting.epoch_s) / MAX_AGE_S
        priority = at_submission - WEIGHT_AGE * since
        at = k
        while at > 0 and state.live[queue[at - 1]].priority < priority - 1e-9:
            queue[at] = queue[at - 1]
            at -= 1
        queue[at] = slot
        job.priority = priority
    clock.arrived_since = 0


@kernel()
def last_candidate(state: State, tested: int) -> int:
    """The last place in the queue whose job fits what is free now, or ``NOBODY``."""
    free = state.free[0, 0]
    for k in range(tested - 1, -1, -1):
        if state.live[pending(state)[k]].nodes <= free:
            return k
    return NOBODY


@kernel()
def fill_timeline(state: State, timeline: Any) -> None:
    """Free nodes slot by slot, as running jobs reach their limits."""
    clock, live = state.clock[0], state.live
    level = state.free[0, 0]
    done = 0
    n = clock.n_running
    for slot in range(SLOTS):
        begins_s = clock.now_s + slot * SLOT_S
        while done < n and live[state.running[done]].limit_end_s <= begins_s:
            level += live[state.running[done]].width
            done += 1
        timeline[slot] = level


@kernel()
def first_gap(timeline: Any, nodes: int, length: int) -> int:
    """The first slot with ``nodes`` free for ``length`` slots, or to the end; else ``SLOTS``."""
    begin = 0
    run = 0
    for slot in range(SLOTS):
        if timeline[slot] >= nodes:
            run += 1
            if run == length:
                return begin
        else:
            begin = slot + 1
            run = 0
    return begin


@kernel()
def replan(world: World, state: State, scratch: Scratch) -> None:
    """Plan the queue on the slots and start what lands in the first one.

    Nothing but starts comes of it, so planning ends with the last job that could start now.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    timeline = scratch.timeline
    n = clock.n_pending
    last = last_candidate(state, min(n, JOBS_PLANNED))
    if last == NOBODY:
        return
    fill_timeline(state, timeline)
    kept = 0
    for k in range(n):
        slot = queue[k]
        job = live[slot]
        begin = SLOTS
        if k <= last:
            length = (job.limit_s + SLOT_S - 1) // SLOT_S
            begin = first_gap(timeline, job.nodes, length)
            for used in range(begin, min(begin + length, SLOTS)):
                timeline[used] -= job.nodes
        if begin == 0:
            scratch.picked[0] = job.nodes
            start(world, state, scratch, slot, job.nodes, 1.0)
        else:
            queue[kept] = slot
            kept += 1
    clock.n_pending = kept


@kernel(DISCIPLINE)
def mirage_2023(situation: Reference) -> int:
    """One minute of the published simulator."""
    world, state, scratch = dereference(situation)
    clock = state.clock[0]
    order_by_priority(world, state)
    since_s = clock.now_s - world.settings[0].epoch_s
    if since_s % REPLAN_EVERY_S == 0:
        replan(world, state, scratch)
    else:
        while clock.n_pending > 0:
            slot = pending(state)[0]
            nodes = state.live[slot].nodes
            if nodes > state.free[0, 0]:
                break
            unqueue(state, 0)
            scratch.picked[0] = nodes
            start(world, state, scratch, slot, nodes, 1.0)
    clock.ended_since = 0
    hopeless = clock.n_running == 0 and since_s % REPLAN_EVERY_S == 0  # all is free and still nobody starts
    if clock.n_pending > 0 and not hopeless:
        call_at(state, clock.now_s + REPLAN_EVERY_S - since_s % REPLAN_EVERY_S)
    return 0
