"""Forward pass of our own network: a stage, and the executors its job may then have.

Messages pass up from the last stages, each stage receiving from all its children once; everything is leaky ReLU.
"""

from __future__ import annotations

import math

import numpy as np

from mirage.dag.decima.networks.decima_2019 import head_input, offered_scores, summaries
from mirage.dag.decima.networks.layers import IDENTITY, LEAKY, Floats32, Ints, Perceptrons, perceptron
from mirage.dag.decima.networks.network_graph import STAGES, NetworkGraph, Room
from mirage.kernel.compile import kernel

FEATURES, WIDTH, JOB_FEATURES = 16, 8, 9
CAPS = np.array([0.06, 0.1, 0.16, 0.25, 0.4, 0.6, 0.8, 1.0], np.float32)
"""Caps on a job, as shares of all executors."""

SHAPES = (
    *((FEATURES, 16), (16, WIDTH)),
    *((WIDTH, 16), (16, WIDTH)) * 2,
    *((FEATURES + WIDTH, 16), (16, WIDTH)),
    *((WIDTH, 16), (16, WIDTH)),
    *((FEATURES + 3 * WIDTH, 32), (32, 16), (16, 1)),
    *((JOB_FEATURES + 2 * WIDTH + 2, 32), (32, 16), (16, 1)),
)
"""Inputs and outputs of each layer: preparation, message, aggregation, job summary, global summary, and two heads."""

_PREPARATION, _MESSAGE, _AGGREGATION, _JOB, _GLOBAL, _STAGE, _CAP = 0, 2, 4, 6, 8, 10, 13
_GRAPH_LAYERS, _HEAD_LAYERS = 2, 3


@kernel(forceinline=False)
def stage_scores(net: Perceptrons, graph: NetworkGraph, room: Room) -> None:
    """Scores the stages on offer in ``room.stage_score``; embeddings stay for `cap_scores`."""
    hidden = room.hidden
    heights(graph, room.level)
    highest = 0
    for row in range(graph.size[STAGES]):
        highest = max(highest, room.level[row])
        for column in range(FEATURES):
            hidden[0, column] = graph.features[row, column]
        out = perceptron(net, _PREPARATION, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
        for column in range(WIDTH):
            room.embedding[row, column] = hidden[out, column]
            room.message[row, column] = 0
    for height in range(highest + 1):
        _pass_messages(net, graph, room, height)
    summaries(net, graph, room, FEATURES, WIDTH, _JOB, _GLOBAL, _GRAPH_LAYERS, LEAKY)
    offered_scores(net, graph, room, FEATURES, WIDTH, _STAGE, _HEAD_LAYERS, LEAKY)


@kernel(forceinline=False)
def cap_scores(net: Perceptrons, graph: NetworkGraph, room: Room, job: int, added: Floats32, executors: int) -> None:
    """Scores the caps for a job in ``room.number_score``.

    Args:
        net: The network.
        graph: Its input.
        room: After `stage_scores`.
        job: The job's index.
        added: Shape (caps,): number of executors that each adds.
        executors: Number of executors.
    """
    hidden = room.hidden
    for place in range(len(CAPS)):
        at = head_input(graph, room, job, JOB_FEATURES, WIDTH, hidden)
        hidden[0, at] = CAPS[place]
        hidden[0, at + 1] = added[place] / np.float32(executors)
        room.number_score[place] = hidden[perceptron(net, _CAP, _HEAD_LAYERS, LEAKY, IDENTITY, hidden), 0]


@kernel(forceinline=False)
def added_by_caps(held: int, free: int, own: bool, executors: int, added: Floats32) -> None:
    """The number of executors each cap adds to a job: at least one, at most those free."""
    retained = held - free if own else held
    for place in range(len(CAPS)):
        cap = math.ceil(CAPS[place] * executors - 1e-3)
        added[place] = max(1, min(free, cap - retained))


@kernel(forceinline=False)
def heights(graph: NetworkGraph, height: Ints) -> None:
    """Computes the most links from each stage to a last one, in ``height``."""
    for row in range(graph.size[STAGES]):
        height[row] = 0
    changed = True
    while changed:
        changed = False
        for row in range(graph.size[STAGES] - 1, -1, -1):
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                if height[graph.child[link]] >= height[row]:
                    height[row] = height[graph.child[link]] + 1
                    changed = True


@kernel(forceinline=False)
def _pass_messages(net: Perceptrons, graph: NetworkGraph, room: Room, height: int) -> None:
    """Updates the stages of a height from their children's messages."""
    hidden = room.hidden
    for row in range(graph.size[STAGES]):
        if room.level[row] != height:
            continue
        if height > 0:
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                for column in range(WIDTH):
                    room.message[row, column] += room.initial[graph.child[link], column]
            for column in range(WIDTH):
                hidden[0, column] = room.message[row, column]
            out = perceptron(net, _AGGREGATION, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
            for column in range(WIDTH):
                room.embedding[row, column] += hidden[out, column]
        for column in range(WIDTH):
            hidden[0, column] = room.embedding[row, column]
        out = perceptron(net, _MESSAGE, _GRAPH_LAYERS, LEAKY, LEAKY, hidden)
        for column in range(WIDTH):
            room.initial[row, column] = hidden[out, column]  # its message to its parents
