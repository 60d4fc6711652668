"""A network's workspace: all that its decisions need, in one vector of numbers.

A compiled decision function receives this vector. The first cells are the header, integers; then follow the layers, the
graph and the room. `arrays_of` makes arrays of them without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.dag.decima.networks.layers import Ints, Perceptrons, widest
from mirage.dag.decima.networks.network_graph import NetworkGraph, Room
from mirage.kernel.compile import kernel

_SEED, NUMBERS, LAYERS, MOST_JOBS, MOST_STAGES, MOST_LINKS, MOST_NUMBERS, FEATURES, WIDTH, WIDEST, ARGMAX = range(11)
"""Indices in the header; the seed is the one float among integers, first as in all schedulers."""

_OFFSETS = 16
_ARRAYS = 21
_HEADER = _OFFSETS + _ARRAYS + 1


@dataclass(frozen=True, slots=True)
class Extent:
    """The capacity of a workspace.

    Attributes:
        jobs: Jobs in the system at once.
        stages: Their stages.
        links: Links between those.
        numbers: Numbers of executors to choose among.
    """

    jobs: int = 256
    stages: int = 4608  # 18 a job, as many as a TPC-H query has at most
    links: int = 16384
    numbers: int = 1024


def workspace(
    net: Perceptrons, features: int, width: int, *, argmax: bool, extent: Extent = Extent()
) -> NDArray[np.float64]:
    """A workspace that contains a network.

    Args:
        net: The layers.
        features: Of a stage.
        width: Length of a stage's embedding.
        argmax: Whether the likeliest decision is taken; else one is drawn.
        extent: The capacity; a network ignores jobs that arrive when it is full.
    """
    header = np.zeros(_HEADER, np.int64)
    header[NUMBERS], header[LAYERS] = len(net.numbers), len(net.layers)
    header[MOST_JOBS], header[MOST_STAGES], header[MOST_LINKS] = extent.jobs, extent.stages, extent.links
    header[MOST_NUMBERS], header[FEATURES], header[WIDTH], header[WIDEST] = extent.numbers, features, width, widest(net)
    header[ARGMAX] = argmax
    header[_OFFSETS:] = np.cumsum([_HEADER, *_cells(header)])
    space = np.zeros(header[-1], np.float64)
    space[:_HEADER].view(np.int64)[:] = header
    inside = arrays_of(space)[0]
    inside.numbers[:] = net.numbers
    inside.layers[:] = net.layers
    return space


def _cells(header: Ints) -> list[int]:
    """Cells of each array, in the order of `arrays_of`."""
    jobs, stages, links = (int(header[place]) for place in (MOST_JOBS, MOST_STAGES, MOST_LINKS))
    width = int(header[WIDTH])
    net = [_in_cells(4 * int(header[NUMBERS])), 3 * int(header[LAYERS])]
    graph = [3, jobs + 1, _in_cells(4 * stages * int(header[FEATURES])), stages + 1, links]
    graph += [_in_cells(stages), _in_cells(stages), stages, jobs]
    room = [*[_in_cells(4 * stages * width)] * 3, _in_cells(4 * jobs * width), _in_cells(4 * width)]
    room += [_in_cells(8 * int(header[WIDEST])), stages, _in_cells(3 * stages)]
    return [*net, *graph, *room, _in_cells(4 * stages), _in_cells(4 * int(header[MOST_NUMBERS]))]


def _in_cells(size_bytes: int) -> int:
    return (size_bytes + 7) // 8


@kernel()
def seed_of(space: NDArray[np.float64]) -> int:
    """The seed of the draws."""
    return int(space[_SEED])


@kernel(inline="always")
def header_of(space: NDArray[np.float64]) -> Ints:
    """The header of a workspace."""
    return space[:_HEADER].view(np.int64)


def arrays_of(space: NDArray[np.float64]) -> tuple[Perceptrons, NetworkGraph, Room]:
    """The network, the graph and the room of a workspace."""
    header = space[:_HEADER].view(np.int64)
    jobs, stages, width = header[MOST_JOBS], header[MOST_STAGES], header[WIDTH]
    features, layers, hidden = header[FEATURES], header[LAYERS], header[WIDEST]
    at = header[_OFFSETS:]
    net = Perceptrons(
        numbers=space[at[0] : at[1]].view(np.float32)[: header[NUMBERS]],
        layers=space[at[1] : at[2]].view(np.int64).reshape((layers, 3)),
    )
    graph = NetworkGraph(
        size=space[at[2] : at[3]].view(np.int64),
        begin=space[at[3] : at[4]].view(np.int64),
        features=space[at[4] : at[5]].view(np.float32)[: stages * features].reshape((stages, features)),
        child_begin=space[at[5] : at[6]].view(np.int64),
        child=space[at[6] : at[7]].view(np.int64),
        unfinished=space[at[7] : at[8]].view(np.bool_),
        offered=space[at[8] : at[9]].view(np.bool_),
        stage=space[at[9] : at[10]].view(np.int64),
        job=space[at[10] : at[11]].view(np.int64),
    )
    room = Room(
        initial=space[at[11] : at[12]].view(np.float32)[: stages * width].reshape((stages, width)),
        embedding=space[at[12] : at[13]].view(np.float32)[: stages * width].reshape((stages, width)),
        message=space[at[13] : at[14]].view(np.float32)[: stages * width].reshape((stages, width)),
        job_summary=space[at[14] : at[15]].view(np.float32)[: jobs * width].reshape((jobs, width)),
        global_summary=space[at[15] : at[16]].view(np.float32)[:width].reshape((1, width)),
        hidden=space[at[16] : at[17]].view(np.float32)[: 2 * hidden].reshape((2, hidden)),
        level=space[at[17] : at[18]].view(np.int64),
        marked=space[at[18] : at[19]].view(np.bool_)[: 3 * stages].reshape((3, stages)),
        stage_score=space[at[19] : at[20]].view(np.float32),
        number_score=space[at[20] : at[21]].view(np.float32),
    )
    return net, graph, room


opened = kernel(inline="always")(arrays_of)
"""`arrays_of` inlined in compiled callers: a compiled function can return no part of an array."""
