"""The corrected forecast: what the futures promised, and what came of such promises.

It sees nothing but the quantiles of the forecast and the time that remains. What is expressed through a forecast
carries over to months and clusters that the model has never seen; features of the queue itself do not. Trees start
from the forecast's own quantiles: without a tree the corrected forecast is the forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.job_state import Floats
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.forecast_columns import forecast_columns, levels_of
from mirage.learn.regression.model import (
    REMAINING,
    Arrays,
    Distribution,
    Seen,
    Steps,
    TrainingSettings,
    seen_in,
    taught,
)
from mirage.learn.regression.quantile_trees import Lesson, QuantileTrees, grow, log_wait
from mirage.learn.rule import LEVELS


class CorrectedForecast(Distribution):
    """Quantiles of the forecast, corrected by boosted trees.

    Args:
        trees: Grown from the forecast's quantiles.
        forecast: Names of the features that hold those quantiles, by rising level.
    """

    def __init__(self, trees: QuantileTrees, forecast: tuple[str, ...]) -> None:
        self.trees, self.forecast = trees, forecast
        self.inputs = (*forecast, REMAINING)

    def outcomes_s(self, seen: Seen) -> Floats:
        """As ``Distribution`` says."""
        waits_h = forecast_waits_h(seen, self.forecast)
        found: Floats = self.trees.waits_s(waits_h, guess(waits_h, self.forecast)) - seen.remaining_s[:, None]
        return found

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """As ``Model`` says."""
        return {"trees": self.trees.content}

    def settings(self) -> dict[str, Any]:
        """As ``Model`` says."""
        return {"forecast": list(self.forecast)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """As ``Model`` says."""
        return cls(QuantileTrees.of(arrays), tuple(settings["forecast"]))


def forecast_waits_h(seen: Seen, forecast: tuple[str, ...]) -> Floats32:
    """Shape (n, levels of the forecast + 1): quantiles of the wait, from those of the outcome, then what remains."""
    found = seen.columns((*forecast, REMAINING))
    found[:, :-1] += found[:, -1:]
    return found


def guess(waits_h: Floats32, forecast: tuple[str, ...]) -> Floats32:
    """Shape (n, levels): the forecast's quantiles at the levels of the model, as logarithms.

    Args:
        waits_h: As ``forecast_waits_h`` makes them.
        forecast: Names of the features that hold the quantiles.
    """
    said = log_wait(waits_h[:, : len(forecast)] * HOUR_S)
    at = np.array(levels_of(forecast))
    right = np.clip(np.searchsorted(at, LEVELS), 1, len(at) - 1)
    share = np.clip((np.array(LEVELS) - at[right - 1]) / (at[right] - at[right - 1]), 0.0, 1.0)
    found: Floats32 = (said[:, right - 1] * (1 - share) + said[:, right] * share).astype(np.float32)
    return found


def train_correction(data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: Steps) -> CorrectedForecast:
    """A correction learnt from what came of forecasts.

    Args:
        data: Decisions with their forecasts.
        tune: Later ones, on which growing stops.
        settings: Seed and bounds.
        steps: Where what is done is kept.

    Raises:
        ConfigurationError: The data hold no forecasts.
    """
    forecast = forecast_columns(data.names)

    def lesson(of: HandOvers, seed: int) -> Lesson:
        rows, wait_s = taught(of, settings.most_rows, seed)
        waits_h = forecast_waits_h(seen_in(of, rows), forecast)
        return Lesson(waits_h, wait_s, guess(waits_h, forecast))

    arrays = steps.done("trees", lambda: grow(lesson(data, settings.seed), lesson(tune, settings.seed + 1), settings))
    return CorrectedForecast(QuantileTrees.of(arrays), forecast)
