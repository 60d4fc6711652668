"""Kaplan–Meier against answers known from books, and against plain quantiles."""

import numpy as np
import pytest

from mirage.predict.survival import completed, survival_quantiles, survival_share

# Freireich et al. 1963, weeks of remission of 21 patients under 6-MP; + marks those that were still well
WEEKS = np.array([6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35.0])
STILL_WELL = np.array([0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1], dtype=bool)
ONES = np.ones(21)


@pytest.mark.parametrize(
    ("week", "surviving"),
    [(5, 1.0), (6, 0.857), (7, 0.807), (10, 0.753), (13, 0.690), (16, 0.627), (22, 0.538), (23, 0.448)],
)
def test_the_published_curve_of_remissions(week, surviving):
    assert 1 - survival_share(WEEKS, STILL_WELL, ONES, week) == pytest.approx(surviving, abs=5e-4)


def test_the_published_median_of_remissions():
    assert survival_quantiles(WEEKS, STILL_WELL, ONES, np.array([0.25, 0.5])).tolist() == [13, 23]


def test_a_quantile_that_is_never_reached_is_the_largest_value():
    assert survival_quantiles(WEEKS, STILL_WELL, ONES, np.array([0.9])).tolist() == [35]


def test_weights_are_copies():
    rng = np.random.default_rng(3)
    values, bounds, copies = rng.normal(size=40), rng.random(40) < 0.4, rng.integers(1, 5, 40)
    levels = np.linspace(0.05, 0.95, 19)
    repeated = (np.repeat(values, copies), np.repeat(bounds, copies))
    np.testing.assert_allclose(
        survival_quantiles(values, bounds, copies.astype(float), levels),
        survival_quantiles(*repeated, np.ones(copies.sum()), levels),
    )
    np.testing.assert_allclose(
        survival_share(values, bounds, copies.astype(float), 0.1),
        survival_share(*repeated, np.ones(copies.sum()), 0.1),
    )


def test_without_bounds_they_are_the_plain_quantiles():
    values = np.random.default_rng(1).normal(size=101)
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_array_equal(
        survival_quantiles(values, np.zeros(101, dtype=bool), np.ones(101), levels),
        np.quantile(values, levels, method="inverted_cdf"),
    )


def test_a_bound_is_completed_by_the_mean_beyond_it():
    values = np.array([1.0, 2.0, 3.0, 7.0])
    assert completed(values, np.array([False, True, False, False]), np.ones(4)).tolist() == [1, 5, 3, 7]


def test_a_bound_beyond_every_value_stays():
    values = np.array([1.0, 9.0, 3.0])
    assert completed(values, np.array([False, True, False]), np.ones(3)).tolist() == [1, 9, 3]
