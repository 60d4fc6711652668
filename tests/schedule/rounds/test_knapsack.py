"""The choice of configurations against HiGHS, on rounds as schedulers have them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mirage.schedule.rounds.highs import INFEASIBLE, OPTIMAL, OUT_OF_TIME, Solution, minimise
from mirage.schedule.rounds.knapsack import NONE, ROUNDED, choose

GPUS = np.array([1, 2, 4, 8, 12, 16, 20, 24, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 24])
KIND = np.repeat([0, 1, 2], [8, 5, 6])
CAPACITY = np.array([24, 16, 24])


def _round(
    rng: np.random.Generator, jobs: int, gpus: NDArray[np.int64], kind: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values as Sia has them: some jobs grow to a limit, some know nothing yet."""
    speed = rng.uniform(1, 10, (jobs, 3))
    goodput = (speed / speed.min(axis=1, keepdims=True))[:, kind] * gpus ** rng.uniform(0.4, 1, (jobs, 1))
    cost = np.round(goodput**-0.5 * rng.choice([1, 1.05, 1.2], goodput.shape), 2)
    cost[gpus > 2 * rng.choice([1, 2, 4, 8], (jobs, 1))] = 100.0
    blind = rng.random(jobs) < 0.3
    cost[blind] = np.where(gpus == 1, 1.0, 100.0)
    return 1.1 - cost


def _by_highs(
    value: NDArray[np.float64], gpus: NDArray[np.int64], kind: NDArray[np.int64], capacity: NDArray[np.int64]
) -> Solution:
    jobs, n = value.shape
    each = csr_array(np.repeat(np.eye(jobs), n, axis=1))
    types = csr_array(np.array([np.tile(gpus * (kind == k), jobs) for k in range(len(capacity))]))
    return minimise(-value.ravel(), vstack([each, types]), np.concatenate([np.ones(jobs), capacity]), gap=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = _round(rng, int(rng.integers(1, 40)), GPUS, KIND)
    found = choose(value, GPUS, KIND, CAPACITY, tolerance=0.0099)
    held = np.flatnonzero(found.configuration != NONE)
    at = found.configuration[held]
    assert (np.bincount(KIND[at], GPUS[at], 3) <= CAPACITY).all()
    assert value[held, at].sum() == pytest.approx(found.value)
    best = -_by_highs(value, GPUS, KIND, CAPACITY).value
    assert found.status == OPTIMAL
    assert best - 0.0099 <= found.value <= best + 1e-9
    assert best <= found.bound + 1e-9


def test_by_hand() -> None:
    # two GPUs: the pair is worth more to the second job than one each, the first gets nothing
    value = np.array([[0.5, 0.6], [0.4, 1.0]])
    found = choose(value, np.array([1, 2]), np.array([0, 0]), np.array([2]))
    assert found.configuration.tolist() == [NONE, 1]
    assert found.value == pytest.approx(1.0)
    # with a third GPU both are served
    assert choose(value, np.array([1, 2]), np.array([0, 0]), np.array([3])).configuration.tolist() == [0, 1]


def test_what_is_worth_nothing_is_not_chosen() -> None:
    found = choose(np.array([[-1.0, 0.0]]), np.array([1, 2]), np.array([0, 0]), np.array([8]))
    assert found.configuration.tolist() == [NONE]
    none = choose(np.zeros((0, 2)), np.array([1, 2]), np.array([0, 0]), np.array([8]))
    assert (len(none.configuration), none.configuration.dtype, none.value, none.bound) == (0, np.int64, 0.0, 0.0)
    assert none.status == OPTIMAL


def test_a_large_round_is_rounded_and_knows_how_far_it_may_be_off() -> None:
    gpus = np.tile(np.concatenate([[1, 2, 4], 8 * np.arange(1, 9)]), 3)
    kind, capacity = np.repeat([0, 1, 2], 11), np.array([200, 160, 240])
    value = _round(np.random.default_rng(5), 150, gpus, kind)
    found = choose(value, gpus, kind, capacity, tolerance=1e-6)
    taken = found.configuration[found.configuration >= 0]
    assert (np.bincount(kind[taken], gpus[taken], 3) <= capacity).all()
    assert found.status in (OPTIMAL, ROUNDED)
    assert found.bound * 0.99 <= found.value <= found.bound + 1e-9


def test_highs_is_silent_and_returns_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(105)
    talkative = _round(rng, int(rng.integers(15, 60)), GPUS, KIND)  # HiGHS 1.12 writes two lines
    assert _by_highs(talkative, GPUS, KIND, CAPACITY).status == OPTIMAL
    ctypes.CDLL(None).fflush(None)
    assert minimise([1.0], np.array([[1.0]]), [-1.0]).status == INFEASIBLE
    hard = minimise(-rng.uniform(1, 2, 200), rng.integers(1, 1000, (20, 200)), np.full(20, 9999), limit_s=0.05, gap=0.0)
    assert hard.status == OUT_OF_TIME
    assert capfd.readouterr() == ("", "")
