"""First in, first out: jobs start by submission; one that does not fit blocks the others."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.gpu_arrays import SCHEDULER, GpuState, GpuWorld, PlanBuffer, dereference
from mirage.schedule.engine.kernel.plan_writers import copy_free, write_placed_start
from mirage.schedule.schedulers.job_queue import WAITING, queue_by_submission

HEAD = 1
"""Number of the reason for starts of heads of a queue."""


@kernel(forceinline=False)
def start_heads(world: GpuWorld, state: GpuState, buffer: PlanBuffer) -> int:
    """Start heads of the queue of waiting jobs while they fit; returns their number."""
    ids, ends = buffer.ranks[WAITING], buffer.ranks[WAITING + 1]
    if ends[0] == ends[1]:
        return 0
    copy_free(state, buffer)
    actions, used = 0, 0
    while ends[0] < ends[1]:
        places = write_placed_start(world, state, buffer, buffer.free, actions, ids[ends[0]], used, HEAD)
        if places == 0:
            break
        used += places
        actions += 1
        ends[0] += 1
    return actions


@kernel(SCHEDULER)
def fifo(situation: Any) -> int:
    """Start heads of the queue while they fit."""
    world, state, buffer = dereference(situation)
    queue_by_submission(state, buffer)
    return start_heads(world, state, buffer)


def scheduler() -> CompiledScheduler:
    """First in, first out."""
    return CompiledScheduler("fifo", fifo, reasons=("", "head-of-queue"), ranks=2)
