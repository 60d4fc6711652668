"""A trial: one scheduler in one episode, run to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Self

from mirage.dag.compare.makespan_bound import makespan_bound_s
from mirage.dag.schedulers.stage_schedulers import StageScheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.templates import JobTemplate, templates_digest
from mirage.errors import ConfigurationError
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.trial import code_key, key_of


@dataclass(frozen=True, slots=True)
class Scene:
    """The shared inputs of all trials of a comparison.

    Attributes:
        templates: Kinds of jobs.
        schedulers: Indexed by the number in a trial.
        cluster: Its number of executors is not used.
    """

    templates: tuple[JobTemplate, ...]
    schedulers: tuple[StageScheduler, ...]
    cluster: DagCluster

    def episode(self, setting: EpisodeSetting, seed: int, *, log: bool = False) -> DagSimulation:
        """An episode that has not begun; with ``log`` it records every task that runs."""
        cluster = replace(self.cluster, executors=setting.executors)
        arrivals = setting.arrivals(seed, len(self.templates))
        return DagSimulation(setting.templates(self.templates), arrivals, cluster, seed=seed, log=log)


@dataclass(frozen=True, slots=True)
class DagTrial:
    """A scheduler, by its number, in an episode."""

    scheduler: int
    setting: EpisodeSetting
    seed: int


@dataclass(frozen=True, slots=True)
class DagTrialResult:
    """The result of a trial: ``Outcome`` of the simulation, and a lower bound of its makespan."""

    jct_s: tuple[float, ...]
    makespan_s: float
    makespan_bound_s: float
    moves: int
    idle_share: float
    decisions: int
    peak_jobs: int

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Reads back what ``asdict`` returned.

        Raises:
            KeyError: These are not the values of a result.
            TypeError: A value is missing, or of another type.
        """
        return cls(**{**plain, "jct_s": tuple(map(float, plain["jct_s"]))})


@sent_to_jobs
def begin(scene: Scene) -> Callable[[DagTrial], tuple[DagTrial, DagTrialResult]]:
    """Makes a function that runs one trial after another."""

    @lru_cache(maxsize=100_000)
    def bound_s(setting: EpisodeSetting, seed: int) -> float:
        return makespan_bound_s(scene.episode(setting, seed).world)

    def one(trial: DagTrial) -> tuple[DagTrial, DagTrialResult]:
        scheduler, simulation = scene.schedulers[trial.scheduler], scene.episode(trial.setting, trial.seed)
        outcome = simulation.run(scheduler.decider, scheduler.parameters_for(trial.seed))
        return trial, DagTrialResult(
            jct_s=tuple(outcome.jct_s.tolist()),
            makespan_s=outcome.makespan_s,
            makespan_bound_s=bound_s(trial.setting, trial.seed),
            moves=outcome.moves,
            idle_share=outcome.idle_share,
            decisions=outcome.decisions,
            peak_jobs=outcome.peak_jobs,
        )

    return one


def trial_keys(scene: Scene) -> Callable[[DagTrial], str]:
    """Returns the function from a trial to its key: jobs, setting, scheduler and code.

    Raises:
        ConfigurationError: A scheduler has no source file.
    """
    templates = templates_digest(scene.templates)
    schedulers = [_scheduler_key(scheduler) for scheduler in scene.schedulers]

    @cache
    def key(trial: DagTrial) -> str:
        cluster = replace(scene.cluster, executors=trial.setting.executors)
        return key_of(templates, schedulers[trial.scheduler], cluster, trial.setting, trial.seed)

    return key


def _scheduler_key(scheduler: StageScheduler) -> str:
    """The key of its code and parameters, including a network's weights or a tree's nodes."""
    try:
        code = code_key([__name__, scheduler.entry.partition(":")[0]], "numpy", "numba")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"results of {scheduler.name} cannot be stored: {error}; write its function into a file"
        ) from error
    return key_of(code, scheduler.entry, scheduler.seeded, scheduler.parameters.tobytes())
