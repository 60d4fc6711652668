"""Levels of what is told of a start: which ranges, and which quantiles of the wait are their ends."""

from __future__ import annotations

import numpy as np

from mirage.duration import DAY_S
from mirage.job_state import Ints
from mirage.policy.start_forecast import StartForecast

LOOK_AHEAD_S = 14 * DAY_S
"""Futures are left off so long after now; a job that waits longer starts later than that, and no more is known."""

SHARES = (0.5, 0.8, 0.95)
"""Shares of the futures that the told ranges hold, half of the rest on either side."""

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
"""Quantiles of the wait behind them: the ends of the ranges from the outside in, the median in the middle."""

MEDIAN = len(LEVELS) // 2
"""Which of ``LEVELS`` is the median."""


def forecast_of(now_s: int, waits_s: Ints, look_ahead_s: int) -> StartForecast:
    """Waits of a job submitted now, shape (futures,), as a forecast with one column."""
    starts_s = now_s + waits_s[:, None]
    return StartForecast(now_s, now_s, np.zeros(1, dtype=np.int64), starts_s, now_s + look_ahead_s)


def ends(share: float) -> tuple[int, int]:
    """Which of ``LEVELS`` are the ends of the range that holds a share."""
    low = SHARES[::-1].index(share)
    return low, len(LEVELS) - 1 - low
