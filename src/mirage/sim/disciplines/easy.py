"""EASY backfill (Lifka 1995; Mu'alem & Feitelson 2001): only the head of the queue has a reservation.

The *shadow time* is the earliest at which the blocked head fits if running jobs use up their limits; *extra* is what is
left beside it then. A later job may start now if it fits and either ends by the shadow time or stays within extra.
"""

from __future__ import annotations

from typing import Any

from mirage.sim.compile import kernel
from mirage.sim.disciplines.fcfs import start_heads
from mirage.sim.layout import (
    ARRIVED_SINCE,
    DISCIPLINE,
    ENDED_SINCE,
    KNOWN,
    N_PENDING,
    N_RUNNING,
    NEVER_S,
    NOW,
    SHADOW,
    Reference,
    Scratch,
    State,
    World,
)
from mirage.sim.lifecycle import pending, permitted, start
from mirage.sim.reference import dereference
from mirage.sim.resources import hosts, most_nodes, need, pick, release_into, room


@kernel()
def find_shadow(world: World, state: State, scratch: Scratch, head: Any) -> None:
    """Set the shadow time of the blocked head and what is extra then.

    Everything whose limit ends at the shadow time counts as free at it.
    """
    clock, live, running, extra = state.clock, state.live, state.running, state.extra
    bins = world.capacity.shape[0]
    for b in range(bins):
        extra[b, 0] = state.free[b, 0]
        extra[b, 1] = state.free[b, 1]
    n = clock[N_RUNNING]
    clock[SHADOW] = NEVER_S
    k = 0
    while k < n:
        end_s = live[running[k]].limit_end_s
        while k < n and live[running[k]].limit_end_s == end_s:
            release_into(world, state, running[k], extra)
            k += 1
        if pick(world, state, scratch, extra, head, head.nodes):
            clock[SHADOW] = end_s
            for b in range(bins):
                count = scratch.picked[b]
                if count > 0:
                    gpus, cpus = need(world, b, head)
                    extra[b, 0] -= count * gpus
                    extra[b, 1] -= count * cpus
            return


@kernel()
def beside_head(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job that runs past the shadow time leaves the head its nodes; ``picked`` says where."""
    if world.capacity.shape[0] == 1:
        free, extra = state.free, state.extra
        scratch.picked[0] = job.nodes
        return bool(
            state.allowed[job.partition, 0]
            and min(hosts(world, 0, free[0, 0], free[0, 1], job), hosts(world, 0, extra[0, 0], extra[0, 1], job))
            >= job.nodes
        )
    for b in range(world.capacity.shape[0]):
        scratch.low[b, 0] = min(state.free[b, 0], state.extra[b, 0])
        scratch.low[b, 1] = min(state.free[b, 1], state.extra[b, 1])
    return pick(world, state, scratch, scratch.low, job, job.nodes)


@kernel()
def backfill(world: World, state: State, scratch: Scratch, first: int) -> None:
    """Go through the queue from place ``first`` and start what does not delay the head."""
    clock, live, queue = state.clock, state.live, pending(state)
    now, shadow_s = clock[NOW], clock[SHADOW]
    n = clock[N_PENDING]
    most = most_nodes(world, state)
    kept = first
    for k in range(first, n):
        slot = queue[k]
        job = live[slot]
        starts = False
        if job.nodes <= most and room(world, state, state.free, job) >= job.nodes and permitted(world, state, job):
            if now + job.limit_s <= shadow_s:
                starts = pick(world, state, scratch, state.free, job, job.nodes)
            elif beside_head(world, state, scratch, job):
                starts = True
                for b in range(world.capacity.shape[0]):
                    count = scratch.picked[b]
                    if count > 0:
                        gpus, cpus = need(world, b, job)
                        state.extra[b, 0] -= count * gpus
                        state.extra[b, 1] -= count * cpus
        if starts:
            start(world, state, scratch, slot, job.nodes, 1.0)
            most = most_nodes(world, state)
        else:
            queue[kept] = slot
            kept += 1
    clock[N_PENDING] = kept
    clock[KNOWN] = kept


@kernel(DISCIPLINE)
def easy(situation: Reference) -> int:
    """Start heads while they fit, then backfill behind the blocked one.

    While nothing has ended, the shadow and the verdict on every job already seen stand: time only shortens what is
    left until the shadow. Then new jobs alone are looked at.
    """
    world, state, scratch = dereference(situation)
    clock = state.clock
    known = clock[KNOWN]
    if clock[ENDED_SINCE] != 0 or known == 0:
        clock[KNOWN] = 0
        blocked = start_heads(world, state, scratch)
        known = clock[N_PENDING]
        if blocked < known:
            find_shadow(world, state, scratch, state.live[pending(state)[blocked]])
            known = blocked + 1
            backfill(world, state, scratch, known)
    elif known < clock[N_PENDING]:
        backfill(world, state, scratch, known)
    clock[ENDED_SINCE] = 0
    clock[ARRIVED_SINCE] = 0
    return 0
