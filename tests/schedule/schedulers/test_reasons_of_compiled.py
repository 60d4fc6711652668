"""Reasons and expected ends that compiled schedulers write, by hand."""

from __future__ import annotations

import pytest

from mirage.report.schedule.job_story import story_of
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("only", "slow", 1, 4, speed=0.5),))


def _played(name: str, jobs: GpuJobs) -> GpuLog:
    return GpuSimulation(CLUSTER, jobs, make_scheduler(name), strict=True).run()


def _gets(log: GpuLog, job: int) -> list[tuple[float, str, float | None]]:
    return [(m.time_s, m.why, m.estimate_s) for m in story_of(log, job).moments if m.what == "gets"]


def test_easy_distinguishes_heads_from_backfilled_jobs() -> None:
    jobs = GpuJobs.linear([0, 1, 2, 3], [2, 3, 1, 1], [50, 10, 49, 200])
    log = _played("easy", jobs)
    assert _gets(log, 0) == [(0, "head-of-queue", 100)]
    assert _gets(log, 1) == [(100, "head-of-queue", 120)]
    assert _gets(log, 2) == [(2, "backfill:gpus=beside-reservation", 100)]
    jobs = GpuJobs.linear([0, 1, 2], [2, 4, 1], [50, 10, 49])
    assert _gets(_played("easy", jobs), 2) == [(2, "backfill:ends=before-reservation", 100)]


@pytest.mark.parametrize(
    ("name", "starts", "estimates"),
    [
        ("fifo", "head-of-queue", False),
        ("sjf", "shortest-waiting", True),
        ("srtf", "least-left", True),
        ("tiresias", "first-in-level-order", False),
    ],
)
def test_every_start_has_its_reason_and_its_expected_end(name: str, starts: str, estimates: bool) -> None:
    log = _played(name, GpuJobs.linear([0], [2], [50]))
    assert _gets(log, 0) == [(0, starts, 100 if estimates else None)]


def test_a_preemption_is_explained_on_both_sides() -> None:
    log = _played("srtf", GpuJobs.linear([0, 10], [4, 4], [50, 20]))
    assert _gets(log, 1) == [(10, "less-left-than-running", 50)]
    assert ("preempt", "others-have-less-left") in [(m.what, m.why) for m in story_of(log, 0).moments]
    assert _gets(log, 0)[1] == (50, "least-left", 140)
