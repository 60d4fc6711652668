"""Check of a scheduler of stages; run it on your own before you plug it in."""

from __future__ import annotations

from copy import copy

import numpy as np

from mirage.dag.schedulers.stage_schedulers import StageScheduler, StageSchedulerSpec, make_scheduler
from mirage.dag.simulator.dag_simulation import DagOutcome, DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, stage_of
from mirage.dag.workload.dag_arrivals import batch_arrivals, decima_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.errors import ConfigurationError, ContractBroken, MirageError

JOBS = 12
WORLDS = (DagCluster(7, moving_s=3.0), DagCluster(23), DagCluster(10, environment="decima-2019"))


def check_stage_scheduler(scheduler: str | StageScheduler | StageSchedulerSpec, seeds: int = 2) -> None:
    """Let a scheduler play small episodes and check its decisions.

    Every job ends, and every decision may be taken. A second episode gives the same times, and so does a copy of the
    scheduler that went to another process and back. A decision changes neither world nor state.

    Args:
        scheduler: Its name with parameters, the scheduler, or a specification whose parameters have their defaults.
        seeds: Number of episodes on each cluster.

    Raises:
        ContractBroken: The first violation found.
        ConfigurationError: The scheduler cannot be made, its function cannot be imported in another process, or
            there is no episode.
    """
    if seeds < 1:
        raise ConfigurationError(f"a check needs an episode, got {seeds} seeds; give at least 1")
    made = _made(scheduler)
    for cluster in WORLDS:
        for seed in range(seeds):
            where = f"{made.name} on {cluster.executors} executors in {cluster.environment}, seed {seed}"
            try:
                first = _episode(cluster, seed).run(made.decider, made.parameters_for(seed))
                other = copy(made)  # as another process gets it
                again = _episode(cluster, seed).run(other.decider, other.parameters_for(seed))
                _check_equal(first, again, "gives other times in a second run; decide by the arguments alone")
                stepped = _stepped(cluster, seed, made)
                _check_equal(first, stepped, "gives other times when its decisions are applied one by one")
            except MirageError as error:
                raise ContractBroken(f"{where}: {error}") from error


def _made(scheduler: str | StageScheduler | StageSchedulerSpec) -> StageScheduler:
    if isinstance(scheduler, StageScheduler):
        return scheduler
    return make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler.make(scheduler.entry)


def _episode(cluster: DagCluster, seed: int) -> DagSimulation:
    arrivals = batch_arrivals(JOBS, seed) if seed % 2 else decima_arrivals(JOBS, seed)
    return DagSimulation(generated_templates(), arrivals, cluster, seed=seed)


def _stepped(cluster: DagCluster, seed: int, made: StageScheduler) -> DagOutcome:
    """Plays an episode step by step; compares world and state around each decision."""
    simulation, parameters = _episode(cluster, seed), made.parameters_for(seed)
    needed = simulation.advance()
    while needed:
        before = _content(simulation)
        decided = made.decider(simulation.world, simulation.state, parameters)
        if _content(simulation) != before:
            raise ContractBroken("a decision changes world or state; write to the parameters alone")
        if decided == NOTHING:
            needed = simulation.decide_nothing()
        else:
            needed = simulation.decide(stage_of(decided), executors_of(decided))
    return simulation.outcome()


def _content(simulation: DagSimulation) -> bytes:
    return b"".join(array.tobytes() for array in (*simulation.world, *simulation.state))


def _check_equal(one: DagOutcome, other: DagOutcome, complaint: str) -> None:
    if not np.array_equal(one.jct_s, other.jct_s) or one.makespan_s != other.makespan_s:
        raise ContractBroken(complaint)
