"""Forward pass of the published network that adds executors to a stage.

The network is that of spark-sched-sim, 2023. Only unfinished stages take part. Messages pass up level by level, the
levels counted from the first stages down; a stage that a link skips is computed again from its children that the level
includes, as in the published code.
"""

from __future__ import annotations

import numpy as np

from mirage.dag.decima.networks.decima_2019 import head_input, offered_scores, summaries
from mirage.dag.decima.networks.layers import IDENTITY, LEAKY, TANH, Perceptrons, perceptron
from mirage.dag.decima.networks.network_graph import JOBS, LINKS, STAGES, NetworkGraph, Room
from mirage.kernel.compile import kernel

FEATURES, WIDTH, JOB_FEATURES = 5, 16, 3

_PREPARATION, _MESSAGE, _UPDATE, _JOB, _GLOBAL, _STAGE, _NUMBER = 0, 3, 6, 9, 12, 15, 18
_LAYERS = 3
_SHOWN, _CHANGED = 0, 1


@kernel(forceinline=False)
def stage_scores(net: Perceptrons, graph: NetworkGraph, room: Room) -> None:
    """Scores the stages on offer in ``room.stage_score``; embeddings stay for `number_scores`."""
    _embed(net, graph, room)
    summaries(net, graph, room, FEATURES, WIDTH, _JOB, _GLOBAL, _LAYERS, IDENTITY)
    offered_scores(net, graph, room, FEATURES, WIDTH, _STAGE, _LAYERS, TANH)


@kernel(forceinline=False)
def number_scores(net: Perceptrons, graph: NetworkGraph, room: Room, job: int, most: int, executors: int) -> None:
    """Scores adding 1 to ``most`` executors, in ``room.number_score`` from 0 on."""
    hidden = room.hidden
    for number in range(most):
        at = head_input(graph, room, job, JOB_FEATURES, WIDTH, hidden)
        hidden[0, at] = np.float32(number) / np.float32(executors)
        room.number_score[number] = hidden[perceptron(net, _NUMBER, _LAYERS, TANH, IDENTITY, hidden), 0]


@kernel(forceinline=False)
def _embed(net: Perceptrons, graph: NetworkGraph, room: Room) -> None:
    """Computes the embeddings of all stages."""
    hidden = room.hidden
    for row in range(graph.size[STAGES]):
        for column in range(FEATURES):
            hidden[0, column] = graph.features[row, column]
        out = perceptron(net, _PREPARATION, _LAYERS, LEAKY, IDENTITY, hidden)
        for column in range(WIDTH):
            room.initial[row, column] = hidden[out, column]
            room.embedding[row, column] = hidden[out, column]
    if graph.size[LINKS] == 0:
        return
    for row in range(graph.size[STAGES]):
        if graph.child_begin[row] == graph.child_begin[row + 1]:
            for column in range(WIDTH):
                hidden[0, column] = room.initial[row, column]
            out = perceptron(net, _UPDATE, _LAYERS, LEAKY, IDENTITY, hidden)
            for column in range(WIDTH):
                room.embedding[row, column] = hidden[out, column]
    for job in range(graph.size[JOBS]):
        _pass_messages(net, graph, room, graph.begin[job], graph.begin[job + 1])


@kernel(forceinline=False)
def _pass_messages(net: Perceptrons, graph: NetworkGraph, room: Room, begin: int, end: int) -> None:
    """Passes messages up a job, one level after the other."""
    marked, hidden = room.marked, room.hidden
    for depth in range(_levels(graph, room, begin, end) - 2, -1, -1):
        _show(graph, room, begin, end, depth)
        for row in range(begin, end):
            marked[_CHANGED, row] = False
            if not marked[_SHOWN, row]:
                continue
            room.message[row, :WIDTH] = 0
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                child = graph.child[link]
                if marked[_SHOWN, child]:
                    marked[_CHANGED, row] = True
                    for column in range(WIDTH):
                        hidden[0, column] = room.embedding[child, column]
                    out = perceptron(net, _MESSAGE, _LAYERS, LEAKY, IDENTITY, hidden)
                    for column in range(WIDTH):
                        room.message[row, column] += hidden[out, column]
        for row in range(begin, end):
            if marked[_CHANGED, row]:
                for column in range(WIDTH):
                    hidden[0, column] = room.message[row, column]
                out = perceptron(net, _UPDATE, _LAYERS, LEAKY, IDENTITY, hidden)
                for column in range(WIDTH):
                    room.embedding[row, column] = room.initial[row, column] + hidden[out, column]


@kernel(forceinline=False)
def _levels(graph: NetworkGraph, room: Room, begin: int, end: int) -> int:
    """Fills ``room.level`` with the most links from a first stage; returns the depth count."""
    level = room.level
    for row in range(begin, end):
        level[row] = 0
    deepest, changed = 0, True
    while changed:
        changed = False
        for row in range(begin, end):
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                if level[graph.child[link]] <= level[row]:
                    level[graph.child[link]] = level[row] + 1
                    deepest = max(deepest, level[row] + 1)
                    changed = True
    return deepest + 1


@kernel(forceinline=False)
def _show(graph: NetworkGraph, room: Room, begin: int, end: int, depth: int) -> None:
    """Marks the stages of a level and all their children."""
    marked = room.marked
    for row in range(begin, end):
        marked[_SHOWN, row] = room.level[row] == depth
    for row in range(begin, end):
        if room.level[row] == depth:
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                marked[_SHOWN, graph.child[link]] = True
