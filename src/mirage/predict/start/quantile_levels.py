"""Levels of reported starts: the ranges, and the quantiles of the wait at their ends."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S
from mirage.policy.start_forecast import StartForecast

HORIZON_S = 14 * DAY_S
"""Futures end this long after now; a job that waits longer starts later than that, and no more is known."""

SHARES = (0.5, 0.8, 0.95)
"""Shares of the futures that the reported ranges hold; the rest is split evenly between both sides."""

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
"""Quantiles of the wait: the ends of the ranges from the outside in, the median in the middle."""

MEDIAN = len(LEVELS) // 2
"""Index of the median in ``LEVELS``."""


def forecast_of(now_s: int, waits_s: Ints, horizon_s: int) -> StartForecast:
    """Waits of a job submitted now, shape (futures,), as a forecast with one column."""
    starts_s = now_s + waits_s[:, None]
    return StartForecast(now_s, now_s, np.zeros(1, dtype=np.int64), starts_s, now_s + horizon_s)


def ends(share: float) -> tuple[int, int]:
    """Indices in ``LEVELS`` of the ends of the range that holds a share."""
    low = SHARES[::-1].index(share)
    return low, len(LEVELS) - 1 - low
