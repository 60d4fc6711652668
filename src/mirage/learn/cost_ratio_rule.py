"""The rule of the cost ratio on a predicted distribution: one model for all cost ratios.

It draws the whole frontier of interruption and overlap. If a link is submitted a moment later, it starts later by that
moment, whenever that start is. So waiting saves overlap where the link comes early, and costs interruption where it
comes late. It no longer pays when

    P(late) ≥ c_overlap / (c_interruption + c_overlap).

Decisions are one step apart. So this module compares the expected cost of submitting now and one whole step later; as
the step shrinks, that becomes the rule above.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.policy.cost import Cost

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Levels of the quantiles that models predict."""


def weights(levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (levels,): share of the distribution that each quantile represents; sum 1."""
    edges = np.concatenate([[0.0], (np.array(levels[1:]) + np.array(levels[:-1])) / 2, [1.0]])
    found: Floats = np.diff(edges)
    return found


def expected_cost(outcomes_s: NDArray[Any], cost: Cost, levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (n,): expected cost of outcomes.

    Args:
        outcomes_s: Shape (n, levels), quantiles of start of the next link minus end of the present one.
        cost: Cost of an hour of interruption and of an hour of overlap.
        levels: Levels of the quantiles.
    """
    found: Floats = cost.of(np.asarray(outcomes_s, dtype=np.float64)) @ weights(levels)
    return found


def gain(
    outcomes_s: NDArray[Any], remaining_s: Ints, step_s: int, cost: Cost, levels: tuple[float, ...] = LEVELS
) -> Floats:
    """Shape (n,): expected saving of submitting now over waiting a step; submit where ≥ 0.

    Args:
        outcomes_s: Shape (n, levels), quantiles of the outcome of submitting now.
        remaining_s: Shape (n,), to the end of the present link, at which every policy submits.
        step_s: Time to the next decision.
        cost: Cost of an hour of interruption and of an hour of overlap.
        levels: Levels of the quantiles.
    """
    later_s = outcomes_s + np.minimum(remaining_s, step_s)[:, None]
    return expected_cost(later_s, cost, levels) - expected_cost(outcomes_s, cost, levels)


def late(outcomes_s: NDArray[Any], levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (n,): probability that the next link starts after the end of the present one."""
    found: Floats = (np.asarray(outcomes_s) > 0) @ weights(levels)
    return found
