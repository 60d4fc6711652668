"""Several slower GPUs in place of one that a job requests."""

import pytest

from mirage.errors import ClusterError, ConfigurationError
from mirage.schedule.compare.gpu_trial import GpuSetting, fitting, play
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuResize, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload

CLUSTER = GpuCluster((ServerGroup("new", "v100", 1, 4), ServerGroup("old", "t4", 3, 8, speed=0.25, gpus_for_one=3)))
T4 = 0b10


def test_job_gets_three_for_one_and_runs_at_their_speed() -> None:
    """Four GPUs requested: 12 T4 on two servers, of speed 1/4 each."""
    jobs = GpuJobs.linear([0, 5], [4, 2], [60, 40.5], max_gpus=[4, 4], types=T4)

    class Scripted:
        refused: list[str] = []  # noqa: RUF012

        def decide(self, view: GpuView) -> GpuPlan:
            self.refused += [one.why for one in view.refused]
            actions = {
                0: (GpuStart(0),),
                5: (GpuStart(1, {3: 4}),),  # not a multiple of three
                6: (GpuStart(1, {3: 3}),),  # only one GPU's worth
                7: (GpuStart(1, {3: 6}),),
                17: (GpuResize(1, gpus=4),),
                18: (GpuResize(1, {3: 6, 2: 3}),),
            }.get(int(view.now_s), ())
            return GpuPlan(actions, wake_s=view.now_s + 1 if view.now_s < 19 else None)

    script = Scripted()
    log = GpuSimulation(CLUSTER, jobs, script).run()
    assert script.refused == ["the job cannot use this number of GPUs"] * 2
    assert log.segments.gpus.tolist() == [12, 6, 12, 9]
    assert log.rows.due_s.tolist() == [240 / 3, 18 + (81 - 10 * 1.5 - 3) / 2.25]
    assert log.decisions.gpus.tolist() == [12, 4, 3, 6, 12, 9]


def test_reservation_of_easy_counts_the_gpus_of_the_type() -> None:
    """The head takes all 24 T4; a short job may run before it, a long one may not."""
    jobs = GpuJobs.linear([0, 1, 2, 3], [2, 8, 6, 6], [90, 60, 59, 60], types=T4, estimate_s=[90, 60, 59, 60])
    log = GpuSimulation(CLUSTER, jobs, make_scheduler("easy"), strict=True).run()
    assert log.rows.start_s.tolist() == [0, 120, 2, 200]


def test_a_job_fits_if_its_gpus_exist_in_one_type() -> None:
    jobs = GpuJobs.linear([0, 0], [8, 9], [60, 60])
    workload = GpuWorkload("w", jobs, no_profiles(CLUSTER))
    with pytest.raises(ConfigurationError, match="job '1' needs 9 GPUs, but there are 8 of one type"):
        fitting(workload, GpuSetting(CLUSTER))
    left = fitting(workload, GpuSetting(CLUSTER, skip_impossible=True))
    assert (len(left.jobs), left.left_out) == (1, {"more than 8 GPUs needed": 1})
    with pytest.raises(ConfigurationError, match="gavel does not support several GPUs for one"):
        play(GpuSetting(CLUSTER), left, SchedulerText.of("gavel"))


def test_one_type_has_one_number() -> None:
    with pytest.raises(ClusterError, match="gpus_for_one is 0; give 1 or more"):
        ServerGroup("a", "t4", 1, 1, gpus_for_one=0)
    cluster = GpuCluster((ServerGroup("a", "t4", 1, 1), ServerGroup("b", "t4", 1, 1, gpus_for_one=2)))
    with pytest.raises(ClusterError, match="GPU type 't4' has gpus_for_one 1 in one group and 2 in group 'b'"):
        cluster.gpus_for_one()
