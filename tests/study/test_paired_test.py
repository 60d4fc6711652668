"""Tests of paired differences: known answers, and errors on two policies of equal mean."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.array_types import Floats
from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.study.intervals import Stretches, student_tail
from mirage.study.paired_test import PairedTest, PossibleLoss, corrected, independent_windows, paired_test
from tests.support.benchmark_module import benchmark_module

BEGIN_S = 19_000 * DAY_S + 5 * HOUR_S
WEEKS = 20
WEEKLY = Stretches.of(BEGIN_S + WEEK_S * np.arange(WEEKS))
EVERYONE = np.full(WEEKS, True)
NOTHING = PossibleLoss(np.zeros(WEEKS), 0.0, 0.0)
SHARE = 1 - 0.025 ** (1 / WEEKS)
"""How likely a loss can be that twenty independent windows do not show."""


def result_of(difference: Floats, first: PossibleLoss = NOTHING, second: PossibleLoss = NOTHING) -> PairedTest:
    found = paired_test(difference, first, second, EVERYONE, WEEKLY)
    assert found is not None
    return found


def test_weekly_windows_are_independent_and_windows_of_one_time_are_one() -> None:
    assert independent_windows(WEEKLY.submitted_s) == pytest.approx(WEEKS, rel=2e-3)
    assert independent_windows(np.array([7, 7, 7])) == 1
    assert independent_windows(np.array([0, DAY_S])) == pytest.approx(4 / (2 + 2 * math.exp(-1)))
    assert independent_windows(np.array([0, 0, DAY_S, DAY_S])) == pytest.approx(4 / (2 + 2 * math.exp(-1)))


def test_a_certain_advantage_is_as_uncertain_as_a_loss_that_may_have_been_missed() -> None:
    """Every window has −1 h, and the worst is 10 h.

    Were it 1 in 7 windows, 20 would have missed it in 5 %.
    """
    found = result_of(np.full(WEEKS, -1.0), PossibleLoss(np.zeros(WEEKS), 10.0, 10.0))
    assert found.interval == pytest.approx((-1, -1 + SHARE * 10), abs=0.01)
    assert found.p_value == pytest.approx(2 * 0.9**WEEKS, rel=0.01)
    assert found.interval[1] > 0
    assert result_of(np.full(WEEKS, -1.0)) == PairedTest((-1.0, -1.0), 0.0)


def test_each_end_has_the_loss_of_the_policy_it_speaks_for() -> None:
    first, second = PossibleLoss(np.zeros(WEEKS), 10.0, 10.0), PossibleLoss(np.zeros(WEEKS), 4.0, 0.0)
    for sign in (-1.0, 1.0):
        found = result_of(np.full(WEEKS, sign * 1.5), first, second)
        assert found.interval == pytest.approx((sign * 1.5 - SHARE * 4, sign * 1.5 + SHARE * 10), abs=0.01)
        worst = 10 if sign < 0 else 4
        assert found.p_value == pytest.approx(2 * (1 - 1.5 / worst) ** WEEKS, rel=0.02)
    assert result_of(np.full(WEEKS, -11.0), first).p_value == 0, "no loss undoes it"
    assert result_of(np.zeros(WEEKS), first, second).p_value == 1


def test_the_size_of_a_loss_is_drawn_by_the_hour() -> None:
    losses = np.zeros(WEEKS)
    losses[:2] = 1, 3
    assert PossibleLoss(losses, 6.0, 3.0).drawn(EVERYONE, WEEKS) == pytest.approx((1 + 9 + 36) / (1 + 3 + 6))
    assert PossibleLoss(losses, 0.0, 0.0).drawn(EVERYONE, WEEKS) == pytest.approx(10 / 4)
    assert PossibleLoss(losses, 6.0, 3.0).drawn(np.arange(WEEKS) == 1, 1) == pytest.approx((9 + 36) / 9)
    assert NOTHING.drawn(EVERYONE, WEEKS) == 0


def test_many_small_losses_do_not_hide_a_large_one() -> None:
    losses = np.full(WEEKS, 2.0)
    assert (WEEKS * 4 + 30**2) / (WEEKS * 2 + 30) < 28
    assert PossibleLoss(losses, 30.0, 28.0).drawn(EVERYONE, WEEKS) == 28


def test_windows_that_were_played_twice_count_once() -> None:
    random = np.random.default_rng(4)
    difference, losses = random.normal(-1, 1, WEEKS), random.exponential(5, WEEKS)
    once = result_of(difference, PossibleLoss(losses, 20.0, 2.0))
    both = PossibleLoss(np.tile(losses, 2), 20.0, 2.0), PossibleLoss(np.zeros(2 * WEEKS), 0.0, 0.0)
    stretches = Stretches.of(np.tile(WEEKLY.submitted_s, 2))
    twice = paired_test(np.tile(difference, 2), *both, np.full(2 * WEEKS, True), stretches)
    assert twice is not None
    assert twice.interval == pytest.approx(once.interval)
    assert twice.p_value == pytest.approx(once.p_value)


def test_the_spread_of_the_windows_counts_where_it_is_wider() -> None:
    """Stretches with means 1, 2, 3, 4: 3.87 standard errors with three degrees of freedom."""
    stretches = Stretches.of(BEGIN_S + np.arange(0, 28 * DAY_S, 4 * HOUR_S))
    values, everyone = 1.0 + stretches.of_window, np.full(168, True)
    none = PossibleLoss(np.zeros(168), 0.0, 0.0)
    found = paired_test(values, none, none, everyone, stretches)
    assert found is not None
    assert found.interval == stretches.ratio(values, np.ones(168), everyone)
    assert found.p_value == pytest.approx(2 * student_tail(2.5 / 0.6455, 3), rel=1e-3)
    assert found.p_value == pytest.approx(0.0305, abs=1e-4)
    small = paired_test(values, none, PossibleLoss(np.zeros(168), 1e-3, 0.0), everyone, stretches)
    assert small == found
    assert paired_test(values, none, none, stretches.of_window < 3, stretches) is None


@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(0, 30))
def test_the_interval_excludes_zero_where_the_p_value_is_below_5_percent(seed: int, mean: float, worst: float) -> None:
    random = np.random.default_rng(seed)
    difference = mean + random.exponential(2, WEEKS) - 2
    loss = PossibleLoss(random.exponential(1, WEEKS), worst, worst / 2)
    found = result_of(difference, loss, loss)
    low, high = found.interval
    if min(abs(low), abs(high)) > 1e-6:
        assert (low > 0 or high < 0) == (found.p_value < 0.05)


def test_several_comparisons_are_corrected_by_their_ranks() -> None:
    """The smallest of four counts four times, the second twice, the third by 4/3."""
    assert corrected([0.01, 0.045, 0.03, 0.004]) == pytest.approx([0.02, 0.045, 0.04, 0.016])
    assert corrected([0.04, 0.04, 0.9]) == pytest.approx([0.06, 0.06, 0.9])
    assert corrected([0.049, 0.05]) == pytest.approx([0.05, 0.05])
    assert corrected([0.03]) == [0.03]
    assert corrected([]) == []


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return benchmark_module("evaluation/interval_coverage.py")


@pytest.mark.parametrize("world", ["only then", "busy", "often", "noisy", "early"])
@pytest.mark.parametrize(("windows", "every_h", "run"), [(58, 48, 1), (31, 48, 3), (156, 4, 5)])
def test_a_rarely_late_policy_is_not_called_better_than_one_of_equal_mean(
    benchmark: ModuleType, world: str, windows: int, every_h: int, run: int
) -> None:
    """150 draws: at 2.5 %, seven or fewer wrong calls are to be expected in 97 % of cases."""
    found = benchmark.errors(benchmark.Null(world, windows, every_h, 0.035, "20 to 40 h", run), 150)
    assert found["better"] <= 0.025
    assert found["worse"] <= 0.025
    assert found["jackknife better"] > 0.08, "these are samples without the rare window"


def test_a_rarely_late_policy_has_the_mean_of_the_other(benchmark: ModuleType) -> None:
    random = np.random.default_rng(0)
    for world in ("only then", "busy", "often", "noisy", "early"):
        pair = benchmark.Null(world, 1_000_000, 48, 0.05, "20 to 40 h", 3).drawn(random)
        assert pair.first.mean() == pytest.approx(pair.second.mean(), rel=0.02)
        assert (pair.first <= np.maximum(pair.reactive, pair.lead) + 1e-9).mean() > 0.97


def test_in_a_table_of_equal_policies_hardly_any_is_called_different(benchmark: ModuleType) -> None:
    found = benchmark.table_errors(0, 60)
    assert found["wrong, corrected"] <= 0.05 < found["wrong, jackknife"]
    some = benchmark.table_errors(5, 40)
    assert some["wrong, corrected"] <= 0.05
    assert some["found, holm"] < some["found, corrected"] <= some["found, uncorrected"]
