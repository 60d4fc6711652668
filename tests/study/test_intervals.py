"""Intervals from stretches of time: known answers, and how often they hold."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.study.intervals import Floats, Members, Stretches, interval_of_mean, student_quantile, student_tail
from tests.support.benchmark_module import benchmark_module

BEGIN_S = 19_000 * DAY_S + 5 * HOUR_S


def every_four_hours(days: float) -> Stretches:
    return Stretches.of(BEGIN_S + np.arange(0, round(days * DAY_S), 4 * HOUR_S))


def everyone(values: Floats) -> Members:
    return np.full(len(values), True)


def test_stretches_are_equal_whatever_day_the_first_window_falls_on() -> None:
    stretches = every_four_hours(26)
    assert (stretches.count, stretches.length_s) == (4, 6.5 * DAY_S)
    assert np.bincount(stretches.of_window).tolist() == [39] * 4
    assert stretches.of_window.tolist() == sorted(stretches.of_window.tolist())
    assert stretches.day_of_window.tolist() == [k // 6 for k in range(156)]


@pytest.mark.parametrize(("days", "count"), [(5, 4), (28, 4), (40, 5), (63, 6), (121, 8), (140, 9)])
def test_more_time_gives_more_stretches_and_longer_ones(days: int, count: int) -> None:
    assert every_four_hours(days).count == count


def test_the_quantile_is_students() -> None:
    known = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 7: 2.365, 30: 2.042}
    assert {freedom: student_quantile(freedom) for freedom in known} == pytest.approx(known, abs=6e-4)
    assert student_quantile(4) < student_quantile(3.5) < student_quantile(3)


def test_a_tail_is_what_the_quantile_leaves() -> None:
    for freedom in (1.0, 3.3, 30.0):
        assert student_tail(student_quantile(freedom), freedom) == pytest.approx(0.025)
        assert student_tail(-student_quantile(freedom), freedom) == pytest.approx(0.975)
        assert student_tail(0.0, freedom) == 0.5
    assert student_tail(4.0, 7.0) == pytest.approx(0.002595, abs=1e-6)


@given(st.integers(0, 1000), st.floats(-4, 4))
def test_an_interval_excludes_zero_where_the_p_value_is_below_5_percent(seed: int, shift: float) -> None:
    stretches = every_four_hours(28)
    values = np.random.default_rng(seed).exponential(size=4)[stretches.of_window] + shift
    found = stretches.jackknife(values, np.ones(168), everyone(values))
    assert found is not None
    low, high = found.interval
    if min(abs(low), abs(high)) > 1e-6:
        assert (low > 0 or high < 0) == (found.p_value < 0.05)


def test_without_skew_it_is_the_interval_of_student() -> None:
    """Stretches with means 1, 2, 3, 4: mean 2.5, standard error 0.645, three degrees."""
    stretches = every_four_hours(28)
    low, high = stretches.mean(1.0 + stretches.of_window, everyone(stretches.of_window)) or (0, 0)
    assert (low, high) == pytest.approx((2.5 - 3.1824 * 0.6455, 2.5 + 3.1824 * 0.6455), abs=1e-3)


def test_the_end_towards_the_long_tail_lies_further_out() -> None:
    """Means 0, 0, 0, 4: Hall's transformation gives −7.6 … 3.18 errors."""
    stretches = every_four_hours(28)
    values = np.where(stretches.of_window == 3, 4.0, 0.0) - 10
    low, high = stretches.mean(values, everyone(values)) or (0, 0)
    skew = 24 / 12**1.5 * math.sqrt(12) / 2
    far = -3 / skew * (math.cbrt(1 + skew * (-student_quantile(3) - skew / 6)) - 1)
    assert far > 5
    assert (low, high) == pytest.approx((-9 - student_quantile(3), -9 + far), abs=1e-9)
    assert stretches.mean(-values, everyone(values)) == pytest.approx((-high, -low))


def test_a_tail_within_a_stretch_counts_too() -> None:
    """Every stretch has an equal rare bad day, so stretches alone show no skew."""
    stretches = every_four_hours(28)
    values = np.where(stretches.day_of_window % 7 == 3, 10.0, 0.0) + stretches.of_window
    low, high = stretches.mean(values, everyone(values)) or (0, 0)
    assert high - values.mean() > 1.3 * student_quantile(3) * 0.6455
    assert values.mean() - low == pytest.approx(student_quantile(3) * 0.6455, abs=1e-3)


def test_a_ratio_carried_by_one_stretch_is_less_sure_than_one_carried_by_all() -> None:
    stretches = every_four_hours(35)
    noise = np.where(stretches.of_window % 2 == 0, 1.0, -1.0)
    even, uneven = np.ones(len(noise)), np.where(stretches.of_window == 0, 30.0, 0.5)
    widths = []
    for below in (even, uneven):
        low, high = stretches.ratio(below * (1 + 0.1 * noise), below, everyone(below)) or (0, 0)
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]


def test_a_constant_has_no_width() -> None:
    stretches = every_four_hours(28)
    values = np.full(168, 2.5)
    assert stretches.mean(values, everyone(values)) == pytest.approx((2.5, 2.5))
    assert stretches.ratio(3 * values, values, everyone(values)) == pytest.approx((3, 3))


def test_three_stretches_are_too_few() -> None:
    stretches = every_four_hours(28)
    values = np.random.default_rng(0).exponential(size=168)
    assert stretches.mean(values, stretches.of_window < 3) is None
    assert stretches.mean(values, everyone(values)) is not None


def test_nothing_below_or_all_of_it_in_one_stretch_gives_none() -> None:
    stretches = every_four_hours(28)
    first = (stretches.of_window == 0).astype(float)
    assert stretches.ratio(np.ones(168), np.zeros(168), everyone(first)) is None
    assert stretches.ratio(first, first, everyone(first)) is None


@given(st.integers(4, 60), st.integers(0, 1000), st.floats(0.1, 1.0))
def test_an_interval_holds_its_own_mean_and_no_negative_time(days: int, seed: int, share: float) -> None:
    stretches = every_four_hours(days)
    random = np.random.default_rng(seed)
    values = random.exponential(size=len(stretches.of_window))
    members = random.random(len(values)) < share
    found = stretches.mean(values, members) if members.any() else None
    if found is not None:
        assert 0 <= found[0] <= values[members].mean() <= found[1]
        assert found == stretches.mean(values, members)


@pytest.mark.parametrize("windows", [0, 1, 2])
def test_hardly_any_windows_give_none(windows: int) -> None:
    stretches = Stretches.of(BEGIN_S + np.arange(windows) * WEEK_S)
    values = np.ones(windows)
    assert stretches.mean(values, everyone(values)) is None


def test_words_name_the_method_and_warn_where_a_stretch_is_short() -> None:
    assert every_four_hours(26).words == (
        "95 %, from 4 stretches of 6.5 d (jackknife, Student's t, Hall's correction for skew)"
    )
    assert every_four_hours(12).words.endswith("; too narrow: loads last longer than such a stretch")
    assert every_four_hours(3).words.startswith("none: the windows span less than 4 days")


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """The benchmark that simulates hand-overs with a known true mean."""
    return benchmark_module("evaluation/interval_coverage.py")


@pytest.mark.slow
@pytest.mark.parametrize("weeks", [3.7, 12.0])
def test_intervals_hold_nearly_as_often_as_promised(weeks: float, benchmark: ModuleType) -> None:
    """Coverage of 250 draws, with a standard error of 1.4 points."""
    truth = benchmark.simulated(np.random.default_rng(1), 300_000)
    found = list(benchmark.coverage(benchmark.simulated, truth, weeks, 250))
    shares = [row["coverage"] for row in found]
    assert len(shares) == 7
    assert np.mean(shares) >= 0.935
    assert min(shares) >= 0.895
    assert np.mean([row["bootstrap"] for row in found]) < 0.9


def test_the_mean_of_episodes_lies_in_its_interval_which_more_episodes_narrow() -> None:
    assert interval_of_mean(np.array([7.0])) == (None, None)
    assert interval_of_mean(np.array([7.0, 7.0])) == (7.0, 7.0)
    few, many = (interval_of_mean(np.tile([1.0, 2.0, 6.0], times)) for times in (1, 300))
    assert few == pytest.approx((3 - 4.3027 * math.sqrt(7 / 3), 3 + 4.3027 * math.sqrt(7 / 3)), abs=0.001)
    assert many == pytest.approx((3 - 1.96 * math.sqrt(14 / 3 / 900), 3 + 1.96 * math.sqrt(14 / 3 / 900)), abs=0.01)


@pytest.mark.parametrize("episodes", [2, 3, 5, 10])
def test_the_mean_of_a_few_episodes_lies_in_its_interval_as_often_as_promised(episodes: int) -> None:
    """Coverage of 2,000 draws, with a standard error of half a point."""
    draws = np.random.default_rng(1).normal(size=(2000, episodes))
    found = np.array([interval_of_mean(draw) for draw in draws])
    assert ((found[:, 0] < 0) & (found[:, 1] > 0)).mean() == pytest.approx(0.95, abs=0.015)
