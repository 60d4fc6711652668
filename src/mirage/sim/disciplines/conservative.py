"""Conservative backfill: every job tested has a reservation, re-planned at every event.

This is the re-planning variant: at each event the queue is planned in order on an exact availability profile, each
job at the earliest time that delays none before it. (The other variant keeps reservations and compresses them.)
On shared nodes a new plan may choose other nodes for a job, and so move the jobs after it: there only the head of
the queue has a guaranteed start.

A plan is only used for starts, so it is made only as far as they depend on it: up to the last job that could start
now in addition to the jobs planned so far.
"""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import remove_at
from mirage.sim.kernel.arrays import (
    DISCIPLINE,
    NEVER_S,
    NIL,
    Reference,
    Scratch,
    State,
    World,
    dereference,
)
from mirage.sim.kernel.job_lifecycle import REPLAN, pending, start_on_picked
from mirage.sim.kernel.profile import (
    earliest,
    forget_past,
    last_that_fits,
    last_to_start,
    occupies_s,
    one_pool,
    rebuild,
    reserve,
)
from mirage.sim.kernel.resources.job_limits import limits_in_force, permitted
from mirage.sim.kernel.resources.node_selection import choice_is_stable


@kernel()
def plan_stands(world: World, state: State) -> bool:
    """Whether re-planning would give the present plan again.

    This holds on one pool until something ends before its limit: an end at the limit was planned, and a job submitted
    since comes last.
    """
    return bool(
        state.clock[0].ended_since & REPLAN == 0
        and one_pool(world)  # on several bins the plan does not store which nodes it chose
        and not limits_in_force(world)  # nor which limit a job waits for
    )


@kernel()
def start_planned(world: World, state: State, scratch: Scratch) -> int:
    """Start the jobs in the plan that are due now; returns their number."""
    clock, live, queue = state.clock[0], state.live, pending(state)
    planned, n = clock.known, clock.n_pending
    k = 0
    while k < planned:
        slot = queue[k]
        job = live[slot]
        if job.planned_s <= clock.now_s:
            remove_at(queue, k, n)
            n -= 1
            planned -= 1
            scratch.picked[0] = job.nodes
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
        else:
            k += 1
    started = clock.known - planned
    clock.n_pending, clock.known = n, planned
    return int(started)


@kernel()
def plan_on(world: World, state: State, scratch: Scratch, tested: int) -> None:
    """Continue the plan over the first ``tested`` jobs, and start those planned for now."""
    clock, live, queue = state.clock[0], state.live, pending(state)
    now, n = clock.now_s, clock.n_pending
    k = clock.known
    last = last_to_start(world, state, scratch, k, tested - 1)
    stands = True
    while k <= last:
        slot = queue[k]
        job = live[slot]
        job.planned_s = NEVER_S
        if permitted(world, state, job):
            at = earliest(world, state, scratch, job)
            if at != NIL:
                job.planned_s = state.profile_s[at]
                reserve(world, state, scratch, job, at, job.planned_s, job.planned_s + occupies_s(world, job))
        if job.planned_s <= now:
            remove_at(queue, k, n)
            n -= 1
            last -= 1
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
            stands &= k == 0 or choice_is_stable(world)
        else:
            k += 1
        last = last_to_start(world, state, scratch, k, last)
    clock.n_pending, clock.known = n, k if stands else 0


@kernel(DISCIPLINE)
def conservative(situation: Reference) -> int:
    """Start the jobs that are planned for now."""
    world, state, scratch = dereference(situation)
    clock = state.clock[0]
    clock.arrived_since = 0
    tested = min(clock.n_pending, world.settings[0].max_job_test)
    settled = clock.ended_since == 0 and not limits_in_force(world)  # jobs at a limit are not planned yet
    unsettled = clock.known if settled else 0  # the jobs before this index are planned already
    if last_that_fits(world, state, unsettled, tested - 1) < unsettled:
        return 0  # and ``ended_since`` stays for the next plan
    if plan_stands(world, state):
        forget_past(world, state)
    else:
        rebuild(world, state, False)
        clock.known = 0
    clock.ended_since = 0
    tested -= start_planned(world, state, scratch)
    plan_on(world, state, scratch, tested)
    return 0
