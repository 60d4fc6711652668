"""Rollouts of an arrival sequence: records of decisions, and their advantages.

A record holds the graphs of many moments in arrays, written during an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import int64, typeof
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.dag.decima.deciders import job_of
from mirage.dag.decima.networks import graph_network
from mirage.dag.decima.networks.graph_network import FEATURES, WIDTH
from mirage.dag.decima.networks.layers import Floats32, Perceptrons
from mirage.dag.decima.networks.network_graph import JOBS, STAGES, NetworkGraph, Room
from mirage.dag.decima.networks.workspace import opened, workspace
from mirage.dag.decima.own_features import observe_own
from mirage.dag.simulator.dag_arrays import DECIDER_TYPE, PARAMETERS_TYPE, STATE_TYPE, WORLD_TYPE, DagState, DagWorld
from mirage.dag.simulator.dag_event_loop import ENDED, NEEDS_DECISION, REFUSED, next_decision
from mirage.dag.simulator.dag_world import DagCluster, initial_state, make_world
from mirage.dag.simulator.rounds import decide
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, held, stage_of
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ContractBroken
from mirage.kernel.compile import kernel
from mirage.kernel.random import BITS_32, mixed_32

DECISIONS, ROWS, PLACES, EDGES = range(4)
"""Indices in ``Record.size``: decisions, stages, jobs and links that are written."""


_GRID_S = 2.0


class Record(NamedTuple):
    """Decisions of one or more episodes; rows, jobs and decisions are numbered consecutively.

    Attributes:
        size: Shape (4,): number of entries written.
        features: Shape (rows, features).
        height: Shape (rows,): most links to a last stage.
        job_of_row: Shape (rows,).
        offered: Shape (rows,): 1 where the stage could be picked.
        decision_of_job: Shape (jobs,).
        first_row: Shape (jobs,).
        parent: Shape (links,): rows.
        child: Shape (links,): rows.
        picked: Shape (decisions,): rows.
        added: Shape (decisions, caps): executors that each cap adds, divided by all.
        meant: Shape (decisions, caps): 1 for the caps that match the decision.
        time_ms: Shape (decisions,).
    """

    size: Ints
    features: Floats32
    height: Ints
    job_of_row: Ints
    offered: Ints
    decision_of_job: Ints
    first_row: Ints
    parent: Ints
    child: Ints
    picked: Ints
    added: Floats32
    meant: Floats32
    time_ms: Ints


def empty_record(decisions: int, rows: int) -> Record:
    """A record with space for numbers of decisions and of all their stages."""
    caps = len(graph_network.CAPS)

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return Record(
        ints(4), np.zeros((rows, graph_network.FEATURES), np.float32), ints(rows), ints(rows), ints(rows), ints(rows),
        ints(rows), ints(2 * rows), ints(2 * rows), ints(decisions), np.zeros((decisions, caps), np.float32),
        np.zeros((decisions, caps), np.float32), ints(decisions),
    )  # fmt: skip


def clear(record: Record) -> None:
    """Clears a record."""
    record.size[:] = 0


RECORD_TYPE = typeof(empty_record(1, 1))  # type: ignore[no-untyped-call]


@kernel(forceinline=False)
def _fits(record: Record, graph: NetworkGraph) -> bool:
    stages, links = graph.size[STAGES], graph.child_begin[graph.size[STAGES]]
    return bool(
        record.size[DECISIONS] < len(record.picked)
        and record.size[ROWS] + stages <= len(record.height)
        and record.size[EDGES] + links <= len(record.parent)
    )


@kernel(forceinline=False)
def _write_graph(record: Record, graph: NetworkGraph, room: Room) -> None:
    """Appends the graph of one moment."""
    decision, row0, job0, edge = record.size[0], record.size[1], record.size[2], record.size[3]
    graph_network.heights(graph, room.level)
    for job in range(graph.size[JOBS]):
        record.decision_of_job[job0 + job] = decision
        record.first_row[job0 + job] = row0 + graph.begin[job]
        for row in range(graph.begin[job], graph.begin[job + 1]):
            for column in range(graph_network.FEATURES):
                record.features[row0 + row, column] = graph.features[row, column]
            record.height[row0 + row] = room.level[row]
            record.job_of_row[row0 + row] = job0 + job
            record.offered[row0 + row] = graph.offered[row]
            for link in range(graph.child_begin[row], graph.child_begin[row + 1]):
                record.parent[edge], record.child[edge] = row0 + row, row0 + graph.child[link]
                edge += 1
    record.size[ROWS] = row0 + graph.size[STAGES]
    record.size[PLACES] = job0 + graph.size[JOBS]
    record.size[EDGES] = edge


@kernel(forceinline=False)
def _write_decision(
    world: DagWorld, state: DagState, record: Record, graph: NetworkGraph, room: Room, decided: int
) -> None:
    """Appends the decision for the last graph; a number between two caps counts as the nearer."""
    clock, executors = state.clock[0], world.settings[0].executors
    place = record.size[DECISIONS]
    row = 0
    while graph.stage[row] != stage_of(decided):
        row += 1
    record.picked[place] = record.size[ROWS] - graph.size[STAGES] + row
    job = graph.job[job_of(graph, row)]
    added = room.message[0]
    graph_network.added_by_caps(held(state, job), clock.free, job == clock.source_job, executors, added)
    number = max(1, min(executors_of(decided), clock.free))
    nearest = 2**31
    for cap in range(len(graph_network.CAPS)):
        nearest = min(nearest, abs(int(added[cap]) - number))
    for cap in range(len(graph_network.CAPS)):
        record.added[place, cap] = added[cap] / np.float32(executors)
        record.meant[place, cap] = 1.0 if abs(int(added[cap]) - number) == nearest else 0.0
    record.time_ms[place] = clock.now_ms
    record.size[DECISIONS] = place + 1


@kernel(int64(WORLD_TYPE, STATE_TYPE, DECIDER_TYPE, PARAMETERS_TYPE, PARAMETERS_TYPE, RECORD_TYPE, int64))
def play(
    world: DagWorld,
    state: DagState,
    decider: Any,
    parameters: NDArray[np.float64],
    space: NDArray[np.float64],
    record: Record,
    recorded_of_1000: int,
) -> int:
    """Runs an episode, and records a random part of its decisions while there is space.

    Args:
        world: The fixed arrays.
        state: The changing ones.
        decider: The decision function.
        parameters: Its parameters.
        space: A workspace, whose graph is overwritten; it may be the parameters.
        record: The record to extend.
        recorded_of_1000: Number of decisions that are recorded, out of a thousand.

    Returns:
        The result of the loop, see ``mirage.dag.simulator.dag_event_loop``.
    """
    _, graph, room = opened(space)
    answer = next_decision(world, state)
    while answer == NEEDS_DECISION:
        decided = decider(world, state, parameters)
        drawn = mixed_32(int(world.salts[0]) ^ mixed_32(state.clock[0].decisions & BITS_32)) % 1000
        if decided != NOTHING and drawn < recorded_of_1000:
            observe_own(world, state, graph, room.level)
            if _fits(record, graph):
                _write_graph(record, graph, room)
                _write_decision(world, state, record, graph, room, decided)
        if not decide(world, state, decided):
            return REFUSED
        answer = next_decision(world, state)
    return answer


@dataclass(frozen=True, slots=True)
class TrainingSetting:
    """Episodes of one kind.

    Attributes:
        executors: Their number.
        jobs: Their number, Poisson.
        gap_s: Mean time between arrivals.
        recorded_of_1000: Number of decisions to learn from, out of a thousand.
        horizon_s: Costs that come this much later count a third (e^-1).
        imitated: The scheduler that the network imitates first.
    """

    executors: int
    jobs: int
    gap_s: float
    recorded_of_1000: int
    horizon_s: float
    imitated: str


def net_space(net: Perceptrons, *, argmax: bool = False) -> Floats:
    """A workspace with our own network in it."""
    return workspace(net, FEATURES, WIDTH, argmax=argmax)


def play_episode(
    templates: Sequence[JobTemplate],
    setting: TrainingSetting,
    sequence: int,
    decider: Callable[..., int],
    parameters: Floats,
    space: Floats,
    record: Record,
    recorded_of_1000: int,
) -> tuple[Ints, Ints]:
    """Runs one episode of an arrival sequence, and adds its decisions to the record.

    Returns:
        Arrivals and ends of the jobs, milliseconds.

    Raises:
        ContractBroken: The scheduler picked what may not be picked, or left jobs without executors.
    """
    arrivals = poisson_arrivals(setting.jobs, sequence, gap_s=setting.gap_s, templates=len(templates))
    world = make_world(templates, arrivals, DagCluster(setting.executors), sequence)
    state = initial_state(world)
    answer = play(world, state, decider, parameters, space, record, recorded_of_1000)
    if answer != ENDED:
        raise ContractBroken(f"an episode of the sequence {sequence} returned {answer}; a scheduler erred")
    return world.jobs.arrival_ms.copy(), state.jobs.end_ms.copy()


def advantages(ends_ms: Sequence[Ints], arrival_ms: Ints, times_ms: Sequence[Ints], horizon_s: float) -> list[Floats]:
    """Advantages of decisions: less time in the system after them than the rollouts' mean.

    The baseline depends on the arrivals and on the time only (Mao et al., "Variance reduction for reinforcement
    learning in input-driven environments", 2019): all rollouts have the same jobs.

    Args:
        ends_ms: Per rollout, the end of each job.
        arrival_ms: The arrivals of the jobs.
        times_ms: Per rollout, the times of its decisions.
        horizon_s: Later time counts less, exponentially.
    """
    until_s = max(int(ends.max()) for ends in ends_ms) / 1000
    grid_s = np.arange(0.0, until_s + 2 * _GRID_S, _GRID_S)
    there = np.searchsorted(np.sort(arrival_ms) / 1000, grid_s, side="right")
    costs = []
    for ends in ends_ms:
        jobs = there - np.searchsorted(np.sort(ends) / 1000, grid_s, side="right")
        cost, left = np.zeros(len(grid_s)), 0.0
        discount = np.exp(-_GRID_S / horizon_s)
        for place in range(len(grid_s) - 1, -1, -1):
            left = jobs[place] * _GRID_S + discount * left
            cost[place] = left
        costs.append(cost)
    mean = np.mean(costs, axis=0)
    return [np.interp(times / 1000, grid_s, mean - cost) for times, cost in zip(times_ms, costs, strict=True)]


def decided_at(record: Record, first: int) -> Ints:
    """The times of the decisions from ``first`` on, in milliseconds."""
    return record.time_ms[first : record.size[DECISIONS]].copy()
