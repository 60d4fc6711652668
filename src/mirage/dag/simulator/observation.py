"""Graph observations: all stages that are not finished, of all jobs in the system."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64
from numpy.typing import NDArray

from mirage.dag.simulator.dag_arrays import STATE_TYPE, WORLD_TYPE, DagState, DagWorld
from mirage.dag.simulator.stage_decision import held, is_ready, may_pick, takes_more, under_limit
from mirage.kernel.compile import kernel

FEATURES = (
    "source",  # 1 for stages of the job whose executors are given away, else 0
    "free",  # share of all executors that are given away
    "held",  # share of all executors that the job has, or will have
    "running",  # share of all executors that run the stage's tasks
    "remaining_tasks",  # not started, in 200
    "remaining_work",  # their number times the last task's duration, in 100 s
    "path",  # roughly the longest path to the job's end, in 100 s
    "ready",  # 1 where all parents are finished
)
"""Columns of ``Graph.nodes``."""


class StageGraph(NamedTuple):
    """A graph of stages, one row each; jobs by arrival, stages of a job by number."""

    nodes: NDArray[np.float32]  # (stages, FEATURES)
    edges: NDArray[np.int32]  # (edges, 2): rows of parent and child
    stage: NDArray[np.int64]  # (stages,): numbers over the whole episode
    job: NDArray[np.int64]  # (stages,): index of the job among those in the system
    may_pick: NDArray[np.int8]  # (stages,): 1 where the stage may be picked
    least_limit: NDArray[np.int64]  # (stages,): the lowest job-wide limit that gives the stage an executor


@kernel(int64(WORLD_TYPE, STATE_TYPE, int64[::1]))
def count_stages(world: DagWorld, state: DagState, edges: NDArray[np.int64]) -> int:
    """The number of unfinished stages; ``edges[0]`` gets the number of edges between them."""
    found = 0
    edges[0] = 0
    for k in range(state.clock[0].n_active):
        job = world.jobs[state.active[k]]
        for stage in range(job.first_stage, job.first_stage + job.n_stages):
            if state.stages[stage].finished < world.stages[stage].tasks:
                found += 1
                edges[0] += world.stages[stage].n_children
    return found


@kernel()
def _fill_row(world: DagWorld, state: DagState, graph: StageGraph, row: int, stage: int, k: int) -> None:
    clock, executors = state.clock[0], np.float32(world.settings[0].executors)
    job, now = state.active[k], state.stages[stage]
    node = graph.nodes[row]
    node[0] = 1.0 if job == clock.source_job else 0.0
    node[1] = clock.free / executors
    node[2] = held(state, job) / executors
    node[3] = now.running / executors
    node[4] = now.remaining / 200
    node[5] = now.remaining * now.last_ms * 1e-5
    node[6] = world.stages[stage].critical_ms * 1e-5
    node[7] = 1.0 if is_ready(state, stage) else 0.0
    graph.stage[row], graph.job[row] = stage, k
    graph.may_pick[row] = 1 if may_pick(state, stage) and takes_more(world, state, job) else 0
    graph.least_limit[row] = 1 - under_limit(state, job, 0)


@kernel(forceinline=False)
def _fill(world: DagWorld, state: DagState, graph: StageGraph, row_of: NDArray[np.int64]) -> int:
    """Fills the rows of a graph with large enough arrays.

    ``row_of`` has space for every stage of the episode.
    """
    row = 0
    for k in range(state.clock[0].n_active):
        job = world.jobs[state.active[k]]
        for stage in range(job.first_stage, job.first_stage + job.n_stages):
            if state.stages[stage].finished < world.stages[stage].tasks:
                _fill_row(world, state, graph, row, stage, k)
                row_of[stage] = row
                row += 1
    edge = 0
    for row in range(len(graph.stage)):
        fixed = world.stages[graph.stage[row]]
        for place in range(fixed.first_child, fixed.first_child + fixed.n_children):
            graph.edges[edge, 0], graph.edges[edge, 1] = row, row_of[world.children[place]]
            edge += 1
    return edge


def observe(world: DagWorld, state: DagState) -> StageGraph:
    """The graph of the current state."""
    n_edges = np.zeros(1, np.int64)
    n = count_stages(world, state, n_edges)
    graph = StageGraph(
        np.zeros((n, len(FEATURES)), np.float32),
        np.zeros((int(n_edges[0]), 2), np.int32),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int8),
        np.zeros(n, np.int64),
    )
    _fill(world, state, graph, np.zeros(len(world.stages), np.int64))
    return graph
