"""Compiled forward passes against plain numpy, on small random graphs and weights."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from mirage.dag.decima.network_file import PUBLISHED_SHAPES
from mirage.dag.decima.networks import decima_2019, spark_sched_sim
from mirage.dag.decima.networks.layers import Floats32, Perceptrons, perceptrons, widest
from mirage.dag.decima.networks.network_graph import NetworkGraph, Room
from mirage.dag.decima.networks.workspace import Extent, arrays_of, workspace

Matrix = NDArray[np.float64]
Layers = list[tuple[Matrix, Matrix]]


def empty_graph(jobs, stages, links, features):
    """An empty graph with given capacities."""
    return NetworkGraph(
        size=np.zeros(3, np.int64),
        begin=np.zeros(jobs + 1, np.int64),
        features=np.zeros((stages, features), np.float32),
        child_begin=np.zeros(stages + 1, np.int64),
        child=np.zeros(links, np.int64),
        unfinished=np.zeros(stages, np.bool_),
        offered=np.zeros(stages, np.bool_),
        stage=np.zeros(stages, np.int64),
        job=np.zeros(jobs, np.int64),
    )


def empty_room(jobs, stages, numbers, width, widest):
    """A room for graphs of at most the given numbers of jobs and stages.

    Args:
        jobs: Jobs.
        stages: Stages.
        numbers: The most executors.
        width: Length of a stage's embedding.
        widest: The widest layer of the network.
    """
    return Room(
        initial=np.zeros((stages, width), np.float32),
        embedding=np.zeros((stages, width), np.float32),
        message=np.zeros((stages, width), np.float32),
        job_summary=np.zeros((jobs, width), np.float32),
        global_summary=np.zeros((1, width), np.float32),
        hidden=np.zeros((2, widest), np.float32),
        level=np.zeros(stages, np.int64),
        marked=np.zeros((3, stages), np.bool_),
        stage_score=np.zeros(stages, np.float32),
        number_score=np.zeros(numbers + 1, np.float32),
    )


def random_layers(shapes: tuple[tuple[int, int], ...], random: np.random.Generator) -> tuple[Layers, Perceptrons]:
    layers = [(random.normal(0, 1 / np.sqrt(shape[0]), shape), random.normal(0, 0.3, shape[1])) for shape in shapes]
    as_32: list[tuple[Floats32, Floats32]] = [(w.astype(np.float32), b.astype(np.float32)) for w, b in layers]
    return [(w.astype(np.float64), b.astype(np.float64)) for w, b in as_32], perceptrons(as_32)


def random_jobs(random: np.random.Generator, chained: bool = True) -> list[Matrix]:
    """Adjacency of one to four jobs; [i, j] means that i comes before j."""
    jobs = []
    for _ in range(random.integers(1, 5)):
        size = int(random.integers(1, 13))
        links = np.triu(random.random((size, size)) < random.choice([0.2, 0.5]), 1) * 1.0
        if size > 10:
            links += np.eye(size, k=1)  # longer than messages go
        order = random.permutation(size)
        jobs.append(np.minimum(links, 1)[order][:, order] * chained)
    return jobs


def as_graph(jobs: list[Matrix], random: np.random.Generator) -> NetworkGraph:
    stages, links = sum(map(len, jobs)), int(sum(job.sum() for job in jobs))
    graph = empty_graph(len(jobs), stages, links, 5)
    graph.size[:] = len(jobs), stages, links
    graph.begin[1:] = np.cumsum([len(job) for job in jobs])
    graph.features[:] = random.normal(0, 1, (stages, 5))
    graph.unfinished[:] = random.random(stages) < 0.7
    graph.offered[:] = random.random(stages) < 0.5
    row, link = 0, 0
    for first, job in zip(graph.begin, jobs, strict=False):
        for children in job:
            graph.child_begin[row] = link
            for child in np.flatnonzero(children):
                graph.child[link], link = first + child, link + 1
            row += 1
    graph.child_begin[row] = link
    return graph


def leaky(values: Matrix) -> Matrix:
    return np.where(values > 0, values, 0.2 * values)


def same(values: Matrix) -> Matrix:
    return values


def tanh(values: Matrix) -> Matrix:
    return np.tanh(values)


def run(layers: Layers, values: Matrix, inner: object = leaky, outer: object = same) -> Matrix:
    for weights, biases in layers[:-1]:
        values = inner(values @ weights + biases)  # type: ignore[operator]
    return outer(values @ layers[-1][0] + layers[-1][1])  # type: ignore[operator, no-any-return]


def levels_2019(links: Matrix) -> list[set[int]]:
    """The stages that receive messages at each of the eight steps."""
    children = [set(map(int, np.flatnonzero(row))) for row in links]
    frontier = set(range(len(links)))
    for _ in range(8):
        frontier = {after for stage in frontier for after in (children[stage] or {stage})}
    level = dict.fromkeys(frontier, 0)
    steps: list[set[int]] = []
    for _ in range(8):
        receives = set()
        for stage, own in enumerate(children):
            if own and own <= frontier:
                deep = 1 + max(level[child] for child in own)
                if deep > level.get(stage, -1):
                    receives.add(stage)
                    level[stage] = deep
        if not receives:
            break
        steps.append(receives)
        waiting = {
            stage for stage in frontier if any(stage in own and p not in level for p, own in enumerate(children))
        }
        frontier = receives | waiting
    return steps


def reference_2019(layers: Layers, graph: NetworkGraph, jobs: list[Matrix]) -> tuple[Matrix, Matrix]:
    """Stage scores, and scores of the limits 1 to 20 of every job."""
    inputs = graph.features.astype(float)
    embedded = run(layers[0:3], inputs, outer=leaky)
    for first, links in zip(graph.begin, jobs, strict=False):
        own = embedded[first : first + len(links)]
        for receives in levels_2019(links):
            mask = np.zeros((len(links), 1))
            mask[list(receives)] = 1
            own += mask * run(layers[6:9], links @ run(layers[3:6], own, outer=leaky), outer=leaky)
    each = run(layers[9:12], np.hstack([inputs, embedded]), outer=leaky) * graph.unfinished[:, None]
    of_job = np.array([each[a:b].sum(0) for a, b in pairwise(graph.begin)])
    of_all = run(layers[12:15], of_job, outer=leaky).sum(0)
    rows = np.repeat(np.arange(len(jobs)), np.diff(graph.begin))
    everywhere = np.broadcast_to(of_all, (len(inputs), 8))
    scores = run(layers[15:19], np.hstack([inputs, embedded, of_job[rows], everywhere]))
    limits = [
        run(layers[19:23], np.concatenate([inputs[first, :3], summary, of_all, [limit / 50]]))[0]
        for first, summary in zip(graph.begin, of_job, strict=False)
        for limit in range(1, 21)
    ]
    return scores[:, 0], np.array(limits).reshape(len(jobs), 20)


def reference_spark(layers: Layers, graph: NetworkGraph, jobs: list[Matrix]) -> tuple[Matrix, Matrix]:
    """Stage scores, and scores of adding 1 to 20 of 50 executors for every job."""
    inputs = graph.features.astype(float)
    links = np.zeros((len(inputs), len(inputs)))
    for first, job in zip(graph.begin, jobs, strict=False):
        links[first : first + len(job), first : first + len(job)] = job
    embedded = initial = run(layers[0:3], inputs)
    if links.any():
        depth = np.zeros(len(inputs), int)
        for _ in inputs:
            depth = np.maximum(depth, (links.T * (depth + 1)).max(1).astype(int))
        embedded = np.where((links.sum(1) > 0)[:, None], 0, run(layers[6:9], initial))
        for level in range(depth.max() - 1, -1, -1):
            shown: NDArray[np.bool_] = (depth == level) | (links[depth == level].sum(0) > 0)
            observed = links * np.outer(shown, shown)
            new = initial + run(layers[6:9], observed @ run(layers[3:6], embedded))
            embedded = np.where((observed.sum(1) > 0)[:, None], new, embedded)
    each = run(layers[9:12], np.hstack([inputs, embedded])) * graph.unfinished[:, None]
    of_job = np.array([each[a:b].sum(0) for a, b in pairwise(graph.begin)])
    of_all = run(layers[12:15], of_job).sum(0)
    rows = np.repeat(np.arange(len(jobs)), np.diff(graph.begin))
    everywhere = np.broadcast_to(of_all, (len(inputs), 16))
    scores = run(layers[15:18], np.hstack([inputs, embedded, of_job[rows], everywhere]), inner=tanh)
    numbers = [
        run(layers[18:21], np.concatenate([inputs[first, :3], summary, of_all, [number / 50]]), inner=tanh)[0]
        for first, summary in zip(graph.begin, of_job, strict=False)
        for number in range(20)
    ]
    return scores[:, 0], np.array(numbers).reshape(len(jobs), 20)


@pytest.mark.parametrize("seed", range(30))
def test_the_network_of_2019_scores_as_plain_numpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    layers, net = random_layers(PUBLISHED_SHAPES["decima-2019"], random)
    jobs = random_jobs(random)
    graph = as_graph(jobs, random)
    room = empty_room(len(jobs), len(graph.stage), 50, decima_2019.WIDTH, widest(net))
    stages, limits = reference_2019(layers, graph, jobs)
    decima_2019.stage_scores(net, graph, room)
    np.testing.assert_allclose(room.stage_score[graph.offered], stages[graph.offered], rtol=2e-4, atol=2e-4)
    for job in range(len(jobs)):
        decima_2019.limit_scores(net, graph, room, job, 3, 20)
        np.testing.assert_allclose(room.number_score[:18], limits[job, 2:], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("seed", range(30))
def test_the_network_of_spark_sched_sim_scores_as_plain_numpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    layers, net = random_layers(PUBLISHED_SHAPES["spark-sched-sim"], random)
    jobs = random_jobs(random, chained=seed > 2)
    graph = as_graph(jobs, random)
    room = empty_room(len(jobs), len(graph.stage), 50, spark_sched_sim.WIDTH, widest(net))
    stages, numbers = reference_spark(layers, graph, jobs)
    spark_sched_sim.stage_scores(net, graph, room)
    np.testing.assert_allclose(room.stage_score[graph.offered], stages[graph.offered], rtol=2e-4, atol=2e-4)
    for job in range(len(jobs)):
        spark_sched_sim.number_scores(net, graph, room, job, 20, 50)
        np.testing.assert_allclose(room.number_score[:20], numbers[job], rtol=2e-4, atol=2e-4)


def test_the_arrays_of_a_workspace_hold_the_network_and_do_not_overlap() -> None:
    net = random_layers(PUBLISHED_SHAPES["decima-2019"], np.random.default_rng(1))[1]
    space = workspace(net, features=5, width=8, argmax=True, extent=Extent(3, 11, 7, 5))
    inside = arrays_of(space)
    np.testing.assert_array_equal(inside[0].numbers, net.numbers)
    np.testing.assert_array_equal(inside[0].layers, net.layers)
    arrays = [array for part in inside for array in part]
    spans = sorted((array.__array_interface__["data"][0], array.nbytes) for array in arrays)
    assert all(begin + size <= after for (begin, size), (after, _) in pairwise(spans))
    assert spans[-1][0] + spans[-1][1] <= space.__array_interface__["data"][0] + space.nbytes
