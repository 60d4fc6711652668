"""Aryl: inference lends idle servers to training, and elastic jobs use what is left.

After Aryl (arXiv 2202.07896; as Lyra at EuroSys'23), by its abstract (A); what is our hypothesis is marked (H).

1. *Loans* (A). Inference lends idle servers; when it wants servers back, they are given back at the least server
   preemption cost (``server_reclaim``). (H) Idle is what exceeds the demand, now and announced, by a headroom of 2 % of
   the pool; servers are lent at intervals of 300 s, and given back as soon as a demand is announced. The interval and
   the headroom are from memory of the paper.
2. *Phase 1* (A): waiting jobs get their base demand, the shortest first. (H) At every event. A job that does not fit
   blocks the GPU types that it may run on; without loans it blocks all, as ``sjf`` does.
3. *Phase 2* (A): the GPUs left go to elastic jobs as extra workers (``elastic_knapsack``). (H) At intervals; phase 1
   may then take the GPUs of flexible workers. A worker is one requested GPU, and flexible workers have the GPU type of
   the base.
4. *Placement* (A): best-fit decreasing; inelastic jobs on training servers first, elastic ones on lent servers first,
   base and flexible workers of a job on different servers. (H) Servers with the least room that is sufficient first,
   and flexible workers stay where they are as far as possible.

The base demand is the requested number of GPUs; a job is elastic if it can use more.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.gpu_arrays import (
    KILL,
    LEND,
    NEVER_S,
    NIL,
    NO_LOAN,
    NO_SERVER,
    ON_ENDED,
    ON_LEFT,
    ON_SERVERS,
    ON_SUBMITTED,
    RESIZE,
    RETURN,
    RUNNING,
    SAVE,
    SCHEDULER,
    START,
    STARTING,
    TICK_S,
    GpuState,
    GpuWorld,
    PlanBuffer,
    dereference,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import settle, stops_after_s
from mirage.schedule.engine.kernel.gpu_packing import allowed, allows_type, holds_exactly, pack
from mirage.schedule.engine.kernel.plan_writers import write, write_preempt
from mirage.schedule.schedulers.elastic_knapsack import add_job, share_linear, trace_back
from mirage.schedule.schedulers.job_queue import NEWCOMER, RETURNED, WAITING, enter, take_out
from mirage.schedule.schedulers.preemption import way_for_job, way_number
from mirage.schedule.schedulers.run_time_estimates import estimate_ends, left_on_s, usual_speed
from mirage.schedule.schedulers.server_reclaim import AVAILABLE, CHOSEN, choose_servers
from mirage.schedule.speeds.speed_law import speed

KEYS, COST, NEXT_INTERVAL, WORK, VALUE, BEST, LOSS = range(7)
"""Columns of numbers; the first value of ``NEXT_INTERVAL`` is the time at which the next interval begins."""

BASE, RECALLED, CHOICE, PREEMPTED, LISTED, HELD, MOST, EXTRA, FIRST, COUNT = range(2, 12)
"""Columns of integers after the waiting queue: by job id, by server, or by index in the list of elastic jobs."""

SHORTEST, LENDS, GIVES_BACK, RECLAIMED, SCALED_IN, KNAPSACK = range(1, 7)
_REASONS = (
    "",
    "shortest-waiting",
    "lends-idle",
    "inference-wants-it",
    "server-reclaimed",
    "flexible-server-reclaimed",
    "extra-workers",
)

LOANS, ELASTIC, INTERVAL_S, HEADROOM, WAY, WEIGHS_LOSS, MOST_LOSS_S, LEAST_GAIN_S = range(8)
"""Parameters by position."""

_ALL_BUT_PROGRESS = ON_SUBMITTED | ON_ENDED | ON_LEFT | ON_SERVERS


@kernel()
def is_elastic(buffer: PlanBuffer, job: Any) -> bool:
    """Whether a job may get extra workers."""
    return bool(buffer.parameters[ELASTIC] > 0.0 and job.max_gpus > job.gpus)


# -- loans -----------------------------------------------------------------------------------------------------------


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
    choice, preempted = buffer.ranks[CHOICE], buffer.ranks[PREEMPTED]
    for server in range(len(state.free)):
        lent = world.home_of[server] == pool and state.loan_of[server] != NO_LOAN
        choice[server] = AVAILABLE if lent and buffer.ranks[RECALLED, server] == 0 else 0
    for slot in range(state.clock[0].n_live):
        preempted[state.live[slot].id] = 0
        buffer.memory[LOSS, state.live[slot].id] = preemption_loss(state, buffer, state.live[slot])
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


# -- phase 1 ---------------------------------------------------------------------------------------------------------


@kernel()
def update_queue(state: GpuState, buffer: PlanBuffer) -> None:
    """Enter new and returned jobs by their remaining run time."""
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (NEWCOMER, RETURNED) and state.slot_of[job_id] >= 0:
            job = state.live[state.slot_of[job_id]]
            left_s = job.known_run_s * (1.0 - job.progress / job.work)
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], buffer.memory[KEYS], job_id, left_s)


@kernel(forceinline=False)
def place_base(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, any_lent: bool) -> int:
    """Choose servers for the base demand of a job.

    Returns the number of locations, 0 if it does not fit.

    Inelastic jobs go to servers of their own pool first, elastic ones to lent servers first.
    """
    if not any_lent:
        return int(pack(world, state, buffer.free, job, job.gpus, buffer.picked))
    for lent in (is_elastic(buffer, job), not is_elastic(buffer, job)):
        for server in range(len(buffer.free)):
            matches = (state.loan_of[server] != NO_LOAN) == lent
            buffer.spare[server] = buffer.free[server] if matches else 0
        places = pack(world, state, buffer.spare, job, job.gpus, buffer.picked)
        if places > 0:
            return int(places)
    return int(pack(world, state, buffer.free, job, job.gpus, buffer.picked))


@kernel(forceinline=False)
def worthwhile_types(world: GpuWorld, buffer: PlanBuffer, job: Any, home_types: int) -> int:
    """The types on which a job loses little time.

    Args:
        home_types: Mask of the types of the jobs' own pool; the fastest of them is the reference, as only these servers
            are sure to be there.
    """
    if buffer.parameters[MOST_LOSS_S] == NEVER_S:
        return int(job.types)
    least_s = NEVER_S
    for gpu_type in range(len(world.speeds.type_speed)):
        if home_types >> gpu_type & 1:
            least_s = min(least_s, left_on_s(world, job, gpu_type))
    if least_s == NEVER_S:
        return int(job.types)
    mask = 0
    for gpu_type in range(len(world.speeds.type_speed)):
        if left_on_s(world, job, gpu_type) <= least_s + buffer.parameters[MOST_LOSS_S]:
            mask |= 1 << gpu_type
    return mask


@kernel(forceinline=False)
def start_waiting(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int, any_lent: bool
) -> tuple[int, int]:
    """Write the starts of waiting jobs, the shortest first, on ``buffer.free``.

    Returns:
        The new numbers of actions and of locations.
    """
    ids, ends = buffer.ranks[WAITING], buffer.ranks[WAITING + 1]
    open_types, home_types = (1 << len(world.speeds.type_speed)) - 1, 0
    for server in range(len(world.home_of)):
        if world.jobs[0].pool < 0 or world.home_of[server] == world.jobs[0].pool:
            home_types |= 1 << world.type_of[server]
    k = ends[0]
    while k < ends[1] and open_types != 0:
        job = state.live[state.slot_of[ids[k]]]
        places = 0
        if job.types & open_types != 0:
            permitted = job.types
            job.types = worthwhile_types(world, buffer, job, home_types)
            places = place_base(world, state, buffer, job, any_lent)
            if places == 0:
                open_types = block(world, buffer, job, open_types) if buffer.parameters[LOANS] > 0.0 else 0
            job.types = permitted
        if places == 0:
            k += 1
            continue
        write(buffer, at, START, job.id, 0, SHORTEST)
        buffer.plan[at].first = used
        buffer.plan[at].places = places
        for place in range(places):
            location = buffer.picked[place]
            buffer.places[used + place].server = location.server
            buffer.places[used + place].gpus = location.gpus
            buffer.free[location.server] -= location.gpus
        buffer.ranks[BASE, job.id] = places
        at += 1
        used += places
        take_out(ids, ends, k)
        k = max(k, ends[0])
    return at, used


@kernel(forceinline=False)
def block(world: GpuWorld, buffer: PlanBuffer, job: Any, open_types: int) -> int:
    """Hold the free GPUs of the types that a job may use; returns the types that stay open.

    ``HELD`` has the GPUs by server, for phase 2.
    """
    for server in range(len(buffer.free)):
        if allows_type(job, world.type_of[server]) and buffer.free[server] > 0:
            buffer.ranks[HELD, server] += buffer.free[server]
            buffer.free[server] = 0
    return int(open_types & ~job.types)


# -- phase 2 ---------------------------------------------------------------------------------------------------------


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
        if job.status != RUNNING or job.gpu_type != gpu_type or not is_elastic(buffer, job):
            continue
        settle(job, state.clock[0].now_s)
        left_s = job.known_run_s * (1.0 - job.progress / job.work)
        buffer.ranks[LISTED, n] = job.id
        buffer.ranks[MOST, n] = job.max_gpus - job.gpus
        buffer.memory[WORK, n] = max(left_s * usual_speed(world, job), 0.0)
        n += 1
    return n


@kernel(forceinline=False)
def rate_with(world: GpuWorld, job: Any, gpu_type: int, extra: int) -> float:
    """Speed of a job with extra workers, base and extra ones on as few servers as possible."""
    gpus = (job.gpus + extra) * world.gpus_for_one[gpu_type]
    if job.model < 0:
        return float(gpus * world.speeds.type_speed[gpu_type])
    per_server = 1
    for server in range(len(world.gpus_of)):
        if world.type_of[server] == gpu_type:
            per_server = max(per_server, world.gpus_of[server])
    servers = math.ceil(gpus / per_server)
    return float(speed(world.speeds, job.model, gpu_type, servers, gpus, job.batch, job.progress))


@kernel(forceinline=False)
def choose_extra(world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int, n: int, capacity: int) -> None:
    """Choose the extra workers of the listed jobs."""
    work, most, extra, listed = buffer.memory[WORK], buffer.ranks[MOST], buffer.ranks[EXTRA], buffer.ranks[LISTED]
    linear = True
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        buffer.ranks[COUNT, j] = job.gpus
        linear &= job.model < 0
    if linear:
        share_linear(work, buffer.ranks[COUNT], most, n, capacity, extra)
        return
    best, value = buffer.memory[BEST], buffer.memory[VALUE]
    for used in range(capacity + 1):
        best[used] = 0.0
    for j in range(n):
        job = state.live[state.slot_of[listed[j]]]
        rate = rate_with(world, job, gpu_type, 0)
        for k in range(min(most[j], capacity) + 1):
            wider = rate_with(world, job, gpu_type, k)
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
            now, wider = rate_with(world, job, gpu_type, has), rate_with(world, job, gpu_type, extra[j])
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
                count[j] = add_flexible(world, state, buffer, job, first[j], count[j], wanted * each)
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
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, first: int, count: int, flexible: int
) -> int:
    """Add locations of flexible workers to those of a job.

    Returns the new number of locations.

    They may be fewer than wanted, if free GPUs are only on servers of its base.

    Args:
        first: First location of the job in the plan.
        count: Number of its locations so far.
        flexible: Number of its flexible GPUs, with those that it has.
    """
    base, each = buffer.ranks[BASE, job.id], world.gpus_for_one[job.gpu_type]
    has = 0
    for k in range(first + base, first + count):
        has += buffer.places[k].gpus
    while has < flexible:
        server = flexible_server(world, state, buffer, job, first, flexible - has)
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
def flexible_server(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, first: int, gpus: int) -> int:
    """The server for flexible workers of a job: without its base, lent servers first.

    Among them it is the one with the least room that is sufficient, else the one with the most room.
    """
    best, room, best_fits, best_lent = NO_SERVER, 0, False, False
    for server in range(len(buffer.free)):
        free = buffer.free[server]
        if free == 0 or world.type_of[server] != job.gpu_type or not allowed(state, job.pool, server):
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
def share_left(world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int) -> int:
    """Share the free GPUs among running elastic jobs, type by type.

    Returns the new number of actions.
    """
    for server in range(len(buffer.free)):
        buffer.free[server] += buffer.ranks[HELD, server]
    for gpu_type in range(len(world.speeds.type_speed)):
        n = list_elastic(world, state, buffer, gpu_type)
        if n == 0:
            continue
        pool, free = state.live[state.slot_of[buffer.ranks[LISTED, 0]]].pool, 0
        for server in range(len(buffer.free)):
            if world.type_of[server] == gpu_type and allowed(state, pool, server):
                free += buffer.free[server]
        capacity = free // world.gpus_for_one[gpu_type]
        choose_extra(world, state, buffer, gpu_type, n, capacity)
        if buffer.parameters[LEAST_GAIN_S] > 0.0:
            retain_small_gains(world, state, buffer, gpu_type, n, capacity)
        at, used = extend(world, state, buffer, gpu_type, n, at, used)
    return at


@kernel(SCHEDULER)
def aryl(situation: Any) -> int:
    """Give servers back or lend them, start the shortest jobs, and share what is left."""
    world, state, buffer = dereference(situation)
    clock = state.clock[0]
    loans, elastic = buffer.parameters[LOANS] > 0.0, buffer.parameters[ELASTIC] > 0.0
    update_queue(state, buffer)
    any_lent = False
    for server in range(len(state.free)):
        buffer.free[server] = state.free[server]
        buffer.ranks[HELD, server] = 0
        any_lent |= state.loan_of[server] != NO_LOAN
    at, used = 0, 0
    reclaims = False
    borrower = world.jobs[0].pool
    if loans and borrower >= 0:
        at = give_back_emptied(world, state, buffer, at)
        for pool in range(len(state.wanted)):
            missing = -surplus(world, state, buffer, pool, True)
            if pool != borrower and missing > 0 and state.present[pool] < pool_size(world, pool):
                at, used = reclaim(world, state, buffer, pool, missing, at, used)
                reclaims = True
    due = clock.now_s >= buffer.memory[NEXT_INTERVAL, 0] and not reclaims
    if due:
        interval_s = buffer.parameters[INTERVAL_S]
        buffer.memory[NEXT_INTERVAL, 0] = (math.floor(clock.now_s / interval_s) + 1.0) * interval_s
    before = at
    if due and loans and borrower >= 0:
        at = lend_idle(world, state, buffer, borrower, at)
    if reclaims or at > before:  # GPUs become free, which the next call uses
        clock.wake_s = min(clock.wake_s, clock.now_s + TICK_S)
    if due and elastic:
        release_flexible(state, buffer)
    at, used = start_waiting(world, state, buffer, at, used, any_lent)
    if due and elastic:
        at = share_left(world, state, buffer, at, used)
    estimate_ends(world, state, buffer, at)
    return at


def scheduler(
    loans: bool = True,
    elastic: bool = True,
    interval_s: float = 300.0,
    headroom: float = 0.02,
    preempt: str = "save",
    name: str = "aryl",
    weighs_loss: bool = False,
    most_loss_h: float = math.inf,
    least_gain_s: float = 0.0,
) -> CompiledScheduler:
    """Aryl.

    Args:
        loans: Whether inference lends its idle servers.
        elastic: Whether elastic jobs get extra workers.
        interval_s: Seconds between two decisions on loans and extra workers.
        headroom: Share of a pool's servers that is not lent, beyond the demand.
        preempt: save, kill, boundary or cheaper.
        name: Name of the scheduler.
        weighs_loss: Whether servers are given back by the GPU-seconds that are lost, not by the number of jobs.
        most_loss_h: Hours that a job may lose on a slower GPU type; otherwise it waits for a type of its own pool.
        least_gain_s: Seconds that an elastic job must gain to get more workers.

    Raises:
        ConfigurationError: A value cannot be used.
        UnknownName: There is no such way to preempt.
    """
    if not interval_s > 0:
        raise ConfigurationError(f"interval_s is {interval_s}; give a number of seconds above 0")
    if not 0 <= headroom <= 1:
        raise ConfigurationError(f"headroom is {headroom}; give a share from 0 to 1")
    if not (most_loss_h >= 0 and 0 <= least_gain_s < math.inf):
        raise ConfigurationError(
            f"most_loss_h is {most_loss_h} and least_gain_s is {least_gain_s}; give numbers of 0 or more"
        )
    parameters = (
        float(loans),
        float(elastic),
        float(interval_s),
        float(headroom),
        float(way_number(preempt)),
        float(weighs_loss),
        most_loss_h * HOUR_S,
        float(least_gain_s),
    )
    return CompiledScheduler(
        name,
        aryl,
        _REASONS,
        called_on=_ALL_BUT_PROGRESS,
        round_s=interval_s if loans or elastic else None,
        knows_run_s=True,
        memory=7,
        ranks=12,
        table=elastic,
        parameters=parameters,
    )


def plus_scheduler(
    loans: bool = True,
    elastic: bool = True,
    interval_s: float = 300.0,
    headroom: float = 0.02,
    preempt: str = "save",
    most_loss_h: float = 4.0,
    least_gain_s: float = 300.0,
) -> CompiledScheduler:
    """Aryl with three rules of our own.

    A job that would lose much time on slower GPUs waits; an elastic job grows only if it gains more time than changes
    of size cost; servers are given back by the work that is lost.

    Args:
        loans: As for ``scheduler``, like the next four.
        elastic: See there.
        interval_s: See there.
        headroom: See there.
        preempt: See there.
        most_loss_h: Hours that a job may lose on a slower GPU type.
        least_gain_s: Seconds that an elastic job must gain to get more workers.

    Raises:
        ConfigurationError: A value cannot be used.
        UnknownName: There is no such way to preempt.
    """
    return scheduler(loans, elastic, interval_s, headroom, preempt, "aryl-plus", True, most_loss_h, least_gain_s)
