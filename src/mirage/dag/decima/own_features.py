"""Features of our own network: sizes on logarithmic scales, shares, and rank among jobs."""

from __future__ import annotations

import math

from mirage.dag.decima.networks.layers import Ints
from mirage.dag.decima.networks.network_graph import NetworkGraph
from mirage.dag.decima.observe import NO_ROW, close, enter_unfinished, has_room, number_unfinished
from mirage.dag.simulator.dag_arrays import DagState, DagWorld
from mirage.dag.simulator.stage_decision import first_stage_to_pick, held, is_ready, may_pick, takes_more
from mirage.kernel.compile import kernel

NAMES = (
    "log of the job's remaining work",
    "its share of all remaining work",
    "share of jobs with less",
    "executors of the job",
    "free executors",
    "source",
    "log of the number of jobs",
    "log of the number of executors",
    "executors above the fair share",
    "log of the stage's remaining work",
    "log of its remaining tasks",
    "tasks can start at once",
    "executors it can use",
    "log of the longest path from it",
    "first of its job to pick",
    "log of all remaining work per executor",
)
"""Features of a stage; the first nine are its job's."""


@kernel(forceinline=False)
def observe_own(world: DagWorld, state: DagState, graph: NetworkGraph, row_of: Ints) -> bool:
    """Builds the graph of unfinished stages for our network; whether any may be picked.

    Args:
        world: The fixed arrays.
        state: The changing ones.
        graph: Overwritten.
        row_of: Shape (stages of the largest job or more,): overwritten.
    """
    clock = state.clock[0]
    any_offered, jobs, rows, links, all_work = False, 0, 0, 0, 0.0
    for place in range(clock.n_active):
        all_work += state.jobs[state.active[place]].remaining_work_ms
    for place in range(clock.n_active):
        job = state.active[place]
        if not has_room(world, graph, job, jobs, rows, links):
            break
        graph.job[place], graph.begin[place] = job, rows
        jobs += 1
        takes, to_pick = takes_more(world, state, job), first_stage_to_pick(world, state, job)
        fixed = world.jobs[job]
        first, end = fixed.first_stage, fixed.first_stage + fixed.n_stages
        number_unfinished(world, state, first, end, rows, row_of)
        for stage in range(first, end):
            if row_of[stage - first] == NO_ROW:
                continue
            if rows == graph.begin[place]:
                _describe_job(world, state, graph, rows, job, all_work)
            else:
                for column in range(9):
                    graph.features[rows, column] = graph.features[rows - 1, column]
            _describe_stage(world, state, graph, rows, stage, stage == to_pick, all_work)
            links = enter_unfinished(world, graph, stage, first, rows, links, row_of)
            graph.offered[rows] = takes and may_pick(state, stage)
            any_offered = any_offered or graph.offered[rows]
            rows += 1
    close(graph, jobs, rows, links)
    return any_offered


@kernel(forceinline=False)
def _describe_job(world: DagWorld, state: DagState, graph: NetworkGraph, row: int, job: int, all_work: float) -> None:
    clock, executors = state.clock[0], world.settings[0].executors
    work = state.jobs[job].remaining_work_ms
    less = 0
    for place in range(clock.n_active):
        less += int(state.jobs[state.active[place]].remaining_work_ms < work)
    had = held(state, job)
    graph.features[row, 0] = math.log1p(work / 1e5) / 3.0
    graph.features[row, 1] = work / max(all_work, 1.0)
    graph.features[row, 2] = less / clock.n_active
    graph.features[row, 3] = had / executors
    graph.features[row, 4] = clock.free / executors
    graph.features[row, 5] = 1.0 if job == clock.source_job else -1.0
    graph.features[row, 6] = math.log(clock.n_active) / 3.0
    graph.features[row, 7] = math.log(executors) / 4.0
    graph.features[row, 8] = had / executors - 1.0 / clock.n_active


@kernel(forceinline=False)
def _describe_stage(
    world: DagWorld, state: DagState, graph: NetworkGraph, row: int, stage: int, first: bool, all_work: float
) -> None:
    now, executors = state.stages[stage], world.settings[0].executors
    graph.features[row, 9] = math.log1p(now.remaining * now.last_ms / 1e5)
    graph.features[row, 10] = math.log1p(now.remaining) / 5.0
    graph.features[row, 11] = 1.0 if is_ready(state, stage) else -1.0
    graph.features[row, 12] = min(max(now.demand, 0), executors) / executors
    graph.features[row, 13] = math.log1p(world.stages[stage].critical_ms / 1e4) / 2.0
    graph.features[row, 14] = 1.0 if first else -1.0
    graph.features[row, 15] = math.log1p(all_work / executors / 1e5)
