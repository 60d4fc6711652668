import numpy as np
import pytest

from mirage.duration import HOUR_S
from mirage.learn.reinforcement.hand_over_environment import (
    SUBMIT,
    WAIT,
    HandOverEnv,
    cost_h,
    last_rows,
    play,
    some_windows,
)
from mirage.policy.cost import Cost
from tests.support import small_environment

ROWS = small_environment.STEPS + 1


@pytest.fixture(scope="module")
def data():
    return small_environment.sampled(9)


def test_waiting_leads_to_the_next_row_and_submitting_costs_the_outcome(data):
    env = HandOverEnv(data, 4, np.random.default_rng(0), anywhere=False)
    rows, shares = env.rows.copy(), env.shares.copy()
    assert (rows % ROWS == 0).all()
    waited = env.step(np.full(4, WAIT))
    assert (waited.rewards.tolist(), waited.ended.any()) == ([0] * 4, False)
    assert (env.rows == rows + 1).all()
    submitted = env.step(np.full(4, SUBMIT))
    assert submitted.ended.all()
    assert submitted.rewards.tolist() == (-cost_h(data.outcome_s[rows + 1], shares)).tolist()


def test_at_the_end_of_a_link_waiting_is_no_action(data):
    env = HandOverEnv(data, 3, np.random.default_rng(0), anywhere=False)
    for _ in range(small_environment.STEPS):
        assert env.allowed().all()
        assert not env.step(np.full(3, WAIT)).ended.any()
    assert env.allowed().tolist() == [[False, True]] * 3
    last, shares = env.rows.copy(), env.shares.copy()
    ended = env.step(np.full(3, WAIT))
    assert ended.ended.all()
    assert ended.rewards.tolist() == (-cost_h(data.outcome_s[last], shares)).tolist()


def test_costs_are_on_the_scale_of_the_contract(data):
    found = cost_h(data.outcome_s, 0.75)
    np.testing.assert_allclose(found, Cost(3, 1).of(data.outcome_s.astype(float)) / 2)


def test_windows_are_played_to_their_first_submission_or_their_end(data):
    never = play(data, np.zeros(len(data), dtype=bool), 0.5)
    ends = np.arange(1, 10) * ROWS - 1
    assert never.cost_h == never.reactive_h == pytest.approx(np.abs(data.outcome_s[ends]).mean() / HOUR_S)
    assert never.closed == 0
    best = np.zeros(len(data), dtype=bool)
    cost = cost_h(data.outcome_s, 0.5).reshape(9, ROWS)
    best[np.arange(9) * ROWS + cost.argmin(axis=1)] = True
    assert play(data, best, 0.5).closed == pytest.approx(1)
    best[ends] = True  # what comes after the first does not count
    assert play(data, best, 0.5).cost_h == pytest.approx(cost.min(axis=1).mean())


def test_some_windows_retain_their_ends(data):
    found = some_windows(data, 20, 5)
    assert len(found) <= 20
    edges = found.windows()
    assert (found.remaining_s[edges[1:] - 1] == 0).all()
    assert set(np.diff(edges)) == {3}
    assert len(some_windows(data, 10_000, 1)) == len(data)
    assert (last_rows(data) == np.repeat(np.arange(1, 10) * ROWS - 1, ROWS)).all()


def test_the_best_decisions_are_no_worse_than_any_change_of_one():
    for share in (0.25, 0.75):
        best = small_environment.best_decisions(share)
        cost = small_environment.cost_of(best, share)
        for state in np.ndindex(best.shape):
            other = best.copy()
            other[state] ^= True
            assert small_environment.cost_of(other, share) >= cost - 1e-12
