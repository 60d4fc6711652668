"""EASY backfill: only the head of the queue has a reservation.

Lifka 1995; Mu'alem & Feitelson 2001.

The *shadow time* is the earliest time at which the blocked head fits if running jobs use their full limits; *extra* is
what remains free in addition to it then. A later job may start now if it fits and either ends by the shadow time or
stays within extra.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import remove_at
from mirage.sim.disciplines.fcfs import start_heads
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
from mirage.sim.kernel.job_lifecycle import pending, start_on_picked
from mirage.sim.kernel.profile import earliest, fits_plan, occupies_s, rebuild, reserve
from mirage.sim.kernel.resources.amounts import copy_amounts, set_least
from mirage.sim.kernel.resources.holding import add_held, release_into
from mirage.sim.kernel.resources.job_limits import limits_in_force, permitted
from mirage.sim.kernel.resources.node_selection import choice_is_stable, most_nodes, pick, subtract_picked


@kernel()
def find_shadow(world: World, state: State, scratch: Scratch, head: Any) -> None:
    """Set the shadow time of the blocked head and what is extra then.

    All that becomes free at the shadow time counts as free then: nodes at the end of their turnover, and those of jobs
    with a limit that ends one turnover earlier.
    """
    clock, live, running, extra = state.clock[0], state.live, state.running, state.extra
    turnover_s = world.settings[0].turnover_s
    copy_amounts(extra, state.free)
    clock.shadow_s = NEVER_S
    for k in range(clock.n_completing):
        left = state.completing[k]
        add_held(world, state, left.width, left.chunk, extra)
        if k + 1 < clock.n_completing and state.completing[k + 1].until_s == left.until_s:
            continue
        if pick(world, state, scratch, extra, head, head.nodes):
            clock.shadow_s = left.until_s
            subtract_picked(world, scratch, extra, head)
            return
    n = clock.n_running
    k = 0
    while k < n:
        end_s = live[running[k]].limit_end_s
        while k < n and live[running[k]].limit_end_s == end_s:
            release_into(world, state, running[k], extra)
            k += 1
        if pick(world, state, scratch, extra, head, head.nodes):
            clock.shadow_s = end_s + turnover_s
            subtract_picked(world, scratch, extra, head)
            return


@kernel()
def fits_after_head(world: World, state: State, scratch: Scratch, job: Any, in_time: bool) -> bool:
    """Whether a job can start without delaying the head; ``picked`` holds its nodes.

    Args:
        in_time: Whether its nodes are free again by the shadow time; otherwise it takes its nodes from what is extra.
    """
    if in_time:
        return pick(world, state, scratch, state.free, job, job.nodes)
    low, extra = scratch.low, state.extra
    set_least(low, state.free, extra)
    if not pick(world, state, scratch, low, job, job.nodes):
        return False
    subtract_picked(world, scratch, extra, job)
    return True


@kernel()
def backfill(world: World, state: State, scratch: Scratch, first: int) -> None:
    """Go through the queue from index ``first`` and start what does not delay the head.

    On shared nodes, the nodes of the head depend on how full the others are: once a job outside the shadow time has
    started there, the earlier tests of other jobs are no longer valid.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    now, shadow_s, turnover_s = clock.now_s, clock.shadow_s, world.settings[0].turnover_s
    n = clock.n_pending
    k = first
    most = most_nodes(world, state.free)
    most_extra = min(most, most_nodes(world, state.extra))
    stands = True
    while k < n and most > 0:
        slot = queue[k]
        job = live[slot]
        in_time = now + job.limit_s + turnover_s <= shadow_s
        # the cheap bounds come first: they decide most jobs
        if (
            job.nodes <= (most if in_time else most_extra)
            and permitted(world, state, job)
            and fits_after_head(world, state, scratch, job, in_time)
        ):
            remove_at(queue, k, n)
            n -= 1
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
            stands &= in_time or choice_is_stable(world)
            most = most_nodes(world, state.free)
            most_extra = min(most, most_nodes(world, state.extra))
        else:
            k += 1
    clock.n_pending = n
    clock.known = n if stands else 0


@kernel()
def backfill_around_reservations(world: World, state: State, scratch: Scratch, blocked: int) -> None:
    """Plan the blocked head on the profile with reservations, and start what fits with it.

    Without reservations, a profile that only grows is equivalent to shadow time and extra.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    now, n = clock.now_s, clock.n_pending
    rebuild(world, state, False)
    head = live[queue[blocked]]
    at = earliest(world, state, scratch, head)
    clock.shadow_s = NEVER_S if at == NIL else state.profile_s[at]
    if at != NIL:
        reserve(world, state, scratch, head, at, clock.shadow_s, clock.shadow_s + occupies_s(world, head))
    k = blocked + 1
    while k < n:
        slot = queue[k]
        job = live[slot]
        if permitted(world, state, job) and fits_plan(world, state, scratch, job):
            reserve(world, state, scratch, job, 0, now, now + occupies_s(world, job))
            remove_at(queue, k, n)
            n -= 1
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
        else:
            k += 1
    clock.n_pending = n
    clock.known = 0


@kernel(DISCIPLINE)
def easy(situation: Reference) -> int:
    """Start heads while they fit, then backfill after the blocked one.

    While nothing has ended, the shadow time and the results for all jobs tested so far stay valid: time only shortens
    what is left until the shadow time. Then only new jobs are tested. (Where users are limited, a job started after the
    head may have been its user's last allowed one: then another job is the head.)
    """
    world, state, scratch = dereference(situation)
    clock = state.clock[0]
    known = clock.known
    if clock.ended_since != 0 or known == 0 or limits_in_force(world):
        clock.known = 0
        blocked = start_heads(world, state, scratch)
        known = clock.n_pending
        if blocked < known and world.settings[0].reserves == 1:
            backfill_around_reservations(world, state, scratch, blocked)
        elif blocked < known:
            find_shadow(world, state, scratch, state.live[pending(state)[blocked]])
            known = blocked + 1
            backfill(world, state, scratch, known)
    elif known < clock.n_pending:
        backfill(world, state, scratch, known)
    clock.ended_since = 0
    clock.arrived_since = 0
    return 0
