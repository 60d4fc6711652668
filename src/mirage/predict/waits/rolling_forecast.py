"""Waits predicted in the order of time, each from what was known before: rolling origin.

In every step (a day, say) all its waits are predicted by the same model, from waits known at the beginning of the step.
Every few steps the trees are grown again; the calibration is renewed at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.duration import DAY_S
from mirage.predict.conformal import AdaptiveLevels, CalibrationSettings, Scores, weights_of_alike
from mirage.predict.survival import Flags
from mirage.predict.waits.boosted_waits import BoostedWaits, BoostingSettings, fit_boosted_waits, thinned
from mirage.predict.waits.wait_sample import WaitSample

LEVELS = np.array([0.025, 0.05, 0.1, 0.175, 0.25, 0.325, 0.4, 0.5, 0.6, 0.675, 0.75, 0.825, 0.9, 0.95, 0.975])
"""Levels of the stored quantiles; 50, 80 and 95 % intervals are among them."""


@dataclass(frozen=True, slots=True)
class RollingSettings:
    """How a stream of predictions is made.

    Attributes:
        step_s: Waits requested within this time are predicted from what was known at its beginning.
        refit_s: Time between two fits of the trees.
        boosting: How trees are grown.
        calibration: How fast the past fades.
    """

    step_s: int = DAY_S
    refit_s: int = DAY_S
    boosting: BoostingSettings = field(default_factory=BoostingSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)


@dataclass(frozen=True, slots=True)
class RollingForecast:
    """Predictions of the last rows of a sample.

    Attributes:
        first: Index of the first row that was predicted.
        mean: Shape (m,), expected log10 of the waits in seconds.
        spread: Shape (m,), expected absolute distance from it.
        levels: Shape (k,).
        quantiles: Shape (m, k), quantiles of log10 of the waits.
        adjusted: Shape (k,), the levels used in the last step so that the nominal ones hold.
    """

    first: int
    mean: Floats
    spread: Floats
    levels: Floats
    quantiles: Floats
    adjusted: Floats


def rolling_forecast(
    sample: WaitSample,
    begin_s: int,
    settings: RollingSettings | None = None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RollingForecast:
    """Predict waits from ``begin_s`` on, each from what was known when its step began.

    Args:
        sample: Waits, in the order of their requests.
        begin_s: The first step begins here.
        settings: How often, and how.
        progress: Called after every step with the number of predicted rows and of all rows.

    Raises:
        ValueError: No wait was requested before ``begin_s``.
    """
    settings = settings or RollingSettings()
    first = int(np.searchsorted(sample.request_s, begin_s))
    if first == 0 or first == len(sample):
        raise ValueError(
            f"{first:,} of {len(sample):,} waits were requested before {begin_s}: nothing to learn or judge"
        )
    state = _Stream(sample, first, settings)
    end_s = int(sample.request_s[-1])
    for now_s in range(begin_s, end_s + 1, settings.step_s):
        rows = np.searchsorted(sample.request_s, [now_s, now_s + settings.step_s])
        if rows[1] > rows[0]:
            state.step(now_s, slice(int(rows[0]), int(rows[1])))
            progress(int(rows[1]) - first, len(sample) - first)
    return RollingForecast(
        first, state.mean[first:], state.spread[first:], LEVELS, state.quantiles[first:], state.levels.adjusted
    )


class _Stream:
    """What is known and predicted up to now; arrays are as long as the sample."""

    def __init__(self, sample: WaitSample, first: int, settings: RollingSettings) -> None:
        self.sample, self.settings, self.first = sample, settings, first
        n = len(sample)
        self.mean, self.spread = np.full(n, np.nan), np.full(n, np.nan)
        self.quantiles = np.full((n, len(LEVELS)), np.nan)
        self.levels = AdaptiveLevels(LEVELS, settings.calibration.rate)
        self.trees: BoostedWaits | None = None
        self.grown_s = 0
        self.scored = np.zeros(0, dtype=np.intp)  # rows with scores that count
        self.weight = np.zeros(0)  # of each of them
        self.last: slice | None = None

    def step(self, now_s: int, rows: slice) -> None:
        """Predict the rows of one step."""
        log_wait, is_bound = self.sample.known_at(now_s)
        if self.trees is None or now_s - self.grown_s >= self.settings.refit_s:
            self._grow(log_wait, is_bound, now_s)
        assert self.trees is not None
        if self.last is not None:
            self.levels.learn(self.quantiles[self.last], log_wait[self.last], is_bound[self.last])
        self.mean[rows] = self.trees.mean(self.sample.inputs[rows])
        self.spread[rows] = self.trees.spread(self.sample.inputs[rows])
        scored = self.scored
        scores = Scores(
            self.sample.request_s[scored],
            (log_wait[scored] - self.mean[scored]) / self.spread[scored],
            is_bound[scored],
            self.sample.size_class[scored],
            self.weight,
        )
        classes = self.sample.size_class[rows]
        for each in np.unique(classes):
            of_score = scores.quantiles(int(each), now_s, self.levels.adjusted, self.settings.calibration)
            here = rows.start + np.flatnonzero(classes == each)
            self.quantiles[here] = self.mean[here, None] + self.spread[here, None] * of_score
        self._score(np.arange(rows.start, rows.stop))
        self.last = rows

    def _grow(self, log_wait: Floats, is_bound: Flags, now_s: int) -> None:
        """Grow the trees again; the first time, score their training rows out of sample."""
        known = len(log_wait)
        fresh = self.trees is None
        self.trees, residuals = fit_boosted_waits(
            self.sample.inputs[:known], log_wait, is_bound, self.sample.alike[:known], self.settings.boosting
        )
        self.grown_s = now_s
        if fresh:
            rows = residuals.rows
            self.spread[rows] = self.trees.spread(self.sample.inputs[rows])
            self.mean[rows] = log_wait[rows] - residuals.score * self.spread[rows]
            self._score(rows)

    def _score(self, rows: NDArray[np.intp]) -> None:
        """From now on, count the scores of these rows; of an array, a few dozen, with less weight."""
        alike = self.sample.alike[rows]
        retained, stands_for = thinned(alike, self.settings.boosting.of_alike, np.random.default_rng(0))
        weight = weights_of_alike(alike[retained], stands_for, self.settings.calibration.together)
        self.scored = np.concatenate((self.scored, rows[retained]))
        self.weight = np.concatenate((self.weight, weight))
