"""EASY backfill: only the head of the queue has a reservation (Lifka 1995; Mu'alem and Feitelson 2001).

The *shadow time* is the earliest at which the GPUs that the blocked head needs are free, if run times are as expected;
*extra* is what is left beside it then. A later job may start now if it fits and either ends by then or stays within
extra. GPUs are counted over the whole cluster, whatever their pool and type.
"""

from __future__ import annotations

from typing import Any

from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.kernel.arrays import PENDING, SCHEDULER, START, Desk, State, World
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
from mirage.schedule.schedulers.srtf import left_s
from mirage.sim.kernel.compile import kernel


@kernel(forceinline=False)
def take_in(state: State, desk: Desk) -> None:
    """Bring the lines up to the news: waiting jobs by submission, running ones by their expected end."""
    keys, ranks = desk.memory[0], desk.ranks
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE):
            remove(ranks[RUNS], ranks[RUNS + 1], keys, job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            enter(ranks[WAITING], ranks[WAITING + 1], keys, job_id, float(job_id))


@kernel(forceinline=False)
def backfill(world: World, state: State, desk: Desk, actions: int, used: int) -> int:
    """Start what does not delay the blocked head; how many actions there are then."""
    now_s, keys = state.clock[0].now_s, desk.memory[0]
    ids, ends = desk.ranks[WAITING], desk.ranks[WAITING + 1]
    runs, runs_ends = desk.ranks[RUNS], desk.ranks[RUNS + 1]
    free = 0
    for server in range(len(desk.free)):
        free += desk.free[server]
    head = state.live[state.slot_of[ids[ends[0]]]]
    extra, shadow_s = free, now_s
    k = runs_ends[0]
    while k < runs_ends[1] and extra < head.gpus:
        shadow_s = keys[runs[k]]
        while k < runs_ends[1] and keys[runs[k]] == shadow_s:
            job = state.live[state.slot_of[runs[k]]]
            extra += job.held if job.status != PENDING else job.gpus
            k += 1
    extra -= head.gpus
    k = ends[0] + 1
    while k < ends[1] and free > 0:
        job = state.live[state.slot_of[ids[k]]]
        end_s = now_s + left_s(job)
        places = 0
        if job.gpus <= free and (end_s <= shadow_s or job.gpus <= extra):
            places = write_placed_start(world, state, desk, desk.free, actions, job.id, used)
        if places == 0:
            k += 1
            continue
        if end_s > shadow_s:
            extra -= job.gpus
        free -= job.gpus
        used += places
        actions += 1
        take_out(ids, ends, k)
        enter(runs, runs_ends, keys, job.id, end_s)
    return actions


@kernel(SCHEDULER)
def easy(situation: Any) -> int:
    """Start heads while they fit, then backfill behind the blocked one."""
    world, state, desk = dereference(situation)
    take_in(state, desk)
    actions = start_heads(world, state, desk)
    used = 0
    for k in range(actions):
        action = desk.plan[k]
        if action.kind == START:
            used += action.places
            job = state.live[state.slot_of[action.id]]
            end_s = state.clock[0].now_s + left_s(job)
            enter(desk.ranks[RUNS], desk.ranks[RUNS + 1], desk.memory[0], action.id, end_s)
    ends = desk.ranks[WAITING + 1]
    if ends[0] < ends[1]:
        actions = backfill(world, state, desk, actions, used)
    return actions


def scheduler() -> CompiledScheduler:
    """EASY backfill by what users expect, and by true run times where they say nothing."""
    return CompiledScheduler("easy", easy, knows_run_s=True, ranks=4)
