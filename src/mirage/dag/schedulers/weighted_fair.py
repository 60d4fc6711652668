"""Weighted fair shares: executors in proportion to a power of each job's total work.

Decima, section 7.1.

With exponent 0 all jobs have the same share, with 1 shares are proportional to work (*naive*), and below 0 small jobs
get more than large ones; Decima's tuned variant takes the best exponent from -2 to 2.
"""

from __future__ import annotations

from math import ceil

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import offer
from mirage.dag.simulator.dag_arrays import DECIDER, NO_JOB, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING
from mirage.kernel.compile import kernel


@kernel()
def _total_work_ms(world: DagWorld, job: int) -> float:
    total = 0
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        total += world.stages[stage].tasks * world.stages[stage].rough_ms
    return float(max(1, total))


@kernel()
def _by_arrival(world: DagWorld, state: DagState, exponent: float, total: float) -> int:
    """The source's job, then others by arrival, up to their shares; no limit at a total of 0."""
    clock, executors = state.clock[0], world.settings[0].executors
    for k in range(-1, clock.n_active):
        job = clock.source_job if k < 0 else state.active[k]
        if job == NO_JOB or (k >= 0 and job == clock.source_job):
            continue
        cap = executors
        if total > 0.0:
            cap = max(1, ceil(executors * _total_work_ms(world, job) ** exponent / total))
        decided = offer(world, state, job, cap, False)
        if decided != NOTHING:
            return decided
    return NOTHING


@kernel(DECIDER)
def weighted_fair(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """Weighted fair shares; the parameter is the exponent.

    Executors that no share takes go to the job that arrived first.
    """
    total = 0.0
    for k in range(state.clock[0].n_active):
        total += _total_work_ms(world, state.active[k]) ** parameters[0]
    decided = _by_arrival(world, state, parameters[0], total)
    return _by_arrival(world, state, parameters[0], 0.0) if decided == NOTHING else decided
