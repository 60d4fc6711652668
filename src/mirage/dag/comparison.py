"""Comparison of schedulers on the same episodes: job completion times, makespan, moves, idle share, cost of a decision.

Every scheduler meets every episode with the same arrivals and the same durations of tasks, so differences are paired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mirage.dag.schedulers.registry import Scheduler
from mirage.dag.setting import Setting
from mirage.dag.simulator.simulation import DagSimulation, Outcome
from mirage.dag.simulator.world import DagCluster
from mirage.dag.workload.arrivals import poisson_arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ConfigurationError, shown
from mirage.job_state import Floats

RESAMPLES = 2000
"""Bootstrap samples of an interval."""

ONE_SEED = "one seed"
"""Why there is no interval."""

TIMING_S = 0.3
"""About how long decisions are timed for."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One scheduler in one setting.

    Attributes:
        policy: The scheduler.
        setting: Executors and jobs.
        seeds: How many episodes.
        mean_jct_s: Mean time from a job's arrival to its end.
        p95_jct_s: The time that 95 % of all jobs stay below.
        makespan_s: Mean over episodes.
        moves: Executors moved between jobs, mean over episodes.
        idle_share: Of executor-time neither in tasks nor in moves, mean over episodes.
        decisions: Asked for, mean over episodes.
        decision_us: Microseconds of processor time a decision, timed on the first episode.
    """

    policy: str
    setting: str
    seeds: int
    mean_jct_s: float
    p95_jct_s: float
    makespan_s: float
    moves: float
    idle_share: float
    decisions: float
    decision_us: float

    def to_json(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How a scheduler differs from another on the same episodes.

    Attributes:
        policy: The one.
        against: The other.
        setting: Executors and jobs.
        mean_jct_s: Mean difference of an episode's mean completion time, below 0 where the one is faster.
        low_s: Lower end of its 95 % interval, by bootstrap over episodes; None where there is no interval.
        high_s: Upper end.
        no_interval: Why there is no interval; None where there is one.
        percent: The difference in percent of the other's mean.
        better_seeds: Episodes on which the one is faster.
    """

    policy: str
    against: str
    setting: str
    mean_jct_s: float
    low_s: float | None
    high_s: float | None
    percent: float
    better_seeds: int
    no_interval: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of all schedulers in all settings, and their differences to one of them."""

    rows: tuple[ComparisonRow, ...]
    differences: tuple[PairedDifference, ...]


def compare(
    templates: Sequence[JobTemplate],
    settings: Iterable[Setting],
    seeds: Sequence[int],
    schedulers: Sequence[Scheduler],
    *,
    against: str | None = None,
    cluster: DagCluster | None = None,
    clock: Callable[[], float] = time.process_time,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Comparison:
    """Play every scheduler on every seed in every setting.

    Args:
        templates: Kinds of jobs.
        settings: Sizes of cluster and episode.
        seeds: Of arrivals and durations.
        schedulers: What to compare.
        against: The scheduler to which differences are taken; by default the first.
        cluster: Everything else about the cluster; its number of executors is not used.
        clock: Seconds, for the cost of decisions; by default those of this process, whatever else the machine does.
        progress: Told how many episodes are done, of how many.

    Raises:
        ConfigurationError: There is nothing to compare, or ``against`` is not among the schedulers.
    """
    names = [scheduler.name for scheduler in schedulers]
    if not names or not seeds or len(set(names)) < len(names):
        raise ConfigurationError("a comparison needs seeds, and schedulers of which none is named twice")
    against = names[0] if against is None else against
    if against not in names:
        raise ConfigurationError(f"{shown(against)} is not compared; differences are to one of {', '.join(names)}")
    settings, done = tuple(settings), 0
    rows: list[ComparisonRow] = []
    differences: list[PairedDifference] = []
    for setting in settings:
        means: dict[str, Floats] = {}
        for scheduler in schedulers:
            outcomes = []
            for seed in seeds:
                outcomes.append(_episode(templates, setting, seed, cluster).run(*_of(scheduler, seed)))
                done += 1
                progress(done, len(settings) * len(schedulers) * len(seeds))
            fresh = partial(_episode, templates, setting, seeds[0], cluster)
            rows.append(_row(scheduler.name, setting, outcomes, _decision_us(scheduler, fresh, seeds[0], clock)))
            means[scheduler.name] = np.array([outcome.jct_s.mean() for outcome in outcomes])
        differences += [
            paired_difference(name, against, setting, means[name], means[against]) for name in names if name != against
        ]
    return Comparison(tuple(rows), tuple(differences))


def paired_difference(name: str, against: str, setting: Setting, one: Floats, other: Floats) -> PairedDifference:
    """The difference of mean completion times, shape (episodes,) each, with its interval."""
    differ = one - other
    interval = _interval(differ)
    return PairedDifference(
        policy=name,
        against=against,
        setting=setting.name,
        mean_jct_s=float(differ.mean()),
        low_s=None if interval is None else interval[0],
        high_s=None if interval is None else interval[1],
        percent=float(100 * differ.mean() / other.mean()),
        better_seeds=int((differ < 0).sum()),
        no_interval=ONE_SEED if interval is None else None,
    )


def _interval(differ: Floats) -> tuple[float, float] | None:
    """95 % interval of the mean, by bootstrap; None from a single episode, which would be sure of itself."""
    if len(differ) < 2:
        return None
    random = np.random.Generator(np.random.PCG64(0))
    drawn = differ[random.integers(len(differ), size=(RESAMPLES, len(differ)))].mean(axis=1)
    low_s, high_s = np.percentile(drawn, (2.5, 97.5))
    return float(low_s), float(high_s)


def _episode(
    templates: Sequence[JobTemplate], setting: Setting, seed: int, cluster: DagCluster | None
) -> DagSimulation:
    sized = replace(cluster or DagCluster(), executors=setting.executors)
    arrivals = poisson_arrivals(setting.jobs, seed, gap_s=setting.gap_s, templates=len(templates))
    return DagSimulation(templates, arrivals, sized, seed=seed)


def _of(scheduler: Scheduler, seed: int) -> tuple[Callable[..., int], Floats]:
    return scheduler.decider, scheduler.parameters_for(seed)


def _row(name: str, setting: Setting, outcomes: Sequence[Outcome], decision_us: float) -> ComparisonRow:
    jct_s = np.concatenate([outcome.jct_s for outcome in outcomes])
    return ComparisonRow(
        policy=name,
        setting=setting.name,
        seeds=len(outcomes),
        mean_jct_s=float(jct_s.mean()),
        p95_jct_s=float(np.percentile(jct_s, 95)),
        makespan_s=float(np.mean([outcome.makespan_s for outcome in outcomes])),
        moves=float(np.mean([outcome.moves for outcome in outcomes])),
        idle_share=float(np.mean([outcome.idle_share for outcome in outcomes])),
        decisions=float(np.mean([outcome.decisions for outcome in outcomes])),
        decision_us=decision_us,
    )


def _decision_us(
    scheduler: Scheduler, episode: Callable[[], DagSimulation], seed: int, clock: Callable[[], float]
) -> float:
    """The cost of a decision: the same episode with every decision made once, and with every one made many times."""

    def timed(times: int) -> tuple[float, int]:
        simulation = episode()
        began_s = clock()
        outcome = simulation.run(*_of(scheduler, seed), times=times)
        return clock() - began_s, max(1, outcome.decisions)

    once_s, decisions = timed(1)
    times = 1 + int(np.clip(TIMING_S / max(once_s, 1e-6), 1, 50))
    often_s, decisions_often = timed(times)
    return max(0.0, 1e6 * (often_s / decisions_often - once_s / decisions) / (times - 1))
