"""Choices among scores: the highest, or one drawn with the probabilities of a softmax."""

from __future__ import annotations

import math

from mirage.dag.decima.networks.layers import Floats32
from mirage.dag.decima.networks.network_graph import Flags
from mirage.kernel.compile import kernel

HIGHEST = -1.0
"""Instead of a random number: take the highest."""


@kernel(forceinline=False)
def chosen(score: Floats32, offered: Flags, count: int, draw: float) -> int:
    """The index of the chosen score; -1 where nothing is offered.

    Args:
        score: Shape (count or more,).
        offered: Shape (count or more,): which indices may be chosen.
        count: Number of scores.
        draw: A number from 0 to 1, or ``HIGHEST``.
    """
    best = -1
    for place in range(count):
        if offered[place] and (best < 0 or score[place] > score[best]):
            best = place
    if best < 0 or draw == HIGHEST:
        return best
    total = 0.0
    for place in range(count):
        if offered[place]:
            total += math.exp(score[place] - score[best])
    left, last = draw * total, best
    for place in range(count):
        if offered[place]:
            left -= math.exp(score[place] - score[best])
            last = place
            if left < 0.0:
                break
    return last


@kernel(forceinline=False)
def chosen_first(score: Floats32, count: int, draw: float) -> int:
    """The index of the chosen score among the first ``count``, which are all offered."""
    best = 0
    for place in range(1, count):
        if score[place] > score[best]:
            best = place
    if draw == HIGHEST:
        return best
    total = 0.0
    for place in range(count):
        total += math.exp(score[place] - score[best])
    left = draw * total
    for place in range(count):
        left -= math.exp(score[place] - score[best])
        if left < 0.0:
            return place
    return best
