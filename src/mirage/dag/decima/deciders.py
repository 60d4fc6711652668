"""The published networks and our own as decision functions of the simulator.

A choice among scores is the highest, or one drawn with the probabilities of a softmax.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mirage.dag.decima.networks import decima_2019, graph_network, spark_sched_sim
from mirage.dag.decima.networks.layers import Floats32, Ints
from mirage.dag.decima.networks.network_graph import STAGES, Flags, NetworkGraph
from mirage.dag.decima.networks.workspace import ARGMAX, header_of, opened, seed_of
from mirage.dag.decima.observe import most_to_add, observe_2019, observe_spark_sched_sim
from mirage.dag.decima.own_features import observe_own
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING, decision, held, under_limit
from mirage.kernel.compile import kernel
from mirage.kernel.random import BITS_32, mixed_32

HIGHEST = -1.0
"""Instead of a random number: take the highest."""


@kernel(forceinline=False)
def chosen(score: Floats32, offered: Flags, count: int, draw: float) -> int:
    """The index of the chosen score; -1 where nothing is offered.

    Args:
        score: Shape (count or more,).
        offered: Shape (count or more,): which indices may be chosen.
        count: Number of scores.
        draw: A number from 0 to 1, or ``HIGHEST``.
    """
    best = -1
    for place in range(count):
        if offered[place] and (best < 0 or score[place] > score[best]):
            best = place
    if best < 0 or draw == HIGHEST:
        return best
    total = 0.0
    for place in range(count):
        if offered[place]:
            total += math.exp(score[place] - score[best])
    left, last = draw * total, best
    for place in range(count):
        if offered[place]:
            left -= math.exp(score[place] - score[best])
            last = place
            if left < 0.0:
                break
    return last


@kernel(forceinline=False)
def chosen_first(score: Floats32, count: int, draw: float) -> int:
    """The index of the chosen score among the first ``count``, which are all offered."""
    best = 0
    for place in range(1, count):
        if score[place] > score[best]:
            best = place
    if draw == HIGHEST:
        return best
    total = 0.0
    for place in range(count):
        total += math.exp(score[place] - score[best])
    left = draw * total
    for place in range(count):
        left -= math.exp(score[place] - score[best])
        if left < 0.0:
            return place
    return best


@kernel(forceinline=False)
def draw(header: Ints, seed: int, world: DagWorld, state: DagState, which: int) -> float:
    """The random number of a decision, equal whenever the same decision is requested again."""
    if header[ARGMAX]:
        return HIGHEST
    bits = mixed_32(seed & BITS_32 ^ mixed_32(int(world.salts[0]) & BITS_32))
    bits = mixed_32(bits ^ mixed_32(2 * state.clock[0].decisions + which & BITS_32))
    return (bits + 0.5) / 2.0**32


@kernel(forceinline=False)
def job_of(graph: NetworkGraph, row: int) -> int:
    """The index of a stage's job."""
    place = 0
    while graph.begin[place + 1] <= row:
        place += 1
    return place


@kernel(DECIDER)
def decide_2019(world: DagWorld, state: DagState, space: NDArray[np.float64]) -> int:
    """Picks a stage and a limit for its whole job, as the network of 2019 does."""
    net, graph, room = opened(space)
    if not observe_2019(world, state, graph):
        return NOTHING
    header = header_of(space)
    decima_2019.stage_scores(net, graph, room)
    row = chosen(room.stage_score, graph.offered, graph.size[STAGES], draw(header, seed_of(space), world, state, 0))
    place = job_of(graph, row)
    job, free = graph.job[place], state.clock[0].free
    least = held(state, job) + 1 - (free if job == state.clock[0].source_job else 0)
    executors = min(world.settings[0].executors, least + len(room.number_score) - 1)
    decima_2019.limit_scores(net, graph, room, place, least, executors)
    limit = least + chosen_first(
        room.number_score, executors - least + 1, draw(header, seed_of(space), world, state, 1)
    )
    return decision(graph.stage[row], min(under_limit(state, job, limit), free))


@kernel(DECIDER)
def decide_spark_sched_sim(world: DagWorld, state: DagState, space: NDArray[np.float64]) -> int:
    """Picks a stage and a number of executors to add to it, as spark-sched-sim's network does."""
    net, graph, room = opened(space)
    if not observe_spark_sched_sim(world, state, graph, room.level):
        return NOTHING
    header = header_of(space)
    spark_sched_sim.stage_scores(net, graph, room)
    row = chosen(room.stage_score, graph.offered, graph.size[STAGES], draw(header, seed_of(space), world, state, 0))
    place = job_of(graph, row)
    most = min(most_to_add(world, state, graph.job[place]), len(room.number_score))
    spark_sched_sim.number_scores(net, graph, room, place, most, world.settings[0].executors)
    number = 1 + chosen_first(room.number_score, most, draw(header, seed_of(space), world, state, 1))
    return decision(graph.stage[row], number)


@kernel(DECIDER)
def decide_own(world: DagWorld, state: DagState, space: NDArray[np.float64]) -> int:
    """Picks a stage and a cap for its job, as our own network does."""
    net, graph, room = opened(space)
    if not observe_own(world, state, graph, room.level):
        return NOTHING
    header = header_of(space)
    graph_network.stage_scores(net, graph, room)
    row = chosen(room.stage_score, graph.offered, graph.size[STAGES], draw(header, seed_of(space), world, state, 0))
    place = job_of(graph, row)
    job, clock, executors = graph.job[place], state.clock[0], world.settings[0].executors
    added = room.message[0]  # no longer needed
    graph_network.added_by_caps(held(state, job), clock.free, job == clock.source_job, executors, added)
    graph_network.cap_scores(net, graph, room, place, added, executors)
    option = chosen_first(room.number_score, len(graph_network.CAPS), draw(header, seed_of(space), world, state, 1))
    return decision(graph.stage[row], int(added[option]))
