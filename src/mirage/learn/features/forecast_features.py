"""Forecast features: start of the next link in futures of the queue, less remaining time."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.forecast.forecaster import BEYOND_S, QueueFutures
from mirage.forecast.shared_futures import SharedFutures
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View

LEVELS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99)
"""Levels of the quantiles."""

FUTURES = 32
"""Futures of a forecast in a data set: half of those a policy uses."""

_QUANTILES = tuple(f"q{round(100 * level):02d}" for level in LEVELS)

NAMES = (
    *(f"gap_{name}_h" for name in _QUANTILES),
    "gap_mean_h",
    "interruption_mean_h",
    "overlap_mean_h",
    "open_share",
    *(f"later_gap_{name}_h" for name in _QUANTILES),
    "later_gap_mean_h",
)
"""Names of the features, in order. A gap is the start of the next link minus the end of the present one: the wait minus
the remaining time. *Later* is submitted one step later. ``open_share`` is the share of futures in which a link
submitted now still waited when they ended, two days after the end of the present link."""


def forecast_of(queue: QueueFutures, chain: ChainView) -> StartForecast:
    """The forecast for the features: a link submitted now, and one step later."""
    now_s = queue.view.now_s
    later_s = min(chain.step_s, max(chain.ends_s - now_s, 0))
    return queue.play(chain, np.unique([0, later_s]).astype(np.int64), chain.ends_s + BEYOND_S)


def forecast_at(futures: SharedFutures, view: View, chain: ChainView) -> StartForecast:
    """The forecast for the features at a moment, simulated once for a chain."""
    return futures.once(view, ("features", chain), lambda queue: forecast_of(queue, chain))


def forecast_features(forecast: StartForecast) -> Floats:
    """Shape (``NAMES``,): the features of a forecast of ``forecast_of``, in hours."""
    gap_h = (forecast.starts_s[:, [0, -1]] - forecast.ends_s) / HOUR_S
    now_h, (mean_h, later_h) = gap_h[:, 0], gap_h.mean(axis=0)
    quantiles = quantiles_of(gap_h)
    losses = (np.maximum(now_h, 0.0).mean(), np.maximum(-now_h, 0.0).mean(), forecast.open_share)
    return np.concatenate([quantiles[:, 0], [mean_h, *losses], quantiles[:, 1], [later_h]])


def quantiles_of(values: Floats) -> Floats:
    """Shape (``LEVELS``, columns): the quantiles of every column.

    They equal those of ``numpy.quantile`` to the bit, which takes five times as long for a few numbers.

    Args:
        values: Shape (n, columns).
    """
    ascending = np.sort(values, axis=0)
    position = (len(values) - 1) * np.array(LEVELS)
    first = position.astype(np.int64)
    below, above = ascending[first], ascending[np.minimum(first + 1, len(values) - 1)]
    share, apart = (position - first)[:, None], above - below
    found: Floats = np.where(share >= 0.5, above - apart * (1 - share), below + apart * share)
    return found
