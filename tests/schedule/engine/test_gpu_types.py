"""Jobs that may run on some GPU types only."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.schedule.compare.gpu_trial import GpuSetting, play, read
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, GpuJobs, allows_types, type_mask

CLUSTER = GpuCluster((ServerGroup("new", "v100", 1, 4), ServerGroup("old", "t4", 2, 4, speed=0.5)))
V100, T4 = 0b01, 0b10


def test_masks_of_types_by_name() -> None:
    assert [type_mask(text, CLUSTER.gpu_types) for text in ("", "v100", "t4", "t4/v100")] == [ALL_TYPES, V100, T4, 3]
    assert allows_types(np.array([ALL_TYPES, V100, T4, 3]), 2).tolist() == [[1, 1], [1, 0], [0, 1], [1, 1]]
    with pytest.raises(UnknownName, match="unknown GPU type 'p100'"):
        type_mask("v100/p100", CLUSTER.gpu_types)


def test_start_on_another_type_is_refused_and_packing_avoids_it() -> None:
    jobs = GpuJobs.linear([0, 0], [4, 3], [100, 90], types=[T4, ALL_TYPES])

    class Scripted:
        views: list[GpuView] = []  # noqa: RUF012

        def decide(self, view: GpuView) -> GpuPlan:
            self.views.append(view.copy())
            if view.now_s == 0:
                return GpuPlan((GpuStart(0, {0: 4}), GpuStart(1)), wake_s=1)
            return GpuPlan((GpuStart(0),) if view.now_s == 1 else ())

    script = Scripted()
    log = GpuSimulation(CLUSTER, jobs, script).run()
    assert [(one.action.job, one.why) for one in script.views[1].refused] == [
        (0, "the job may not run on this GPU type")
    ]
    assert script.views[0].jobs.types.tolist() == [T4, ALL_TYPES]
    assert (log.places(0), log.places(1)) == ({0: 3}, {1: 4})
    assert log.rows.due_s.tolist() == [1 + 200, 90]


@pytest.mark.parametrize("name", ["fifo", "sjf", "easy", "srtf", "tiresias"])
def test_no_scheduler_uses_another_type(name: str) -> None:
    rng = np.random.default_rng(3)
    n = 80
    run_s = rng.integers(10, 900, n)
    types = rng.choice([V100, T4, ALL_TYPES], n)
    jobs = GpuJobs.linear(
        np.sort(rng.integers(0, 6000, n)), rng.integers(1, 5, n), run_s, types=types, estimate_s=run_s
    )
    log = GpuSimulation(CLUSTER, jobs, make_scheduler(name), known="run-time", strict=True).run()
    used = np.unique(1 << log.segments.gpu_type & jobs.types[log.segments.id])
    assert 0 not in used
    assert set(log.segments.gpu_type.tolist()) == {0, 1}


def test_reservation_of_easy_is_on_a_type_that_the_head_may_use() -> None:
    """The head needs V100; a job of 50 s may not delay it there, but may run on T4."""
    jobs = GpuJobs.linear(
        [0, 1, 2, 3], [3, 4, 1, 8], [40, 10, 50, 5], types=[V100, V100, V100, T4], estimate_s=[40, 10, 50, 5]
    )
    log = GpuSimulation(CLUSTER, jobs, make_scheduler("easy"), strict=True).run()
    assert log.rows.start_s.tolist() == [0, 40, 50, 3]


def test_job_larger_than_its_types_is_refused() -> None:
    jobs = GpuJobs.linear([0], [5], [10], types=V100)
    with pytest.raises(ConfigurationError, match="needs 5 GPUs, but the cluster has 4 of one type on which it runs"):
        GpuSimulation(CLUSTER, jobs, make_scheduler("fifo"))
    with pytest.raises(ConfigurationError, match="it may run on no GPU type"):
        GpuJobs.linear([0], [1], [10], types=0)


def test_column_of_types_in_a_workload(tmp_path: Path) -> None:
    lines = ["timestamp,duration,num_gpus,gpu_types", "2017-10-09 07:00:00,60,1,t4", "2017-10-09 07:00:09,50,2,"]
    path = tmp_path / "w.csv"
    path.write_text("\n".join(lines) + "\n")
    setting, profiles = GpuSetting(CLUSTER), no_profiles(CLUSTER)
    workload = read(setting, str(path), profiles)
    assert workload.jobs.types.tolist() == [T4, ALL_TYPES]
    outcome, _ = play(setting, workload, SchedulerText.of("fifo"))
    assert outcome.jct_s == (120, 50)
    with pytest.raises(ConfigurationError, match="its jobs name GPU types, which sia cannot respect"):
        play(setting, workload, SchedulerText.of("sia"))
    path.write_text("\n".join(lines).replace(",t4", ",k80"))
    with pytest.raises(TraceError, match=r"w\.csv:2: unknown GPU type 'k80'"):
        read(setting, str(path), profiles)
    wide = replace(workload.jobs, gpus=np.array([9, 2]), min_gpus=np.array([9, 2]), max_gpus=np.array([9, 2]))
    assert allows_types(wide.types, 2)[0].tolist() == [False, True]
