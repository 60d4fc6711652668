"""QBETS against the numbers of its definition."""

import math

import numpy as np
import pytest

from mirage.provision.policies.lead_rules import binomial_rank
from qbets import Qbets


def test_59_waits_are_the_fewest_for_the_95th_percentile_with_95_percent():
    assert binomial_rank(58, 0.95, 0.95) is None
    assert binomial_rank(59, 0.95, 0.95) == 59


@pytest.mark.parametrize("n", [59, 100, 1000, 20_000])
def test_the_rank_is_the_smallest_with_the_confidence(n):
    rank = binomial_rank(n, 0.95, 0.95)
    terms = [
        math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) + j * math.log(0.95) + (n - j) * math.log(0.05)
        for j in range(n)
    ]
    below = np.cumsum(np.exp(terms))
    assert below[rank - 1] >= 0.95 - 1e-9
    assert below[rank - 2] < 0.95


def test_the_bound_is_above_the_quantile_as_often_as_it_promises():
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(200):
        queue = Qbets(0.9, 0.95)
        queue.history = rng.exponential(size=150).tolist()
        above += queue.bound() >= -math.log(0.1)
    assert 0.91 <= above / 200 <= 1.0


def test_too_few_waits_promise_nothing():
    queue = Qbets()
    queue.learn(np.ones(58))
    assert queue.bound() == math.inf
    queue.learn(np.ones(1))
    assert queue.bound() == 1.0


def test_a_row_of_long_waits_shows_that_the_queue_has_changed():
    queue = Qbets()
    queue.learn(np.linspace(0.9, 1.1, 2000))
    queue.learn(np.full(2, 50.0))
    assert len(queue.history) == 2002
    queue.learn(np.full(60, 50.0))
    assert len(queue.history) < 200
    assert queue.bound() == 50.0
