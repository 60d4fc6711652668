"""Conservative backfill: every job tested has a reservation, all planned anew at every event.

This is the re-planning variant: at each event the queue is planned in order on an exact availability profile, each
job at the earliest time that delays none before it. (The other variant keeps reservations and compresses them.)
"""

from __future__ import annotations

from mirage.sim.compile import kernel
from mirage.sim.layout import (
    ARRIVED_SINCE,
    DISCIPLINE,
    ENDED_SINCE,
    KNOWN,
    N_PENDING,
    NEVER_S,
    NOBODY,
    NOW,
    Reference,
)
from mirage.sim.lifecycle import REPLAN, pending, permitted, start
from mirage.sim.profile import earliest, forget_past, rebuild, reserve
from mirage.sim.reference import dereference


@kernel(DISCIPLINE)
def conservative(situation: Reference) -> int:
    """Start the jobs whose planned time has come.

    On one pool the plan stands until something ends before its limit: an end at the limit was foreseen, and a job submitted since
    is planned last, so only new jobs are added to it.
    """
    world, state, scratch = dereference(situation)
    clock, live, queue = state.clock, state.live, pending(state)
    setting = world.settings[0]
    plan_stands = (
        clock[ENDED_SINCE] & REPLAN == 0
        and world.capacity.shape[0] == 1  # on several bins the plan does not remember which nodes it chose
        and setting.stacked == 1
        and setting.user_max_jobs == NEVER_S  # nor whose limit a job waits for
        and setting.user_max_nodes == NEVER_S
    )
    if not plan_stands:
        rebuild(world, state)
        clock[KNOWN] = 0
    else:
        forget_past(world, state)
    now = clock[NOW]
    known = clock[KNOWN]
    n = clock[N_PENDING]
    tested = min(n, setting.max_job_test)
    kept = 0
    for k in range(tested):
        slot = queue[k]
        job = live[slot]
        if k >= known:
            job.planned_s = NEVER_S
            if permitted(world, state, job):
                at = earliest(world, state, scratch, job)
                if at != NOBODY:
                    job.planned_s = state.profile_s[at]
                    reserve(world, state, scratch, job, job.planned_s, job.planned_s + job.limit_s)
        if job.planned_s <= now:
            scratch.picked[0] = job.nodes if plan_stands else scratch.picked[0]
            start(world, state, scratch, slot, job.nodes, 1.0)
        else:
            queue[kept] = slot
            kept += 1
    clock[KNOWN] = kept
    for k in range(tested, n):
        queue[kept] = queue[k]
        kept += 1
    clock[N_PENDING] = kept
    clock[ENDED_SINCE] = 0
    clock[ARRIVED_SINCE] = 0
    return 0
