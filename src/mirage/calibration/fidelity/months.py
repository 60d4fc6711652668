"""Fidelity figures for every calendar month of submissions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.calibration.fidelity.correlation import pearson, spearman
from mirage.calibration.fidelity.levels import Levels
from mirage.calibration.fidelity.pair import Pair
from mirage.duration import HOUR_S
from mirage.job_state import Ints


@dataclass(frozen=True, slots=True)
class Month:
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


def months(pair: Pair, busy: Levels | None) -> tuple[Month, ...]:
    """Returns a row for every month in which jobs were submitted."""
    found, of_job = np.unique(_month(pair.jobs.submit_s), return_inverse=True)
    recorded_s, simulated_s = pair.jobs.wait_s, pair.wait_s
    return tuple(
        _row(int(month), recorded_s[of_job == k], simulated_s[of_job == k], busy) for k, month in enumerate(found)
    )


def _row(month: int, recorded_s: Ints, simulated_s: Ints, busy: Levels | None) -> Month:
    once = np.ones(len(recorded_s))
    return Month(
        str(np.datetime64(month, "M")),
        len(recorded_s),
        float(recorded_s.mean()),
        float(simulated_s.mean()),
        float(np.abs(simulated_s - recorded_s).mean()),
        spearman(recorded_s, simulated_s)(once),
        pearson(recorded_s, simulated_s)(once),
        None if busy is None else _busy_difference(month, busy),
    )


def _busy_difference(month: int, busy: Levels) -> float | None:
    hours = _month(busy.begin_s + HOUR_S * np.arange(busy.hours)) == month
    return float(np.abs(busy.simulated - busy.recorded)[hours].mean()) if hours.any() else None


def _month(instant_s: Ints) -> Ints:
    """Months since January 1970."""
    months: Ints = instant_s.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    return months
