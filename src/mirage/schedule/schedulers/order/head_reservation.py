"""Reservation of a queue's head: the GPU type on which it starts first, and the GPUs left.

Run times are the users' estimates, converted to the type: under the linear law in inverse proportion to its speed, with
a measured model by its speed relative to that on its usual type.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    NIL,
    NO_TYPE,
    PENDING,
    START,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_packing import allowed
from mirage.schedule.schedulers.order.job_queue import RUNS
from mirage.schedule.speeds.speed_law import speed

PLANNED = 4
"""Column of integers: the action of the present plan that starts a job, for jobs that hold no GPUs yet."""


class HeadReservation(NamedTuple):
    """The reservation of the head."""

    gpu_type: int  # ``NO_TYPE`` if it fits on no type, even when all jobs have ended
    shadow_s: float  # when it can start there
    extra: int  # GPUs of the type that are left then


@kernel()
def start_cost_s(job: Any) -> float:
    """The expected cost of the next start of a waiting job, in seconds."""
    return float(job.restart_s if job.start_s == job.start_s else job.first_start_s)


@kernel()
def offers(world: GpuWorld, state: GpuState, server: int, gpu_type: int, pool: int) -> bool:
    """Whether a server has a GPU type and is open to a pool."""
    return bool(world.type_of[server] == gpu_type and allowed(state, pool, server))


@kernel(forceinline=False)
def packed_speed(world: GpuWorld, job: Any, gpu_type: int) -> float:
    """Speed of a job on as few servers of a GPU type as possible; 0 if it cannot run there."""
    if job.model < 0:
        return float(job.gpus * world.speeds.type_speed[gpu_type])
    per_server = 0
    for server in range(len(world.gpus_of)):
        if world.type_of[server] == gpu_type:
            per_server = max(per_server, world.gpus_of[server])
    servers = math.ceil(job.gpus / per_server)
    return float(speed(world.speeds, job.model, gpu_type, servers, job.gpus, job.batch, job.progress))


@kernel(forceinline=False)
def usual_speed(world: GpuWorld, job: Any) -> float:
    """Speed on which the expected run time is based.

    Under the linear law this is the speed on GPUs of speed 1; else it is the speed on the type with the most GPUs in
    the cluster, among the types on which the model runs.
    """
    if job.model < 0:
        return float(job.gpus)
    most, found = 0, 0.0
    for gpu_type in range(len(world.speeds.type_speed)):
        gpus = 0
        for server in range(len(world.gpus_of)):
            if world.type_of[server] == gpu_type:
                gpus += world.gpus_of[server]
        if gpus > most:
            rate = packed_speed(world, job, gpu_type)
            if rate > 0.0:
                most, found = gpus, rate
    return found


@kernel(forceinline=False)
def left_on_s(world: GpuWorld, job: Any, gpu_type: int) -> float:
    """Remaining run time of a waiting job on a GPU type, with the cost of its start.

    It is infinite if the job cannot run there.
    """
    rate = packed_speed(world, job, gpu_type)
    if rate <= 0.0:
        return NEVER_S
    left_s = job.known_run_s * (1.0 - job.progress / job.work)
    return float(left_s * (usual_speed(world, job) / rate) + start_cost_s(job))


@kernel(forceinline=False)
def estimate_ends(world: GpuWorld, state: GpuState, buffer: PlanBuffer, actions: int) -> None:
    """Write the expected end of the job into every start of a plan."""
    for k in range(actions):
        action = buffer.plan[k]
        if action.kind == START:
            job = state.live[state.slot_of[action.id]]
            gpu_type = world.type_of[buffer.places[action.first].server]
            action.estimate_s = state.clock[0].now_s + left_on_s(world, job, gpu_type)


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


@kernel(forceinline=False)
def reserve_on(world: GpuWorld, state: GpuState, buffer: PlanBuffer, head: Any, gpu_type: int) -> HeadReservation:
    """The earliest reservation for a job on one GPU type, if jobs end as expected."""
    runs, ends, keys = buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.memory[0]
    gpus, shadow_s = 0, state.clock[0].now_s
    for server in range(len(buffer.free)):
        if offers(world, state, server, gpu_type, head.pool):
            gpus += buffer.free[server]
    k = ends[0]
    while k < ends[1] and gpus < head.gpus:
        shadow_s = keys[runs[k]]
        while k < ends[1] and keys[runs[k]] == shadow_s:
            gpus += freed(world, state, buffer, runs[k], gpu_type, head.pool)
            k += 1
    found = gpu_type if gpus >= head.gpus else NO_TYPE
    return HeadReservation(found, shadow_s, gpus - head.gpus)


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
