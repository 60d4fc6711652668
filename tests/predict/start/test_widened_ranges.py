"""Corrected starts: intervals have their nominal coverage, from known outcomes."""

import json

import numpy as np
import pytest

from mirage.errors import ModelFileError
from mirage.policy.start_forecast import StartForecast
from mirage.predict.conformal import CalibrationSettings
from mirage.predict.start.widened_ranges import MOST_PROMISES, StartCorrection, agree, kind_of

HOUR_S, DAY_S = 3600, 86_400
LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])


def forecast_of(waits_s, now_s=0):
    waits_s = np.asarray(waits_s, dtype=np.int64)[:, None]
    return StartForecast(now_s, now_s, np.zeros(1, dtype=np.int64), now_s + waits_s, now_s + 5 * DAY_S)


def stream(correction, rng, spread, *, days=60, true_spread=2.0):
    """Shares inside 50/80/95 % where futures and truth differ in their spread."""
    starts_s, inside = {}, []
    for k in range(days * 6):
        now_s = k * 4 * HOUR_S
        for key in correction.awaited:
            if starts_s[key] <= now_s:
                correction.learn(key, starts_s[key])
        centre = rng.uniform(15, 25)
        forecast = forecast_of(HOUR_S * (centre + spread * rng.standard_normal(64)), now_s)
        wait_s = round(HOUR_S * max(centre + true_spread * rng.standard_normal(), 0))
        low, high = correction.quantiles_s(forecast, [0.25, 0.1, 0.025, 0.75, 0.9, 0.975]).reshape(2, 3)
        inside.append((low <= wait_s) & (wait_s <= high))
        starts_s[str(k)] = now_s + wait_s
        correction.promise(str(k), forecast)
    return np.mean(inside[len(inside) // 3 :], axis=0)


def test_without_evidence_the_forecast_stays_as_it_is():
    waits_s = np.arange(0, 64_000, 1000)
    corrected = StartCorrection().quantiles_s(forecast_of(waits_s), LEVELS)
    assert corrected == pytest.approx(np.quantile(waits_s, LEVELS), abs=600)


def test_futures_too_narrow_become_wide_enough_and_too_wide_ones_narrower():
    narrow = stream(StartCorrection(), np.random.default_rng(1), spread=0.8, days=150)
    assert narrow == pytest.approx([0.5, 0.8, 0.95], abs=0.05)
    wide = stream(StartCorrection(), np.random.default_rng(2), spread=5.0, days=150)
    assert wide == pytest.approx([0.5, 0.8, 0.95], abs=0.06)


def test_a_change_is_forgotten_after_some_half_lives():
    correction = StartCorrection(CalibrationSettings(half_life_s=5 * DAY_S, others=50.0))
    rng = np.random.default_rng(3)
    stream(correction, rng, spread=2.0, days=40, true_spread=6.0)
    now_s, waits_s = 40 * DAY_S, HOUR_S * np.arange(10, 30)
    before = np.ptp(correction.quantiles_s(forecast_of(waits_s, now_s), [0.1, 0.9]))
    for k in range(240):
        made = forecast_of(waits_s, now_s + k * 4 * HOUR_S)
        correction.promise(f"later {k}", made)
        correction.learn(f"later {k}", made.now_s + int(rng.choice(waits_s)))
    after = np.ptp(correction.quantiles_s(forecast_of(waits_s, now_s + 40 * DAY_S), [0.1, 0.9]))
    as_forecast = np.ptp(np.quantile(waits_s, [0.1, 0.9]))
    assert before > 1.5 * as_forecast
    assert after == pytest.approx(as_forecast, rel=0.15)


def test_outcomes_count_from_when_they_are_known_and_no_sooner():
    waits_s = HOUR_S * np.arange(10, 20)
    fresh, waiting = StartCorrection(), StartCorrection()
    for k in range(50):
        waiting.promise(str(k), forecast_of(waits_s))
    early = forecast_of(waits_s, 10 * HOUR_S)  # nothing could have started yet
    assert waiting.quantiles_s(early, LEVELS) == pytest.approx(fresh.quantiles_s(early, LEVELS), abs=1)


def test_jobs_that_still_wait_beyond_every_future_count_as_later():
    waits_s = HOUR_S * np.arange(10, 20)
    correction = StartCorrection()
    for k in range(50):
        correction.promise(str(k), forecast_of(waits_s))
        if k % 2:
            correction.learn(str(k), 15 * HOUR_S)
    late = forecast_of(waits_s, 60 * HOUR_S)
    raw = StartCorrection().quantiles_s(late, [0.975])
    assert correction.quantiles_s(late, [0.975]) > raw + 20 * HOUR_S
    for k in range(0, 50, 2):
        correction.learn(str(k), 60 * HOUR_S, started=False)
    assert not correction.awaited
    assert correction.quantiles_s(late, [0.975]) > raw + 20 * HOUR_S


def test_sizes_lean_on_each_other_and_agreement_stands_apart():
    waits_s, late_s = HOUR_S * np.arange(10, 20), 60 * HOUR_S
    correction = StartCorrection(CalibrationSettings(half_life_s=30 * DAY_S, others=10.0))
    for k in range(100):
        correction.promise(str(k), forecast_of(waits_s), kind_of("a100", 1))
        correction.learn(str(k), late_s)
    own, other, raw = (
        made.quantiles_s(forecast_of(waits_s, 3 * DAY_S), [0.6], kind_of("a100", nodes))
        for made, nodes in ((correction, 1), (correction, 8), (StartCorrection(), 1))
    )
    assert own > other > raw
    sure = forecast_of(np.zeros(64), 3 * DAY_S)
    assert agree(sure)
    assert not agree(forecast_of(waits_s))
    assert correction.quantiles_s(sure, LEVELS).tolist() == [0.0] * len(LEVELS)


def test_quantiles_ascend_and_no_wait_is_negative():
    correction, rng = StartCorrection(), np.random.default_rng(5)
    stream(correction, rng, spread=1.0, days=20, true_spread=9.0)
    corrected = correction.quantiles_s(forecast_of(rng.integers(0, 7200, 64), 20 * DAY_S), np.linspace(0.01, 0.99, 99))
    assert (np.diff(corrected) >= 0).all()
    assert corrected[0] == 0


def test_state_goes_through_json():
    settings, prior = CalibrationSettings(half_life_s=2 * DAY_S, others=1.0), 3.0
    correction = StartCorrection(settings, prior)
    stream(correction, np.random.default_rng(4), spread=0.7, days=15)
    again = StartCorrection.from_json(correction.to_json(), settings, prior)
    later = forecast_of(HOUR_S * np.arange(5, 30), 15 * DAY_S)
    assert again.awaited == correction.awaited != ()
    assert again.quantiles_s(later, LEVELS).tolist() == correction.quantiles_s(later, LEVELS).tolist()
    assert again.to_json() == correction.to_json()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', '{"schema": 1, "made": 0, "open": {"a": {}}}'])
def test_foreign_state_is_refused_with_what_to_do(text):
    with pytest.raises(ModelFileError, match="start correction"):
        StartCorrection.from_json(text)


def test_old_outcomes_are_dropped():
    correction = StartCorrection()
    for k in range(MOST_PROMISES + 10):
        correction.promise("same", forecast_of([0, HOUR_S], k))
        correction.learn("same", k)
    known = json.loads(correction.to_json())["known"]
    assert len(known) == MOST_PROMISES
    assert known[0]["asked_s"] == 10


def test_an_outcome_of_nothing_promised_is_an_error():
    with pytest.raises(KeyError):
        StartCorrection().learn("7", 0)


def test_classes_of_requests():
    assert [kind_of("a100", n) for n in (1, 2, 7, 8)] == [
        "a100 1 node",
        "a100 2-7 nodes",
        "a100 2-7 nodes",
        "a100 8+ nodes",
    ]
    assert kind_of("", 1) == "1 node"
