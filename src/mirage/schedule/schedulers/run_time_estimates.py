"""Expected run times of waiting jobs: on a GPU type, and at their usual speed.

Run times are the users' estimates, converted to the type: under the linear law in inverse proportion to its speed, with
a measured model by its speed relative to that on its usual type.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.current_amounts import expected_left_s
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    START,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_packing import allows_type
from mirage.schedule.speeds.speed_law import speed


@kernel()
def start_cost_s(job: Any) -> float:
    """The expected cost of the next start of a waiting job, in seconds."""
    return float(job.restart_s if job.start_s == job.start_s else job.first_start_s)


@kernel(forceinline=False)
def speed_of_width(world: GpuWorld, job: Any, gpu_type: int, width: int) -> float:
    """Speed of a job of a width, in GPUs as it requests them, on the fewest servers."""
    gpus = width * world.gpus_for_one[gpu_type]
    if job.model < 0:
        return float(gpus * world.speeds.type_speed[gpu_type])
    per_server = 0
    for server in range(len(world.gpus_of)):
        if world.type_of[server] == gpu_type:
            per_server = max(per_server, world.gpus_of[server])
    servers = math.ceil(gpus / per_server)
    return float(speed(world.speeds, job.model, gpu_type, servers, gpus, job.batch, job.progress))


@kernel(forceinline=False)
def packed_speed(world: GpuWorld, job: Any, gpu_type: int) -> float:
    """Speed of a job on the fewest servers of a GPU type; 0 if it may or can not run there."""
    return speed_of_width(world, job, gpu_type, job.gpus) if allows_type(job, gpu_type) else 0.0


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
    left_s = expected_left_s(job, job.progress)
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
