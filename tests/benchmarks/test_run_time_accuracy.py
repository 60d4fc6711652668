"""Scores of predicted distributions, held to known answers."""

from __future__ import annotations

import numpy as np
import pytest

from run_time_accuracy import crps, pinball, pit


def test_crps_of_a_point_is_its_distance() -> None:
    assert crps(np.full((1, 5), 0.25), np.array([1.0])) == pytest.approx([0.75])


def test_crps_is_that_of_all_pairs() -> None:
    random = np.random.default_rng(1)
    levels, truth = np.sort(random.random((3, 8)), axis=1), random.random(3)
    pairs = [np.abs(row[:, None] - row).mean() / 2 for row in levels]
    assert crps(levels, truth) == pytest.approx(np.abs(levels - truth[:, None]).mean(axis=1) - pairs)


def test_the_pinball_loss_of_the_median_is_half_the_distance() -> None:
    levels = np.tile(np.arange(5.0), (2, 1))
    assert pinball(levels, np.array([4.0, 1.0]), 0.5) == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize("kinds", [1, 3, 64])
def test_the_pit_of_a_calibrated_prediction_is_uniform(kinds: int) -> None:
    """Also where many of the values are equal."""
    random = np.random.default_rng(2)
    values = np.sort(np.floor(np.arange(64) * kinds / 64) / kinds)
    truth = random.choice(values, 20_000)
    places = pit(np.tile(values, (len(truth), 1)), truth, random)
    assert np.quantile(places, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.02)
