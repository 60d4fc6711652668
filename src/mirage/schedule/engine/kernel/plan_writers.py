"""Writers of plans for compiled schedulers."""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import (
    ALL_GPUS,
    NEVER_S,
    NO_POOL,
    PREEMPT,
    START,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_packing import pack


@kernel()
def write(buffer: PlanBuffer, at: int, kind: int, job_id: int, how: int, reason: int) -> None:
    """Write action ``at`` of the plan; the engine chooses its size and locations."""
    action = buffer.plan[at]
    action.kind = kind
    action.id = job_id
    action.how = how
    action.gpus = 0
    action.batch = 0
    action.first = 0
    action.places = 0
    action.pool = NO_POOL
    action.until_s = NEVER_S
    action.reason = reason
    action.needed = ALL_GPUS
    action.estimate_s = math.nan


@kernel()
def write_preempt(buffer: PlanBuffer, at: int, job_id: int, how: int, reason: int) -> None:
    """Write a preemption."""
    write(buffer, at, PREEMPT, job_id, how, reason)


@kernel()
def copy_free(state: GpuState, buffer: PlanBuffer) -> None:
    """Copy the present free GPUs into the plan buffer."""
    for server in range(len(state.free)):
        buffer.free[server] = state.free[server]


@kernel(forceinline=False)
def write_placed_start(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, free: Any, at: int, job_id: int, used: int, reason: int
) -> int:
    """Write the start of a job on free GPUs, and remove them from the free ones.

    Args:
        free: Free GPUs by server; updated in place.
        used: Locations of the plan so far.
        reason: A number of the scheduler.

    Returns:
        The number of locations that it takes; 0 if the job does not fit, and nothing is written.
    """
    job = state.live[state.slot_of[job_id]]
    places = pack(world, state, free, job, job.gpus, buffer.picked)
    if places == 0:
        return 0
    write_picked_start(buffer, at, job_id, free, used, places, reason)
    return places


@kernel()
def write_picked_start(
    buffer: PlanBuffer, at: int, job_id: int, free: Any, used: int, places: int, reason: int
) -> None:
    """Write the start of a job on the picked locations, and take their GPUs from ``free``.

    Args:
        at: Index of the action.
        free: Free GPUs by server; updated in place.
        used: Locations of the plan so far.
        places: Number of picked locations.
        reason: A number of the scheduler.
    """
    write(buffer, at, START, job_id, 0, reason)
    buffer.plan[at].first = used
    buffer.plan[at].places = places
    for k in range(places):
        location = buffer.picked[k]
        buffer.places[used + k].server = location.server
        buffer.places[used + k].gpus = location.gpus
        free[location.server] -= location.gpus
