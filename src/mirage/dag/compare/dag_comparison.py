"""Comparison of schedulers on the same episodes.

It reports job completion times, makespan, moves, idle share and the cost of a decision. Every scheduler runs every
episode with the same arrivals and the same durations of tasks, so differences are paired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mirage.dag.compare.dag_comparison_rows import ComparisonRow, PairedDifference, paired_difference, row_of
from mirage.dag.compare.dag_trial import DagTrial, DagTrialResult, Scene, begin, trial_keys
from mirage.dag.schedulers.stage_schedulers import StageScheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ConfigurationError, shown
from mirage.study.executors.executor import Executor
from mirage.study.journal import TrialJournal
from mirage.study.play_trials import Progress, play_trials

FILE = "dag-trials.jsonl"
"""Results of trials, and costs of decisions."""

TIMING_S = 0.3
"""Approximate duration of the timing of decisions."""


@dataclass(frozen=True, slots=True)
class DagComparison:
    """Rows of all schedulers in all settings, and their differences from one of them.

    Attributes:
        rows: One for each setting and scheduler.
        differences: One for each setting and scheduler, except the reference.
        reused: Number of episodes from an earlier run.
    """

    rows: tuple[ComparisonRow, ...]
    differences: tuple[PairedDifference, ...]
    reused: int = 0


def compare(
    templates: Sequence[JobTemplate],
    settings: Iterable[EpisodeSetting],
    seeds: Sequence[int],
    schedulers: Sequence[StageScheduler],
    *,
    against: str | None = None,
    cluster: DagCluster | None = None,
    clock: Callable[[], float] = time.process_time,
    progress: Progress | None = None,
    executor: Executor | None = None,
    resume_folder: Path | None = None,
) -> DagComparison:
    """Runs every scheduler on every seed in every setting.

    Args:
        templates: Kinds of jobs.
        settings: Sizes of cluster and episode.
        seeds: Of arrivals and durations.
        schedulers: The schedulers to compare.
        against: The reference of the differences; by default the first scheduler.
        cluster: Everything else about the cluster; its number of executors is not used.
        clock: Seconds, for the cost of decisions; by default those of this process, whatever else the machine does.
        progress: Called with the number of finished episodes and the total.
        executor: Runs the episodes; by default this process. Decisions are timed here in any case.
        resume_folder: Folder of the journal of results, to resume from; None for no journal.

    Raises:
        ConfigurationError: There is nothing to compare, something is named twice, or ``against`` is not among the
            schedulers.
    """
    names, settings = [scheduler.name for scheduler in schedulers], tuple(settings)
    given: dict[str, list[object]] = {
        "scheduler": [*names], "seed": [*seeds], "setting": [one.name for one in settings],
    }  # fmt: skip
    for what, compared in given.items():
        if not compared:
            raise ConfigurationError(f"a comparison needs {what}s; none is named")
        if twice := [one for one in compared if compared.count(one) > 1]:
            raise ConfigurationError(f"the {what} {shown(twice[0])} is named twice; name each once")
    against = names[0] if against is None else against
    if against not in names:
        raise ConfigurationError(f"{shown(against)} is not compared; differences are to one of {', '.join(names)}")
    scene = Scene(tuple(templates), tuple(schedulers), cluster or DagCluster())
    journal, costs = (None, None) if resume_folder is None else _journals(resume_folder / FILE, scene)
    trials = [DagTrial(k, setting, seed) for setting in settings for k in range(len(names)) for seed in seeds]
    played = play_trials(begin, scene, trials, journal=journal, executor=executor, progress=progress)
    rows: list[ComparisonRow] = []
    differences: list[PairedDifference] = []
    for setting in settings:
        by_name = {}
        for k, scheduler in enumerate(schedulers):
            by_name[scheduler.name] = [played.found[DagTrial(k, setting, seed)] for seed in seeds]
            cost_us = _decision_us(scene, DagTrial(k, setting, seeds[0]), costs, clock)
            rows.append(row_of(scheduler, setting, by_name[scheduler.name], cost_us))
        differences += [
            paired_difference(name, against, setting, by_name[name], by_name[against])
            for name in names
            if name != against
        ]
    return DagComparison(tuple(rows), tuple(differences), played.reused)


def _journals(path: Path, scene: Scene) -> tuple[TrialJournal[DagTrial, DagTrialResult], TrialJournal[DagTrial, float]]:
    """The journals of results and of the costs of decisions, in one file."""
    keys = trial_keys(scene)
    results = TrialJournal(path, keys, DagTrialResult.from_json, asdict)
    return results, TrialJournal(path, keys, lambda plain: float(plain["decision_us"]), lambda us: {"decision_us": us})


def _decision_us(
    scene: Scene, trial: DagTrial, costs: TrialJournal[DagTrial, float] | None, clock: Callable[[], float]
) -> float:
    """The cost of a decision, from an episode with each decision made once and many times."""
    known = None if costs is None else costs.get(trial)
    if known is not None:
        return known
    scheduler = scene.schedulers[trial.scheduler]

    def timed(times: int) -> tuple[float, int]:
        simulation = scene.episode(trial.setting, trial.seed)
        began_s = clock()
        outcome = simulation.run(scheduler.decider, scheduler.parameters_for(trial.seed), times=times)
        return clock() - began_s, max(1, outcome.decisions)

    once_s, decisions = timed(1)
    times = 1 + int(np.clip(TIMING_S / max(once_s, 1e-6), 1, 50))
    often_s, decisions_often = timed(times)
    cost_us = max(0.0, 1e6 * (often_s / decisions_often - once_s / decisions) / (times - 1))
    if costs is not None:
        costs.add(trial, cost_us)
    return cost_us
