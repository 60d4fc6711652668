"""Predictions in the order of time: nothing later is used, and what is promised holds."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.predict.conformal import CalibrationSettings
from mirage.predict.model_file import Feature
from mirage.predict.waits.boosted_waits import BoostingSettings, fit_boosted_waits, thinned
from mirage.predict.waits.rolling_forecast import LEVELS, RollingSettings, rolling_forecast
from mirage.predict.waits.wait_sample import WaitSample
from mirage.predict.waits.wait_score import interval_figures, point_figures

pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")


def made_up_sample(n=3000, days=30, seed=0, drift=0.0):
    """Waits of log10 between 2 and 5, by size and load; ``drift`` is added to log10 half way."""
    rng = np.random.default_rng(seed)
    request_s = 1_700_000_000 // DAY_S * DAY_S + np.sort(rng.integers(0, days * DAY_S, n))
    size, load = rng.integers(0, 4, n), rng.random(n)
    log_wait = 2 + 0.5 * size + load + rng.normal(0, 0.1 + 0.15 * size, n)
    log_wait = log_wait + drift * (np.arange(n) > n / 2)
    return WaitSample(
        request_s=request_s,
        waited_s=(10**log_wait).astype(np.int64),
        started=np.ones(n, dtype=bool),
        inputs=np.stack([size, load, rng.random(n)], axis=1).astype(np.float32),
        features=(Feature("size", "1"), Feature("load", "1"), Feature("noise", "1")),
        size_class=(size > 1).astype(np.int64),
        alike=np.arange(n),
    )


SETTINGS = RollingSettings(refit_s=5 * DAY_S, boosting=BoostingSettings(rounds=40, bags=1, blocks=2, step=0.2))
SAMPLE = made_up_sample()
BEGIN_S = int(SAMPLE.request_s[0]) // DAY_S * DAY_S + 15 * DAY_S


def log_wait_of(sample, forecast):
    return np.log10(sample.waited_s[forecast.first :])


@pytest.fixture(scope="module")
def forecast():
    return rolling_forecast(SAMPLE, BEGIN_S, SETTINGS)


def test_the_waits_are_foreseen_as_far_as_they_can_be(forecast):
    figures = point_figures(log_wait_of(SAMPLE, forecast), forecast.mean)
    size = SAMPLE.inputs[forecast.first :, 0]
    assert figures["mse_log10"] < 1.25 * np.mean((0.1 + 0.15 * size) ** 2)


def test_the_spread_grows_with_that_of_the_waits(forecast):
    size = SAMPLE.inputs[forecast.first :, 0]
    assert forecast.spread[size == 3].mean() > 2 * forecast.spread[size == 0].mean()


def test_the_intervals_hold(forecast):
    figures = interval_figures(log_wait_of(SAMPLE, forecast), forecast.quantiles, LEVELS)
    assert [figures[f"coverage_{k}"] for k in (50, 80, 95)] == pytest.approx([0.5, 0.8, 0.95], abs=0.04)
    assert np.all(np.diff(forecast.quantiles, axis=1) >= 0)


def test_the_intervals_hold_again_after_the_waits_became_ten_times_longer():
    sample = made_up_sample(n=4000, days=60, drift=1.0)
    begin_s = BEGIN_S + 5 * DAY_S
    forecast = rolling_forecast(sample, begin_s, replace(SETTINGS, calibration=CalibrationSettings(rate=0.1)))
    late = slice(-1200, None)
    figures = interval_figures(log_wait_of(sample, forecast)[late], forecast.quantiles[late], LEVELS)
    assert [figures[f"coverage_{k}"] for k in (50, 80, 95)] == pytest.approx([0.5, 0.8, 0.95], abs=0.06)


def test_a_prediction_uses_nothing_that_was_not_known(forecast):
    now_s = BEGIN_S + 9 * DAY_S
    row = int(np.searchsorted(SAMPLE.request_s, now_s + DAY_S))
    later = SAMPLE.request_s + SAMPLE.waited_s > now_s
    altered = replace(SAMPLE, waited_s=np.where(later, SAMPLE.waited_s + 7 * DAY_S, SAMPLE.waited_s))[: row + 500]
    again = rolling_forecast(altered, BEGIN_S, SETTINGS)
    same = slice(0, row - forecast.first)
    np.testing.assert_array_equal(again.quantiles[same], forecast.quantiles[same])
    assert not np.array_equal(again.quantiles[same.stop :], forecast.quantiles[same.stop : same.stop + 500])


def test_the_same_seed_gives_the_same_forecast(forecast):
    again = rolling_forecast(SAMPLE, BEGIN_S, SETTINGS)
    np.testing.assert_array_equal(again.quantiles, forecast.quantiles)


def test_an_array_does_not_speak_for_all():
    alike = np.where((np.arange(len(SAMPLE)) % 3 == 0) & (SAMPLE.request_s < BEGIN_S), 0, 1 + np.arange(len(SAMPLE)))
    hurried = replace(SAMPLE, alike=alike, waited_s=np.where(alike == 0, SAMPLE.waited_s // 20 + 1, SAMPLE.waited_s))
    calibration = replace(SETTINGS.calibration, rate=0.0)
    alone, each = (
        rolling_forecast(hurried[:1800], BEGIN_S, replace(SETTINGS, calibration=replace(calibration, together=power)))
        for power in (0.0, 1.0)
    )
    lowest = ((of.quantiles - of.mean[:, None]) / of.spread[:, None] for of in (alone, each))
    assert np.greater(*(scores[:, 2].mean() for scores in lowest))


def test_progress_ends_with_all_of_them():
    calls = []
    rolling_forecast(SAMPLE[:1800], BEGIN_S, SETTINGS, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0
    assert calls == sorted(calls)


@pytest.mark.parametrize("moment_s", [0, 2**40])
def test_nothing_to_learn_or_to_judge_is_refused(moment_s):
    with pytest.raises(ValueError, match="nothing to learn"):
        rolling_forecast(SAMPLE, moment_s, SETTINGS)


def test_an_array_is_thinned_and_retains_its_weight():
    alike = np.array([5] * 100 + [7] * 3)
    rows, weight = thinned(alike, 10, np.random.default_rng(0))
    assert np.bincount(alike[rows])[[5, 7]].tolist() == [10, 3]
    assert weight.sum() == pytest.approx(103)
    assert rows.tolist() == sorted(rows)


def test_residuals_are_those_of_waits_that_were_not_learnt_from():
    rng, n = np.random.default_rng(0), 1000
    inputs, log_wait = rng.normal(size=(n, 8)).astype(np.float32), rng.normal(3, 1, n)
    settings = replace(SETTINGS.boosting, rounds=150, depth=8, least_rows=1)
    boosted, residuals = fit_boosted_waits(inputs, log_wait, np.zeros(n, dtype=bool), np.arange(n), settings)
    assert np.std(boosted.mean(inputs) - log_wait) < 0.5
    assert np.std(residuals.score * boosted.spread(inputs[residuals.rows])) > 1.0


def test_jobs_that_still_wait_make_the_forecast_longer():
    waits_on = SAMPLE.inputs[:, 1] > 0.5
    log_wait = np.log10(np.where(waits_on, np.minimum(SAMPLE.waited_s, 600), SAMPLE.waited_s))
    settings = SETTINGS.boosting
    known, _ = fit_boosted_waits(SAMPLE.inputs, log_wait, waits_on, SAMPLE.alike, settings)
    taken_as_waits, _ = fit_boosted_waits(SAMPLE.inputs, log_wait, np.zeros(3000, dtype=bool), SAMPLE.alike, settings)
    assert np.all(
        known.mean(SAMPLE.inputs[waits_on]).mean() > taken_as_waits.mean(SAMPLE.inputs[waits_on]).mean() + 0.3
    )
