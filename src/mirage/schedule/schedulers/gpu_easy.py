"""EASY backfill: only the head of the queue has a reservation.

After Lifka 1995, and Mu'alem and Feitelson 2001. The *shadow time* is the earliest time at which enough GPUs for the
blocked head are free, if run times are as expected; *extra* is the number of GPUs left over then. No job runs on two
GPU types, so both are counted by type, and only on servers that the head may use: it has its reservation on the type on
which it can start first, among equal ones on the fastest. A later job may start now if it fits on another type, or on
the reserved type if it ends there by the shadow time or stays within extra; it takes the fastest of these types. Run
times are longer on slower types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    NIL,
    NO_TYPE,
    PENDING,
    SCHEDULER,
    START,
    GpuState,
    GpuWorld,
    PlanBuffer,
    dereference,
)
from mirage.schedule.engine.kernel.gpu_packing import allowed
from mirage.schedule.engine.kernel.plan_writers import write_placed_start
from mirage.schedule.schedulers.gpu_fifo import start_heads
from mirage.schedule.schedulers.job_queue import (
    GONE,
    NEWCOMER,
    RETURNED,
    RUNS,
    WAITING,
    enter,
    remove,
    take_out,
)
from mirage.schedule.schedulers.run_time_estimates import estimate_ends, left_on_s, packed_speed

PLANNED = 4
"""Column of integers: the action of the present plan that starts a job, for jobs that hold no GPUs yet."""

ENDS_BEFORE, OUTSIDE = 2, 3
"""Reasons by number; the number of heads is lower."""

_REASONS = (
    "",
    "head-of-queue",
    "backfill:ends=before-reservation",
    "backfill:gpus=beside-reservation",
)


class HeadReservation(NamedTuple):
    """The reservation of the head."""

    gpu_type: int  # ``NO_TYPE`` if it fits on no type, even when all jobs have ended
    shadow_s: float  # when it can start there
    extra: int  # GPUs of the type that are left then


@kernel(forceinline=False)
def update_queues(state: GpuState, buffer: PlanBuffer) -> None:
    """Update the queues from the news: waiting jobs by submission, running jobs by end."""
    keys, ranks = buffer.memory[0], buffer.ranks
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE):
            remove(ranks[RUNS], ranks[RUNS + 1], keys, job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            enter(ranks[WAITING], ranks[WAITING + 1], keys, job_id, float(job_id))


@kernel(forceinline=False)
def reserve(world: GpuWorld, state: GpuState, buffer: PlanBuffer, head: Any) -> HeadReservation:
    """The earliest reservation for a job on any GPU type on which it runs.

    Among equal times it is on the fastest type. As every job starts as soon as it fits anywhere, the head will start on
    the earliest type.
    """
    best, shadow_s, extra, fastest = NO_TYPE, NEVER_S, 0, 0.0
    for gpu_type in range(len(world.speeds.type_speed)):
        rate = packed_speed(world, head, gpu_type)
        if rate <= 0.0:
            continue
        found = reserve_on(world, state, buffer, head, gpu_type)
        if found.gpu_type == NO_TYPE:
            continue
        if found.shadow_s < shadow_s or (found.shadow_s == shadow_s and rate > fastest):
            best, shadow_s, extra, fastest = gpu_type, found.shadow_s, found.extra, rate
    return HeadReservation(best, shadow_s, extra)


@kernel(forceinline=False)
def reserve_on(world: GpuWorld, state: GpuState, buffer: PlanBuffer, head: Any, gpu_type: int) -> HeadReservation:
    """The earliest reservation for a job on one GPU type, if jobs end as expected."""
    runs, ends, keys = buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.memory[0]
    gpus, shadow_s = 0, state.clock[0].now_s
    needed = head.gpus * world.gpus_for_one[gpu_type]
    for server in range(len(buffer.free)):
        if offers(world, state, server, gpu_type, head.pool):
            gpus += buffer.free[server]
    k = ends[0]
    while k < ends[1] and gpus < needed:
        shadow_s = keys[runs[k]]
        while k < ends[1] and keys[runs[k]] == shadow_s:
            gpus += freed(world, state, buffer, runs[k], gpu_type, head.pool)
            k += 1
    found = gpu_type if gpus >= needed else NO_TYPE
    return HeadReservation(found, shadow_s, gpus - needed)


@kernel(forceinline=False)
def freed(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job_id: int, gpu_type: int, pool: int) -> int:
    """GPUs of a type, open to a pool, that a job that runs or starts now frees at its end."""
    job = state.live[state.slot_of[job_id]]
    gpus = 0
    if job.status == PENDING:
        action = buffer.plan[buffer.ranks[PLANNED, job_id]]
        for k in range(action.first, action.first + action.places):
            if offers(world, state, buffer.places[k].server, gpu_type, pool):
                gpus += buffer.places[k].gpus
        return int(gpus)
    at = job.chunk if job.gpu_type == gpu_type else NIL
    while at != NIL:
        if offers(world, state, state.chunks[at].server, gpu_type, pool):
            gpus += state.chunks[at].gpus
        at = state.chunks[at].next
    return int(gpus)


@kernel()
def offers(world: GpuWorld, state: GpuState, server: int, gpu_type: int, pool: int) -> bool:
    """Whether a server has a GPU type and is open to a pool."""
    return bool(world.type_of[server] == gpu_type and allowed(state, pool, server))


@kernel()
def exclude_reserved(world: GpuWorld, state: GpuState, buffer: PlanBuffer, gpu_type: int, pool: int) -> int:
    """Copy the free GPUs outside the reserved servers; returns the number on reserved ones.

    The copy is ``buffer.spare``; it is 0 on the reserved servers.
    """
    on_reserved = 0
    for server in range(len(buffer.free)):
        buffer.spare[server] = buffer.free[server]
        if offers(world, state, server, gpu_type, pool):
            on_reserved += buffer.free[server]
            buffer.spare[server] = 0
    return int(on_reserved)


@kernel()
def reconcile(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, used: int, places: int, gpu_type: int, pool: int
) -> int:
    """Make ``free`` and ``spare`` consistent after a start was subtracted from one of them.

    Both belong to ``buffer``. Returns the number of the start's GPUs on reserved servers.
    """
    on_reserved = 0
    for k in range(used, used + places):
        location = buffer.places[k]
        if offers(world, state, location.server, gpu_type, pool):
            on_reserved += location.gpus
        else:
            least = min(buffer.free[location.server], buffer.spare[location.server])
            buffer.free[location.server] = least
            buffer.spare[location.server] = least
    return int(on_reserved)


@kernel(forceinline=False)
def backfill(world: GpuWorld, state: GpuState, buffer: PlanBuffer, actions: int, used: int) -> int:
    """Start jobs that do not delay the blocked head; returns the new number of actions."""
    now_s, keys = state.clock[0].now_s, buffer.memory[0]
    ids, ends = buffer.ranks[WAITING], buffer.ranks[WAITING + 1]
    head = state.live[state.slot_of[ids[ends[0]]]]
    gpu_type, shadow_s, extra = reserve(world, state, buffer, head)
    reserved_free, other_free = exclude_reserved(world, state, buffer, gpu_type, head.pool), 0
    for server in range(len(buffer.spare)):
        other_free += buffer.spare[server]
    k = ends[0] + 1
    while k < ends[1] and reserved_free + other_free > 0:
        job = state.live[state.slot_of[ids[k]]]
        places = 0
        if job.gpus <= reserved_free + other_free:
            why = OUTSIDE if gpu_type == NO_TYPE or job.gpus * world.gpus_for_one[gpu_type] <= extra else ENDS_BEFORE
            if why == OUTSIDE or now_s + left_on_s(world, job, gpu_type) <= shadow_s:
                places = write_placed_start(world, state, buffer, buffer.free, actions, job.id, used, why)
            elif job.gpus <= other_free:
                places = write_placed_start(world, state, buffer, buffer.spare, actions, job.id, used, OUTSIDE)
        if places == 0:
            k += 1
            continue
        on_reserved = reconcile(world, state, buffer, used, places, gpu_type, head.pool)
        end_s = now_s + left_on_s(world, job, world.type_of[buffer.places[used].server])
        buffer.plan[actions].estimate_s = end_s
        if end_s > shadow_s:
            extra -= on_reserved
        reserved_free -= on_reserved
        for place in range(used, used + places):
            other_free -= buffer.places[place].gpus
        other_free += on_reserved
        used += places
        actions += 1
        take_out(ids, ends, k)
        enter(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], keys, job.id, end_s)
    return actions


@kernel(SCHEDULER)
def easy(situation: Any) -> int:
    """Start heads while they fit, then backfill around the blocked head."""
    world, state, buffer = dereference(situation)
    update_queues(state, buffer)
    actions = start_heads(world, state, buffer)
    estimate_ends(world, state, buffer, actions)
    used = 0
    for k in range(actions):
        action = buffer.plan[k]
        if action.kind == START:
            used += action.places
            buffer.ranks[PLANNED, action.id] = k
            enter(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.memory[0], action.id, action.estimate_s)
    ends = buffer.ranks[WAITING + 1]
    if ends[0] < ends[1]:
        actions = backfill(world, state, buffer, actions, used)
    return actions


def scheduler() -> CompiledScheduler:
    """EASY backfill by the users' estimates, or by true run times of jobs without one."""
    return CompiledScheduler("easy", easy, _REASONS, knows_run_s=True, ranks=5)
