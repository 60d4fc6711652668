"""Blended ranges: outcomes weigh the parts at each level; without any the first stays."""

import numpy as np
import pytest

from mirage.predict.start.blended_ranges import BlendSettings, QuantileBlend

DAY_S = 86_400
LEVELS = np.array([0.1, 0.5, 0.9])
EXACT = BlendSettings(prior=0.0, stretches=(1.0,))


def test_without_known_waits_the_blend_is_its_first_part():
    parts_s = np.array([[10.0, 20.0, 90.0], [1.0, 2.0, 3.0]])
    assert QuantileBlend(LEVELS, 2).quantiles_s(parts_s, 5 * DAY_S).tolist() == [10.0, 20.0, 90.0]


def test_every_level_follows_the_part_that_was_better_there():
    blend = QuantileBlend(LEVELS, 2, BlendSettings(prior=1.0, sharpness=200.0))
    random = np.random.default_rng(1)
    lows_s, highs_s = np.array([1000.0, 5000.0, 30_000.0]), np.array([100.0, 9000.0, 9000.0])
    for k in range(400):  # uniform in 0 … 10,000: the second is right at 0.9, the first at 0.1 and 0.5
        blend.learn(np.array([lows_s, highs_s]), random.uniform(0, 10_000), k * 600)
    found_s = blend.quantiles_s(np.array([lows_s, highs_s]), 400 * 600)
    assert found_s == pytest.approx([1000, 5000, 9000], rel=0.12)


def test_parts_with_opposite_errors_are_averaged():
    blend = QuantileBlend([0.5], 2, EXACT)
    random = np.random.default_rng(2)
    for k in range(300):
        wait_s = random.uniform(5000, 9000)
        blend.learn(np.array([[wait_s - 1200], [wait_s + 400]]), wait_s, k)
    assert blend.quantiles_s(np.array([[2800.0], [4400.0]]), 300)[0] == pytest.approx(4000, abs=1)


def test_waits_beyond_all_parts_stretch_them():
    blend = QuantileBlend([0.5], 2, BlendSettings(prior=0.0, stretches=(0.5, 1.0, 3.0)))
    for k in range(30):
        blend.learn(np.array([[100.0], [110.0]]), 330.0, k)
    assert blend.quantiles_s(np.array([[100.0], [110.0]]), 30)[0] == pytest.approx(330, rel=0.03)


def test_old_waits_fade():
    blend = QuantileBlend([0.5], 2, BlendSettings(half_life_s=DAY_S, prior=0.0, stretches=(1.0,)))
    parts_s = np.array([[100.0], [700.0]])
    for day, wait_s in ((0, 100.0), (20, 700.0)):
        for k in range(50):
            blend.learn(parts_s, wait_s, day * DAY_S + k)
    assert blend.quantiles_s(parts_s, 21 * DAY_S)[0] == pytest.approx(700, abs=1)
    assert blend.known == pytest.approx(50, rel=0.01)


def test_the_order_in_which_waits_become_known_does_not_matter():
    random = np.random.default_rng(3)
    made = [(random.uniform(0, 900, (2, 3)).cumsum(axis=1), random.uniform(0, 900), k * DAY_S) for k in range(12)]
    first, second = QuantileBlend(LEVELS, 2), QuantileBlend(LEVELS, 2)
    for one in made:
        first.learn(*one)
    for one in [made[7], *made[:7], *made[:7:-1]]:
        second.learn(*one)
    parts_s = np.array([[10.0, 200.0, 400.0], [50.0, 60.0, 900.0]])
    expected_s = first.quantiles_s(parts_s, 13 * DAY_S)
    assert second.quantiles_s(parts_s, 13 * DAY_S) == pytest.approx(expected_s)
    assert not np.allclose(expected_s, parts_s[0], atol=1)


def test_few_known_waits_count_little():
    parts_s = np.array([[100.0], [700.0]])
    found_s = []
    for count in (1, 10, 1000):
        blend = QuantileBlend([0.5], 2, BlendSettings(prior=10.0, stretches=(1.0,)))
        for _ in range(count):
            blend.learn(parts_s, 700.0, 0)
        found_s.append(blend.quantiles_s(parts_s, 0)[0])
    assert found_s == pytest.approx([100 + 600 / 11, 400, 100 + 600 * 1000 / 1010], abs=1)


def test_the_prior_returns_when_all_known_waits_are_old():
    blend = QuantileBlend([0.5], 2, BlendSettings(half_life_s=DAY_S, prior=10.0, stretches=(1.0,)))
    parts_s = np.array([[100.0], [700.0]])
    for _ in range(1000):
        blend.learn(parts_s, 700.0, 0)
    assert blend.quantiles_s(parts_s, 30 * DAY_S)[0] == pytest.approx(100, abs=1)


def test_quantiles_never_descend():
    blend = QuantileBlend(LEVELS, 2, EXACT)
    for k in range(40):  # the level 0.5 follows the second part, the level 0.9 the first
        blend.learn(np.array([[10.0, 10.0, 500.0], [10.0, 400.0, 9000.0]]), 400.0 if k % 10 else 600.0, k)
    found_s = blend.quantiles_s(np.array([[1.0, 2.0, 50.0], [1.0, 800.0, 900.0]]), 40)
    assert np.all(np.diff(found_s) >= 0)
    assert found_s.max() > 400


def test_every_level_is_blended_on_its_own():
    random = np.random.default_rng(4)
    together, alone = QuantileBlend(LEVELS, 2), QuantileBlend([0.5], 2)
    for k in range(40):
        made_s = random.uniform(0, 900, (2, 3)).cumsum(axis=1)
        together.learn(made_s, 800.0 + 20 * k, k)
        alone.learn(made_s[:, 1:2], 800.0 + 20 * k, k)
    parts_s = np.array([[10.0, 500.0, 2000.0], [50.0, 900.0, 3000.0]])
    assert together.quantiles_s(parts_s, 40)[1] == pytest.approx(alone.quantiles_s(parts_s[:, 1:2], 40)[0])
