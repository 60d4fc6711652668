"""Errors of starts: simulated minus recorded start of each job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mirage.duration import HOUR_S, MINUTE_S
from mirage.job_state import Ints


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
