"""Graphs of stages from a simulation's state, with the features of the published networks."""

from __future__ import annotations

from mirage.dag.decima.networks.layers import Ints
from mirage.dag.decima.networks.network_graph import JOBS, LINKS, STAGES, NetworkGraph
from mirage.dag.simulator.dag_arrays import DagState, DagWorld
from mirage.dag.simulator.stage_decision import held, may_pick, takes_more
from mirage.kernel.compile import kernel

NO_ROW = -1
"""The row of a finished stage, which a graph does not contain."""


@kernel(forceinline=False)
def observe_2019(world: DagWorld, state: DagState, graph: NetworkGraph) -> bool:
    """Builds the graph for the network of 2019; whether any stage may be picked.

    Rows are all stages of the jobs in the system. Features: executors of the job and to come / 20, 2 or -2 for the
    source, free executors / 20, remaining tasks x rough duration (ms) / 10^5, remaining tasks / 200.
    """
    clock = state.clock[0]
    executors = world.settings[0].executors
    any_offered, jobs, rows, links = False, 0, 0, 0
    for place in range(clock.n_active):
        job = state.active[place]
        if not has_room(world, graph, job, jobs, rows, links):
            break
        graph.job[place], graph.begin[place] = job, rows
        jobs += 1
        had = held(state, job)
        own = job == clock.source_job
        least = had - clock.free + 1 if own else had + 1
        fixed = world.jobs[job]
        for stage in range(fixed.first_stage, fixed.first_stage + fixed.n_stages):
            now, what = state.stages[stage], world.stages[stage]
            graph.features[rows, 0] = had / 20.0
            graph.features[rows, 1] = 2.0 if own else -2.0
            graph.features[rows, 2] = clock.free / 20.0
            graph.features[rows, 3] = now.remaining * what.rough_ms / 100000.0
            graph.features[rows, 4] = now.remaining / 200.0
            graph.stage[rows] = stage
            graph.unfinished[rows] = now.finished < what.tasks
            graph.offered[rows] = least <= executors and may_pick(state, stage)
            any_offered = any_offered or graph.offered[rows]
            graph.child_begin[rows] = links
            for link in range(what.first_child, what.first_child + what.n_children):
                graph.child[links] = graph.begin[place] + world.children[link] - fixed.first_stage
                links += 1
            rows += 1
    close(graph, jobs, rows, links)
    return any_offered


@kernel(forceinline=False)
def observe_spark_sched_sim(world: DagWorld, state: DagState, graph: NetworkGraph, row_of: Ints) -> bool:
    """Builds the graph for the network of spark-sched-sim; whether any stage may be picked.

    Rows are unfinished stages only. Features, with N executors: those the job can get / N, 1 or -1 for the source,
    those of the job and to come / N, remaining tasks / 200, remaining tasks x last duration (ms) / 10^5. Executors that
    left a job with nothing left to start for the general pool still count as its own, as in the published code.

    Args:
        row_of: Shape (stages of the world's largest job or more,): overwritten.
    """
    clock = state.clock[0]
    executors = world.settings[0].executors
    any_offered, jobs, rows, links = False, 0, 0, 0
    for place in range(clock.n_active):
        job = state.active[place]
        if not has_room(world, graph, job, jobs, rows, links):
            break
        graph.job[place], graph.begin[place] = job, rows
        jobs += 1
        had, takes = counted(state, job), takes_more(world, state, job)
        cap = most_to_add(world, state, job)
        fixed = world.jobs[job]
        first, end = fixed.first_stage, fixed.first_stage + fixed.n_stages
        number_unfinished(world, state, first, end, rows, row_of)
        for stage in range(first, end):
            if row_of[stage - first] == NO_ROW:
                continue
            now = state.stages[stage]
            graph.features[rows, 0] = cap / executors
            graph.features[rows, 1] = 1.0 if job == clock.source_job else -1.0
            graph.features[rows, 2] = had / executors
            graph.features[rows, 3] = now.remaining / 200.0
            graph.features[rows, 4] = now.remaining * now.last_ms / 100000.0
            links = enter_unfinished(world, graph, stage, first, rows, links, row_of)
            graph.offered[rows] = takes and may_pick(state, stage)
            any_offered = any_offered or graph.offered[rows]
            rows += 1
    close(graph, jobs, rows, links)
    return any_offered


@kernel()
def number_unfinished(world: DagWorld, state: DagState, first: int, end: int, row: int, row_of: Ints) -> None:
    """Assigns rows to the unfinished stages in [first, end), and -1 to the others."""
    for stage in range(first, end):
        row_of[stage - first] = NO_ROW
        if state.stages[stage].finished < world.stages[stage].tasks:
            row_of[stage - first] = row
            row += 1


@kernel()
def enter_unfinished(
    world: DagWorld, graph: NetworkGraph, stage: int, first: int, row: int, links: int, row_of: Ints
) -> int:
    """Adds an unfinished stage of the job from ``first``; returns the new number of links."""
    what = world.stages[stage]
    graph.stage[row] = stage
    graph.unfinished[row] = True
    graph.child_begin[row] = links
    for link in range(what.first_child, what.first_child + what.n_children):
        child = row_of[world.children[link] - first]
        if child != NO_ROW:
            graph.child[links] = child
            links += 1
    return links


@kernel()
def has_room(world: DagWorld, graph: NetworkGraph, job: int, jobs: int, rows: int, links: int) -> bool:
    """Whether a graph has space for one more job, with all its stages."""
    fixed = world.jobs[job]
    last = world.stages[fixed.first_stage + fixed.n_stages - 1]
    more = last.first_child + last.n_children - world.stages[fixed.first_stage].first_child
    return bool(
        jobs < len(graph.job) and rows + fixed.n_stages <= len(graph.stage) and links + more <= len(graph.child)
    )


@kernel()
def counted(state: DagState, job: int) -> int:
    """Executors that spark-sched-sim counts as a job's."""
    return int(held(state, job) + state.jobs[job].gone)


@kernel()
def most_to_add(world: DagWorld, state: DagState, job: int) -> int:
    """The number of free executors that a job can get."""
    clock = state.clock[0]
    if job == clock.source_job:
        return int(clock.free)
    return int(min(clock.free, max(world.settings[0].executors - counted(state, job), 0)))


@kernel()
def close(graph: NetworkGraph, jobs: int, rows: int, links: int) -> None:
    """Sets the numbers of jobs, stages and links of a graph."""
    graph.begin[jobs] = rows
    graph.child_begin[rows] = links
    graph.size[JOBS], graph.size[STAGES], graph.size[LINKS] = jobs, rows, links
