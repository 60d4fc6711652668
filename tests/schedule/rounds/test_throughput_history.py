"""The fit of the throughput model: gradient, minimum, and results of few measurements."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, approx_fprime, minimize
from threadpoolctl import threadpool_limits

from mirage.schedule.rounds import throughput_history as fitting
from mirage.schedule.rounds.configurations import JobColumns
from mirage.schedule.rounds.goodput import network_s, pass_s, step_s
from mirage.schedule.rounds.throughput_history import StepMeasurements, ThroughputHistory, fit, loss
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds
from tests.support.column_types import wrong_types
from tests.support.toy_profiles import CLUSTER, write_profiles

TRUE = np.array([0.05, 0.002, 0.3, 0.02, 0.08, 0.01, 1.7])


def _measured(
    places: list[tuple[int, int, int]], noise: float = 0.0, parameters: NDArray[np.float64] = TRUE
) -> StepMeasurements:
    rng = np.random.default_rng(3)
    servers, gpus, local = (np.array(column, dtype=np.int64) for column in zip(*places))
    passes = np.array([pass_s(parameters, m) for m in local]) * np.exp(noise * rng.normal(size=len(local)))
    steps = np.array([step_s(parameters, *place, 0) for place in places]) * np.exp(noise * rng.normal(size=len(local)))
    return StepMeasurements(servers, gpus, local, passes, np.maximum(steps, passes))


EVERYWHERE = [(1, 1, 32), (1, 1, 64), (1, 2, 32), (1, 4, 64), (1, 8, 128), (2, 8, 32), (2, 16, 64), (3, 24, 128)]


def _bounds(measured: StepMeasurements) -> tuple[NDArray[np.float64], Bounds]:
    """Start and bounds of the published fit, from the terms that are known."""
    low, high = np.full(7, 1e-8), np.full(7, np.inf)
    start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    low[6], high[6] = 1.0, 10.0
    if len(np.unique(measured.local_batch)) == 1:
        start[0] = low[0] = high[0] = measured.pass_s.mean() / 2
    unknown = {
        2: not (measured.servers > 1).any(),
        3: not ((measured.servers > 1).any() and (measured.gpus > 2).any()),
        4: not ((measured.servers == 1) & (measured.gpus > 1)).any(),
        5: not (((measured.servers == 1) & (measured.gpus > 1)).any() and (measured.gpus > 2).any()),
    }
    for k, fixed in unknown.items():
        if fixed:
            start[k] = high[k] = low[k]
    return start, Bounds(low, high)


def _loss(parameters: NDArray[np.float64], measured: StepMeasurements) -> tuple[float, NDArray[np.float64]]:
    slope = np.zeros(7)
    return loss(parameters, measured, 0, len(measured.gpus), slope), slope


def test_the_gradient_is_that_of_the_loss() -> None:
    measured = _measured(EVERYWHERE, noise=0.2)
    for seed in range(5):
        parameters = np.exp(np.random.default_rng(seed).normal(-2, 1, 7))
        parameters[6] = 1.0 + seed / 2
        numeric = approx_fprime(parameters, lambda x: _loss(x, measured)[0], 1e-8)
        np.testing.assert_allclose(_loss(parameters, measured)[1], numeric, rtol=1e-3, atol=1e-4)


def test_the_loss_by_hand() -> None:
    # one GPU, twice too slow a pass and step; no overlap, no growth but the two that stand at 1
    measured = StepMeasurements(*(np.array([k]) for k in (1, 1, 10)), *(np.array([0.5]) for _ in range(2)))
    found, _ = _loss(np.array([0.5, 0.05, 1.0, 1.0, 1.0, 1.0, 1.0]), measured)
    assert found == pytest.approx(2 * np.log(2) + 2e-2, rel=1e-6)


@pytest.mark.parametrize("places", [EVERYWHERE, EVERYWHERE[:2], EVERYWHERE[:5], EVERYWHERE[:3] + EVERYWHERE[5:]])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_fit_finds_the_minimum_that_l_bfgs_b_finds(places: list[tuple[int, int, int]], noise: float) -> None:
    measured = _measured(places, noise)
    start, bounds = _bounds(measured)
    options = {"ftol": 1e-14, "maxiter": 3000}
    with threadpool_limits(1):  # more threads only wait for each other
        best = minimize(_loss, start, (measured,), jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    ours = fit(measured)
    if not (measured.servers > 1).any():
        ours[2:4] = 1e-8  # raised after the fit, and fixed in it
    assert _loss(ours, measured)[0] <= best.fun + 1e-3


def test_times_without_noise_are_found_again() -> None:
    found = fit(_measured(EVERYWHERE))
    for place in [*EVERYWHERE, (1, 8, 32), (2, 16, 128)]:
        assert step_s(found, *place, 0) == pytest.approx(step_s(TRUE, *place, 0), rel=0.08)
    for local in (16, 256):
        assert pass_s(found, local) == pytest.approx(pass_s(TRUE, local), rel=0.05)


def test_what_was_not_measured_is_taken_for_free_or_a_little_worse_than_the_nearest() -> None:
    alone = fit(_measured([(1, 1, 32), (1, 1, 64)]))
    assert step_s(alone, 2, 16, 32, 0) == pytest.approx(pass_s(alone, 32), rel=1e-5)
    within = fit(_measured([(1, 1, 32), (1, 2, 64), (1, 4, 32)]))
    assert network_s(within, 2, 4) == pytest.approx(1.1 * network_s(within, 1, 4))


def test_a_single_batch_gives_half_of_its_time_to_growth() -> None:
    found = fit(_measured([(1, 1, 50)]))
    total_s = pass_s(TRUE, 50)
    assert found[0] == pytest.approx(total_s / 2, rel=1e-6)
    assert found[1] * 50 == pytest.approx(total_s / 2, rel=0.05)


def test_the_overlap_is_within_its_bounds() -> None:
    for overlap in (1.0, 10.0):
        found = fit(_measured(EVERYWHERE, parameters=np.array([*TRUE[:6], overlap])))
        assert 1.0 <= found[6] <= fitting.MOST_OVERLAP


def test_more_jobs_than_there_was_room_for_leave_the_data_of_earlier_jobs() -> None:
    history = ThroughputHistory(linear_speeds(np.ones(2)), types=2, jobs=300)
    first = history.rows(np.arange(60))
    for stored in history.known[1:]:
        stored[first] = (1 + np.arange(60)).reshape(-1, *[1] * (stored.ndim - 1))
    before = [stored[first].copy() for stored in history.known[1:]]
    rows = history.rows(np.arange(300))
    assert rows[:60].tolist() == first.tolist()
    assert len(set(rows.tolist())) == 300
    for stored, was in zip(history.known[1:], before):
        assert np.array_equal(stored[first], was)


def test_the_row_of_a_job_that_ended_is_used_again_and_is_empty_then() -> None:
    history = ThroughputHistory(linear_speeds(np.ones(2)), types=2, jobs=500)
    first = history.rows(np.array([0, 1]))
    size, known = len(history.known.square), history.known
    assert np.isnan(known.square[first]).all()
    known.measured[first[0]], known.most_gpus[first[0]], known.square[first[0]] = 3, 8, 2.0
    versions = known.version.copy(), known.noted.copy()
    assert history.rows(np.array([0, 1])).tolist() == first.tolist()
    after = history.rows(np.array([1, 2]))
    assert after.tolist() == [first[1], first[0]]
    assert (known.measured[first[0]].tolist(), known.most_gpus[first[0]]) == ([0, 0], 0)
    assert np.isnan(known.square[first[0]])
    changed = [int((column != before).sum()) for column, before in zip((known.version, known.noted), versions)]
    assert changed == [1, 1]
    assert (known.version >= versions[0]).all()
    assert (known.noted >= versions[1]).all()
    for job in range(3, 500):
        history.rows(np.array([1, job]))
    assert len(history.known.square) == size, "there was room"
    assert wrong_types(known) == {}


def test_a_job_that_ends_as_another_begins_gives_it_its_row() -> None:
    history = ThroughputHistory(linear_speeds(np.ones(1)), types=1, jobs=4)
    rows = history.rows(np.array([0, 1]))
    assert history.rows(np.array([1, 3])).tolist() == [rows[1], rows[0]]
    assert len(set(history.rows(np.array([0, 1, 3])).tolist())) == 3


@pytest.fixture
def toy(tmp_path: Path) -> Speeds:
    return read_profiles(write_profiles(tmp_path), CLUSTER).speeds


def observe(history: ThroughputHistory, running: dict[int, float], waiting: tuple[int, ...] = (), gpus: int = 1) -> Any:
    """Observe jobs by their progress, on the slow type; returns the rows of all."""
    ids = np.array([*running, *waiting])
    columns = {name: np.zeros(len(ids), np.int64) for name in ("model", "gpu_type")}
    jobs: Any = SimpleNamespace(
        **columns, servers=np.ones(len(ids), np.int64), held=np.full(len(ids), gpus),
        batch=np.full(len(ids), 10 * gpus), progress=np.array([*running.values(), *(0.0 for _ in waiting)]),
    )  # fmt: skip
    rows = history.rows(ids)
    history.observe(jobs, rows, np.arange(len(running)))
    return rows


def test_what_a_running_job_measures(toy: Speeds) -> None:
    history = ThroughputHistory(toy, types=2, jobs=2)
    rows = observe(history, {0: 0.0}, (1,))
    known, room = history.known, len(history.known.points.gpus) // history.known.measured.size
    first = int(rows[0]) * 2 * room
    assert [column[first] for column in known.points] == [1, 1, 10, 1.0, 1.0]
    assert known.measured[rows].tolist() == [[1, 0], [0, 0]]
    assert known.most_gpus[rows].tolist() == [1, 0]
    assert known.square[rows[0]] == 1
    assert known.variance[rows[0]] == 3
    version, noted = known.version[rows[0]], known.noted[rows[0]]
    observe(history, {0: 50.0}, (1,))
    assert (known.version[rows[0]], known.noted[rows[0]]) == (version, noted), "the same point, in the same epoch"
    observe(history, {0: 150.0}, (1,))
    assert known.variance[rows[0]] == 9
    assert (known.version[rows[0]], known.noted[rows[0]]) == (version, noted + 1)
    observe(history, {0: 150.0}, (1,), gpus=2)
    assert [column[first + 1] for column in known.points] == pytest.approx([1, 2, 10, 1.0, 1.2])
    assert (known.measured[rows[0], 0], known.most_gpus[rows[0]]) == (2, 2)
    assert known.version[rows[0]] == version + 1


def test_points_of_a_job_grow_beyond_the_room_for_them(toy: Speeds) -> None:
    """Servers, GPUs and local batch make a point; at first there is room for 32."""
    history = ThroughputHistory(toy, types=2, jobs=2)
    other, row = observe(history, {0: 0.0}, (1,)).tolist()
    points = set()
    for servers, gpus, locals_ in (
        (1, 1, (10, 20)),
        (1, 2, range(10, 21)),
        (2, 2, range(10, 21)),
        (2, 3, range(10, 14)),
    ):
        for local in locals_:
            jobs: Any = SimpleNamespace(
                model=np.zeros(2, np.int64), gpu_type=np.ones(2, np.int64), servers=np.full(2, servers),
                held=np.full(2, gpus), batch=np.full(2, local * gpus * (2 if gpus == 1 else 1)), progress=np.zeros(2),
            )  # fmt: skip
            history.observe(jobs, history.rows(np.arange(2)), np.array([1]))
            points.add((servers, gpus, local))
    for gpus, local in ((4, 10), (5, 8), (6, 6), (7, 5), (8, 5), (9, 4)):
        jobs.servers, jobs.held, jobs.batch = np.full(2, 1), np.full(2, gpus), np.full(2, local * gpus)
        history.observe(jobs, history.rows(np.arange(2)), np.array([1]))
        points.add((1, gpus, local))
    known = history.known
    room = len(known.points.gpus) // known.measured.size
    first = (row * 2 + 1) * room
    found = list(zip(*(column[first : first + known.measured[row, 1]].tolist() for column in known.points[:3])))
    assert len(found) == len(set(found)) > 32
    assert set(found) == points
    assert known.measured[other].tolist() == [1, 0]
    assert [column[other * 2 * room] for column in known.points] == [1, 1, 10, 1.0, 1.0]


def test_jobs_of_a_model_share_their_step_times_if_they_may(toy: Speeds) -> None:
    shared, own = (ThroughputHistory(toy, types=2, jobs=3, shared_models=models) for models in (1, 0))
    for history, alike in ((shared, True), (own, False)):
        rows = observe(history, {0: 0.0, 1: 0.0}, (2,))
        learnt = history.learnt(rows, np.zeros(3, np.int64))
        assert (len(set(learnt.tolist())) == 1) is alike
        assert set(learnt.tolist()).isdisjoint(rows.tolist()) is alike
        assert history.known.measured[learnt, 0].tolist() == [1, 1, 1 if alike else 0]


def test_the_usual_noise_is_that_of_the_job_observed_earliest_in_its_life(toy: Speeds) -> None:
    """The variance is 9 in the second epoch, from 100 on, and 3 in the first."""
    history = ThroughputHistory(toy, types=2, jobs=6, shared_models=1)

    def variance(running: dict[int, float], new: int) -> float:
        return float(history.known.variance[observe(history, running, (new,))[-1]])

    assert variance({0: 150.0}, 1) == 9
    assert variance({0: 160.0, 2: 20.0}, 3) == 3
    assert variance({0: 170.0, 2: 120.0}, 4) == 3
    rows = observe(history, {0: 170.0, 2: 120.0}, (4,))
    assert history.known.variance[rows].tolist() == [9, 9, 3]


def test_new_jobs_have_the_usual_noise_of_their_model_and_it_counts_as_a_change() -> None:
    history = ThroughputHistory(linear_speeds(np.ones(1)), types=1, jobs=2, shared_models=2)
    rows, known = history.rows(np.arange(2)), history.known
    usual = history.learnt(rows, np.arange(2))
    known.square[usual], known.variance[usual] = (2.0, 3.0), (4.0, 5.0)
    noted = known.noted[rows].copy()
    jobs = SimpleNamespace(**{name: np.zeros(2, np.int64) for name in ("gpu_type", "servers", "held", "batch")})
    jobs.model, jobs.progress = np.array([1, 0]), np.zeros(2)
    history.observe(cast(JobColumns, jobs), rows, np.zeros(0, np.int64))
    assert known.square[rows].tolist() == [3.0, 2.0]
    assert known.variance[rows].tolist() == [5.0, 4.0]
    assert (known.noted[rows] > noted).all()
