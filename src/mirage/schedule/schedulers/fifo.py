"""First in, first out: jobs start by submission; one that does not fit blocks the others."""

from __future__ import annotations

from typing import Any

from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.kernel.arrays import SCHEDULER, Desk, State, World
from mirage.schedule.engine.kernel.reference import dereference
from mirage.schedule.engine.kernel.writing import copy_free, write_placed_start
from mirage.schedule.schedulers.order.line import WAITING, queue_by_submission
from mirage.sim.kernel.compile import kernel

HEAD = 1
"""Number of the reason for starts of heads of a queue."""


@kernel(forceinline=False)
def start_heads(world: World, state: State, desk: Desk) -> int:
    """Start heads of the queue of waiting jobs while they fit; returns their number."""
    ids, ends = desk.ranks[WAITING], desk.ranks[WAITING + 1]
    if ends[0] == ends[1]:
        return 0
    copy_free(state, desk)
    actions, used = 0, 0
    while ends[0] < ends[1]:
        places = write_placed_start(world, state, desk, desk.free, actions, ids[ends[0]], used, HEAD)
        if places == 0:
            break
        used += places
        actions += 1
        ends[0] += 1
    return actions


@kernel(SCHEDULER)
def fifo(situation: Any) -> int:
    """Start heads of the queue while they fit."""
    world, state, desk = dereference(situation)
    queue_by_submission(state, desk)
    return start_heads(world, state, desk)


def scheduler() -> CompiledScheduler:
    """First in, first out."""
    return CompiledScheduler("fifo", fifo, reasons=("", "head-of-queue"), ranks=2)
