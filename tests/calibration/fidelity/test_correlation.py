"""Correlations against scipy's, and intervals that drawing whole weeks must give."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.fidelity.correlation import Blocks, correlation, pearson, ratio_of_means, spearman
from mirage.duration import DAY_S, WEEK_S
from tests.support.made_up_histories import MONDAY_S

scipy_stats = pytest.importorskip("scipy.stats")


def once(values):
    return np.ones(len(values))


@pytest.mark.parametrize("most", [3, 50, 10**6])
def test_figures_are_those_of_scipy_with_and_without_ties(most) -> None:
    random = np.random.default_rng(most)
    a = random.integers(0, most, 400)
    b = a // 2 + random.integers(0, most, 400)
    assert spearman(a, b)(once(a)) == pytest.approx(scipy_stats.spearmanr(a, b).statistic)
    assert pearson(a, b)(once(a)) == pytest.approx(scipy_stats.pearsonr(a, b).statistic)


def test_a_resampled_figure_is_that_of_the_repeated_jobs() -> None:
    random = np.random.default_rng(1)
    a, b, often = (random.integers(0, 9, 60) for _ in range(3))
    again = np.repeat(a, often), np.repeat(b, often)
    assert spearman(a, b)(often.astype(float)) == pytest.approx(scipy_stats.spearmanr(*again).statistic)
    assert pearson(a, b)(often.astype(float)) == pytest.approx(scipy_stats.pearsonr(*again).statistic)
    assert ratio_of_means(a, b)(often.astype(float)) == pytest.approx(again[0].mean() / again[1].mean())


@pytest.mark.parametrize(
    ("a", "b"), [([1], [1]), ([1, 2], [1, 2]), ([7, 7, 7, 7], [1, 2, 3, 4]), ([0, 0, 0], [0, 0, 0])]
)
def test_there_is_none_of_few_jobs_or_of_ties_only(a, b) -> None:
    a, b = np.array(a), np.array(b)
    assert spearman(a, b)(once(a)) is None
    assert pearson(a, b)(once(a)) is None


def test_rounding_is_no_variation_and_a_second_among_weeks_is() -> None:
    assert correlation(np.full(7, 0.1), np.arange(7.0)) is None
    nearly = np.full(10_000, 10**6)
    nearly[0] += 1
    assert pearson(nearly, nearly)(once(nearly)) == pytest.approx(1)


def test_a_ratio_to_nothing_is_none() -> None:
    zeros = np.zeros(4, dtype=np.int64)
    assert ratio_of_means(zeros + 3, zeros)(once(zeros)) is None
    assert ratio_of_means(zeros, zeros + 3)(once(zeros)) == 0


@pytest.mark.parametrize(
    ("days", "unit", "count"),
    [
        (range(70), "week", 10), (range(0, 63, 7), "week", 9), (range(0, 56, 7), "week", 8), (range(40), "day", 40),
        (range(0, 21, 2), "day", 11), (range(8), "day", 8), (range(7), "", 0), ([3] * 90, "", 0),
    ],
)  # fmt: skip
def test_weeks_are_drawn_where_there_are_eight_else_days(days, unit, count) -> None:
    blocks = Blocks.of(MONDAY_S + 3600 + DAY_S * np.array(list(days)))
    assert (blocks.unit, blocks.count) == (unit, count)


def test_a_block_is_a_whole_week_from_the_first_midnight_on() -> None:
    submit_s = MONDAY_S + np.array([5, WEEK_S - 1, WEEK_S, *(WEEK_S * k for k in range(2, 9))])
    assert Blocks.of(submit_s).of_job.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_intervals_know_that_jobs_of_one_week_are_alike() -> None:
    """Twelve weeks with a ratio of their own each: many jobs a week add no information."""
    random = np.random.default_rng(5)
    of_week = random.uniform(0.5, 1.5, 12)
    submit_s = MONDAY_S + np.repeat(np.arange(12), 1000) * WEEK_S
    recorded = np.full(12_000, 1000)
    simulated = (recorded * np.repeat(of_week, 1000)).astype(np.int64)
    found = Blocks.of(submit_s).estimate(ratio_of_means(simulated, recorded), 400)
    assert found.value == pytest.approx(of_week.mean(), abs=1e-3)
    low, high = found.interval
    error = of_week.std() / np.sqrt(12)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert low < found.value < high


def test_the_same_seed_gives_the_same_interval_and_no_resamples_give_none() -> None:
    submit_s = MONDAY_S + np.arange(30) * DAY_S
    values = np.arange(30) % 7
    blocks, statistic = Blocks.of(submit_s), pearson(values, np.arange(30))
    assert blocks.estimate(statistic) == blocks.estimate(statistic)
    assert blocks.estimate(statistic, seed=1) != blocks.estimate(statistic)
    assert blocks.estimate(statistic, resamples=0).interval is None
    low, high = blocks.estimate(statistic, resamples=1).interval
    assert low == high != blocks.estimate(statistic).value
    assert blocks.estimate(pearson(values * 0, values)).value is None
