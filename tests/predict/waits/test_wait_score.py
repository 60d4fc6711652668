"""Figures of merit on waits with known answers."""

import numpy as np
import pytest

from mirage.predict.waits.wait_score import interval, interval_figures, point_figures, spearman

WAITS = np.log10([60.0, 1200.0, 36_000.0, 72_000.0])


def test_errors_of_predictions():
    figures = point_figures(WAITS, np.log10([90.0, 3000.0, 36_000.0, 3_600.0]))
    assert figures["within_x2"] == 0.5
    assert figures["within_x3"] == 0.75
    assert figures["median_error_min"] == pytest.approx(15.25)
    assert figures["median_error_min under 10 min"] == pytest.approx(0.5)
    assert figures["median_error_min 10 min to 2 h"] == pytest.approx(30)
    assert figures["median_error_min over 2 h"] == pytest.approx(570)
    assert figures["mse_log10"] == pytest.approx((np.log10(1.5) ** 2 + np.log10(2.5) ** 2 + np.log10(20) ** 2) / 4)


def test_an_empty_band_has_no_figure():
    assert np.isnan(point_figures(WAITS[1:], WAITS[1:])["median_error_min under 10 min"])


def test_ranks_share_ties():
    assert spearman(np.array([1.0, 2, 3]), np.array([10.0, 20, 30])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 2, 2])) == pytest.approx(0.894, abs=1e-3)
    assert spearman(np.array([1.0, 2, 3]), np.ones(3)) == 0


LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])


def test_coverage_and_width_of_intervals():
    quantiles = np.tile(np.array([-3.0, -2, -1, 0, 1, 2, 3]), (4, 1))
    figures = interval_figures(np.array([0.0, 1.5, -2.5, 9.0]), quantiles, LEVELS)
    assert [figures[f"coverage_{k}"] for k in (50, 80, 95)] == [0.25, 0.5, 0.75]
    assert [figures[f"width_{k}"] for k in (50, 80, 95)] == pytest.approx([1e2, 1e4, 1e6])


def test_the_score_of_quantiles_is_that_of_the_distribution():
    levels, wait = np.linspace(0.005, 0.995, 199), np.array([0.0, 0.5, 3.0])
    uniform = np.tile(levels, (3, 1))  # its score is the integral of the squared distance of two distribution functions
    each = [interval_figures(wait[k : k + 1], uniform[k : k + 1], levels)["crps_log10"] for k in range(3)]
    assert each == pytest.approx([1 / 3, 1 / 12, 2 + 1 / 3], abs=0.003)


def test_an_interval_that_was_not_promised_is_refused():
    with pytest.raises(ValueError, match=r"level 0\.3"):
        interval(np.zeros((1, 7)), LEVELS, 0.4)
