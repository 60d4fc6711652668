"""EASY backfill: only the head of the queue has a reservation.

After Lifka 1995, and Mu'alem and Feitelson 2001. The *shadow time* is the earliest time at which enough GPUs for the
blocked head are free, if run times are as expected; *extra* is the number of GPUs left over then. No job runs on two
GPU types, so both are counted by type, and only on servers that the head may use: it has its reservation on the type on
which it can start first, among equal ones on the fastest. A later job may start now if it fits on another type, or on
the reserved type if it ends there by the shadow time or stays within extra; it takes the fastest of these types. Run
times are longer on slower types.
"""

from __future__ import annotations

from typing import Any

from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.kernel.arrays import NOBODY, PENDING, SCHEDULER, START, Desk, State, World
from mirage.schedule.engine.kernel.reference import dereference
from mirage.schedule.engine.kernel.writing import write_placed_start
from mirage.schedule.schedulers.fifo import start_heads
from mirage.schedule.schedulers.order.line import (
    GONE,
    NEWCOMER,
    RETURNED,
    RUNS,
    WAITING,
    enter,
    remove,
    take_out,
)
from mirage.schedule.schedulers.order.reservation import PLANNED, estimate_ends, left_on_s, offers, reserve
from mirage.sim.kernel.compile import kernel

ENDS_BEFORE, BESIDE = 2, 3
"""Reasons by number; the number of heads is lower."""

_REASONS = (
    "",
    "head-of-queue",
    "backfill:ends=before-reservation",
    "backfill:gpus=beside-reservation",
)


@kernel(forceinline=False)
def take_in(state: State, desk: Desk) -> None:
    """Update the queues from the news: waiting jobs by submission, running jobs by end."""
    keys, ranks = desk.memory[0], desk.ranks
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE):
            remove(ranks[RUNS], ranks[RUNS + 1], keys, job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            enter(ranks[WAITING], ranks[WAITING + 1], keys, job_id, float(job_id))


@kernel()
def set_apart(world: World, state: State, desk: Desk, gpu_type: int, pool: int) -> int:
    """Copy the free GPUs outside the reserved servers; returns the number on reserved ones.

    The copy is ``desk.spare``; it is 0 on the reserved servers.
    """
    kept = 0
    for server in range(len(desk.free)):
        desk.spare[server] = desk.free[server]
        if offers(world, state, server, gpu_type, pool):
            kept += desk.free[server]
            desk.spare[server] = 0
    return int(kept)


@kernel()
def agree(world: World, state: State, desk: Desk, used: int, places: int, gpu_type: int, pool: int) -> int:
    """Make ``free`` and ``spare`` consistent after a start was subtracted from one of them.

    Both belong to ``desk``. Returns the number of the start's GPUs on reserved servers.
    """
    kept = 0
    for k in range(used, used + places):
        place = desk.places[k]
        if offers(world, state, place.server, gpu_type, pool):
            kept += place.gpus
        else:
            least = min(desk.free[place.server], desk.spare[place.server])
            desk.free[place.server] = least
            desk.spare[place.server] = least
    return int(kept)


@kernel(forceinline=False)
def backfill(world: World, state: State, desk: Desk, actions: int, used: int) -> int:
    """Start jobs that do not delay the blocked head; returns the new number of actions."""
    now_s, keys = state.clock[0].now_s, desk.memory[0]
    ids, ends = desk.ranks[WAITING], desk.ranks[WAITING + 1]
    head = state.live[state.slot_of[ids[ends[0]]]]
    gpu_type, shadow_s, extra = reserve(world, state, desk, head)
    kept_free, other_free = set_apart(world, state, desk, gpu_type, head.pool), 0
    for server in range(len(desk.spare)):
        other_free += desk.spare[server]
    k = ends[0] + 1
    while k < ends[1] and kept_free + other_free > 0:
        job = state.live[state.slot_of[ids[k]]]
        places = 0
        if job.gpus <= kept_free + other_free:
            why = BESIDE if gpu_type == NOBODY or job.gpus <= extra else ENDS_BEFORE
            if why == BESIDE or now_s + left_on_s(world, job, gpu_type) <= shadow_s:
                places = write_placed_start(world, state, desk, desk.free, actions, job.id, used, why)
            elif job.gpus <= other_free:
                places = write_placed_start(world, state, desk, desk.spare, actions, job.id, used, BESIDE)
        if places == 0:
            k += 1
            continue
        kept = agree(world, state, desk, used, places, gpu_type, head.pool)
        end_s = now_s + left_on_s(world, job, world.type_of[desk.places[used].server])
        desk.plan[actions].estimate_s = end_s
        if end_s > shadow_s:
            extra -= kept
        kept_free -= kept
        other_free -= job.gpus - kept
        used += places
        actions += 1
        take_out(ids, ends, k)
        enter(desk.ranks[RUNS], desk.ranks[RUNS + 1], keys, job.id, end_s)
    return actions


@kernel(SCHEDULER)
def easy(situation: Any) -> int:
    """Start heads while they fit, then backfill around the blocked head."""
    world, state, desk = dereference(situation)
    take_in(state, desk)
    actions = start_heads(world, state, desk)
    estimate_ends(world, state, desk, actions)
    used = 0
    for k in range(actions):
        action = desk.plan[k]
        if action.kind == START:
            used += action.places
            desk.ranks[PLANNED, action.id] = k
            enter(desk.ranks[RUNS], desk.ranks[RUNS + 1], desk.memory[0], action.id, action.estimate_s)
    ends = desk.ranks[WAITING + 1]
    if ends[0] < ends[1]:
        actions = backfill(world, state, desk, actions, used)
    return actions


def scheduler() -> CompiledScheduler:
    """EASY backfill by the users' estimates, or by true run times of jobs without one."""
    return CompiledScheduler("easy", easy, _REASONS, knows_run_s=True, ranks=5)
