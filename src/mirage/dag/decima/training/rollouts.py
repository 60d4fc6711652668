"""Rollouts of one arrival sequence, and the advantages of their decisions over the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.dag.decima.networks.graph_network import FEATURES, WIDTH
from mirage.dag.decima.networks.layers import Perceptrons
from mirage.dag.decima.networks.workspace import workspace
from mirage.dag.decima.training.decision_record import DECISIONS, Record, play
from mirage.dag.simulator.dag_world import DagCluster, initial_state, make_world
from mirage.dag.simulator.event_loop import ENDED
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ContractBroken
from mirage.job_state import Floats, Ints

_GRID_S = 2.0


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
