"""Writers of plans for compiled schedulers."""

from __future__ import annotations

import math
from typing import Any

from mirage.schedule.engine.kernel.arrays import NEVER_S, NOBODY, PREEMPT, START, Desk, State, World
from mirage.schedule.engine.kernel.life.placing import pack
from mirage.sim.kernel.compile import kernel


@kernel()
def write(desk: Desk, at: int, kind: int, job_id: int, how: int, reason: int) -> None:
    """Write action ``at`` of the plan; the engine chooses its size and locations."""
    action = desk.plan[at]
    action.kind = kind
    action.id = job_id
    action.how = how
    action.gpus = 0
    action.batch = 0
    action.first = 0
    action.places = 0
    action.pool = NOBODY
    action.until_s = NEVER_S
    action.reason = reason
    action.needed = NOBODY
    action.estimate_s = math.nan


@kernel()
def write_preempt(desk: Desk, at: int, job_id: int, how: int, reason: int) -> None:
    """Write a preemption."""
    write(desk, at, PREEMPT, job_id, how, reason)


@kernel()
def copy_free(state: State, desk: Desk) -> None:
    """Copy the present free GPUs into the plan buffer."""
    for server in range(len(state.free)):
        desk.free[server] = state.free[server]


@kernel(forceinline=False)
def write_placed_start(
    world: World, state: State, desk: Desk, free: Any, at: int, job_id: int, used: int, reason: int
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
    places = pack(world, state, free, job, job.gpus, desk.picked)
    if places == 0:
        return 0
    write(desk, at, START, job_id, 0, reason)
    desk.plan[at].first = used
    desk.plan[at].places = places
    for k in range(places):
        place = desk.picked[k]
        desk.places[used + k].server = place.server
        desk.places[used + k].gpus = place.gpus
        free[place.server] -= place.gpus
    return places
