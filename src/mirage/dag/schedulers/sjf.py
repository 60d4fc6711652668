"""Shortest job first, by remaining work, up to a share of the executors."""

from __future__ import annotations

from math import ceil

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import serve_by_work
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING
from mirage.kernel.compile import kernel


@kernel()
def _shortest_first(world: DagWorld, state: DagState, share: float, by_path: bool) -> int:
    executors = world.settings[0].executors
    decided = serve_by_work(world, state, 0.0, 0.0, max(1, ceil(share * executors)), by_path)
    if decided == NOTHING and share < 1.0:
        decided = serve_by_work(world, state, 0.0, 0.0, executors, by_path)
    return decided


@kernel(DECIDER)
def sjf(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """The source's job first, then others by remaining work; the parameter is a job's share."""
    return _shortest_first(world, state, parameters[0], False)


@kernel(DECIDER)
def sjf_critical_path(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """SJF that picks in each job the stage with the longest path (Decima's baseline SJF-CP)."""
    return _shortest_first(world, state, parameters[0], True)
