"""Least remaining work first, up to a cap that follows each job's work: ``P(a, b)``.

A job with remaining work W may have ceil(b N W^a / sum of W^a) executors, at least one: with a = 0 the same share of
``b N`` for all, with a = 1 shares proportional to work. The source's job comes first, then others by ascending work.
If no job is below its cap, the same is done without caps, so that no executor is idle that some stage could use.
"""

from __future__ import annotations

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import serve_by_work
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING
from mirage.kernel.compile import kernel


@kernel(DECIDER)
def capped(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """``P(a, b)``; the parameters are a and b."""
    decided = serve_by_work(world, state, parameters[0], parameters[1], 0, False)
    if decided == NOTHING:
        decided = serve_by_work(world, state, 0.0, 0.0, world.settings[0].executors, False)
    return decided


@kernel(DECIDER)
def capped_by_load(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """``P(a, b)`` with other a and b while many jobs are in the system.

    The parameters are a and b in quiet times, a and b in busy times, and the number of jobs per executor from which
    times are busy.
    """
    busy = state.clock[0].n_active >= parameters[4] * world.settings[0].executors
    first = 2 if busy else 0
    decided = serve_by_work(world, state, parameters[first], parameters[first + 1], 0, False)
    if decided == NOTHING:
        decided = serve_by_work(world, state, 0.0, 0.0, world.settings[0].executors, False)
    return decided
