"""Intervals that hold under drift: quantiles of how far recent waits lay from their predictions, by size class.

Two corrections, both made only of waits that are known, and of ages of jobs that still wait:

- *Rolling*: the quantiles of the scores, (log10 wait − mean) ÷ spread, of recent predictions; old ones fade, and a
  class of few jobs leans on the others. This is split conformal prediction on a moving window.
- *Adaptive*: where the share of waits below a promised quantile was not what the quantile says, another level is
  asked for from then on (Gibbs and Candès 2021, one level for each quantile instead of one for each interval).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.predict.survival import Flags, survival_quantiles, survival_share

OUTERMOST = 0.002
"""No level nearer to 0 or 1 is asked for: recent waits are too few to tell."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """How fast the past fades; chosen on the first 80 % of the days of the Graham data, see docs/prediction.md.

    Attributes:
        half_life_s: Age at which a prediction counts half.
        others: Predictions of other classes count as much as so many of the class itself.
        rate: What a batch of known waits moves the levels, as a share of its error.
        together: n jobs that were submitted together count as n to this power: they share one fate.
    """

    half_life_s: float = 10 * 86400.0
    others: float = 300.0
    rate: float = 0.05
    together: float = 0.75


@dataclass(frozen=True, slots=True)
class Scores:
    """How far waits lay from their predictions, one row a prediction.

    Attributes:
        asked_s: Shape (n,), when the prediction was made.
        score: Shape (n,), (log10 wait − mean) ÷ spread.
        is_bound: Shape (n,), whether the wait, and so the score, is larger than that.
        size_class: Shape (n,).
        weight: Shape (n,), rows that each stands for.
    """

    asked_s: Ints
    score: Floats
    is_bound: Flags
    size_class: Ints
    weight: Floats

    def quantiles(self, size_class: int, now_s: int, levels: Floats, settings: CalibrationSettings) -> Floats:
        """Quantiles of the scores of a class, in which old ones and other classes count less.

        Args:
            size_class: The class; one that never came before gets the quantiles of all.
            now_s: The moment of the prediction.
            levels: Shape (k,), in (0, 1).
            settings: How much less.
        """
        weight = self.weight * 0.5 ** ((now_s - self.asked_s) / settings.half_life_s)
        own = self.size_class == size_class
        others = float(weight[~own].sum())
        if others > settings.others:
            weight = np.where(own, weight, weight * settings.others / others)
        return survival_quantiles(self.score, self.is_bound, weight, levels)


def weights_of_alike(alike: Ints, stands_for: Floats, together: float) -> Floats:
    """Weights of rows, of which those that were submitted together count less than so many others.

    Args:
        alike: Shape (n,), equal for jobs that were submitted together.
        stands_for: Shape (n,), rows that each stands for.
        together: All that are alike weigh as much as their number to this power.
    """
    group = np.unique(alike, return_inverse=True)[1]
    number = np.bincount(group, stands_for)[group]
    return np.asarray(stands_for * number ** (together - 1.0), dtype=np.float64)


class AdaptiveLevels:
    """The levels to ask for so that what is promised holds.

    Attributes:
        nominal: Shape (k,), ascending, the levels that are promised.
        asked: Shape (k,), the levels that are asked for.
    """

    def __init__(self, nominal: Floats, rate: float) -> None:
        self.nominal, self.rate = nominal, rate
        self.asked = nominal.copy()

    def learn(self, promised: Floats, log_wait: Floats, is_bound: Flags) -> None:
        """Move the levels by what became known.

        Args:
            promised: Shape (n, k), the quantiles of log10 of n waits that were promised.
            log_wait: Shape (n,), log10 of the waits.
            is_bound: Shape (n,), whether a wait is longer than that.
        """
        ones = np.ones(len(log_wait))
        for k, level in enumerate(self.nominal):
            below = survival_share(log_wait - promised[:, k], is_bound, ones, 0.0)
            self.asked[k] += self.rate * (level - below)
        self.asked = np.maximum.accumulate(np.clip(self.asked, OUTERMOST, 1.0 - OUTERMOST))
