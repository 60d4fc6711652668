"""The queue of the published Mirage simulator (SC'23), to the minute, for comparison.

Whole anonymous nodes, time in minutes counted from ``epoch_s``. Each minute jobs start in strict priority order until
one does not fit; every tenth minute instead, the queue is planned on 288 slots of 600 s by requested limits, and jobs
planned in the first slot start. Priority is 100·nodes/N at submission and grows by 7000 a week for all jobs equally,
so the order of two jobs never changes.

Times must be rounded to the minute grid first (``mirage.sim.workload.to_minutes``).
"""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import unsigned
from mirage.sim.kernel.arrays import (
    DISCIPLINE,
    NEVER_S,
    NIL,
    NO_JOB,
    Reference,
    Scratch,
    State,
    World,
    dereference,
)
from mirage.sim.kernel.job_lifecycle import call_at, pending, start_on_picked, unqueue
from mirage.sim.kernel.pool_profile import earliest_level_before, lasts_from_now, reserve_level
from mirage.sim.kernel.profile import last_that_fits

SLOT_S = 600
PLAN_S = 288 * SLOT_S
REPLAN_EVERY_S = 600
JOBS_PLANNED = 3000
WEIGHT_SIZE = 100.0
WEIGHT_AGE = 7000.0
MAX_AGE_S = 7.0 * 86_400
"""The published settings; this discipline ignores those of a ``slurm.conf``."""


@kernel()
def order_by_priority(world: World, state: State) -> None:
    """Insert the jobs queued since the last pass, the tail of the queue, in order; stable."""
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
def whole_slots(time_s: int) -> int:
    """A time rounded up to whole slots."""
    return (time_s + SLOT_S - 1) // SLOT_S * SLOT_S


@kernel()
def rebuild_slots(state: State) -> None:
    """Rebuild the profile, in whole slots from now, from running jobs.

    Only jobs that reach their limits within ``PLAN_S`` count.
    """
    clock, live = state.clock[0], state.live
    times, level = state.profile_s, state.level
    free = state.free[0, 0]
    times[0] = 0
    n = 1
    slot_ends_s, last_s = clock.now_s, clock.now_s + PLAN_S - SLOT_S
    for k in range(clock.n_running):
        job = live[unsigned(state.running[k])]
        if job.limit_end_s > slot_ends_s:
            if job.limit_end_s > last_s:
                break
            level[unsigned(n - 1)] = free
            times[unsigned(n)] = whole_slots(job.limit_end_s - clock.now_s)
            slot_ends_s = clock.now_s + times[unsigned(n)]
            n += 1
        free += job.width
    level[unsigned(n - 1)] = free
    clock.n_profile = n


@kernel()
def plan_at(state: State, nodes: int, limit_s: int, at: int) -> int:
    """Plan a job from step ``at`` on; returns the fewest nodes left free during it."""
    begin_s = state.profile_s[at]
    end_s = begin_s + whole_slots(limit_s)
    return reserve_level(state, nodes, at, begin_s, end_s if end_s < PLAN_S else NEVER_S)


@kernel()
def last_candidate(state: State, first: int, last: int) -> int:
    """The last queue index, ``first`` to ``last``, of a job that can start now in the plan.

    Below ``first`` if there is none. A job that requests no less than one that cannot start cannot start either.
    """
    live, queue = state.live, pending(state)
    nodes, limit_s = NEVER_S, NEVER_S
    while last >= first:
        job = live[unsigned(queue[unsigned(last)])]
        if job.nodes < nodes or job.limit_s < limit_s:
            nodes, limit_s = job.nodes, job.limit_s
            if lasts_from_now(state, nodes, limit_s):
                break
        last -= 1
    return last


@kernel()
def full_from_s(state: State) -> int:
    """The earliest time from which no node is free in the plan; ``NEVER_S`` if there is none."""
    for k in range(state.clock[0].n_profile):
        if state.level[k] < 1:
            return int(state.profile_s[k])
    return NEVER_S


@kernel()
def close_gaps(state: State) -> None:
    """Close the gaps in the queue left by started jobs."""
    clock, queue = state.clock[0], pending(state)
    remaining = 0
    for k in range(clock.n_pending):
        if queue[k] != NO_JOB:
            queue[remaining] = queue[k]
            remaining += 1
    clock.n_pending = remaining


@kernel()
def replan(world: World, state: State, scratch: Scratch) -> None:
    """Plan the queue on the slots and start the jobs planned in the first one.

    All time after the last slot is as the last slot. A plan is only used for starts, so planning ends with the last
    *candidate*, a job that can start now in addition to the planned ones. The horizon is the time from which the plan
    leaves no node free: a job that begins before it also ends before it. A job that cannot begin before it delays no
    candidate, nor any job that could delay one, so its begin is not computed.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    last = last_that_fits(world, state, 0, min(clock.n_pending, JOBS_PLANNED) - 1)
    if last < 0:
        return
    rebuild_slots(state)
    horizon_s, starts, k = NEVER_S, False, 0
    late_nodes, late_s = NEVER_S, NEVER_S  # of a job after the horizon; jobs that request no less are after it too
    while k <= last:
        slot = queue[unsigned(k)]
        nodes, limit_s = live[unsigned(slot)].nodes, live[unsigned(slot)].limit_s
        at = NIL
        if nodes < late_nodes or limit_s < late_s:
            at = earliest_level_before(state, nodes, limit_s, horizon_s)
            if at == NIL:
                late_nodes, late_s = nodes, limit_s
        if at != NIL:
            fewest = plan_at(state, nodes, limit_s, at)
            if at == 0:
                queue[k] = NO_JOB
                starts = True
                scratch.picked[0] = nodes
                start_on_picked(world, state, scratch, slot, nodes, 1.0)
            if fewest < 1:
                horizon_s = full_from_s(state)
            if k < last and fewest < live[queue[last]].nodes:
                last = last_candidate(state, k + 1, last)
        k += 1
    if starts:
        close_gaps(state)
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
            start_on_picked(world, state, scratch, slot, nodes, 1.0)
    clock.ended_since = 0
    hopeless = clock.n_running == 0 and since_s % REPLAN_EVERY_S == 0  # all is free and still no job starts
    if clock.n_pending > 0 and not hopeless:
        call_at(state, clock.now_s + REPLAN_EVERY_S - since_s % REPLAN_EVERY_S)
    return 0
