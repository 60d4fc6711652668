"""Rows of a comparison and paired differences between schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.dag.compare.dag_trial import DagTrialResult
from mirage.dag.schedulers.stage_schedulers import StageScheduler
from mirage.dag.setting import EpisodeSetting
from mirage.study.intervals import interval_of_mean

ONE_SEED = "one seed"
"""The reason for a missing interval."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One scheduler in one setting.

    Attributes:
        policy: The scheduler.
        setting: Executors and jobs.
        seeds: Number of episodes.
        mean_jct_s: Mean time from a job's arrival to its end.
        mean_jct_low_s: Lower end of its 95 % interval, by Student's t over episodes; None for one episode.
        mean_jct_high_s: Upper end.
        p95_jct_s: The 95th percentile over all jobs.
        makespan_s: Mean over episodes.
        makespan_bound_s: Lower bound for any scheduler (``mirage.dag.compare.makespan_bound``), mean over episodes.
        moves: Executors moved between jobs, mean over episodes.
        idle_share: Share of executor-time neither in tasks nor in moves, mean over episodes.
        decisions: Number of decisions, mean over episodes.
        decision_us: Microseconds of processor time per decision, timed on the first episode.
        peak_jobs: The most jobs in the system at once, in any episode.
        unseen_jobs: Of these, the number that the scheduler did not consider, because they exceed its capacity.
    """

    policy: str
    setting: str
    seeds: int
    mean_jct_s: float
    mean_jct_low_s: float | None
    mean_jct_high_s: float | None
    p95_jct_s: float
    makespan_s: float
    makespan_bound_s: float
    moves: float
    idle_share: float
    decisions: float
    decision_us: float
    peak_jobs: int
    unseen_jobs: int

    def to_json(self) -> dict[str, Any]:
        """The row in JSON form."""
        return asdict(self)

    @property
    def warning(self) -> str | None:
        """A warning about the row; None for none."""
        if self.unseen_jobs == 0:
            return None
        return (
            f"{self.policy} considers only the first {self.peak_jobs - self.unseen_jobs} jobs; in {self.setting} up to "
            f"{self.peak_jobs} were in the system at once, and the others waited"
        )


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference between two schedulers on the same episodes.

    Attributes:
        policy: The first scheduler.
        against: The other, the reference.
        setting: Executors and jobs.
        mean_jct_s: Mean difference of an episode's mean completion time, below 0 where the first is faster.
        low_s: Lower end of its 95 % interval, by Student's t over episodes; None where there is no interval.
        high_s: Upper end.
        percent: The difference in percent of the other's mean.
        better_seeds: Number of episodes on which the first is faster.
        makespan_s: Mean difference of makespans, below 0 where the first ends earlier.
        makespan_low_s: Lower end of its 95 % interval.
        makespan_high_s: Upper end.
        makespan_percent: The difference in percent of the other's mean.
        no_interval: The reason for missing intervals; None where there are some.
    """

    policy: str
    against: str
    setting: str
    mean_jct_s: float
    low_s: float | None
    high_s: float | None
    percent: float
    better_seeds: int
    makespan_s: float
    makespan_low_s: float | None
    makespan_high_s: float | None
    makespan_percent: float
    no_interval: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The difference in JSON form."""
        return asdict(self)


def row_of(
    scheduler: StageScheduler, setting: EpisodeSetting, played: Sequence[DagTrialResult], decision_us: float
) -> ComparisonRow:
    """The row of a scheduler in a setting, from its episodes."""
    jct_s = np.concatenate([each.jct_s for each in played])
    low_s, high_s = interval_of_mean(np.array([np.mean(each.jct_s) for each in played]))
    peak = max(each.peak_jobs for each in played)
    return ComparisonRow(
        policy=scheduler.name,
        setting=setting.name,
        seeds=len(played),
        mean_jct_s=float(jct_s.mean()),
        mean_jct_low_s=low_s,
        mean_jct_high_s=high_s,
        p95_jct_s=float(np.percentile(jct_s, 95)),
        makespan_s=float(np.mean([each.makespan_s for each in played])),
        makespan_bound_s=float(np.mean([each.makespan_bound_s for each in played])),
        moves=float(np.mean([each.moves for each in played])),
        idle_share=float(np.mean([each.idle_share for each in played])),
        decisions=float(np.mean([each.decisions for each in played])),
        decision_us=decision_us,
        peak_jobs=peak,
        unseen_jobs=0 if scheduler.most_jobs is None else max(0, peak - scheduler.most_jobs),
    )


def paired_difference(
    name: str, against: str, setting: EpisodeSetting, one: Sequence[DagTrialResult], other: Sequence[DagTrialResult]
) -> PairedDifference:
    """The differences between results of the same episodes, with their intervals."""
    jct_s, against_jct_s = (np.array([np.mean(each.jct_s) for each in part]) for part in (one, other))
    ends_s, against_ends_s = (np.array([each.makespan_s for each in part]) for part in (one, other))
    differ, ends_differ = jct_s - against_jct_s, ends_s - against_ends_s
    low_s, high_s = interval_of_mean(differ)
    ends_low_s, ends_high_s = interval_of_mean(ends_differ)
    return PairedDifference(
        policy=name,
        against=against,
        setting=setting.name,
        mean_jct_s=float(differ.mean()),
        low_s=low_s,
        high_s=high_s,
        percent=float(100 * differ.mean() / against_jct_s.mean()),
        better_seeds=int((differ < 0).sum()),
        makespan_s=float(ends_differ.mean()),
        makespan_low_s=ends_low_s,
        makespan_high_s=ends_high_s,
        makespan_percent=float(100 * ends_differ.mean() / against_ends_s.mean()),
        no_interval=ONE_SEED if len(differ) < 2 else None,
    )
