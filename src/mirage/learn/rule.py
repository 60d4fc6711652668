"""The rule of the cost ratio on a predicted distribution: one model, the whole frontier of interruption and overlap.

Of a link that is submitted a moment later the start moves by that moment, whatever it is to be: waiting saves overlap
where the link comes early, and costs interruption where it comes late. It no longer pays when

    P(late) ≥ c_overlap / (c_interruption + c_overlap).

Decisions are a step apart, so that what is compared here is the expected cost now and a whole step later; as the step
shrinks, that becomes the rule above.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats, Ints
from mirage.policy.cost import Cost

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Levels of the quantiles that models predict."""


def late_share(cost: Cost) -> float:
    """The probability of being late from which on a link is submitted: c_overlap / (c_interruption + c_overlap)."""
    return cost.overlap / (cost.interruption + cost.overlap)


def weights(levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (levels,): how much of the distribution each quantile stands for; they sum to one."""
    edges = np.concatenate([[0.0], (np.array(levels[1:]) + np.array(levels[:-1])) / 2, [1.0]])
    found: Floats = np.diff(edges)
    return found


def expected_cost(outcomes_s: NDArray[Any], cost: Cost, levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (n,): expected cost of outcomes.

    Args:
        outcomes_s: Shape (n, levels), quantiles of start of the next link minus end of the present one.
        cost: What an hour of interruption and an hour of overlap cost.
        levels: Of the quantiles.
    """
    found: Floats = cost.of(np.asarray(outcomes_s, dtype=np.float64)) @ weights(levels)
    return found


def gain(
    outcomes_s: NDArray[Any], remaining_s: Ints, step_s: int, cost: Cost, levels: tuple[float, ...] = LEVELS
) -> Floats:
    """Shape (n,): what submitting now is expected to save against waiting a step; submit where it is not negative.

    Args:
        outcomes_s: Shape (n, levels), quantiles of what submitting now leads to.
        remaining_s: Shape (n,), to the end of the present link, at which every policy submits.
        step_s: Time to the next decision.
        cost: What an hour of interruption and an hour of overlap cost.
        levels: Of the quantiles.
    """
    later_s = outcomes_s + np.minimum(remaining_s, step_s)[:, None]
    return expected_cost(later_s, cost, levels) - expected_cost(outcomes_s, cost, levels)


def late(outcomes_s: NDArray[Any], levels: tuple[float, ...] = LEVELS) -> Floats:
    """Shape (n,): share of a predicted distribution in which the next link starts after the end of the present one."""
    found: Floats = (np.asarray(outcomes_s) > 0) @ weights(levels)
    return found
