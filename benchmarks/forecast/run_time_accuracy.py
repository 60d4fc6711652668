"""Accuracy of predicted distributions: CRPS, pinball loss, PIT."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats


def crps(levels: Floats, truth: Floats) -> Floats:
    """Continuous ranked probability score of equally likely values, in the unit of the truth.

    The result has shape (n,).

    For a prediction without spread it is the absolute error (Gneiting & Raftery 2007, eq. 21).

    Args:
        levels: Shape (n, m), ascending in each row.
        truth: Shape (n,).
    """
    m = levels.shape[1]
    off = np.abs(levels - truth[:, None]).mean(axis=1)
    spread = (levels * (2 * np.arange(1, m + 1) - m - 1)).sum(axis=1) / m**2
    score: Floats = off - spread
    return score


def pinball(levels: Floats, truth: Floats, quantile: float) -> Floats:
    """Pinball loss of one quantile, shape (n,)."""
    m = levels.shape[1]
    predicted = levels[:, min(int(quantile * m), m - 1)]
    loss: Floats = np.where(truth >= predicted, quantile, quantile - 1.0) * (truth - predicted)
    return loss


def pit(levels: Floats, truth: Floats, random: np.random.Generator) -> Floats:
    """Probability integral transform, shape (n,).

    It is uniform on [0, 1) if the predictions are calibrated.

    If the truth equals some of the values, a place among them is drawn (Czado et al. 2009).
    """
    below = (levels < truth[:, None]).mean(axis=1)
    equal = (levels == truth[:, None]).mean(axis=1)
    place: Floats = below + random.random(len(truth)) * np.maximum(equal, 1.0 / levels.shape[1])
    return np.minimum(place, 1.0)
