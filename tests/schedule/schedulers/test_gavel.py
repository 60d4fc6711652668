"""Gavel's shares by hand, its priorities, and workloads on the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gavel import Gavel, by_priority, shares
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("slow", "slow", 2, 4), ServerGroup("fast", "fast", 1, 4, speed=3.0)))


def test_the_fast_type_goes_to_the_job_that_gains_most() -> None:
    # one GPU of each type; the second job is 10 times as fast on the second type, the first only twice
    share = shares(np.array([[1.0, 2.0], [1.0, 10.0]]), np.array([1, 1]), np.array([1, 1]), "max-sum")
    np.testing.assert_allclose(share, [[1, 0], [0, 1]])


def test_jobs_that_are_alike_share_alike() -> None:
    share = shares(np.full((4, 1), 2.0), np.array([1, 1, 1, 1]), np.array([1]), "max-sum")
    np.testing.assert_allclose(share, 0.25)


def test_a_wide_job_weighs_what_it_takes_in_the_sum_of_steps() -> None:
    # two GPUs: two single jobs make two steps, the wide one makes one
    share = shares(np.ones((3, 1)), np.array([2, 1, 1]), np.array([2]), "max-sum")
    np.testing.assert_allclose(share[:, 0], [0, 1, 1])


def test_max_min_serves_the_job_that_would_get_nothing() -> None:
    rate, gpus, capacity = np.array([[1.0], [10.0]]), np.array([1, 1]), np.array([1])
    np.testing.assert_allclose(shares(rate, gpus, capacity, "max-sum")[:, 0], [0, 1])
    np.testing.assert_allclose(shares(rate, gpus, capacity, "max-min")[:, 0], [0.5, 0.5], atol=1e-4)


def test_no_share_where_a_job_cannot_run() -> None:
    share = shares(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1, 1]), np.array([1, 1]), "max-min")
    np.testing.assert_allclose(share, [[0, 1], [1, 0]], atol=1e-4)


def test_a_round_goes_by_priority_and_fills_up_with_jobs_that_fit() -> None:
    priority = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    gpus, left, kind = np.array([4, 3, 2, 1]), np.array([4, 2]), np.array([-1, -1, -1, 1])
    starting = np.array([False, False, False, True])
    taken = by_priority(priority, priority, np.ones((4, 2), bool), gpus, left, kind, starting)
    # the second comes first and takes three of four; the first then fits nowhere; the last is starting and stays
    assert taken.tolist() == [-1, 0, -1, 1]
    assert left.tolist() == [1, 1]


@pytest.mark.parametrize("objective", ["max-sum", "max-min"])
def test_all_jobs_end_on_the_size_they_request(objective: str) -> None:
    rng = np.random.default_rng(4)
    jobs = GpuJobs.linear(rng.uniform(0, 4000, 30), rng.choice([1, 2, 3, 4, 6, 8], 30), rng.uniform(60, 4000, 30))
    scheduler = Gavel(objective)  # type: ignore[arg-type]
    log = GpuSimulation(CLUSTER, jobs, scheduler, strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    starts = log.segments["start_s"]
    np.testing.assert_allclose(starts % 360, 0, atol=1e-6)
    for k in range(len(log.segments)):
        assert sum(log.places(k).values()) == jobs.gpus[int(log.segments[k]["id"])]


def test_of_equal_priorities_the_larger_share_comes_first() -> None:
    priority, share = np.ones((2, 1)), np.array([[0.25], [0.75]])
    everywhere, neither = np.ones((2, 1), bool), np.zeros(2, bool)
    taken = by_priority(priority, share, everywhere, np.array([1, 1]), np.array([1]), np.array([-1, -1]), neither)
    assert taken.tolist() == [-1, 0]


def test_a_job_that_makes_room_for_a_larger_one_is_moved_for_that_reason() -> None:
    cluster = GpuCluster((ServerGroup("only", "only", 2, 2),))
    jobs = GpuJobs.linear([0.0, 500.0], [1, 2], [3000.0, 3000.0])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    moved = [row for row in log.segments if row["id"] == 0]
    assert len(moved) == 2
    assert "moved" in log.reasons


def test_the_time_given_by_a_kind_is_what_its_jobs_received() -> None:
    rng = np.random.default_rng(5)
    jobs = GpuJobs.linear(rng.uniform(0, 4000, 20), rng.choice([1, 2, 4, 6], 20), rng.uniform(60, 4000, 20))
    scheduler = Gavel()
    GpuSimulation(CLUSTER, jobs, scheduler, strict=True).run()
    assert scheduler._given_s.min() > 20 * 360 / 2, "both kinds have given rounds"
    np.testing.assert_allclose(scheduler._given_s, scheduler._received_s.sum(axis=0))


def test_a_job_of_one_gpu_stays_where_it_runs_when_an_earlier_server_becomes_free() -> None:
    cluster = GpuCluster((ServerGroup("only", "only", 2, 1),))
    jobs = GpuJobs.linear([0.0, 0.0], [1, 1], [300.0, 3000.0])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    assert log.segments["id"].tolist() == [0, 1]


def two_models(slowdown: tuple[float, float]) -> Speeds:
    """Two models on one GPU, a step of 0.1 s for 8 samples, each with its own slowdown."""
    return linear_speeds(np.ones(1))._replace(
        rows=np.zeros((2, 1, 1, 1), np.int64),
        knots=np.array([2]),
        local_batch=np.array([[1.0, 8.0]]),
        step_s=np.array([[0.1, 0.1]]),
        sync_s=np.zeros((1, 2)),
        row_max_local=np.array([8]),
        memory_max_local=np.full((2, 1, 1), 8),
        min_local=np.ones((2, 1), np.int64),
        max_local=np.full((2, 1), 8),
        one_gpu_rate=np.full((2, 1), 80.0),
        init_batch=np.array([8, 8]),
        max_batch=np.array([8, 8]),
        slowdown=np.array(slowdown),
        restart_s=np.zeros(2),
        epochs=np.array([1, 1]),
        epoch_end=np.full((2, 1), 6000.0),
        noise_knots=np.array([1, 1]),
        noise_batch=np.full((2, 1), 8.0),
        grad_sqr=np.ones((2, 1, 1)),
        grad_var=np.zeros((2, 1, 1)),
    )


@pytest.mark.parametrize("slow", [0, 1])
def test_the_rate_of_a_model_that_is_slowed_down_is_the_true_one(slow: int) -> None:
    """On one GPU the sum of steps is largest with the other model first.

    Both were measured alike. If they counted as alike they would share, and the slow one with a third of the work
    would end first.
    """
    linear = GpuJobs.linear([1.0, 1.0], [1, 1], [1.0, 1.0])
    jobs = replace(
        linear,
        model=np.array([0, 1]),
        models=("a", "b"),
        batch=np.array([8, 8]),
        work=np.where(np.arange(2) == slow, 2000.0, 6000.0),
        run_s=np.full(2, np.nan),
    )
    cluster = GpuCluster((ServerGroup("only", "only", 1, 1),))
    speeds = two_models((1.5, 1.0) if slow == 0 else (1.0, 1.5))
    log = GpuSimulation(cluster, jobs, Gavel(), speeds=speeds, strict=True).run()
    assert int(np.argmin(log.rows.due_s)) == 1 - slow


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max-sum and max-min"):
        Gavel("fair")  # type: ignore[arg-type]
