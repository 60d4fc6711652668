"""Levels and quantiles follow the waits that are known."""

import numpy as np
import pytest

from mirage.predict.conformal import OUTERMOST, AdaptiveLevels, CalibrationSettings, Scores, weights_of_alike

LEVELS = np.array([0.1, 0.5, 0.9])
DAY_S = 86_400


def scores_of(score, size_class=None, predicted_s=None, is_bound=None):
    n = len(score)
    return Scores(
        np.zeros(n, dtype=np.int64) if predicted_s is None else predicted_s,
        np.asarray(score, dtype=float),
        np.zeros(n, dtype=bool) if is_bound is None else is_bound,
        np.zeros(n, dtype=np.int64) if size_class is None else size_class,
        np.ones(n),
    )


def test_a_large_class_speaks_for_itself_and_an_unknown_one_gets_those_of_all():
    rng = np.random.default_rng(0)
    own = np.repeat([0, 1], 20_000)
    scores = scores_of(rng.normal(size=40_000) + 3 * own, own)
    settings = CalibrationSettings(others=100)
    assert scores.quantiles(1, 0, LEVELS, settings) == pytest.approx(3 + np.array([-1.28, 0, 1.28]), abs=0.08)
    assert scores.quantiles(7, 0, np.array([0.5]), settings) == pytest.approx(1.5, abs=0.1)


def test_a_small_class_leans_on_the_others():
    scores = scores_of(np.concatenate((np.zeros(5000), np.ones(100))), np.repeat([0, 1], [5000, 100]))
    few, many = (CalibrationSettings(others=others) for others in (50, 200))
    assert scores.quantiles(1, 0, LEVELS, few).tolist() == [0, 1, 1]
    assert scores.quantiles(1, 0, LEVELS, many).tolist() == [0, 0, 1]


def test_old_predictions_fade():
    predicted_s = np.repeat([0, 10 * DAY_S], 100)
    scores = scores_of(np.repeat([0.0, 1.0], 100), predicted_s=predicted_s)
    slow, fast = (CalibrationSettings(half_life_s=days * DAY_S) for days in (1000, 1))
    assert scores.quantiles(0, 10 * DAY_S, np.array([0.4]), slow).tolist() == [0]
    assert scores.quantiles(0, 10 * DAY_S, np.array([0.4]), fast).tolist() == [1]


def test_jobs_that_still_wait_count_as_longer():
    score, waits_on = np.linspace(0, 1, 101), np.arange(101) % 2 == 1
    known = scores_of(score, is_bound=waits_on).quantiles(0, 0, np.array([0.5]), CalibrationSettings())
    ignored = scores_of(score[~waits_on]).quantiles(0, 0, np.array([0.5]), CalibrationSettings())
    assert known > ignored + 0.2


def test_jobs_submitted_together_weigh_less_than_as_many_others():
    alike, stands_for = np.array([4, 4, 7, 9]), np.array([8.0, 8.0, 1.0, 4.0])
    assert weights_of_alike(alike, stands_for, 1.0).tolist() == stands_for.tolist()
    assert weights_of_alike(alike, stands_for, 0.5) == pytest.approx([2.0, 2.0, 1.0, 2.0])
    assert weights_of_alike(alike, stands_for, 0.0) == pytest.approx([0.5, 0.5, 1.0, 1.0])


def test_levels_move_towards_what_was_promised():
    levels = AdaptiveLevels(LEVELS, 0.1)
    promised = np.tile([0.0, 1.0, 2.0], (10, 1))
    levels.learn(promised, np.full(10, 5.0), np.zeros(10, dtype=bool))
    assert levels.adjusted == pytest.approx([0.11, 0.55, 0.99])
    levels.learn(promised, np.full(10, -5.0), np.zeros(10, dtype=bool))
    assert levels.adjusted == pytest.approx([0.02, 0.5, 0.98])


def test_levels_stay_in_order_and_inside():
    levels = AdaptiveLevels(LEVELS, 5.0)
    for wait in (5.0, -5.0, 1.5):
        levels.learn(np.tile([0.0, 1.0, 2.0], (3, 1)), np.full(3, wait), np.zeros(3, dtype=bool))
        assert np.all(np.diff(levels.adjusted) >= 0)
        assert levels.adjusted.min() >= OUTERMOST
        assert levels.adjusted.max() <= 1 - OUTERMOST


def test_levels_bring_intervals_back_after_the_waits_became_wilder():
    rng, levels, hits = np.random.default_rng(5), AdaptiveLevels(np.array([0.1, 0.9]), 0.1), []
    for batch in range(400):
        true = rng.normal(size=50) * (1 if batch < 50 else 1.6)
        low, high = -np.log(1 / levels.adjusted - 1) / 1.7
        hits.append(np.mean((low <= true) & (true <= high)))
        levels.learn(np.tile([low, high], (50, 1)), true, np.zeros(50, dtype=bool))
    assert np.mean(hits[100:]) == pytest.approx(0.8, abs=0.02)
