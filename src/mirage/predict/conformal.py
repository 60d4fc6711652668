"""Conformal intervals that hold under drift: quantiles of past errors, by size class.

An error is how far a recent wait was from its prediction. Two corrections use only waits that are known and ages of
jobs that still wait:

- *Rolling*: the quantiles of the scores, (log10 wait − mean) ÷ spread, of recent predictions. Old scores fade, and a
  class of few jobs borrows from the others. This is split conformal prediction on a moving window.
- *Adaptive*: where the share of waits below a predicted quantile differs from its nominal level, later predictions
  use another level (Gibbs and Candès 2021, one level for each quantile instead of one for each interval).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.predict.survival import Flags, survival_quantiles, survival_share

OUTERMOST = 0.002
"""No level closer to 0 or 1 is used: there are too few recent waits to estimate it."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """How fast past predictions fade.

    The defaults were chosen on the first 80 % of the days of the Graham data, see docs/explanation/prediction.md.


    Attributes:
        half_life_s: Age at which a prediction counts half.
        others: Predictions of other classes together count at most as much as this number of the class itself.
        rate: How far a batch of known waits moves the levels, as a share of its error.
        together: n jobs submitted together count as n to this power, because their waits are correlated.
    """

    half_life_s: float = 10 * 86400.0
    others: float = 300.0
    rate: float = 0.05
    together: float = 0.75


@dataclass(frozen=True, slots=True)
class Scores:
    """How far waits were from their predictions, one row per prediction.

    Attributes:
        predicted_s: Shape (n,), when the prediction was made.
        score: Shape (n,), (log10 wait − mean) ÷ spread.
        is_bound: Shape (n,), whether the wait, and so the score, is larger than that.
        size_class: Shape (n,).
        weight: Shape (n,), the number of rows that each represents.
    """

    predicted_s: Ints
    score: Floats
    is_bound: Flags
    size_class: Ints
    weight: Floats

    def quantiles(self, size_class: int, now_s: int, levels: Floats, settings: CalibrationSettings) -> Floats:
        """Quantiles of the scores of a class; old scores and other classes count less.

        Args:
            size_class: The class; a class without scores gets the quantiles of all.
            now_s: The time of the prediction.
            levels: Shape (k,), in (0, 1).
            settings: How much less they count.
        """
        weight = self.weight * 0.5 ** ((now_s - self.predicted_s) / settings.half_life_s)
        own = self.size_class == size_class
        others = float(weight[~own].sum())
        if others > settings.others:
            weight = np.where(own, weight, weight * settings.others / others)
        return survival_quantiles(self.score, self.is_bound, weight, levels)


def weights_of_alike(alike: Ints, stands_for: Floats, together: float) -> Floats:
    """Weights of rows; rows submitted together count less than the same number of other rows.

    Args:
        alike: Shape (n,), equal for jobs that were submitted together.
        stands_for: Shape (n,), the number of rows that each represents.
        together: Rows submitted together weigh as much as their number to this power.
    """
    group = np.unique(alike, return_inverse=True)[1]
    number = np.bincount(group, stands_for)[group]
    return np.asarray(stands_for * number ** (together - 1.0), dtype=np.float64)


class AdaptiveLevels:
    """Quantile levels, adjusted so that the observed coverage matches the nominal one.

    Attributes:
        nominal: Shape (k,), ascending, the nominal levels.
        adjusted: Shape (k,), the levels that are used instead.
    """

    def __init__(self, nominal: Floats, rate: float) -> None:
        self.nominal, self.rate = nominal, rate
        self.adjusted = nominal.copy()

    def learn(self, promised: Floats, log_wait: Floats, is_bound: Flags) -> None:
        """Adjust the levels by the outcomes that became known.

        Args:
            promised: Shape (n, k), the predicted quantiles of log10 of n waits.
            log_wait: Shape (n,), log10 of the waits.
            is_bound: Shape (n,), whether the true wait is longer than that.
        """
        ones = np.ones(len(log_wait))
        for k, level in enumerate(self.nominal):
            below = survival_share(log_wait - promised[:, k], is_bound, ones, 0.0)
            self.adjusted[k] += self.rate * (level - below)
        self.adjusted = np.maximum.accumulate(np.clip(self.adjusted, OUTERMOST, 1.0 - OUTERMOST))
