"""SRTF on GPUs with speeds other than 1, by hand."""

from __future__ import annotations

import pytest

from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs


def _stretches(cluster: GpuCluster, jobs: GpuJobs) -> list[tuple[int, float, float]]:
    log = GpuSimulation(cluster, jobs, make_scheduler("srtf"), strict=True).run()
    return [(int(s.id), float(s.start_s), float(s.end_s)) for s in log.segments]


def test_slow_gpus_by_hand() -> None:
    """After 700 s job 0 has 930 of its 1,000 s left: job 1 needs 500 and goes first."""
    cluster = GpuCluster((ServerGroup("only", "slow", 1, 1, speed=0.1),))
    jobs = GpuJobs.linear([0, 700], [1, 1], [1000, 500])
    assert _stretches(cluster, jobs) == [(0, 0, 700), (1, 700, 5700), (0, 5700, pytest.approx(15000, abs=0.01))]


def test_two_speeds_by_hand() -> None:
    """Job 0 runs on the fast GPUs, 1 on the slow one; at 100 they have 250 and 290 s left.

    Job 2 needs 280 s: it takes the slow GPU, and job 1 the fast ones when job 0 is done.
    """
    cluster = GpuCluster((ServerGroup("a", "fast", 1, 1), ServerGroup("b", "slow", 1, 1, speed=0.1)))
    jobs = GpuJobs.linear([0, 1, 100], [1, 1, 1], [350, 299.9, 280])
    found = _stretches(cluster, jobs)
    assert found[:4] == [
        (0, 0, 350),
        (1, 1, 100),
        (2, 100, pytest.approx(2900)),
        (1, 350, pytest.approx(640, abs=0.01)),
    ]


def test_a_job_that_passes_its_prediction_is_expected_to_run_twice_as_long() -> None:
    """Job 0 takes 300 s, not 100 s: at 150, 50 s are left of 200, and at 250, 150 s of 400.

    Job 1 of 60 s comes at 150 and waits; job 2 of 70 s comes at 250, and the predictions of jobs 1 and 2 are true.
    """
    cluster = GpuCluster((ServerGroup("only", "gpu", 1, 1),))
    jobs = GpuJobs.linear([0, 150, 250], [1, 1, 1], [300, 60, 70], estimate_s=[100, 60, 70])
    assert _stretches(cluster, jobs) == [(0, 0, 250), (1, 250, 310), (2, 310, 380), (0, 380, 430)]
