"""Draws of whole arrays: discrete choices, quantile functions, repetition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class WeightedChoice:
    """Several discrete distributions in one array; a draw is an index into all."""

    def __init__(self, weights: list[Floats]) -> None:
        self._edge = np.concatenate([c + np.cumsum(w) / w.sum() for c, w in enumerate(weights)])
        self._last = np.cumsum([len(w) for w in weights]) - 1

    def pick(self, which: Ints, uniform: Floats) -> Ints:
        """Draws indices, shape (n,), from the distribution and the uniform draw of each row."""
        found = np.searchsorted(self._edge, which + uniform, side="right")
        return np.asarray(np.minimum(found, self._last[which]), dtype=np.int64)


def at_level(functions: Floats, level: Floats, which: Ints | int = 0) -> Floats:
    """Evaluates quantile functions.

    Args:
        functions: Shape (m, q) or (q,), values at q levels evenly spaced from 0 to 1.
        level: Shape (n,), 0 … 1.
        which: Index of the function, in [0, m); one for all, or shape (n,).
    """
    functions = np.atleast_2d(functions)
    steps = functions.shape[1] - 1
    below = np.minimum((level * steps).astype(np.int64), steps - 1)
    part = level * steps - below
    low, high = functions[which, below], functions[which, below + 1]
    return np.asarray(low + part * (high - low))


def copied_from(repeats: Mask, order: Ints) -> Ints:
    """Returns the job that each copies: itself, or the last non-repeating one in ``order``."""
    place = np.arange(len(order))
    origin = np.maximum.accumulate(np.where(repeats[order], 0, place))
    source = np.empty(len(order), dtype=np.int64)
    source[order] = order[origin]
    return source
