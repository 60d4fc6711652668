"""Uses of the limit, from what ended and what runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.forecast.own_history_kernel import add_up
from mirage.forecast.use_history import (
    LEVELS,
    MIDDLES,
    PRIOR_SAMPLES,
    HistoryRunTimes,
    UseHistory,
    evenly,
    filled_up,
    kind_of,
    latest_of,
    like_limit,
    use_of_limit,
    with_own_history,
)
from mirage.predict.survival import survival_quantiles
from tests.support.made_up_views import chain, ended, jobs, view

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


def test_running_jobs_of_different_ages_give_the_kaplan_meier_estimate() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        everybody, own, reached = (np.sort(rng.random(n)) for n in (LEVELS, rng.integers(0, 9), rng.integers(1, 19)))
        uses = np.concatenate([everybody, own, [1.0], reached])
        weights = np.concatenate([np.full(LEVELS, PRIOR_SAMPLES / LEVELS), np.ones(len(own)), [1e-6], reached**0])
        runs = np.arange(len(uses)) >= len(uses) - len(reached)
        expected = survival_quantiles(uses, runs, weights, MIDDLES)
        assert with_own_history(everybody[None], [own], [reached])[0].tolist() == expected.tolist()


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
    for used in reached[::-1]:
        longer = mass[np.searchsorted(uses, min(used, 0.999999), side="right") :]
        longer *= 1.0 + 1.0 / longer.sum()
    expected = uses[np.minimum(np.searchsorted(np.cumsum(mass) / mass.sum(), MIDDLES), len(uses) - 1)]
    assert with_own_history(everybody[None], [own], [reached])[0].tolist() == expected.tolist()


def test_uses_are_shares_of_the_limit_in_order_of_their_end() -> None:
    rows = [(1, 1, 100, 0, 10, 35), (1, 1, 200, 0, 0, 500), (2, 1, 0, 0, 5, 5), (2, 1, 400, 0, 30, 20)]
    assert use_of_limit(view(NOW, 2, 0, history=ended(*rows))).tolist() == [0.25, 1.0, 0.0, 0.0]


def test_limits_of_one_class_are_similar() -> None:
    hours = [0.5, 1, 1.9, 2, 5.9, 6, 11, 12, 23, 24, 47, 47.9, 48, 300]
    classes = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6]
    assert like_limit((np.array(hours) * HOUR_S).astype(np.int64)).tolist() == classes


def test_a_user_and_a_limit_are_one_kind() -> None:
    users, limits_s = np.array([0, 1, 1, 2]), np.array([UNLIMITED_S, 0, UNLIMITED_S, 5])
    assert len(set(kind_of(users, limits_s).tolist())) == 4
    assert kind_of(np.array([3, 3]), np.array([60, 60])).tolist() == [kind_of(np.array([3]), np.array([60]))[0]] * 2


def test_weights_count_as_numbers_of_values() -> None:
    uses, often = np.array([0.9, 0.1, 0.5]), np.array([1.0, 4.0, 3.0])
    repeated = np.repeat(uses, often.astype(int))
    assert evenly(uses, often).tolist() == evenly(repeated).tolist()
    assert [int((evenly(uses, often) == use).sum()) for use in (0.1, 0.5, 0.9)] == [32, 24, 8]
    assert evenly(uses, np.array([0.0, 0.0, 2.0])).tolist() == [0.5] * LEVELS


def test_a_wider_kind_weighs_as_thirty_jobs_and_less_the_more_have_ended() -> None:
    wider = np.full(LEVELS, 0.9)
    shares = [float((filled_up(np.full(count, 0.2), wider) == 0.9).mean()) for count in (1, 32, 48, 64)]
    weights = [PRIOR_SAMPLES * (1 - count / 64) for count in (1, 32, 48, 64)]
    assert shares == pytest.approx([w / (w + n) for w, n in zip(weights, (1, 32, 48, 64))], abs=1 / LEVELS)


def test_jobs_of_a_similar_limit_predict_a_new_user_s_and_all_others_do_where_there_are_none() -> None:
    short = [(1, 1, 1800, 0, 0, 180)] * 64
    long = [(2, 1, 10 * HOUR_S, 0, 0, 8 * HOUR_S)] * 64
    history = UseHistory(view(NOW, 2, 0, history=ended(*short, *long), chain=chain(NOW + DAY_S)))
    found = history.of(np.array([9, 9, 9, 9]), np.array([1700, 9 * HOUR_S, 1700, 30 * HOUR_S]))
    assert [set(levels.tolist()) for levels in found[:3]] == [{0.1}, {0.8}, {0.1}]
    assert set(found[3].tolist()) == {0.1, 0.8}, "no job of a similar limit has ended"
    assert UseHistory(view(NOW, 2, 0)).of(np.array([9]), np.array([60])).tolist() == [[1.0] * LEVELS]


def test_running_jobs_of_the_same_kind_count_and_those_of_another_limit_do_not() -> None:
    """A new job's uses, where ten of the user's jobs have run for nine tenths of the limit."""
    everybody = [(1, 1, 1000, 0, 0, 50 + 10 * (k % 90)) for k in range(640)]

    def late_share(limit_s: int) -> float:
        running = jobs(*({"user": 5, "limit_s": limit_s, "start_s": NOW - 900, "width": 1} for _ in range(10)))
        observed = view(NOW, 20, 0, running=running, history=ended(*everybody))
        return float((UseHistory(observed).of(np.array([5]), np.array([1000]))[0] > 0.9).mean())

    assert late_share(1000) > late_share(1001) + 0.2
    assert late_share(1001) == pytest.approx(0.05, abs=0.04)


def test_uses_of_a_view_are_of_the_pending_then_the_running_jobs_after_their_elapsed_time() -> None:
    rows = [(1, 1, 1000, 0, 0, 100 * (1 + k % 10)) for k in range(640)]
    pending = jobs({"limit_s": 1000}, {"limit_s": 1000, "done_s": 350.0}, {"limit_s": 1000, "done_s": 1000.0})
    running = jobs({"limit_s": 1000, "start_s": NOW - 750, "width": 1, "submit_s": NOW - 800})
    observed = view(NOW, 9, 8, pending=pending, running=running, history=ended(*rows))
    found = HistoryRunTimes().uses(observed)
    fresh, resumed, spent, late = (found.samples[first:last] for first, last in found.stretch.tolist())
    assert (fresh.min(), fresh.max(), len(fresh)) == (0.1, 1.0, LEVELS)
    assert resumed.min() == 0.4
    assert spent.tolist() == [1.0], "it has reached its limit"
    assert late.min() == 0.8
    assert HistoryRunTimes().uses(view(NOW, 9, 9, history=ended(*rows))).stretch.shape == (0, 2)
