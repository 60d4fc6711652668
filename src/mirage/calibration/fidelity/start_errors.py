"""Errors of starts: how far the simulated start of a job lies from the recorded one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from mirage.duration import HOUR_S, MINUTE_S
from mirage.job_state import Ints


@dataclass(frozen=True, slots=True)
class StartErrors:
    """Differences of starts, each counted from the job's own submission.

    Where both histories submit a job in the same second this is the difference of its starts; replays are late by
    fractions of a second, and that is no error of theirs.

    Attributes:
        mean_absolute_s: Mean of ``|simulated − recorded|``.
        median_absolute_s: Median of the same.
        mean_s: Mean of simulated − recorded: above 0 the simulation is late.
        within_60_s: Share of jobs that are off by 60 s or less.
        within_10_min: By ten minutes or less.
        within_1_h: By an hour or less.
    """

    mean_absolute_s: float
    median_absolute_s: float
    mean_s: float
    within_60_s: float
    within_10_min: float
    within_1_h: float

    @classmethod
    def of(cls, recorded_s: Ints, simulated_s: Ints) -> Self:
        """The errors of jobs with these waits, at least one."""
        off = simulated_s - recorded_s
        absolute = np.abs(off)
        shares = [float((absolute <= bound_s).mean()) for bound_s in (MINUTE_S, 10 * MINUTE_S, HOUR_S)]
        return cls(float(absolute.mean()), float(np.median(absolute)), float(off.mean()), *shares)
