"""Saves that fail: the job loses the work since its last regular checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.engine.kernel.gpu_arrays import BY_FAILED_SAVE, BY_SAVE
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

TWO_GPUS = GpuCluster((ServerGroup("only", "gpu", 1, 2),))


def _run(jobs: GpuJobs, save_succeeds: float, **costs: float) -> GpuLog:
    scheduler, life = make_scheduler("srtf", preempt="save"), LifeCosts.of(jobs, first_start_s=0.0, **costs)
    return GpuSimulation(TWO_GPUS, jobs, scheduler, costs=life, save_succeeds=save_succeeds, strict=True).run()


@pytest.mark.parametrize(
    ("save_succeeds", "costs", "ends_s", "lost_s"),
    [
        (1.0, {"save_s": 30.0}, (1130, 380), 0),
        (0.0, {"save_s": 30.0}, (1380, 380), 250),  # the second starts at 280; the first begins again at 380
        (0.0, {"save_s": 30.0, "checkpoint_work": 200.0}, (1180, 380), 50),  # 100 s on two GPUs between checkpoints
        (0.0, {"save_s": 0.0}, (1350, 350), 250),
        (0.0, {"save_s": 0.0, "checkpoint_work": 0.0}, (1100, 350), 0),  # all work is safe at once
    ],
)
def test_a_failed_save_by_hand(
    save_succeeds: float, costs: dict[str, float], ends_s: tuple[float, float], lost_s: float
) -> None:
    log = _run(GpuJobs.linear([0, 250], [2, 2], [1000, 100]), save_succeeds, **costs)
    assert log.rows.due_s.tolist() == pytest.approx(ends_s)
    assert log.rows.lost.tolist() == pytest.approx([2 * lost_s, 0])
    why = BY_FAILED_SAVE if lost_s else BY_SAVE
    assert log.segments[0].why == why


def test_saves_fail_as_often_as_declared_and_by_the_seed_alone() -> None:
    n = 600
    submit_s = np.arange(n) * 50.0 + np.arange(n) * 0.137 % 1  # rarely at a checkpoint
    jobs = GpuJobs.linear(np.append(0.0, submit_s + 20), np.full(n + 1, 2), np.append(n * 50.0, np.full(n, 5.0)))
    logs = [_run(jobs, 0.7, save_s=1.0, checkpoint_work=0.5) for _ in range(2)]
    why = logs[0].segments.why
    assert np.mean(why[np.isin(why, (BY_SAVE, BY_FAILED_SAVE))] == BY_SAVE) == pytest.approx(0.7, abs=0.06)
    assert logs[0].segments.tobytes() == logs[1].segments.tobytes()
