"""Forward pass of the published network that limits whole jobs (Mao et al., SIGCOMM 2019).

See section 5 there. All stages of a job in the system take part, also the finished ones; only the unfinished ones count
in its summary.
"""

from __future__ import annotations

import numpy as np

from mirage.dag.decima.networks.layers import IDENTITY, LEAKY, Floats32, Perceptrons, perceptron
from mirage.dag.decima.networks.network_graph import JOBS, STAGES, NetworkGraph, Room
from mirage.kernel.compile import kernel

FEATURES, WIDTH, JOB_FEATURES = 5, 8, 3
MOST_LEVELS = 8
"""Messages pass at most this number of links upwards."""

LIMIT_UNIT = np.float32(50.0)
"""The network gets limits as multiples of this, whatever the number of executors is."""

_PREPARATION, _MESSAGE, _AGGREGATION, _JOB, _GLOBAL, _STAGE, _LIMIT = 0, 3, 6, 9, 12, 15, 19
_GRAPH_LAYERS, _HEAD_LAYERS = 3, 4
_FRONTIER, _NEXT, _RECEIVES = 0, 1, 2


@kernel(forceinline=False)
def stage_scores(net: Perceptrons, graph: NetworkGraph, room: Room) -> None:
    """Scores the stages on offer in ``room.stage_score``; embeddings stay for `limit_scores`."""
    hidden = room.hidden
    for row in range(graph.size[STAGES]):
        for column in range(FEATURES):
            hidden[0, column] = graph.features[row, column]
        out = perceptron(net, _PREPARATION, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
        for column in range(WIDTH):
            room.embedding[row, column] = hidden[out, column]
    for job in range(graph.size[JOBS]):
        _pass_messages(net, graph, room, graph.begin[job], graph.begin[job + 1])
    summaries(net, graph, room, FEATURES, WIDTH, _JOB, _GLOBAL, _GRAPH_LAYERS, LEAKY)
    offered_scores(net, graph, room, FEATURES, WIDTH, _STAGE, _HEAD_LAYERS, LEAKY)


@kernel(forceinline=False)
def limit_scores(net: Perceptrons, graph: NetworkGraph, room: Room, job: int, least: int, most: int) -> None:
    """Scores limits from ``least`` to ``most`` for a job, in ``room.number_score`` from 0 on."""
    hidden = room.hidden
    for limit in range(least, most + 1):
        at = head_input(graph, room, job, JOB_FEATURES, WIDTH, hidden)
        hidden[0, at] = np.float32(limit) / LIMIT_UNIT
        room.number_score[limit - least] = hidden[perceptron(net, _LIMIT, _HEAD_LAYERS, LEAKY, IDENTITY, hidden), 0]


@kernel(forceinline=False)
def summaries(
    net: Perceptrons,
    graph: NetworkGraph,
    room: Room,
    features: int,
    width: int,
    of_job: int,
    of_all: int,
    layers: int,
    outer: int,
) -> None:
    """Computes summaries: per job over its unfinished stages, and over all jobs."""
    hidden = room.hidden
    room.global_summary[0, :width] = 0
    for job in range(graph.size[JOBS]):
        room.job_summary[job, :width] = 0
        for row in range(graph.begin[job], graph.begin[job + 1]):
            if graph.unfinished[row]:
                for column in range(features):
                    hidden[0, column] = graph.features[row, column]
                for column in range(width):
                    hidden[0, features + column] = room.embedding[row, column]
                out = perceptron(net, of_job, layers, LEAKY, outer, hidden)
                for column in range(width):
                    room.job_summary[job, column] += hidden[out, column]
        for column in range(width):
            hidden[0, column] = room.job_summary[job, column]
        out = perceptron(net, of_all, layers, LEAKY, outer, hidden)
        for column in range(width):
            room.global_summary[0, column] += hidden[out, column]


@kernel(forceinline=False)
def offered_scores(
    net: Perceptrons, graph: NetworkGraph, room: Room, features: int, width: int, head: int, layers: int, inner: int
) -> None:
    """Scores the stages on offer by a head that gets features, stage, job and all."""
    hidden = room.hidden
    for job in range(graph.size[JOBS]):
        for row in range(graph.begin[job], graph.begin[job + 1]):
            if graph.offered[row]:
                for column in range(features):
                    hidden[0, column] = graph.features[row, column]
                for column in range(width):
                    hidden[0, features + column] = room.embedding[row, column]
                    hidden[0, features + width + column] = room.job_summary[job, column]
                    hidden[0, features + 2 * width + column] = room.global_summary[0, column]
                room.stage_score[row] = hidden[perceptron(net, head, layers, inner, IDENTITY, hidden), 0]


@kernel(forceinline=False)
def head_input(graph: NetworkGraph, room: Room, job: int, features: int, width: int, hidden: Floats32) -> int:
    """Fills row 0 of ``hidden`` for a number head, without the number; returns its index."""
    first = graph.begin[job]
    for column in range(features):
        hidden[0, column] = graph.features[first, column]
    for column in range(width):
        hidden[0, features + column] = room.job_summary[job, column]
        hidden[0, features + width + column] = room.global_summary[0, column]
    return features + 2 * width


@kernel(forceinline=False)
def _pass_messages(net: Perceptrons, graph: NetworkGraph, room: Room, begin: int, end: int) -> None:
    """Passes messages from the last stages of a job up to its first ones, level by level.

    A stage receives messages from all its children once they have theirs, and again if a longer path reaches it later.
    """
    marked, level, hidden = room.marked, room.level, room.hidden
    _first_frontier(graph, room, begin, end)
    for row in range(begin, end):
        level[row] = 0 if marked[_FRONTIER, row] else -1
    for _ in range(MOST_LEVELS):
        if not _receivers(graph, room, begin, end):
            return
        for row in range(begin, end):
            if marked[_RECEIVES, row]:
                room.message[row, :WIDTH] = 0
                for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                    for column in range(WIDTH):
                        hidden[0, column] = room.embedding[graph.child[link], column]
                    out = perceptron(net, _MESSAGE, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
                    for column in range(WIDTH):
                        room.message[row, column] += hidden[out, column]
        for row in range(begin, end):
            if marked[_RECEIVES, row]:
                for column in range(WIDTH):
                    hidden[0, column] = room.message[row, column]
                out = perceptron(net, _AGGREGATION, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
                for column in range(WIDTH):
                    room.embedding[row, column] += hidden[out, column]
        for row in range(begin, end):
            marked[_FRONTIER, row] = marked[_NEXT, row]


@kernel(forceinline=False)
def _first_frontier(graph: NetworkGraph, room: Room, begin: int, end: int) -> None:
    """Marks where messages start: the last stages, and those at the depth limit of messages."""
    marked = room.marked
    for row in range(begin, end):
        marked[_FRONTIER, row] = True
    for _ in range(MOST_LEVELS):
        for row in range(begin, end):
            marked[_NEXT, row] = False
        for row in range(begin, end):
            if marked[_FRONTIER, row]:
                if graph.child_begin[row] == graph.child_begin[row + 1]:
                    marked[_NEXT, row] = True
                for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                    marked[_NEXT, graph.child[link]] = True
        for row in range(begin, end):
            marked[_FRONTIER, row] = marked[_NEXT, row]


@kernel(forceinline=False)
def _receivers(graph: NetworkGraph, room: Room, begin: int, end: int) -> bool:
    """Marks the stages that receive messages now, and the next frontier; whether any do."""
    marked, level = room.marked, room.level
    found = False
    for row in range(begin, end):
        marked[_RECEIVES, row] = False
        deepest, ready = 0, graph.child_begin[row] < graph.child_begin[row + 1]
        for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
            ready = ready and marked[_FRONTIER, graph.child[link]]
            deepest = max(deepest, level[graph.child[link]])
        if ready and (level[row] < 0 or deepest + 1 > level[row]):
            marked[_RECEIVES, row] = True
            level[row] = deepest + 1
            found = True
        marked[_NEXT, row] = marked[_RECEIVES, row]
    for row in range(begin, end):
        if level[row] < 0:
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                if marked[_FRONTIER, graph.child[link]]:
                    marked[_NEXT, graph.child[link]] = True  # its parent still waits for another child
    return found
