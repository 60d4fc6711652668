"""Accuracy figures of predicted waits: point errors, coverage and width of intervals."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S, MINUTE_S

INTERVALS = (0.5, 0.8, 0.95)
"""Nominal shares of waits inside the intervals."""

BANDS = {
    "under 10 min": (0.0, 10.0 * MINUTE_S),
    "10 min to 2 h": (10.0 * MINUTE_S, 2.0 * HOUR_S),
    "over 2 h": (2.0 * HOUR_S, np.inf),
}
"""Bands of true waits, from and below, in seconds."""


def point_figures(log_wait: Floats, predicted: Floats) -> dict[str, float]:
    """Errors of one number for each wait.

    Args:
        log_wait: Shape (n,), log10 of the true waits in seconds.
        predicted: Shape (n,), log10 of the predicted ones.

    Returns:
        ``mse_log10``, ``within_x2`` and ``within_x3`` (shares), ``median_error_min`` over all and by band of true
        waits (NaN where a band is empty), ``spearman`` (0 where all predictions are equal).
    """
    error = predicted - log_wait
    wait_s, distance_min = 10.0**log_wait, np.abs(10.0**predicted - 10.0**log_wait) / MINUTE_S
    figures = {
        "mse_log10": float(np.mean(error**2)),
        "within_x2": float(np.mean(np.abs(error) <= np.log10(2.0))),
        "within_x3": float(np.mean(np.abs(error) <= np.log10(3.0))),
        "median_error_min": float(np.median(distance_min)),
        "spearman": spearman(log_wait, predicted),
    }
    for band, (least_s, below_s) in BANDS.items():
        inside = (wait_s >= least_s) & (wait_s < below_s)
        figures[f"median_error_min {band}"] = float(np.median(distance_min[inside])) if inside.any() else np.nan
    return figures


def interval(quantiles: Floats, levels: Floats, share: float) -> tuple[Floats, Floats]:
    """Returns the ends of the central interval with a nominal share of the waits.

    Args:
        quantiles: Shape (n, k).
        levels: Shape (k,), ascending; (1 − share) ÷ 2 and (1 + share) ÷ 2 must be among them.
        share: In (0, 1).

    Raises:
        ValueError: One of these levels is missing.
    """
    ends = []
    for level in ((1.0 - share) / 2.0, (1.0 + share) / 2.0):
        found = np.flatnonzero(np.isclose(levels, level))
        if not len(found):
            raise ValueError(f"no quantile of level {level:g} among {levels}")
        ends.append(quantiles[:, found[0]])
    return ends[0], ends[1]


def interval_figures(log_wait: Floats, quantiles: Floats, levels: Floats) -> dict[str, float]:
    """Coverage of the 50, 80 and 95 % intervals, their width, and a score of both.

    Args:
        log_wait: Shape (n,), log10 of the true waits.
        quantiles: Shape (n, k), of log10 of the waits.
        levels: Shape (k,).

    Returns:
        ``coverage_50`` …, the share of waits inside; ``width_50`` …, the median ratio of upper to lower end;
        ``crps_log10``, twice the mean pinball loss of the quantiles, near the continuous ranked probability score.
    """
    error = log_wait[:, None] - quantiles
    figures = {"crps_log10": float(2.0 * np.mean(np.maximum(levels * error, (levels - 1.0) * error)))}
    for share in INTERVALS:
        low, high = interval(quantiles, levels, share)
        name = f"{share * 100:.0f}"
        figures[f"coverage_{name}"] = float(np.mean((low <= log_wait) & (log_wait <= high)))
        figures[f"width_{name}"] = float(10.0 ** np.median(high - low))
    return figures


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation, ties share their mean rank; 0 if either is constant."""
    x, y = _ranks(first), _ranks(second)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else 0.0


def _ranks(values: Floats) -> Floats:
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[which]
