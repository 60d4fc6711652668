"""Moves of running jobs from slower lent servers to free servers of their own pool.

A rule of our own, of ``aryl-plus``: a job that would wait starts on lent GPUs at once, also if they are slower, and
moves when faster ones become free that no waiting job takes. The shortest jobs move first. A move costs as much as a
change of size.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.current_amounts import expected_left_s, progress_now
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    NIL,
    NO_LOAN,
    RESIZE,
    RUNNING,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_packing import pack
from mirage.schedule.engine.kernel.plan_writers import write
from mirage.schedule.schedulers.aryl_memory import BASE, LEAST_GAIN_S, MOVED, MOVES_HOME, RECALLED
from mirage.schedule.schedulers.run_time_estimates import packed_speed, usual_speed

MOVES_NOW, FITS_NOWHERE = 1, 2
"""States of a job during a plan; 0 for all others."""


@kernel(forceinline=False)
def move_home(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, home_types: int, at: int, used: int
) -> tuple[int, int]:
    """Write the moves of running jobs to free servers of their own pool.

    Returns the new numbers of actions and locations.

    Args:
        home_types: Mask of the types of the jobs' own pool.
        at: Number of actions so far.
        used: Locations of the plan so far.
    """
    free = 0
    for server in range(len(buffer.free)):
        is_home = state.loan_of[server] == NO_LOAN and buffer.ranks[RECALLED, server] == 0
        buffer.spare[server] = buffer.free[server] if is_home else 0
        free += buffer.spare[server]
    for slot in range(state.clock[0].n_live):
        buffer.ranks[MOVED, state.live[slot].id] = 0
    while free > 0:
        slot = shortest_to_move(world, state, buffer, home_types, free)
        if slot < 0:
            break
        job = state.live[slot]
        buffer.ranks[MOVED, job.id] = FITS_NOWHERE
        permitted = job.types
        job.types = permitted & home_types
        places = pack(world, state, buffer.spare, job, job.gpus, buffer.picked)
        job.types = permitted
        if places == 0:
            continue
        write(buffer, at, RESIZE, job.id, 0, MOVES_HOME)
        buffer.plan[at].first = used
        buffer.plan[at].places = places
        for k in range(places):
            location = buffer.picked[k]
            buffer.places[used + k].server = location.server
            buffer.places[used + k].gpus = location.gpus
            buffer.spare[location.server] -= location.gpus
            buffer.free[location.server] -= location.gpus
            free -= location.gpus
        buffer.ranks[BASE, job.id] = places
        buffer.ranks[MOVED, job.id] = MOVES_NOW
        at += 1
        used += places
    return at, used


@kernel(forceinline=False)
def shortest_to_move(world: GpuWorld, state: GpuState, buffer: PlanBuffer, home_types: int, free: int) -> int:
    """The slot of the job with the least time left that gains enough by a move; −1 for none."""
    best, least_s = -1, NEVER_S
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        if job.status != RUNNING or job.gpus > free or buffer.ranks[MOVED, job.id] != 0 or not is_on_loan(state, job):
            continue
        left = expected_left_s(job, progress_now(job, state.clock[0].now_s)) * usual_speed(world, job)
        fastest = 0.0
        for gpu_type in range(len(world.speeds.type_speed)):
            if home_types >> gpu_type & 1:
                fastest = max(fastest, packed_speed(world, job, gpu_type))
        if fastest <= job.speed or job.speed <= 0.0:
            continue
        gain_s = left / job.speed - left / fastest - job.rescale_s
        if gain_s >= buffer.parameters[LEAST_GAIN_S] and left / fastest < least_s:
            best, least_s = slot, left / fastest
    return best


@kernel()
def is_on_loan(state: GpuState, job: Any) -> bool:
    """Whether a job has workers on a lent server."""
    at = job.chunk
    while at != NIL:
        if state.loan_of[state.chunks[at].server] != NO_LOAN:
            return True
        at = state.chunks[at].next
    return False
