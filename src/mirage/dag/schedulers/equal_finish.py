"""Equal finish: shares with which all present jobs end together, for a short makespan.

A job with remaining work W and a longest path L to its end takes about L + W / c with c executors (Graham's bound of
list scheduling, 1966), and ends at the time T with c = W / (T - L). A job that can use at most u executors now gets at
most u, which fills the gaps that it would leave. T follows from the sum of all shares, which is the number of
executors. A job that has its share is skipped; executors that no share takes go to the same jobs without limits.
"""

from __future__ import annotations

from math import ceil

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import offer
from mirage.dag.simulator.dag_arrays import DECIDER, NO_JOB, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING, held, under_limit
from mirage.kernel.compile import kernel

_STEPS, _CLOSE = 24, 1e-3
"""Most bisection steps, and the relative precision of the time found."""


@kernel()
def _work_ms(state: DagState, job: int) -> float:
    return float(max(1, state.jobs[job].remaining_work_ms))


@kernel()
def _path_ms(world: DagWorld, state: DagState, job: int) -> float:
    """The approximate longest path from a stage that has tasks to start to the job's end."""
    longest = 0
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if state.stages[stage].remaining > 0:
            longest = max(longest, world.stages[stage].critical_ms)
    return float(longest)


@kernel()
def _usable(world: DagWorld, state: DagState, job: int) -> int:
    """Executors that a job can use now: those that stay, and its stages' open demand."""
    usable = -under_limit(state, job, 0)
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        row = state.stages[stage]
        if row.waits_for == 0:
            usable += max(0, row.demand)
    return int(usable)


@kernel()
def _share(world: DagWorld, state: DagState, job: int, finish_ms: float) -> float:
    """Executors with which a job ends at a time, at most the number that it can use."""
    usable, left_ms = float(_usable(world, state, job)), finish_ms - _path_ms(world, state, job)
    return usable if left_ms * usable <= _work_ms(state, job) else _work_ms(state, job) / left_ms


@kernel()
def _finish_ms(world: DagWorld, state: DagState) -> float:
    """Earliest time from now at which all jobs can end; 0 if there are enough executors."""
    executors, n_active = world.settings[0].executors, state.clock[0].n_active
    usable, path_ms, work_ms = 0, 0.0, 0.0
    for k in range(n_active):
        usable += _usable(world, state, state.active[k])
        path_ms = max(path_ms, _path_ms(world, state, state.active[k]))
        work_ms += _work_ms(state, state.active[k])
    if usable <= executors:
        return 0.0
    early_ms, late_ms = 0.0, path_ms + work_ms / executors
    for _ in range(_STEPS):
        if late_ms - early_ms <= _CLOSE * late_ms:
            break
        middle_ms, wanted = 0.5 * (early_ms + late_ms), 0.0
        for k in range(n_active):
            wanted += _share(world, state, state.active[k], middle_ms)
        if wanted > executors:
            early_ms = middle_ms
        else:
            late_ms = middle_ms
    return float(late_ms)


@kernel()
def _offer_share(world: DagWorld, state: DagState, job: int, finish_ms: float) -> int:
    """The decision for a job up to its share; a time of 0 means no limit."""
    share = world.settings[0].executors
    if finish_ms > 0.0:
        share = max(1, ceil(_share(world, state, job, finish_ms)))
    return offer(world, state, job, share, True)


@kernel()
def _best_offer(world: DagWorld, state: DagState, finish_ms: float, longest_first: bool) -> int:
    """The source's job first, then the job with the least work, or that would end last."""
    clock = state.clock[0]
    if clock.source_job != NO_JOB:
        decided = _offer_share(world, state, clock.source_job, finish_ms)
        if decided != NOTHING:
            return decided
    best, best_ms = NOTHING, 0.0
    for k in range(clock.n_active):
        job = state.active[k]
        if job == clock.source_job:
            continue
        ms = -_work_ms(state, job)
        if longest_first:
            ms = _path_ms(world, state, job) - ms / max(1, held(state, job))
        if best == NOTHING or ms > best_ms:
            decided = _offer_share(world, state, job, finish_ms)
            if decided != NOTHING:
                best, best_ms = decided, ms
    return best


@kernel(DECIDER)
def equal_finish(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """The source's job first, then others by least work, or with parameter 1 by latest end."""
    longest_first = parameters[0] == 1.0
    decided = _best_offer(world, state, _finish_ms(world, state), longest_first)
    return _best_offer(world, state, 0.0, longest_first) if decided == NOTHING else decided
