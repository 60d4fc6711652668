"""Hourly levels of a recorded and a simulated history: busy nodes and waiting jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.calibration.fidelity.correlation import correlation
from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.duration import HOUR_S
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.utilization import covered_s
from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class HourlyLevels:
    """A level over time, as recorded and as simulated: exact means of every hour.

    Attributes:
        begin_s: Begin of the first hour.
        hours: Number of hours.
        recorded: Shape (hours,).
        simulated: Shape (hours,).
        recorded_mean: Mean over all hours.
        simulated_mean: Mean over all hours.
        mean_absolute_difference: Mean over hours of ``|simulated − recorded|``.
        share_of_mean: ``mean_absolute_difference`` as a share of the recorded mean; ``None`` where that is 0.
        correlation: Pearson's, of the hours; ``None`` for fewer than three, or where one side is constant.
    """

    begin_s: int
    hours: int
    recorded: Floats = field(repr=False, compare=False)
    simulated: Floats = field(repr=False, compare=False)
    recorded_mean: float
    simulated_mean: float
    mean_absolute_difference: float
    share_of_mean: float | None
    correlation: float | None


def busy_nodes(pair: PairedJobs, from_s: int | None, until_s: int | None) -> HourlyLevels | None:
    """Returns the hourly nodes in use, with recorded widths; ``None`` where unknown.

    Args:
        pair: The jobs, also those submitted before the span: they may still run in it.
        from_s: Begin of the span; by default the first submission (``covered_s``).
        until_s: End of the span; by default the last submission.
    """
    simulated = pair.jobs.with_columns(start_s=pair.start_s, end_s=pair.end_s)
    return _levels(pair.jobs, simulated, hourly_s(pair, from_s, until_s))


def waiting_jobs(pair: PairedJobs, from_s: int | None, until_s: int | None) -> HourlyLevels | None:
    """Returns the hourly number of submitted, unstarted jobs; ``None`` where none waits."""
    return _levels(
        _waiting(pair.jobs, pair.jobs.submit_s, pair.jobs.start_s),
        _waiting(pair.jobs, pair.submit_s, pair.start_s),
        hourly_s(pair, from_s, until_s),
    )


def hourly_s(pair: PairedJobs, from_s: int | None, until_s: int | None) -> Ints:
    """Returns the edges of the hours of a span; one interval for a span below 1 h."""
    first_s, last_s = covered_s(pair.jobs, Occupancy.of(pair.jobs))
    first_s = first_s if from_s is None else max(first_s, from_s)
    last_s = max(last_s if until_s is None else min(last_s, until_s), first_s + 1)
    return np.arange(first_s, last_s + 1, min(HOUR_S, last_s - first_s))


def _waiting(jobs: JobTable, submit_s: Ints, start_s: Ints) -> JobTable:
    """Models the queue as a machine: a job uses one node of it from submission to start."""
    return jobs.with_columns(start_s=submit_s, end_s=start_s, nodes=np.ones(len(jobs), dtype=np.int64))


def _levels(recorded: JobTable, simulated: JobTable, edge_s: Ints) -> HourlyLevels | None:
    histories = Occupancy.of(recorded), Occupancy.of(simulated)
    if not any(histories):
        return None
    a, b = (history.mean(edge_s) if history else np.zeros(len(edge_s) - 1) for history in histories)
    difference, mean = float(np.abs(b - a).mean()), float(a.mean())
    return HourlyLevels(
        begin_s=int(edge_s[0]),
        hours=len(a),
        recorded=a,
        simulated=b,
        recorded_mean=mean,
        simulated_mean=float(b.mean()),
        mean_absolute_difference=difference,
        share_of_mean=difference / mean if mean > 0 else None,
        correlation=correlation(a, b),
    )
