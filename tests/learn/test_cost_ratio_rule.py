"""The rule of the cost ratio."""

import numpy as np
import pytest

from mirage.learn.cost_ratio_rule import LEVELS, expected_cost, gain, late, weights
from mirage.policy.cost import Cost

SECOND = np.array([1_000_000])


def uniform(low_s: float, high_s: float) -> np.ndarray:
    """Quantiles of outcomes between two."""
    return low_s + (high_s - low_s) * np.array(LEVELS)[None, :]


def test_the_levels_stand_for_the_whole_distribution():
    assert weights().sum() == pytest.approx(1)
    assert (weights() > 0).all()
    assert expected_cost(np.full((1, len(LEVELS)), 7200.0), Cost(3, 1)).tolist() == pytest.approx([6.0])


@pytest.mark.parametrize("ratio", [1.0, 4.0])  # not 3: there shares of levels sum to the threshold
def test_with_a_short_step_it_submits_from_the_documented_share_of_being_late_on(ratio):
    cost = Cost(ratio, 1.0)
    for share in np.linspace(0.11, 0.89, 14):  # between levels: the share is known in steps of a tenth
        outcomes = uniform(-1000 * (1 - share), 1000 * share)
        submits = gain(outcomes, SECOND, 1, cost)[0] >= 0
        assert submits == (late(outcomes)[0] >= cost.overlap / (cost.interruption + cost.overlap)), share


def test_the_dearer_an_interruption_the_earlier_it_submits():
    gains = [gain(uniform(-3600, 1200), SECOND, 1800, Cost(ratio, 1.0))[0] for ratio in (0.5, 1, 2, 5, 20)]
    assert gains == sorted(gains)
    assert gains[0] < 0 < gains[-1]


def test_a_link_that_waits_nothing_is_submitted_at_the_end():
    remaining_s = np.array([600, 1800, 5400])
    outcomes = np.repeat(-remaining_s[:, None], len(LEVELS), axis=1)
    assert (gain(outcomes, remaining_s, 1800, Cost()) < 0).all()
    assert (gain(outcomes + 5400, remaining_s, 1800, Cost()) >= 0).tolist() == [True, True, True]


def test_the_last_step_is_only_as_long_as_what_remains():
    outcomes = uniform(-700, 500)  # later than half of a step of 1800 s, but not later than 600
    assert gain(outcomes, np.array([1800]), 1800, Cost())[0] > 0
    assert gain(outcomes, np.array([100]), 1800, Cost())[0] < 0
