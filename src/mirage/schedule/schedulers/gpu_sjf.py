"""Shortest job first: jobs start by run time; one that does not fit blocks the others.

No job is preempted. Run times are the users' estimates, or the true ones of jobs without an estimate.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.current_amounts import expected_left_s
from mirage.schedule.engine.kernel.gpu_arrays import SCHEDULER, dereference
from mirage.schedule.schedulers.gpu_fifo import start_heads
from mirage.schedule.schedulers.job_queue import NEWCOMER, RETURNED, WAITING, enter
from mirage.schedule.schedulers.run_time_estimates import estimate_ends


@kernel(SCHEDULER)
def sjf(situation: Any) -> int:
    """Start the shortest waiting jobs while they fit."""
    world, state, buffer = dereference(situation)
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (NEWCOMER, RETURNED):
            job = state.live[state.slot_of[job_id]]
            left_s = expected_left_s(job, job.progress)
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], buffer.memory[0], job_id, left_s)
    actions = start_heads(world, state, buffer)
    estimate_ends(world, state, buffer, actions)
    return actions


def scheduler() -> CompiledScheduler:
    """Shortest job first."""
    return CompiledScheduler("sjf", sjf, reasons=("", "shortest-waiting"), knows_run_s=True, ranks=2)
