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


def test_three_weeks_are_enough_for_weeks():
    assert (Blocks.of(windows_s(3), 0).unit, Blocks.of(windows_s(3), 0).count) == ("week", 3)


def test_blocks_change_at_midnight_utc(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        around_sunday = MONDAY_S + np.array([-1, 0, WEEK_S - 1, WEEK_S, 2 * WEEK_S])
        blocks = Blocks.of(around_sunday, 0)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert blocks.unit == "week"
    assert blocks.of_window.tolist() == [0, 1, 1, 2, 3]


def test_weeks_of_two_years_keep_their_order():
    """ISO week 1 of 2025 begins in 2024; weeks are told apart by the year they count for."""
    end_of_2024_s = 1_735_516_800  # Monday 2024-12-30
    blocks = Blocks.of(end_of_2024_s + np.array([-1, 0, 3 * DAY_S, WEEK_S, 52 * WEEK_S]), 0)
    assert blocks.of_window.tolist() == [0, 1, 1, 2, 3]


def test_a_draw_is_as_many_blocks_as_there_are_each_as_likely():
    blocks = Blocks.of(windows_s(5), 0)
    assert blocks.drawn.shape == (2000, 5)
    assert blocks.drawn.dtype == np.float64
    assert set(blocks.drawn.sum(axis=1)) == {5.0}
    assert blocks.drawn.mean(axis=0) == pytest.approx(np.ones(5), abs=0.08)
    assert Blocks.of(windows_s(5), 0, resamples=7).drawn.shape == (7, 5)


def test_draws_depend_on_the_seed_alone():
    first, again, other = (Blocks.of(windows_s(5), seed).drawn for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_no_windows_make_no_blocks():
    blocks = Blocks.of(np.array([], dtype=np.int64), 0)
    assert (blocks.count, blocks.drawn.shape, blocks.unit) == (0, (2000, 0), "day")
    assert blocks.mean(np.array([]), np.array([], dtype=bool)) is None


def test_totals_are_of_the_members_as_often_as_their_block_was_drawn():
    blocks = Blocks.of(MONDAY_S + np.array([0, 1, WEEK_S, 2 * WEEK_S]), 0, resamples=50)
    values = np.array([1.0, 10.0, 100.0, 1000.0])
    totals = blocks.totals(values, np.array([True, False, True, True]))
    assert totals == pytest.approx(blocks.drawn @ np.array([1.0, 100.0, 1000.0]))


def test_draws_with_nothing_below_have_no_ratio():
    """Only the first week has anything below; draws without it are left out rather than divided by nothing."""
    blocks = Blocks.of(windows_s(3), 0)
    first = (blocks.of_window == 0).astype(float)
    assert (blocks.drawn[:, 0] == 0).any()
    assert blocks.ratio(2 * first, first, everyone(first)) == (2, 2)
    assert blocks.ratio(-2 * first, -first, everyone(first)) == (2, 2)


def test_an_interval_leaves_two_and_a_half_percent_on_each_side():
    blocks = Blocks.of(windows_s(4), 0)
    values = blocks.of_window.astype(float) ** 2
    drawn = np.sort(blocks.drawn @ np.array([0.0, 1.0, 4.0, 9.0]) / 4)
    low, high = blocks.mean(values, everyone(values))
    assert np.mean(drawn < low) <= 0.025 <= np.mean(drawn <= low)
    assert np.mean(drawn > high) <= 0.025 <= np.mean(drawn >= high)
