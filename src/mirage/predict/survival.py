"""Kaplan–Meier estimates, with weights, of waits that may not be over yet.

The wait of a job that still waits is longer than its age. Without such jobs, every recent wait would look short; here
they count among those at risk up to their age (Kaplan and Meier 1958).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats

Flags = NDArray[np.bool_]


def _curve(values: Floats, open_ended: Flags, weights: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The order of the values, and the share that is at most each of them, in that order.

    Open-ended values sort after equal values that are not open-ended.
    """
    order = np.lexsort((open_ended, values))
    weight = weights[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    ends = np.where(open_ended[order], 0.0, weight / np.maximum(at_risk, np.finfo(float).tiny))
    share = 1.0 - np.cumprod(1.0 - np.minimum(ends, 1.0))
    return order, np.asarray(share, dtype=np.float64)


def survival_quantiles(values: Floats, open_ended: Flags, weights: Floats, levels: Floats) -> Floats:
    """Quantiles of values, some of which are lower bounds.

    Args:
        values: Shape (n,), n at least 1.
        open_ended: Shape (n,), whether a value is a lower bound.
        weights: Shape (n,), not negative, not all zero.
        levels: Shape (k,), in (0, 1).

    Returns:
        Shape (k,): the smallest value that at least this share does not exceed; the largest value if the estimate
        never reaches the share.
    """
    order, share = _curve(values, open_ended, weights)
    return values[order][np.minimum(np.searchsorted(share, levels - 1e-12), len(values) - 1)]


def survival_share(values: Floats, open_ended: Flags, weights: Floats, at: float) -> float:
    """The share of values that are at most ``at``, where some values are lower bounds."""
    order, share = _curve(values, open_ended, weights)
    k = int(np.searchsorted(values[order], at, side="right"))
    return float(share[k - 1]) if k else 0.0


def completed(values: Floats, open_ended: Flags, weights: Floats) -> Floats:
    """Replaces every lower bound by the mean of the values beyond it (Buckley and James 1979).

    Returns:
        Shape (n,); values that are not bounds, and bounds that no value exceeds, are unchanged.
    """
    order, share = _curve(values, open_ended, weights)
    mass = np.diff(np.concatenate(([0.0], share)))
    ahead = values[order]
    beyond = np.append(np.cumsum((mass * ahead)[::-1])[::-1][1:], 0.0)
    mass_beyond = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)
    mean = np.where(mass_beyond > 1e-9, beyond / np.maximum(mass_beyond, 1e-9), ahead)
    full = np.empty_like(ahead)
    full[order] = np.maximum(mean, ahead)
    return np.where(open_ended, full, values)
