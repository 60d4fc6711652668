"""Rollouts of one arrival sequence, and how much better each decision was than the rollouts' mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.dag.decima.networks.graph_network import FEATURES, WIDTH
from mirage.dag.decima.networks.layers import Perceptrons
from mirage.dag.decima.networks.workspace import workspace
from mirage.dag.decima.training.record import DECISIONS, Record, play
from mirage.dag.simulator.engine import ENDED
from mirage.dag.simulator.world import DagCluster, initial_state, make_world
from mirage.dag.workload.arrivals import poisson_arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ContractBroken
from mirage.job_state import Floats, Ints

_GRID_S = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """Episodes of one kind.

    Attributes:
        executors: How many.
        jobs: How many, Poisson.
        gap_s: Mean time between arrivals.
        kept_of_1000: How many of a thousand decisions are learnt from.
        horizon_s: What comes so much later counts a third (e^-1).
        imitated: Whom the network imitates before it learns by itself.
    """

    executors: int
    jobs: int
    gap_s: float
    kept_of_1000: int
    horizon_s: float
    imitated: str


def net_space(net: Perceptrons, *, argmax: bool = False) -> Floats:
    """A workspace with our own network in it."""
    return workspace(net, FEATURES, WIDTH, argmax=argmax)


def play_episode(
    templates: Sequence[JobTemplate],
    setting: Setting,
    sequence: int,
    decider: Callable[..., int],
    parameters: Floats,
    space: Floats,
    record: Record,
    kept_of_1000: int,
) -> tuple[Ints, Ints]:
    """One episode of an arrival sequence; its decisions are added to the record.

    Returns:
        Arrivals and ends of the jobs, milliseconds.

    Raises:
        ContractBroken: The scheduler picked what may not be picked, or stood still.
    """
    arrivals = poisson_arrivals(setting.jobs, sequence, gap_s=setting.gap_s, templates=len(templates))
    world = make_world(templates, arrivals, DagCluster(setting.executors), sequence)
    state = initial_state(world)
    answer = play(world, state, decider, parameters, space, record, kept_of_1000)
    if answer != ENDED:
        raise ContractBroken(f"an episode of the sequence {sequence} came back with {answer}; a scheduler erred")
    return world.jobs.arrival_ms.copy(), state.jobs.end_ms.copy()


def advantages(ends_ms: Sequence[Ints], arrival_ms: Ints, times_ms: Sequence[Ints], horizon_s: float) -> list[Floats]:
    """How much less time in the system followed each decision than the rollouts' mean from that moment on.

    The baseline depends on the arrivals and on the time only (Mao et al., "Variance reduction for reinforcement
    learning in input-driven environments", 2019): all rollouts meet the same jobs.

    Args:
        ends_ms: Per rollout, when each job ended.
        arrival_ms: When the jobs arrived.
        times_ms: Per rollout, when it decided.
        horizon_s: Later time counts less, exponentially.
    """
    until_s = max(int(ends.max()) for ends in ends_ms) / 1000
    grid_s = np.arange(0.0, until_s + 2 * _GRID_S, _GRID_S)
    there = np.searchsorted(np.sort(arrival_ms) / 1000, grid_s, side="right")
    costs = []
    for ends in ends_ms:
        jobs = there - np.searchsorted(np.sort(ends) / 1000, grid_s, side="right")
        cost, left = np.zeros(len(grid_s)), 0.0
        keeps = np.exp(-_GRID_S / horizon_s)
        for place in range(len(grid_s) - 1, -1, -1):
            left = jobs[place] * _GRID_S + keeps * left
            cost[place] = left
        costs.append(cost)
    mean = np.mean(costs, axis=0)
    return [np.interp(times / 1000, grid_s, mean - cost) for times, cost in zip(times_ms, costs, strict=True)]


def decided_at(record: Record, first: int) -> Ints:
    """When the decisions from ``first`` on were made, milliseconds."""
    return record.time_ms[first : record.size[DECISIONS]].copy()
