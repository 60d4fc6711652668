"""The fit of the throughput model: gradient, minimum, and results of few measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, approx_fprime, minimize
from threadpoolctl import threadpool_limits

from mirage.schedule.rounds import throughput_history as fitting
from mirage.schedule.rounds.configurations import JobColumns
from mirage.schedule.rounds.goodput import network_s, pass_s, step_s
from mirage.schedule.rounds.throughput_history import StepMeasurements, ThroughputHistory, fit, loss
from mirage.schedule.speeds.speed_arrays import linear_speeds

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
