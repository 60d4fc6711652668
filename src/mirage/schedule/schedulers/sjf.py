"""Shortest job first: jobs start by run time; one that does not fit blocks the others.

No job is preempted. Run times are the users' estimates, or the true ones of jobs without an estimate.
"""

from __future__ import annotations

from typing import Any

from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.kernel.arrays import SCHEDULER
from mirage.schedule.engine.kernel.reference import dereference
from mirage.schedule.schedulers.fifo import start_heads
from mirage.schedule.schedulers.order.line import NEWCOMER, RETURNED, WAITING, enter
from mirage.schedule.schedulers.order.reservation import estimate_ends
from mirage.sim.kernel.compile import kernel


@kernel(SCHEDULER)
def sjf(situation: Any) -> int:
    """Start the shortest waiting jobs while they fit."""
    world, state, desk = dereference(situation)
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (NEWCOMER, RETURNED):
            job = state.live[state.slot_of[job_id]]
            left_s = job.known_run_s * (1.0 - job.progress / job.work)
            enter(desk.ranks[WAITING], desk.ranks[WAITING + 1], desk.memory[0], job_id, left_s)
    actions = start_heads(world, state, desk)
    estimate_ends(world, state, desk, actions)
    return actions


def scheduler() -> CompiledScheduler:
    """Shortest job first."""
    return CompiledScheduler("sjf", sjf, reasons=("", "shortest-waiting"), knows_run_s=True, ranks=2)
