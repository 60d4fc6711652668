"""Schedulers of GPU clusters by name."""

import re
import sys
from math import inf, nan

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import (
    GpuSchedulerSpec,
    known_schedulers,
    make_scheduler,
    scheduler_spec,
)
from mirage.schedule.schedulers.preemption import checked_way, way_number
from mirage.schedule.schedulers.sia import Sia
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


def test_unknown_names_get_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"Known: .*fifo, .*sjf, .*srtf, tiresias"):
        make_scheduler("fofo")
    assert set(COMPILED) <= set(known_schedulers())
    assert scheduler_spec("sjf").knows_run_s


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tiresias", {"thresholds_gpu_s": ("abc",)}, "thresholds_gpu_s is 'abc'; give a number, such as 3600.0"),
        (
            "tiresias",
            {"thresholds_gpu_s": (1.0, "abc")},
            "thresholds_gpu_s is '1.0/abc'; give a number, such as 3600.0",
        ),
        ("tiresias", {"thresholds_gpu_s": (nan,)}, "thresholds_gpu_s is 'nan'; give a number, such as 3600.0"),
        ("tiresias", {"thresholds_gpu_s": "abc"}, "thresholds_gpu_s is 'abc'; give a number, such as 3600.0"),
        ("gittins", {"levels": 2.5}, "levels is 2.5; give a whole number, such as 16"),
        ("gittins", {"levels": True}, "levels is True; give a number, such as 16"),
        ("gittins", {"levels": inf}, "levels is inf; give a number, such as 16"),
        ("gittins", {"service_gpu_s": (1.0, True)}, "service_gpu_s is '1.0/True'; give a number"),
        ("gavel", {"round_s": "abc"}, "round_s is 'abc'; give a number, such as 360.0"),
        ("gavel", {"round_s": None}, "round_s is None; give a number, such as 360.0"),
        ("gavel", {"round_s": 0}, "round_s is 0; give whole seconds above 0"),
        ("gavel", {"objective": 3}, "objective is 3; give a word, such as 'max-sum'"),
        ("sia", {"fairness": "x"}, "fairness is 'x'; give a number, such as -0.5"),
        ("sia", {"round_s": 60.1}, "round_s is 60.1 and tune_s 15.0; give whole seconds above 0"),
        (
            "tiresias",
            {"levels": 3, "depth": 2},
            "mirage.schedule.schedulers.tiresias:scheduler has no parameter depth, levels; it has "
            "thresholds_gpu_s=(3600.0,), preempt=save",
        ),
        ("fifo", {"depth": 2}, "mirage.schedule.schedulers.gpu_fifo:scheduler has no parameter depth; it has none"),
    ],
)
def test_values_of_another_kind_are_refused(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_scheduler(name, **parameters)
    assert str(refused.value) == message


def test_values_of_the_same_kind_are_taken() -> None:
    assert isinstance(make_scheduler("gittins", service_gpu_s=(1, 2.5), levels=2.0), CompiledScheduler)
    assert make_scheduler("tiresias", thresholds_gpu_s=[60, 600]).parameters[1:4] == (2, 60, 600)
    assert isinstance(make_scheduler("sia", most_gpus=8.0), Sia)


def test_what_is_no_scheduler_is_refused_with_its_package() -> None:
    with pytest.raises(ConfigurationError) as refused:
        GpuSchedulerSpec("collections:Counter", "").make()
    assert str(refused.value) == (
        "collections:Counter makes Counter(), which has no method decide(view); fix or uninstall the package "
        "collections"
    )


@pytest.mark.parametrize("preempt", ["save", "kill", "boundary"])
def test_ways_to_preempt_are_known_by_their_names(preempt: str) -> None:
    assert checked_way(preempt) == preempt
    numbers = [way_number(way) for way in ("save", "kill", "boundary", "cheaper")]
    assert len(set(numbers)) == 4


def test_a_way_to_preempt_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        UnknownName, match=r"^unknown way to preempt 'safe'\. Did you mean 'save'\? Known: boundary, kill, s"
    ):
        checked_way("safe")
    with pytest.raises(UnknownName, match=r"^unknown way to preempt 'cheaper'\. Known: boundary, kill, save\.$"):
        checked_way("cheaper")
    with pytest.raises(UnknownName, match=r"Known: boundary, cheaper, kill, save\.$"):
        way_number("safe")


def test_scheduler_by_run_times_names_a_job_without_one() -> None:
    jobs = GpuJobs.linear([0], [1], [10])
    jobs.run_s[0] = float("nan")
    with pytest.raises(ConfigurationError) as refused:
        GpuSimulation(GpuCluster((ServerGroup("a", "t4", 1, 1),)), jobs, make_scheduler("sjf"))
    assert str(refused.value) == (
        "the run time of job '0' on the 1 GPU it requests is not known, but the scheduler needs run times; leave the "
        "job out, or choose another scheduler"
    )


def test_package_that_is_absent_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    for name in ("gavel", "sia"):
        with pytest.raises(
            ConfigurationError, match=re.escape(f"needs scipy, which is not installed; run: {install('schedule')}")
        ):
            make_scheduler(name)
    make_scheduler("fifo")
