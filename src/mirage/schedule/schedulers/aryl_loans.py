"""Aryl's loans: which servers to lend, and the actions that give servers back.

The rules are (1) in ``aryl``.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import (
    KILL,
    LEND,
    NIL,
    NO_LOAN,
    RESIZE,
    RETURN,
    RUNNING,
    SAVE,
    STARTING,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import settle, stops_after_s
from mirage.schedule.engine.kernel.plan_writers import write, write_preempt
from mirage.schedule.schedulers.aryl_memory import (
    ANSWERED_S,
    BASE,
    CHOICE,
    COST,
    EXACT,
    GIVES_BACK,
    HEADROOM,
    LENDS,
    LOSS,
    MISSING,
    PREEMPTED,
    RECALLED,
    RECLAIMED,
    SCALED_IN,
    WAY,
    WEIGHS_LOSS,
)
from mirage.schedule.schedulers.preemption import way_for_job
from mirage.schedule.schedulers.server_reclaim import AVAILABLE, CHOSEN, choose_servers, preempt_jobs


@kernel(forceinline=False)
def surplus(world: GpuWorld, state: GpuState, buffer: PlanBuffer, pool: int, soon: bool) -> int:
    """Servers of a pool beyond its demand and the headroom; negative if some are missing.

    The demand is the larger one of the present and the announced demand. ``soon`` counts recalled servers, too, which
    will be there when jobs have left them.
    """
    servers, recalled = 0, 0
    for server in range(len(world.home_of)):
        if world.home_of[server] == pool:
            servers += 1
            if soon and state.loan_of[server] != NO_LOAN:
                recalled += buffer.ranks[RECALLED, server]
    spare = math.ceil(buffer.parameters[HEADROOM] * servers)
    target = min(max(state.wanted[pool], state.wanted_soon[pool]) + spare, servers)
    return int(state.present[pool] + recalled - target)


@kernel()
def pool_size(world: GpuWorld, pool: int) -> int:
    """Number of servers of a pool."""
    servers = 0
    for server in range(len(world.home_of)):
        servers += world.home_of[server] == pool
    return servers


@kernel(forceinline=False)
def lend_idle(world: GpuWorld, state: GpuState, buffer: PlanBuffer, borrower: int, at: int) -> int:
    """Write the loans of idle servers to the pool of the jobs.

    Returns the new number of actions.
    """
    for pool in range(len(state.wanted)):
        left = surplus(world, state, buffer, pool, False) if pool != borrower else 0
        for server in range(len(world.home_of)):
            if left <= 0:
                break
            if world.home_of[server] == pool and state.loan_of[server] == NO_LOAN:
                write(buffer, at, LEND, server, 0, LENDS)
                buffer.plan[at].pool = borrower
                left -= 1
                at += 1
    return at


@kernel(forceinline=False)
def give_back_emptied(world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int) -> int:
    """Write the return of recalled servers that jobs have left.

    Returns the new number of actions.

    Recalled servers offer no free GPUs.
    """
    recalled = buffer.ranks[RECALLED]
    for server in range(len(state.free)):
        if state.loan_of[server] == NO_LOAN:
            recalled[server] = 0
        if recalled[server] == 0:
            continue
        buffer.free[server] = 0
        if state.free[server] == world.gpus_of[server]:
            write(buffer, at, RETURN, server, 0, GIVES_BACK)
            at += 1
    return at


@kernel()
def is_available(world: GpuWorld, state: GpuState, buffer: PlanBuffer, pool: int, server: int) -> bool:
    """Whether a server of a pool is lent, and not recalled yet."""
    lent = world.home_of[server] == pool and state.loan_of[server] != NO_LOAN
    return bool(lent and buffer.ranks[RECALLED, server] == 0)


@kernel(forceinline=False)
def prepare_exact(world: GpuWorld, state: GpuState, buffer: PlanBuffer, borrower: int) -> bool:
    """Write the candidates and losses of an exact reclaim; returns whether one is necessary.

    It is if servers with jobs must be given back, and were not chosen at this time already.
    """
    if buffer.memory[ANSWERED_S, 0] == state.clock[0].now_s:
        return False
    needs_answer = False
    for pool in range(len(state.wanted)):
        buffer.memory[MISSING, pool] = 0.0
        missing = -surplus(world, state, buffer, pool, True)
        if pool == borrower or missing <= 0 or state.present[pool] >= pool_size(world, pool):
            continue
        empty = 0
        for server in range(len(state.free)):
            if state.free[server] == world.gpus_of[server] and is_available(world, state, buffer, pool, server):
                empty += 1
        if missing > empty:
            buffer.memory[MISSING, pool] = missing
            needs_answer = True
    if needs_answer:
        for server in range(len(state.free)):
            available = is_available(world, state, buffer, world.home_of[server], server)
            buffer.ranks[CHOICE, server] = AVAILABLE if available else 0
        for slot in range(state.clock[0].n_live):
            buffer.memory[LOSS, state.live[slot].id] = preemption_loss(state, buffer, state.live[slot])
    return needs_answer


@kernel(forceinline=False)
def choose_for(world: GpuWorld, state: GpuState, buffer: PlanBuffer, pool: int, servers: int) -> None:
    """Choose the servers of a pool to give back, unless they were chosen exactly before."""
    choice, preempted = buffer.ranks[CHOICE], buffer.ranks[PREEMPTED]
    now_s = state.clock[0].now_s
    is_exact = buffer.parameters[EXACT] > 0.0 and buffer.memory[MISSING, pool] > 0.0
    is_exact = is_exact and buffer.memory[ANSWERED_S, 0] == now_s
    for server in range(len(state.free)):
        chosen = is_exact and choice[server] == CHOSEN and world.home_of[server] == pool
        choice[server] = AVAILABLE if is_available(world, state, buffer, pool, server) else 0
        if chosen and choice[server] == AVAILABLE:
            choice[server] = CHOSEN
    for slot in range(state.clock[0].n_live):
        preempted[state.live[slot].id] = 0
        buffer.memory[LOSS, state.live[slot].id] = preemption_loss(state, buffer, state.live[slot])
    if is_exact:
        for server in range(len(state.free)):
            if choice[server] == CHOSEN:
                preempt_jobs(state, server, buffer.ranks[BASE], preempted)
    else:
        choose_servers(
            state,
            world.gpus_of,
            servers,
            choice,
            buffer.memory[COST],
            buffer.ranks[BASE],
            preempted,
            buffer.memory[LOSS],
            buffer.parameters[WEIGHS_LOSS] > 0.0,
        )


@kernel(forceinline=False)
def reclaim(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, pool: int, servers: int, at: int, used: int
) -> tuple[int, int]:
    """Write the actions that give servers of a pool back.

    Returns the new numbers of actions and locations.

    Servers that jobs leave later are recalled, and given back when they are empty.

    Args:
        servers: Number of servers to give back.
        at: Number of actions so far.
        used: Locations of the plan so far.
    """
    choose_for(world, state, buffer, pool, servers)
    choice, preempted = buffer.ranks[CHOICE], buffer.ranks[PREEMPTED]
    for server in range(len(state.free)):
        buffer.spare[server] = state.free[server]  # with the GPUs that this plan frees at once
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        here = gpus_on_chosen(state, choice, job)
        if here == 0:
            continue
        if preempted[job.id] == 1:
            at = write_departure(world, state, buffer, job, here, at)
        elif job.status in (RUNNING, STARTING):
            places = write_scale_in(world, state, buffer, choice, job, at, used)
            used += places
            at += 1
    for server in range(len(state.free)):
        if choice[server] != CHOSEN:
            continue
        buffer.free[server] = 0
        if buffer.spare[server] == world.gpus_of[server]:
            write(buffer, at, RETURN, server, 0, GIVES_BACK)
            at += 1
        else:
            buffer.ranks[RECALLED, server] = 1
    return at, used


@kernel()
def preemption_loss(state: GpuState, buffer: PlanBuffer, job: Any) -> float:
    """What a preemption of a job costs: 1, or GPU-seconds if losses are weighed."""
    if buffer.parameters[WEIGHS_LOSS] == 0.0 or job.held == 0:
        return 1.0
    settle(job, state.clock[0].now_s)
    way = way_for_job(job, int(buffer.parameters[WAY]))
    lost = job.held * job.restart_s + 1.0
    if way == KILL:
        lost += job.unsafe
    elif way == SAVE and job.unsafe > 0.0:
        lost += job.held * job.save_s
    return float(lost)


@kernel()
def gpus_on_chosen(state: GpuState, choice: Any, job: Any) -> int:
    """GPUs of a job on the servers to give back."""
    gpus, at = 0, job.chunk
    while at != NIL:
        if choice[state.chunks[at].server] == CHOSEN:
            gpus += state.chunks[at].gpus
        at = state.chunks[at].next
    return int(gpus)


@kernel(forceinline=False)
def write_departure(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, needed: int, at: int) -> int:
    """Write a preemption; ``needed`` GPUs of the job are on servers to give back."""
    settle(job, state.clock[0].now_s)  # as the engine will, before the job leaves
    way = way_for_job(job, int(buffer.parameters[WAY]))
    write_preempt(buffer, at, job.id, way, RECLAIMED)
    buffer.plan[at].needed = needed
    if stops_after_s(world, job, way) <= 0.0:
        chunk = job.chunk
        while chunk != NIL:
            buffer.spare[state.chunks[chunk].server] += state.chunks[chunk].gpus
            chunk = state.chunks[chunk].next
    return at + 1


@kernel(forceinline=False)
def write_scale_in(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, choice: Any, job: Any, at: int, used: int
) -> int:
    """Write the end of a job's flexible workers on servers to give back.

    Returns the number of locations left.
    """
    places, left, chunk = 0, 0, job.chunk
    while chunk != NIL:
        server, gpus = state.chunks[chunk].server, state.chunks[chunk].gpus
        if choice[server] == CHOSEN:
            buffer.spare[server] += gpus
        else:
            buffer.places[used + places].server = server
            buffer.places[used + places].gpus = gpus
            places += 1
            left += gpus
        chunk = state.chunks[chunk].next
    while left % world.gpus_for_one[job.gpu_type] != 0:  # no part of a worker
        left -= 1
        buffer.places[used + places - 1].gpus -= 1
        if buffer.places[used + places - 1].gpus == 0:
            places -= 1
    write(buffer, at, RESIZE, job.id, 0, SCALED_IN)
    buffer.plan[at].first = used
    buffer.plan[at].places = places
    return places
