"""Aryl's extra workers: GPUs left over are shared among running elastic jobs.

The rules are (3) and (4) in ``aryl``. Two rules of ``aryl-plus`` are our own: elastic jobs start with extra workers,
and these go to the jobs with the least remaining work.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.current_amounts import expected_left_s
from mirage.schedule.engine.kernel.gpu_arrays import (
    NIL,
    NO_LOAN,
    NO_SERVER,
    RESIZE,
    RUNNING,
    START,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import settle
from mirage.schedule.engine.kernel.gpu_packing import allowed, holds_exactly
from mirage.schedule.engine.kernel.plan_writers import write
from mirage.schedule.schedulers.aryl_memory import (
    BASE,
    BEST,
    COUNT,
    EXTRA,
    EXTRA_ON_LOANS,
    FIRST,
    HELD,
    KNAPSACK,
    LEAST_GAIN_S,
    LEAST_WORK_FIRST,
    LISTED,
    MOST,
    MOVED,
    MOVES,
    RECALLED,
    VALUE,
    WIDE,
    WIDE_STARTS,
    WORK,
    is_elastic,
)
from mirage.schedule.schedulers.aryl_moves import MOVES_NOW
from mirage.schedule.schedulers.elastic_knapsack import add_job, share_by_least_work, share_linear, trace_back
from mirage.schedule.schedulers.job_queue import WAITING
from mirage.schedule.schedulers.run_time_estimates import speed_of_width, usual_speed


@kernel(forceinline=False)
def release_flexible(state: GpuState, buffer: PlanBuffer) -> None:
    """Add the GPUs of flexible workers to the free ones of the plan.

    Jobs in a pause retain theirs, and servers that are recalled offer none.
    """
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        if job.status != RUNNING:
            continue
        at, k = job.chunk, 0
        while at != NIL:
            server = state.chunks[at].server
            if k >= buffer.ranks[BASE, job.id] and buffer.ranks[RECALLED, server] == 0:
                buffer.free[server] += state.chunks[at].gpus
            at = state.chunks[at].next
            k += 1


@kernel(forceinline=False)
def list_elastic(world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int) -> int:
    """List the running elastic jobs on a GPU type with their remaining work.

    Returns their number.
    """
    n = 0
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        moves = buffer.parameters[MOVES] > 0.0 and buffer.ranks[MOVED, job.id] == MOVES_NOW
        if job.status != RUNNING or job.gpu_type != gpu_type or moves or not is_elastic(buffer, job):
            continue
        if not may_have_extra(state, buffer, state.chunks[job.chunk].server):
            continue
        settle(job, state.clock[0].now_s)
        left_s = expected_left_s(job, job.progress)
        buffer.ranks[LISTED, n] = job.id
        buffer.ranks[MOST, n] = job.max_gpus - job.gpus
        buffer.memory[WORK, n] = max(left_s * usual_speed(world, job), 0.0)
        n += 1
    return n


@kernel()
def may_have_extra(state: GpuState, buffer: PlanBuffer, server: int) -> bool:
    """Whether a server may have extra workers, or bases of jobs with extra workers."""
    return bool(buffer.parameters[EXTRA_ON_LOANS] > 0.0 or state.loan_of[server] == NO_LOAN)


@kernel(forceinline=False)
def choose_extra(world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int, n: int, capacity: int) -> None:
    """Choose the extra workers of the listed jobs."""
    work, most, extra, listed = buffer.memory[WORK], buffer.ranks[MOST], buffer.ranks[EXTRA], buffer.ranks[LISTED]
    linear = True
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        buffer.ranks[COUNT, j] = job.gpus
        linear &= job.model < 0
    if linear and buffer.parameters[LEAST_WORK_FIRST] > 0.0:
        share_by_least_work(work, most, n, capacity, extra)
        return
    if linear:
        share_linear(work, buffer.ranks[COUNT], most, n, capacity, extra)
        return
    best, value = buffer.memory[BEST], buffer.memory[VALUE]
    for used in range(capacity + 1):
        best[used] = 0.0
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        rate = speed_of_width(world, job, gpu_type, job.gpus)
        for k in range(min(most[j], capacity) + 1):
            wider = speed_of_width(world, job, gpu_type, job.gpus + k)
            value[k] = work[j] / rate - work[j] / wider if wider > rate > 0.0 else 0.0
        add_job(value, min(most[j], capacity), best, capacity, buffer.table[j])
    trace_back(buffer.table, n, capacity, extra)


@kernel(forceinline=False)
def retain_small_gains(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int, n: int, capacity: int
) -> None:
    """Leave listed jobs at their present size if a larger one gains little time.

    The workers that they do not get let other jobs stay at their size, which would have to shrink.
    """
    extra, listed, left = buffer.ranks[EXTRA], buffer.ranks[LISTED], capacity
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        has = job.held // world.gpus_for_one[gpu_type] - job.gpus
        if extra[j] > has:
            now, wider = (
                speed_of_width(world, job, gpu_type, job.gpus + has),
                speed_of_width(world, job, gpu_type, job.gpus + extra[j]),
            )
            if buffer.memory[WORK, j] / now - buffer.memory[WORK, j] / wider < buffer.parameters[LEAST_GAIN_S]:
                extra[j] = has
        left -= extra[j]
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        more = job.held // world.gpus_for_one[gpu_type] - job.gpus - extra[j]
        if 0 < more <= left:
            extra[j] += more
            left -= more


@kernel(forceinline=False)
def extend(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int, n: int, at: int, used: int
) -> tuple[int, int]:
    """Write the changes of size of the listed jobs.

    Returns the new numbers of actions and locations.
    """
    each = world.gpus_for_one[gpu_type]
    listed, extra = buffer.ranks[LISTED], buffer.ranks[EXTRA]
    first, count = buffer.ranks[FIRST], buffer.ranks[COUNT]
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        first[j] = used
        count[j] = retain(state, buffer, job, used, extra[j] * each)
        used += job.servers + extra[j] * each
    largest = 0
    for j in range(n):
        largest = max(largest, extra[j])
    for wanted in range(largest, 0, -1):  # best-fit decreasing
        for j in range(n):
            if extra[j] == wanted:
                job = state.live[state.slot_of[listed[j]]]
                count[j] = add_flexible(world, state, buffer, job, gpu_type, first[j], count[j], wanted * each)
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        if not holds_exactly(state, job, buffer.places, first[j], count[j]):
            write(buffer, at, RESIZE, job.id, 0, KNAPSACK)
            buffer.plan[at].first = first[j]
            buffer.plan[at].places = count[j]
            at += 1
    return at, used


@kernel(forceinline=False)
def retain(state: GpuState, buffer: PlanBuffer, job: Any, first: int, flexible: int) -> int:
    """Write the locations that a job retains; returns their number.

    These are those of its base, then up to ``flexible`` other GPUs. They are written from ``first`` on.
    """
    n, k, left, at = 0, 0, flexible, job.chunk
    while at != NIL:
        server, gpus = state.chunks[at].server, state.chunks[at].gpus
        if k >= buffer.ranks[BASE, job.id]:
            gpus = min(gpus, left, buffer.free[server])
            left -= gpus
            buffer.free[server] -= gpus
        if gpus > 0:
            buffer.places[first + n].server = server
            buffer.places[first + n].gpus = gpus
            n += 1
        at = state.chunks[at].next
        k += 1
    return n


@kernel(forceinline=False)
def add_flexible(
    world: GpuWorld,
    state: GpuState,
    buffer: PlanBuffer,
    job: Any,
    gpu_type: int,
    first: int,
    count: int,
    flexible: int,
) -> int:
    """Add locations of flexible workers to those of a job.

    Returns the new number of locations.

    They may be fewer than wanted, if free GPUs are only on servers of its base.

    Args:
        first: First location of the job in the plan.
        count: Number of its locations so far.
        flexible: Number of its flexible GPUs, with those that it has.
    """
    base, each = buffer.ranks[BASE, job.id], world.gpus_for_one[gpu_type]
    has = 0
    for k in range(first + base, first + count):
        has += buffer.places[k].gpus
    while has < flexible:
        server = flexible_server(world, state, buffer, job, gpu_type, first, flexible - has)
        if server == NO_SERVER:
            break
        gpus = min(flexible - has, buffer.free[server])
        buffer.free[server] -= gpus
        has += gpus
        at = first + base
        while at < first + count and buffer.places[at].server != server:
            at += 1
        if at == first + count:
            buffer.places[at].server = server
            buffer.places[at].gpus = 0
            count += 1
        buffer.places[at].gpus += gpus
    while has % each != 0:  # no part of a worker
        last = first + count - 1
        buffer.places[last].gpus -= 1
        buffer.free[buffer.places[last].server] += 1
        has -= 1
        if buffer.places[last].gpus == 0:
            count -= 1
    return count


@kernel(forceinline=False)
def widen_starts(world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int) -> None:
    """Add free GPUs to the starts of elastic jobs, in their order, if no job waits.

    Jobs with measured speeds start on their base demand.
    """
    ends = buffer.ranks[WAITING + 1]
    if buffer.parameters[WIDE_STARTS] == 0.0 or ends[0] < ends[1]:
        return
    for k in range(at):
        action = buffer.plan[k]
        if action.kind != START:
            continue
        job = state.live[state.slot_of[action.id]]
        if job.model >= 0 or not is_elastic(buffer, job):
            continue
        gpu_type = world.type_of[buffer.places[action.first].server]
        for location in range(action.places):
            buffer.places[used + location].server = buffer.places[action.first + location].server
            buffer.places[used + location].gpus = buffer.places[action.first + location].gpus
        wanted = (job.max_gpus - job.gpus) * world.gpus_for_one[gpu_type]
        count = add_flexible(world, state, buffer, job, gpu_type, used, action.places, wanted)
        if count > action.places:
            action.first = used
            action.places = count
            action.reason = WIDE
            used += count


@kernel(forceinline=False)
def flexible_server(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, gpu_type: int, first: int, gpus: int
) -> int:
    """The server for flexible workers of a job: without its base, lent servers first.

    Among them it is the one with the least room that is sufficient, else the one with the most room.
    """
    best, room, best_fits, best_lent = NO_SERVER, 0, False, False
    for server in range(len(buffer.free)):
        free = buffer.free[server]
        if free == 0 or world.type_of[server] != gpu_type or not allowed(state, job.pool, server):
            continue
        if not may_have_extra(state, buffer, server):
            continue
        lent, fits = state.loan_of[server] != NO_LOAN, free >= gpus
        if best != NO_SERVER:
            if best_lent != lent:
                if best_lent:
                    continue
            elif best_fits != fits:
                if best_fits:
                    continue
            elif (fits and free >= room) or (not fits and free <= room):
                continue
        if has_base_on(buffer, job, first, server):
            continue
        best, room, best_fits, best_lent = server, free, fits, lent
    return best


@kernel()
def has_base_on(buffer: PlanBuffer, job: Any, first: int, server: int) -> bool:
    """Whether the base of a job is on a server."""
    found = False
    for k in range(first, first + buffer.ranks[BASE, job.id]):
        found |= buffer.places[k].server == server
    return found


@kernel(forceinline=False)
def share_left(world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int) -> tuple[int, int]:
    """Share the free GPUs among running elastic jobs, type by type.

    Returns the new numbers of actions and locations.
    """
    for server in range(len(buffer.free)):
        buffer.free[server] += buffer.ranks[HELD, server]
    for gpu_type in range(len(world.speeds.type_speed)):
        n = list_elastic(world, state, buffer, gpu_type)
        if n == 0:
            continue
        pool, free = state.live[state.slot_of[buffer.ranks[LISTED, 0]]].pool, 0
        for server in range(len(buffer.free)):
            if world.type_of[server] != gpu_type or not allowed(state, pool, server):
                continue
            if may_have_extra(state, buffer, server):
                free += buffer.free[server]
        capacity = free // world.gpus_for_one[gpu_type]
        choose_extra(world, state, buffer, gpu_type, n, capacity)
        if buffer.parameters[LEAST_GAIN_S] > 0.0:
            retain_small_gains(world, state, buffer, gpu_type, n, capacity)
        at, used = extend(world, state, buffer, gpu_type, n, at, used)
    return at, used


@kernel(forceinline=False)
def give_extra(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int, shares: bool, widens: bool
) -> int:
    """Give extra workers to elastic jobs; returns the new number of actions.

    Args:
        at: Number of actions so far.
        used: Locations of the plan so far.
        shares: Whether running jobs share the free GPUs.
        widens: Whether jobs that start may have extra workers.
    """
    if shares:
        at, used = share_left(world, state, buffer, at, used)
    if widens:
        widen_starts(world, state, buffer, at, used)
    return at
