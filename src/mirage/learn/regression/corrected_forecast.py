"""The corrected forecast: a correction of the futures, learnt from past outcomes.

Its only inputs are the quantiles of the forecast and the remaining time. What is expressed through a forecast carries
over to months and clusters that the model was not trained on; features of the queue itself do not. Trees start from the
forecast's own quantiles: without a tree, the corrected forecast is the forecast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, shown
from mirage.learn.cost_ratio_rule import LEVELS
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.model_contract import (
    REMAINING,
    Arrays,
    DecisionInputs,
    OutcomeDistribution,
    TrainingSettings,
    TrainingSteps,
    inputs_at,
    training_rows,
)
from mirage.learn.regression.quantile_trees import Lesson, QuantileTrees, grow, log_wait

_QUANTILE = re.compile(r"gap_q(\d\d)_h")


class CorrectedForecast(OutcomeDistribution):
    """Quantiles of the forecast, corrected by boosted trees.

    Args:
        trees: Trees grown from the forecast's quantiles.
        forecast: Names of the features with those quantiles, by rising level.
    """

    def __init__(self, trees: QuantileTrees, forecast: tuple[str, ...]) -> None:
        self.trees, self.forecast = trees, forecast
        self.inputs = (*forecast, REMAINING)

    def outcomes_s(self, decisions: DecisionInputs) -> Floats:
        """Shape (n, ``LEVELS``), ascending: the corrected waits less the remaining time."""
        waits_h = forecast_waits_h(decisions, self.forecast)
        found: Floats = self.trees.waits_s(waits_h, guess(waits_h, self.forecast)) - decisions.remaining_s[:, None]
        return found

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The array that a model file stores."""
        return {"trees": self.trees.content}

    def settings(self) -> dict[str, Any]:
        """The names of the forecast's features."""
        return {"forecast": list(self.forecast)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The model stored in a file."""
        return cls(QuantileTrees.of(arrays), tuple(settings["forecast"]))


def forecast_waits_h(decisions: DecisionInputs, forecast: tuple[str, ...]) -> Floats32:
    """Shape (n, levels of the forecast + 1): quantiles of the wait, then remaining time.

    The quantiles are computed from those of the outcome.
    """
    found = decisions.columns((*forecast, REMAINING))
    found[:, :-1] += found[:, -1:]
    return found


def guess(waits_h: Floats32, forecast: tuple[str, ...]) -> Floats32:
    """Shape (n, levels): log of the forecast's quantiles at the levels of the model.

    Args:
        waits_h: Waits from ``forecast_waits_h``.
        forecast: Names of the features with the quantiles.
    """
    log_waits = log_wait(waits_h[:, : len(forecast)] * HOUR_S)
    at = np.array(levels_of(forecast))
    right = np.clip(np.searchsorted(at, LEVELS), 1, len(at) - 1)
    share = np.clip((np.array(LEVELS) - at[right - 1]) / (at[right] - at[right - 1]), 0.0, 1.0)
    found: Floats32 = (log_waits[:, right - 1] * (1 - share) + log_waits[:, right] * share).astype(np.float32)
    return found


def train_correction(
    data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> CorrectedForecast:
    """Learns a correction from forecasts and their outcomes.

    Args:
        data: Decisions with their forecasts.
        tune: Later decisions, on which growing stops.
        settings: Seed and bounds.
        steps: Stores finished steps.

    Raises:
        ConfigurationError: The data have no forecasts.
    """
    forecast = forecast_columns(data.names)

    def lesson(of: HandOvers, seed: int) -> Lesson:
        rows, wait_s = training_rows(of, settings.most_rows, seed)
        waits_h = forecast_waits_h(inputs_at(of, rows), forecast)
        return Lesson(waits_h, wait_s, guess(waits_h, forecast))

    arrays = steps.done("trees", lambda: grow(lesson(data, settings.seed), lesson(tune, settings.seed + 1), settings))
    return CorrectedForecast(QuantileTrees.of(arrays), forecast)


def forecast_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """The features that hold quantiles of a forecast outcome, by rising level.

    Raises:
        ConfigurationError: There are fewer than two such features.
    """
    found = tuple(sorted(name for name in names if _QUANTILE.fullmatch(name)))
    if len(found) < 2:
        raise ConfigurationError(
            f"a correction needs the quantiles of a forecast, such as gap_q50_h; the data have {shown(names)}; "
            "make them with forecasts"
        )
    return found


def levels_of(names: tuple[str, ...]) -> tuple[float, ...]:
    """Levels of the quantiles in such features.

    Raises:
        ConfigurationError: A feature holds no quantile.
    """
    found = []
    for name in names:
        match = _QUANTILE.fullmatch(name)
        if match is None:
            raise ConfigurationError(f"feature {shown(name)} holds no quantile of a forecast; train the model again")
        found.append(int(match[1]) / 100)
    return tuple(found)
