"""Intervals from blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.provision.evaluation.bootstrap import Blocks

MONDAY_S = 4 * DAY_S + 2000 * WEEK_S


def windows_s(weeks, every_s=4 * HOUR_S):
    return MONDAY_S + np.arange(0, weeks * WEEK_S, every_s)


def everyone(values):
    return np.full(len(values), True)


def test_weeks_are_iso_weeks():
    blocks = Blocks.of(windows_s(5), 0)
    assert (blocks.unit, blocks.count) == ("week", 5)
    assert np.bincount(blocks.of_window).tolist() == [42] * 5
    assert blocks.of_window.tolist() == sorted(blocks.of_window.tolist())


def test_days_where_weeks_are_too_few():
    blocks = Blocks.of(windows_s(2), 0)
    assert (blocks.unit, blocks.count) == ("day", 14)


def test_a_constant_has_no_width():
    blocks, values = Blocks.of(windows_s(4), 0), np.full(4 * 42, 2.5)
    assert blocks.mean(values, everyone(values)) == pytest.approx((2.5, 2.5))


def test_whole_weeks_are_drawn_not_windows():
    """Values that differ between weeks only: windows drawn singly would give an interval six times narrower."""
    blocks = Blocks.of(windows_s(16), 0)
    values = (blocks.of_window % 2).astype(float)
    low, high = blocks.mean(values, everyone(values))
    assert low == pytest.approx(0.5 - 1.96 * 0.5 / 4, abs=0.04)
    assert high == pytest.approx(0.5 + 1.96 * 0.5 / 4, abs=0.04)


def test_a_ratio_is_of_sums_and_of_the_same_draws():
    blocks = Blocks.of(windows_s(6), 0)
    below = 1.0 + blocks.of_window
    assert blocks.ratio(3 * below, below, everyone(below)) == pytest.approx((3, 3))


def test_no_interval_from_too_few_blocks():
    blocks = Blocks.of(windows_s(6), 0)
    values = np.ones(6 * 42)
    assert blocks.mean(values, blocks.of_window < 2) is None
    assert blocks.mean(values, blocks.of_window < 3) is not None
    assert blocks.ratio(values, np.zeros_like(values), everyone(values)) is None


@given(st.integers(3, 12), st.integers(0, 1000))
def test_a_mean_lies_within_the_extremes(weeks, seed):
    random = np.random.default_rng(seed)
    blocks = Blocks.of(windows_s(weeks, 12 * HOUR_S), seed, resamples=200)
    values = random.exponential(size=len(blocks.of_window))
    low, high = blocks.mean(values, everyone(values))
    assert values.min() <= low <= high <= values.max()
    assert blocks.mean(values, everyone(values)) == (low, high)
