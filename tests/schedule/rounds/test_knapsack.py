"""The choice of configurations against HiGHS, on rounds as schedulers have them."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.schedule.rounds.highs import (
    INFEASIBLE,
    OPTIMAL,
    OUT_OF_ITERATIONS,
    OUT_OF_TIME,
    UNBOUNDED,
    Solution,
    minimise,
    minimise_linear,
)
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


def test_a_large_round_without_a_solution_is_that_of_the_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one in which the solution gives less is, too."""
    gpus = np.tile(np.concatenate([[1, 2, 4], 8 * np.arange(1, 9)]), 3)
    kind, capacity = np.repeat([0, 1, 2], 11), np.array([200, 160, 240])
    for seed in range(4):
        value = _round(np.random.default_rng(seed), 150, gpus, kind)
        solved = choose(value, gpus, kind, capacity, tolerance=1e-9)
        found = {}
        for status, empty in ((OUT_OF_ITERATIONS, False), (ROUNDED, True)):
            with monkeypatch.context() as patch:
                patch.setattr(
                    "mirage.schedule.rounds.knapsack.minimise_linear",
                    lambda cost, *_, empty=empty, **__: Solution(
                        np.zeros(len(cost)) if empty else None, np.nan, np.nan, OUT_OF_ITERATIONS
                    ),
                )
                found[status] = choose(value, gpus, kind, capacity, tolerance=1e-9)
            assert found[status].status == status
            held = np.flatnonzero(found[status].configuration != NONE)
            at = found[status].configuration[held]
            assert value[held, at].sum() == pytest.approx(found[status].value)
            assert (np.bincount(kind[at], gpus[at], 3) <= capacity).all()
        assert solved.status == ROUNDED
        assert found[OUT_OF_ITERATIONS].value <= found[ROUNDED].value <= solved.bound
        assert found[OUT_OF_ITERATIONS].value <= solved.value <= solved.bound == found[ROUNDED].bound


def test_the_program_permits_what_a_choice_may_be_and_has_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one option per job, and no more GPUs of a type than it has."""
    got: list[Any] = []

    def solve(cost: Any, rows: Any, limits: Any) -> Solution:
        got.append((cost, rows.toarray(), limits))
        return Solution(None, np.nan, np.nan, OUT_OF_ITERATIONS)

    monkeypatch.setattr("mirage.schedule.rounds.knapsack.minimise_linear", solve)
    # three GPUs of the first type, for pairs or one each; the second type is large, so that there are many states
    value = np.array([[0.41, 0.91, 0.1], [0.4, 0.9, -1.0], [-1.0, -1.0, 0.3]])
    gpus, kind, capacity = np.array([1, 2, 1]), np.array([0, 0, 1]), np.array([3, 100_000])
    choose(value, gpus, kind, capacity, tolerance=0.0)
    ((cost, rows, limits),) = got
    option = {-float(value[at]): at for at in zip(*np.nonzero(value > 0))}
    assert sorted(cost) == sorted(option)
    for taken in product((False, True), repeat=len(cost)):
        chosen = [option[one] for one, is_taken in zip(cost, taken) if is_taken]
        used = np.bincount(kind[[c for _, c in chosen]], gpus[[c for _, c in chosen]], 2) if chosen else np.zeros(2)
        may_be = len({job for job, _ in chosen}) == len(chosen) and (used <= capacity).all()
        assert (rows @ np.array(taken) <= limits).all() == may_be, chosen


def test_arrays_of_any_layout_and_type_will_do() -> None:
    value = _round(np.random.default_rng(3), 12, GPUS, KIND)
    expected = choose(value, GPUS, KIND, CAPACITY)
    narrow = [array.astype(np.int32) for array in (GPUS, KIND, CAPACITY)]
    found = choose(np.asfortranarray(value), *narrow)
    assert found.configuration.tolist() == expected.configuration.tolist()
    assert (found.value, found.bound) == (expected.value, expected.bound)
    assert (found.configuration.dtype, type(found.value), type(found.bound)) == (np.int64, float, float)


def test_a_choice_within_the_tolerance_of_the_bound_is_good_enough() -> None:
    # three GPUs: by the prices 1.35 is the bound, as a share of the pair counts; by whole jobs 1.3 is the most
    value, gpus, kind, capacity = np.array([[0.4, 0.9], [0.4, 0.9]]), np.array([1, 2]), np.zeros(2, int), np.array([3])
    exact = choose(value, gpus, kind, capacity, tolerance=0.0)
    assert (exact.value, exact.status) == (pytest.approx(1.3), OPTIMAL)
    assert exact.bound == pytest.approx(1.35, abs=1e-3)
    for tolerance in (0.04, 0.06):
        assert choose(value, gpus, kind, capacity, tolerance).value == pytest.approx(1.3)


def test_a_solution_by_hand() -> None:
    # 3x + 2y ≤ 4 with the largest 2x + y: whole numbers give (1, 0), halves (1, 1/2)
    whole = minimise([-2, -1], np.array([[3, 2]]), [4])
    assert (whole.x.tolist(), whole.value, whole.status) == ([1, 0], -2, OPTIMAL)
    assert whole.bound == pytest.approx(-2)
    parts = minimise_linear([-2, -1], np.array([[3, 2]]), [4])
    assert (parts.x.tolist(), parts.value, parts.bound, parts.status) == ([1, 0.5], -2.5, -2.5, OPTIMAL)
    wider = minimise_linear([-2, -1], np.array([[3, 2]]), [4], upper=[0.5, np.inf])
    assert (wider.x.tolist(), wider.value) == ([0.5, 1.25], -2.25)
    twice = minimise([-2, -1], np.array([[3, 2]]), [5], upper=[1, 2])
    assert (twice.x.tolist(), twice.value) == ([1, 1], -3)
    least = minimise([2, 1], np.array([[3, 2]]), [4], row_least=[1])
    assert (least.x.tolist(), least.value) == ([0, 1], 1)
    assert minimise([2, 1], np.array([[3, 2]]), [4]).x.tolist() == [0, 0], "rows have no least value by default"


def test_without_a_solution_there_is_neither_value_nor_bound() -> None:
    for solve in (minimise, minimise_linear):
        none = solve([1.0], np.array([[1.0]]), [-1.0])
        assert (none.x, none.status) == (None, INFEASIBLE)
        assert np.isnan([none.value, none.bound]).all()
    assert minimise_linear([-1.0], np.array([[0.0]]), [1.0], upper=[np.inf]).status == UNBOUNDED


def test_a_linear_program_is_limited_in_iterations_not_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a time limit of 0.01 s, 91 of these jobs had another size."""
    gpus, kind = np.tile(np.concatenate([[1, 2, 4], 8 * np.arange(1, 9)]), 3), np.repeat([0, 1, 2], 11)
    value, capacity = _round(np.random.default_rng(1), 400, gpus, kind), np.array([800, 440, 420])
    programs: list[Any] = []
    limits: list[Any] = []
    linprog = scipy.optimize.linprog

    def solve(*program: Any) -> Solution:
        programs.append(program)
        return minimise_linear(*program)

    def limited(*args: Any, options: Any, **others: Any) -> Any:
        limits.append(options)
        return linprog(*args, options=options, **others)

    monkeypatch.setattr("mirage.schedule.rounds.knapsack.minimise_linear", solve)
    monkeypatch.setattr("scipy.optimize.linprog", limited)
    assert choose(value, gpus, kind, capacity, tolerance=1e-9).status == ROUNDED
    (program,) = programs
    cut = minimise_linear(*program, iterations=300)
    assert (cut.x, cut.status) == (None, OUT_OF_ITERATIONS)
    assert limits == [{"maxiter": 50_000}, {"maxiter": 300}], "a busy machine changes no plan"


def test_a_solver_that_is_absent_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    for solve in (minimise, minimise_linear):
        with pytest.raises(ConfigurationError, match=re.escape(f"this scheduler needs scipy: {install('schedule')}")):
            solve([1.0], np.array([[1.0]]), [1.0])


def test_standard_output_works_again_after_an_integer_program(capfd: pytest.CaptureFixture[str]) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        minimise([-1.0], np.array([[1.0]]), [1.0])
    print("still here", flush=True)
    assert capfd.readouterr() == ("still here\n", "")
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_highs_is_silent_and_returns_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(105)
    talkative = _round(rng, int(rng.integers(15, 60)), GPUS, KIND)  # HiGHS 1.12 writes two lines
    assert _by_highs(talkative, GPUS, KIND, CAPACITY).status == OPTIMAL
    ctypes.CDLL(None).fflush(None)
    assert minimise([1.0], np.array([[1.0]]), [-1.0]).status == INFEASIBLE
    hard = minimise(-rng.uniform(1, 2, 200), rng.integers(1, 1000, (20, 200)), np.full(20, 9999), limit_s=0.05, gap=0.0)
    assert hard.status == OUT_OF_TIME
    assert capfd.readouterr() == ("", "")
