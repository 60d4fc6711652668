"""Uses of the limit, from what ended and what runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S
from mirage.forecast.own_history_kernel import add_up
from mirage.forecast.use_history import LEVELS, MIDDLES, PRIOR_SAMPLES, UseHistory, evenly, latest_of, with_own_history
from tests.support.made_up_views import chain, ended, view

NOW = 40 * DAY_S


def test_uses_are_conditioned_on_elapsed_time() -> None:
    # Half of the jobs of this kind end after a tenth of their limit, half after nine tenths; this one has run for half.
    rows = [(1, 1, 10_000, 0, 0, used) for used in (1000, 9000) * 20]
    history = view(NOW, 2, 0, history=ended(*rows), chain=chain(NOW + DAY_S))
    uses = UseHistory(history).draw_from(np.array([1, 1]), np.array([10_000, 10_000]), np.array([0.0, 5000.0]))
    fresh, half_way = (set(uses.samples[a:b].tolist()) for a, b in uses.stretch)
    assert fresh == {0.1, 0.9}
    assert half_way == {0.9}


def test_a_job_longer_than_any_before_it_runs_to_its_limit() -> None:
    history = view(NOW, 2, 0, history=ended(*[(1, 1, 10_000, 0, 0, 1000)] * 64), chain=chain(NOW + DAY_S))
    uses = UseHistory(history).draw_from(np.array([1]), np.array([10_000]), np.array([5000.0]))
    (first, last) = uses.stretch[0]
    assert uses.samples[first:last].tolist() == [1.0]


def test_running_jobs_count_as_longer_than_so_far() -> None:
    everybody = np.full((2, LEVELS), 0.05)
    everybody[:, LEVELS // 2 :] = 0.95
    alone, with_running = with_own_history(everybody, [np.zeros(0)] * 2, [np.zeros(0), np.full(60, 0.5)])
    assert (alone > 0.5).mean() == pytest.approx(0.5, abs=0.02)
    assert (with_running > 0.5).mean() > 0.8


def test_one_s_own_habits_weigh_with_their_number() -> None:
    own = [np.zeros(0), np.full(10, 0.9), np.full(30, 0.9)]
    levels = with_own_history(np.full((3, LEVELS), 0.1), own, [np.zeros(0)] * 3)
    assert (levels > 0.5).mean(axis=1).tolist() == pytest.approx([0, 10 / 40, 30 / 60], abs=1 / LEVELS)


def spread(count: int) -> float:
    """Spread of a new user's uses after a number of other jobs ended, all after a tenth."""
    rows = [(1, 1, 10_000, 0, 0, 1000)] * count
    history = view(NOW, 2, 0, history=ended(*rows), chain=chain(NOW + DAY_S))
    low, high = np.quantile(UseHistory(history).of(np.array([2]), np.array([10_000]))[0], (0.05, 0.95))
    return float(high - low)


def test_a_handful_of_ended_jobs_leaves_open_the_duration_of_others() -> None:
    found = [spread(count) for count in (1, 5, 20, 40, 64, 200)]
    assert found[0] > found[1] > 0.6
    assert found == sorted(found, reverse=True)
    assert found[-2:] == [0.0, 0.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_levels_stand_for_the_distribution(uses: list[float]) -> None:
    levels = evenly(np.array(uses))
    assert len(levels) == LEVELS
    assert (np.diff(levels) >= 0).all()
    assert set(levels.tolist()) <= set(uses)
    for threshold in (0.25, 0.5, 0.75):
        assert (levels <= threshold).mean() == pytest.approx((np.array(uses) <= threshold).mean(), abs=1 / LEVELS)


def test_the_latest_jobs_of_a_kind_are_found_in_order_of_their_values() -> None:
    kind = np.arange(500) % 7
    values = np.random.default_rng(0).random(500)
    found = latest_of(np.array([3, 9, 0]), kind, values, 5)
    assert [each.tolist() for each in found] == [sorted(values[3::7][-5:]), [], sorted(values[0::7][-5:])]


@given(st.integers(0, 2**32), st.integers(1, 128))
def test_sums_are_to_the_bit_those_of_numpy(seed: int, n: int) -> None:
    values = np.random.default_rng(seed).random(n)
    assert add_up(values) == values.sum()


@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 20))
def test_a_user_s_own_uses_count_to_the_bit_as_numpy_adds_them_up(seed: int, ended: int, running: int) -> None:
    rng = np.random.default_rng(seed)
    everybody, own, reached = (np.sort(np.round(rng.random(n), rng.integers(1, 9))) for n in (LEVELS, ended, running))
    uses = np.concatenate([everybody, own])
    order = np.argsort(uses, kind="stable")
    uses = np.append(uses[order], 1.0)
    mass = np.append(np.append(np.full(LEVELS, PRIOR_SAMPLES / LEVELS), np.ones(ended))[order], 1e-6)
    for used in reached:
        longer = mass[np.searchsorted(uses, min(used, 0.999999), side="right") :]
        longer *= 1.0 + 1.0 / longer.sum()
    expected = uses[np.minimum(np.searchsorted(np.cumsum(mass) / mass.sum(), MIDDLES), len(uses) - 1)]
    assert with_own_history(everybody[None], [own], [reached])[0].tolist() == expected.tolist()
