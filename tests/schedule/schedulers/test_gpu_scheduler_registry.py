"""Schedulers of GPU clusters by name."""

import re
import sys

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import known_schedulers, make_scheduler, scheduler_spec
from mirage.schedule.workload.gpu_jobs import GpuJobs

COMPILED = ("fifo", "sjf", "srtf", "easy", "tiresias")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_scheduler_is_made_by_name_and_finishes_every_job(name: str) -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 2, 4, speed=0.5), ServerGroup("b", "v100", 1, 4)))
    jobs = GpuJobs.linear([0, 0, 0, 5], [4, 8, 1, 2], [10, 10, 40, 1])
    log = GpuSimulation(cluster, jobs, make_scheduler(name), strict=True).run()
    assert (log.rows.useful == log.rows.executed).all()
    assert log.segments[0].gpu_type == 1  # of the types that are free, the faster one


@pytest.mark.parametrize("name", ["srtf", "tiresias"])
def test_a_scheduler_that_preempts_lets_jobs_save_by_default(name: str) -> None:
    cluster = GpuCluster((ServerGroup("a", "t4", 1, 1),))
    jobs = GpuJobs.linear([0, 100], [1, 1], [8000, 10])
    costs = LifeCosts.of(jobs, save_s=30.0)
    logs = [
        GpuSimulation(cluster, jobs, made, costs=costs, strict=True).run()
        for made in (make_scheduler(name), make_scheduler(name, preempt="save"), make_scheduler(name, preempt="kill"))
    ]
    ends = [log.rows.due_s.tolist() for log in logs]
    assert ends[0] == ends[1] != ends[2]


@pytest.mark.parametrize("name", [*COMPILED, "gittins"])
def test_a_compiled_scheduler_has_its_name_in_messages(name: str) -> None:
    parameters = {"service_gpu_s": (600.0, 3600.0)} if name == "gittins" else {}
    assert make_scheduler(name, **parameters).name == name


def test_unknown_names_and_parameters_get_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"Known: .*fifo, .*sjf, srtf, tiresias"):
        make_scheduler("fofo")
    with pytest.raises(ConfigurationError, match="has no parameter levels; it has thresholds_gpu_s"):
        make_scheduler("tiresias", levels=3)
    with pytest.raises(ConfigurationError, match="do not ascend from above 0"):
        make_scheduler("tiresias", thresholds_gpu_s=(5.0, 5.0))
    with pytest.raises(ConfigurationError, match="service_gpu_s, the GPU-seconds of earlier jobs, has 0 values"):
        make_scheduler("gittins")
    assert set(COMPILED) <= set(known_schedulers())
    assert scheduler_spec("sjf").knows_run_s


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("tiresias", {"thresholds_gpu_s": ("abc",)}, "thresholds_gpu_s is .*give a number, such as 3600"),
        ("tiresias", {"thresholds_gpu_s": (float("nan"),)}, "thresholds_gpu_s is .*give a number"),
        ("gavel", {"round_s": "abc"}, "round_s is 'abc'; give a number, such as 360"),
        ("gavel", {"round_s": 0}, "give whole seconds above 0"),
        ("gavel", {"objective": 3}, "objective is 3; give a word"),
        ("sia", {"fairness": "x"}, "fairness is 'x'; give a number"),
        ("sia", {"round_s": 60.1}, "round_s is 60.1 .*give whole seconds"),
    ],
)
def test_values_of_another_kind_are_refused(name: str, parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make_scheduler(name, **parameters)


def test_scheduler_by_run_times_names_a_job_without_one() -> None:
    jobs = GpuJobs.linear([0], [1], [10])
    jobs.run_s[0] = float("nan")
    with pytest.raises(ConfigurationError, match="run time of job '0' on the 1 GPUs it requests is not known"):
        GpuSimulation(GpuCluster((ServerGroup("a", "t4", 1, 1),)), jobs, make_scheduler("sjf"))


def test_package_that_is_absent_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    for name in ("gavel", "sia"):
        with pytest.raises(
            ConfigurationError, match=re.escape(f"needs scipy, which is not installed; run: {install('schedule')}")
        ):
            make_scheduler(name)
    make_scheduler("fifo")
