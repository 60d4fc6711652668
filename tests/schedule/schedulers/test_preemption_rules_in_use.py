"""FitGpp, Kueue and Slurm by hand: their victims, and the times that stop circles."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.errors import UnknownName
from mirage.schedule.compare.preemption_costs import PreemptionCosts
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.kernel.gpu_arrays import BY_KILL, BY_SAVE, PREEMPT
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

EIGHT = GpuCluster((ServerGroup("only", "gpu", 1, 8),))


def _run(name: str, jobs: GpuJobs, **parameters: Any) -> GpuLog:
    made, costs = make_scheduler(name, **parameters), PreemptionCosts().life_costs(jobs)
    return GpuSimulation(EIGHT, jobs, made, costs=costs, known="run-time", strict=True).run()


def _reasons(log: GpuLog) -> list[str]:
    return [log.reasons[row.reason] for row in log.decisions if row.kind == PREEMPT]


def test_fitgpp_takes_one_small_job_that_leaves_quickly() -> None:
    jobs = GpuJobs.linear(
        [0, 1, 2, 700], [4, 2, 2, 2], [9000, 8000, 7000, 60], restart_s=[20, 20, 100, 5], save_s=[10, 10, 90, 1]
    )
    log = _run("fitgpp", jobs)
    assert log.rows.preemptions.tolist() == [0, 1, 0, 0]  # job 2 is as small, but leaves slowly
    assert log.rows.start_s[3] == 710  # after the save
    assert log.segments[1].why == BY_SAVE
    assert _reasons(log) == ["small-and-quick:job=3,victims=1,score=1.13"]  # 2 / 4 + 4 * 30 / 190
    assert _run("fitgpp", jobs, trial_s=50.0).rows.preemptions.sum() == 0  # no trial job then
    assert _run("fitgpp", jobs, min_run_s=1000.0).rows.start_s[3] > 1000


def test_kueue_takes_later_classes_the_newest_first_and_adds_back_what_still_fits() -> None:
    """Job 1 waits for job 0; jobs 2 to 4 are of the next class, and started before it."""
    jobs = GpuJobs.linear([0, 10, 20, 30, 40], [4, 6, 1, 2, 1], [100, 50, 900, 800, 700], checkpoint_s=30.0)
    log = _run("kueue", jobs, class_jobs=2)
    # at 100 four GPUs are free; the newest is job 4, then job 3, and with the two of job 3 alone it fits
    assert log.rows.start_s[1] == 100
    assert log.rows.preemptions.tolist() == [0, 0, 0, 1, 0]
    assert log.rows.due_s[3] == 890  # at 150 it continues from its checkpoint after 60 s: 10 s are done again
    assert _reasons(log) == ["lower-priority:job=1,class=0,victims=1"]
    assert set(log.segments.why.tolist()) == {0, BY_KILL}
    assert _run("kueue", jobs, class_jobs=50).rows.preemptions.sum() == 0


@pytest.mark.parametrize(("first", "victim"), [("smallest", 0), ("youngest", 1)])
def test_slurm_takes_the_lowest_tier_and_the_first_in_its_order(first: str, victim: int) -> None:
    jobs = GpuJobs.linear([0, 5, 6, 700], [2, 4, 2, 2], [50_000, 60_000, 8000, 60], checkpoint_s=100.0)
    log = _run("slurm-preempt", jobs, first=first)
    assert log.rows.preemptions.tolist() == [int(k == victim) for k in range(4)]
    assert log.rows.start_s[3] == 700
    assert log.segments[victim].why == BY_KILL
    assert _reasons(log)[0].startswith("higher-tier:job=3,tier=0,victims=1")
    assert _run("slurm-preempt", jobs, first=first, exempt_s=1000.0).rows.start_s[3] > 1000


def test_an_unknown_order_gets_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"order of victims 'oldest'.*Known: smallest, youngest"):
        make_scheduler("slurm-preempt", first="oldest")
