"""The queue of the published Mirage simulator (SC'23), to the minute, for comparison.

Whole anonymous nodes, time in minutes counted from ``epoch_s``. Each minute jobs start in strict priority order until
one does not fit; every tenth minute instead, the queue is planned on 288 slots of 600 s by requested limits, and what
lands in the first slot starts. Priority is 100·nodes/N at submission and grows by 7000 a week for everybody alike, so
the order of two jobs never changes.

Times must have been brought to the minute grid (``mirage.sim.jobs.to_minutes``).
"""

from __future__ import annotations

from mirage.sim.kernel.arrays import (
    DISCIPLINE,
    NEVER_S,
    NOBODY,
    Reference,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.compile import kernel
from mirage.sim.kernel.lifecycle import call_at, pending, start, unqueue
from mirage.sim.kernel.pool_profile import earliest_level, lasts_from_now, reserve_level
from mirage.sim.kernel.profile import last_that_fits
from mirage.sim.kernel.reference import dereference
from mirage.sim.kernel.sorted_array import take_out

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
def last_candidate(state: State, first: int, last: int) -> int:
    """The last place from ``first`` to ``last`` in the queue whose job may start in the plan; else below ``first``."""
    live, queue = state.live, pending(state)
    while last >= first and not lasts_from_now(state, live[queue[last]].nodes, slots_of(live[queue[last]].limit_s)):
        last -= 1
    return last


@kernel()
def slots_of(time_s: int) -> int:
    """How many slots a time takes."""
    return (time_s + SLOT_S - 1) // SLOT_S


@kernel()
def rebuild_slots(state: State) -> None:
    """Rebuild the profile, in slots from now, from the running jobs that reach their limits within ``SLOTS``."""
    clock, live = state.clock[0], state.live
    times, level = state.profile_s, state.level
    free = state.free[0, 0]
    times[0] = 0
    level[0] = free
    n = 1
    for k in range(clock.n_running):
        job = live[state.running[k]]
        ends = slots_of(max(job.limit_end_s - clock.now_s, 0))
        if ends >= SLOTS:
            break
        free += job.width
        if ends > times[n - 1]:
            times[n] = ends
            n += 1
        level[n - 1] = free
    clock.n_profile = n


@kernel()
def replan(world: World, state: State, scratch: Scratch) -> None:
    """Plan the queue on the slots and start what lands in the first one.

    What lies beyond the last slot is as the last slot is. Nothing but starts comes of a plan, so planning ends with the
    last job that could start now.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    n = clock.n_pending
    last = last_that_fits(world, state, 0, min(n, JOBS_PLANNED) - 1)
    if last < 0:
        return
    rebuild_slots(state)
    k = 0
    last = last_candidate(state, k, last)
    while k <= last:
        slot = queue[k]
        job = live[slot]
        left = NEVER_S
        at = earliest_level(state, job.nodes, slots_of(job.limit_s))
        if at != NOBODY:
            begins = state.profile_s[at]
            ends = begins + slots_of(job.limit_s)
            left = reserve_level(state, job.nodes, at, begins, ends if ends < SLOTS else NEVER_S)
        if at == 0:
            take_out(queue, k, n)
            n -= 1
            last -= 1
            scratch.picked[0] = job.nodes
            start(world, state, scratch, slot, job.nodes, 1.0)
        else:
            k += 1
        if k <= last and left < live[queue[last]].nodes:
            last = last_candidate(state, k, last)
    clock.n_pending = n
    clock.n_profile = 0


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
