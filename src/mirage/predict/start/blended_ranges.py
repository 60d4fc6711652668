"""Blended ranges: quantiles of several forecasts of a wait, by how well they did lately.

A forecast from the queue knows what runs and waits now; a model of accounting knows what usually happens here. Their
errors differ by level: the one has the better median, the other the better upper end. Every level is therefore blended
on its own. Candidates are weighted means of the parts' quantiles, each also stretched and compressed. They are averaged
with weights that fall exponentially with their pinball loss on known waits (exponentially weighted forecasters,
Cesa-Bianchi and Lugosi 2006, chapter 2; for quantiles Berrisch and Ziel 2023). Old losses fade.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats
from mirage.duration import DAY_S

_NO_LOSS_S = 1e-9


@dataclass(frozen=True, slots=True)
class BlendSettings:
    """Candidates of a blend, and how it weighs them.

    The defaults were chosen on Lonestar6, December and January, and on Theta, April to June, see
    docs/explanation/prediction.md.

    Attributes:
        half_life_s: Age at which a known wait counts half.
        sharpness: A candidate whose loss is a share x above the least one weighs exp(−sharpness · x).
        prior: Weight of assumed waits after which the first part alone would be used.
        steps: Weights of parts are multiples of 1 / steps.
        stretches: Factors of the weighted means.
    """

    half_life_s: float = 10 * DAY_S
    sharpness: float = 20.0
    prior: float = 10.0
    steps: int = 4
    stretches: tuple[float, ...] = (0.7, 1.0, 1.3)


BLEND = BlendSettings()


class QuantileBlend:
    """Quantiles of waits from those of several forecasts, learnt from known waits.

    Without known waits the blend is its first part.

    Args:
        levels: Shape (k,), in (0, 1), ascending.
        parts: Number of forecasts.
        settings: How they are weighed.

    Attributes:
        candidates: Shape (candidates, parts), the factors of the parts in each candidate.
        outcomes: Number of waits learnt.
        known: Their weight at the time of the last one.
    """

    def __init__(self, levels: ArrayLike, parts: int, settings: BlendSettings = BLEND) -> None:
        self.levels: Floats = np.asarray(levels, dtype=np.float64)
        self.settings, self.outcomes, self.known = settings, 0, 0.0
        steps = itertools.product(range(settings.steps + 1), repeat=parts)
        shares = np.array([each for each in steps if sum(each) == settings.steps]) / settings.steps
        self.candidates: Floats = np.concatenate([stretch * shares for stretch in settings.stretches])
        self._loss_s = np.zeros((len(self.candidates), len(self.levels)))
        self._learnt_s = 0

    def learn(self, quantiles_s: Floats, wait_s: float, known_s: int) -> None:
        """Record a wait that became known.

        Args:
            quantiles_s: Shape (parts, k), the quantiles that the parts had predicted.
            wait_s: The wait.
            known_s: When it became known, in any order.
        """
        error_s = wait_s - self.candidates @ quantiles_s
        loss_s = np.maximum(self.levels * error_s, (self.levels - 1.0) * error_s)
        latest_s = max(self._learnt_s, known_s)
        past, this = self._fading(latest_s - self._learnt_s), self._fading(latest_s - known_s)
        self._loss_s = past * self._loss_s + this * loss_s
        self.outcomes, self.known = self.outcomes + 1, past * self.known + this
        self._learnt_s = latest_s

    def quantiles_s(self, quantiles_s: Floats, now_s: int) -> Floats:
        """Returns the blended quantiles.

        Args:
            quantiles_s: Shape (parts, k), the quantiles that the parts predict.
            now_s: The time of the prediction.

        Returns:
            Shape (k,), in seconds, non-decreasing.
        """
        least_s = np.maximum(self._loss_s.min(axis=0), _NO_LOSS_S)
        weight = np.exp(self.settings.sharpness * (1.0 - self._loss_s / least_s))
        learnt_s = (weight * (self.candidates @ quantiles_s)).sum(axis=0) / weight.sum(axis=0)
        known = self.known * self._fading(max(now_s - self._learnt_s, 0))
        share = known / (known + self.settings.prior) if known else 0.0
        blended: Floats = np.sort(share * learnt_s + (1.0 - share) * quantiles_s[0])
        return blended

    def _fading(self, age_s: float) -> float:
        """The weight of a known wait of an age."""
        return float(0.5 ** (age_s / self.settings.half_life_s))
