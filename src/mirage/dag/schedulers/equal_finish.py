"""Equal finish: shares with which all jobs of now would end together, for a short makespan.

A job with remaining work W and a longest path L to its end takes about L + W / c with c executors (Graham's bound of
list scheduling, 1966). All end at the same time T when c = W / (T - L), and T follows from the sum of all c, which is
the number of executors. A job that has its share is skipped. What no share takes fills the holes: it goes to the same
jobs without limits, so that no executor is idle that some stage could use.
"""

from __future__ import annotations

from math import ceil

from mirage.dag.schedulers.serving import offer
from mirage.dag.simulator.arrays import DECIDER, NOBODY, State, World
from mirage.dag.simulator.decision import NOTHING, held
from mirage.job_state import Floats
from mirage.sim.kernel.compile import kernel

_STEPS, _CLOSE = 20, 1e-3

_SLIGHT = 0.01
"""A share is rounded up where this much is left over; the time found is slightly early, and shares slightly large."""


@kernel()
def longest_path_ms(world: World, state: State, job: int) -> float:
    """Roughly the longest path from a stage that has tasks to start to the job's end."""
    longest = 0
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if state.stages[stage].remaining > 0:
            longest = max(longest, world.stages[stage].critical_ms)
    return float(longest)


@kernel()
def _work_ms(state: State, job: int) -> float:
    return float(max(1, state.jobs[job].remaining_work_ms))


@kernel()
def _finish_ms(world: World, state: State) -> float:
    """When all jobs can end at the earliest, from now; Newton's method from below, which does not overshoot."""
    executors, finish_ms = float(world.settings[0].executors), 0.0
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        finish_ms = max(finish_ms, longest_path_ms(world, state, job) + _work_ms(state, job) / executors)
    for _ in range(_STEPS):
        wanted, slope = 0.0, 0.0
        for k in range(state.clock[0].n_active):
            job = state.active[k]
            left_ms = finish_ms - longest_path_ms(world, state, job)
            wanted += _work_ms(state, job) / left_ms
            slope += _work_ms(state, job) / (left_ms * left_ms)
        step_ms = (wanted - executors) / slope
        finish_ms += max(0.0, step_ms)
        if step_ms < _CLOSE * finish_ms:
            break
    return finish_ms


@kernel()
def _offer_share(world: World, state: State, job: int, finish_ms: float) -> int:
    """The decision for a job up to its share; a time of 0 is for no limit."""
    share = world.settings[0].executors
    if finish_ms > 0.0:
        wanted = _work_ms(state, job) / (finish_ms - longest_path_ms(world, state, job))
        share = max(1, ceil(wanted - _SLIGHT))
    return offer(world, state, job, share, True)


@kernel()
def _best_offer(world: World, state: State, finish_ms: float, longest_first: bool) -> int:
    """The source's job first, then the one with the least work, or the one that would end last with what it has."""
    clock = state.clock[0]
    if clock.source_job != NOBODY:
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
            ms = longest_path_ms(world, state, job) - ms / max(1, held(state, job))
        if best == NOTHING or ms > best_ms:
            decided = _offer_share(world, state, job, finish_ms)
            if decided != NOTHING:
                best, best_ms = decided, ms
    return best


@kernel(DECIDER)
def equal_finish(world: World, state: State, parameters: Floats) -> int:
    """The source's job, then others by least work, or with 1 for the parameter those first that would end last."""
    longest_first = parameters[0] == 1.0
    decided = _best_offer(world, state, _finish_ms(world, state), longest_first)
    return _best_offer(world, state, 0.0, longest_first) if decided == NOTHING else decided
