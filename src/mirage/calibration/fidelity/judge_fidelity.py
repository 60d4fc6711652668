"""Measures how well a simulated history of jobs agrees with the recorded one.

fidelity = judge(recorded, simulation.run())
print(fidelity.moving_average.mape, fidelity.rank_correlation.value)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from mirage.array_types import Ints
from mirage.calibration.fidelity.correlation import RESAMPLES, Blocks, Estimate, pearson, ratio_of_means, spearman
from mirage.calibration.fidelity.hourly_levels import HourlyLevels, busy_nodes, waiting_jobs
from mirage.calibration.fidelity.job_pairs import PairCounts, PairedJobs
from mirage.calibration.fidelity.moving_average import MovingAverage, moving_average
from mirage.calibration.fidelity.wait_classes import ALL, WaitClass, wait_classes
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.sim.schedule import Schedule
from mirage.trace.statistics.summary import ValueSummary, iso_utc
from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class StartErrors:
    """Differences of starts, each counted from the job's own submission.

    Where both histories submit a job in the same second, this is the difference of its starts. Replays submit late by
    fractions of a second, which does not count as an error.

    Attributes:
        mean_absolute_s: Mean of ``|simulated − recorded|``.
        median_absolute_s: Median of ``|simulated − recorded|``.
        mean_s: Mean of simulated − recorded: above 0 the simulation is late.
        within_60_s: Share of jobs with an error of at most 60 s.
        within_10_min: Share with an error of at most ten minutes.
        within_1_h: Share with an error of at most an hour.
    """

    mean_absolute_s: float
    median_absolute_s: float
    mean_s: float
    within_60_s: float
    within_10_min: float
    within_1_h: float

    @classmethod
    def of(cls, recorded_s: Ints, simulated_s: Ints) -> Self:
        """Computes the errors of at least one job from its waits."""
        off = simulated_s - recorded_s
        absolute = np.abs(off)
        shares = [float((absolute <= bound_s).mean()) for bound_s in (MINUTE_S, 10 * MINUTE_S, HOUR_S)]
        return cls(float(absolute.mean()), float(np.median(absolute)), float(off.mean()), *shares)


@dataclass(frozen=True, slots=True)
class MonthFidelity:
    """Jobs submitted in a calendar month, UTC.

    Attributes:
        month: As ``2023-02``.
        jobs: Number of jobs.
        recorded_wait_s: Mean recorded wait.
        simulated_wait_s: Mean simulated wait.
        mean_absolute_error_s: Mean of ``|simulated − recorded wait|`` of single jobs.
        rank_correlation: Spearman's, of single jobs; ``None`` where it is not defined.
        pearson: Pearson's, of single jobs; ``None`` where it is not defined.
        busy_difference: Mean over hours of ``|simulated − recorded|`` busy nodes; ``None`` where unknown.
    """

    month: str
    jobs: int
    recorded_wait_s: float
    simulated_wait_s: float
    mean_absolute_error_s: float
    rank_correlation: float | None
    pearson: float | None
    busy_difference: float | None


def months(pair: PairedJobs, busy: HourlyLevels | None) -> tuple[MonthFidelity, ...]:
    """Returns a row for every month in which jobs were submitted."""
    found, of_job = np.unique(_month(pair.jobs.submit_s), return_inverse=True)
    recorded_s, simulated_s = pair.jobs.wait_s, pair.wait_s
    return tuple(
        _row(int(month), recorded_s[of_job == k], simulated_s[of_job == k], busy) for k, month in enumerate(found)
    )


def _row(month: int, recorded_s: Ints, simulated_s: Ints, busy: HourlyLevels | None) -> MonthFidelity:
    once = np.ones(len(recorded_s))
    return MonthFidelity(
        str(np.datetime64(month, "M")),
        len(recorded_s),
        float(recorded_s.mean()),
        float(simulated_s.mean()),
        float(np.abs(simulated_s - recorded_s).mean()),
        spearman(recorded_s, simulated_s)(once),
        pearson(recorded_s, simulated_s)(once),
        None if busy is None else _busy_difference(month, busy),
    )


def _busy_difference(month: int, busy: HourlyLevels) -> float | None:
    hours = _month(busy.begin_s + HOUR_S * np.arange(busy.hours)) == month
    return float(np.abs(busy.simulated - busy.recorded)[hours].mean()) if hours.any() else None


def _month(instant_s: Ints) -> Ints:
    """Months since January 1970."""
    months: Ints = instant_s.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    return months


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Agreement of a simulated history with the recorded history of the same jobs.

    A wait is the time from a job's submission to its first start. Every figure covers the jobs whose two waits are
    known; ``counts`` covers all others.

    Attributes:
        from_s: First second of the span; jobs count by their recorded submission.
        until_s: First second after the span.
        shift_s: Seconds added to simulated instants, for example where one clock counts from 1970 and the other from 0.
        counts: Number of jobs by result of the comparison.
        recorded_wait_s: Distribution of recorded waits.
        simulated_wait_s: Distribution of simulated waits.
        mean_wait_ratio: Mean simulated over mean recorded wait; not defined where no recorded job waited.
        moving_average: Mean waits over windows of two weeks, and their differences.
        rank_correlation: Spearman's, of single jobs' waits.
        pearson: Pearson's, of single jobs' waits; dominated by long waits.
        resampled: Unit that the bootstrap resamples for the intervals: ``week``, ``day``, or empty.
        starts: Errors of single starts.
        whole: The waits of all jobs as one class.
        classes: The waits by nodes and time limit.
        busy_nodes: Hourly levels; ``None`` where the record does not contain the nodes in use.
        waiting_jobs: Hourly levels of the queue's length; ``None`` where no job waited.
        months: The main figures of each month.
    """

    from_s: int
    until_s: int
    shift_s: int
    counts: PairCounts
    recorded_wait_s: ValueSummary
    simulated_wait_s: ValueSummary
    mean_wait_ratio: Estimate
    moving_average: MovingAverage
    rank_correlation: Estimate
    pearson: Estimate
    resampled: str
    starts: StartErrors
    whole: WaitClass
    classes: tuple[WaitClass, ...]
    busy_nodes: HourlyLevels | None
    waiting_jobs: HourlyLevels | None
    months: tuple[MonthFidelity, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns plain values: instants in ISO-8601 UTC, durations in seconds, no hourly levels.

        The names of instants lose their ``_s``.
        """
        plain = asdict(self)
        for name in ("from", "until"):
            plain[name] = iso_utc(plain.pop(f"{name}_s"))
        for window in plain["moving_average"]["windows"]:
            window["begin"] = iso_utc(window.pop("begin_s"))
        for levels in filter(None, (plain["busy_nodes"], plain["waiting_jobs"])):
            del levels["recorded"], levels["simulated"]
            levels["begin"] = iso_utc(levels.pop("begin_s"))
        return plain


def judge(
    recorded: JobTable,
    simulated: JobTable | Schedule,
    *,
    from_s: int | None = None,
    until_s: int | None = None,
    resamples: int = RESAMPLES,
) -> Fidelity:
    """Compares a simulated history with the recorded one, job by job.

    Jobs are matched by id; where an id occurs several times, by the order of submissions.

    Args:
        recorded: The jobs with their real starts and ends.
        simulated: The same jobs with simulated starts and ends: a schedule, or a table.
        from_s: Jobs with an earlier recorded submission are left out; by default, the day of the first job.
        until_s: Jobs submitted at this time or later are left out; by default, the end of the day of the last job.
        resamples: Resamples of the bootstrap for the intervals; 0 for no intervals.

    Raises:
        ConfigurationError: No job is in both histories, or no job has two known waits.
    """
    pair = PairedJobs.of(recorded, simulated, from_s, until_s)
    whole = pair if from_s is None and until_s is None else PairedJobs.of(recorded, simulated)
    first_s, last_s = (int(pair.jobs.submit_s[k]) for k in (0, -1))
    begin_s = first_s // DAY_S * DAY_S if from_s is None else from_s
    end_s = (last_s // DAY_S + 1) * DAY_S if until_s is None else until_s
    waits = pair.jobs.wait_s, pair.wait_s
    ours, theirs = (ValueSummary.of(wait_s) for wait_s in waits)
    assert ours is not None
    assert theirs is not None
    blocks = Blocks.of(pair.jobs.submit_s)
    busy = busy_nodes(whole, from_s, until_s)
    return Fidelity(
        from_s=begin_s,
        until_s=end_s,
        shift_s=pair.shift_s,
        counts=pair.counts,
        recorded_wait_s=ours,
        simulated_wait_s=theirs,
        mean_wait_ratio=blocks.estimate(ratio_of_means(waits[1], waits[0]), resamples),
        moving_average=moving_average(pair, begin_s, end_s),
        rank_correlation=blocks.estimate(spearman(*waits), resamples),
        pearson=blocks.estimate(pearson(*waits), resamples),
        resampled=blocks.unit if resamples else "",
        starts=StartErrors.of(*waits),
        whole=WaitClass.of(ALL, ALL, *waits),
        classes=wait_classes(pair, whole.jobs),
        busy_nodes=busy,
        waiting_jobs=waiting_jobs(whole, from_s, until_s),
        months=months(pair, busy),
    )
