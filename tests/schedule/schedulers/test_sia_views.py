"""Sia on recorded views: the same plans as in the simulator, and only what it may use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.control.control_view import TRAINING, ControlJob, ControlView, FirstSubmissions, control_view
from mirage.control.recording import decide_again, plan_text, read_recorded, record
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuView, Surroundings
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.schedulers.sia_views import usable_part
from mirage.schedule.schedulers.view_schedulers import ViewDecider
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running
from tests.support.toy_profiles import write_profiles

CLUSTER = GpuCluster((ServerGroup("small", "slow", 2, 2, "training"), ServerGroup("large", "fast", 1, 4, "training")))


class RecordedScheduler:
    """Sia in the simulator; each of its views is also recorded."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.scheduler = make_scheduler(name, round_s=60.0, tune_s=60.0)
        self.round_s, self.plans = 60.0, list[str]()

    def begin(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.scheduler.begin(surroundings)  # type: ignore[union-attr]

    def decide(self, view: GpuView) -> GpuPlan:
        ids = np.sort(view.jobs.id)
        shown = replace(view.copy(), jobs=replace(view.jobs, id=np.searchsorted(ids, view.jobs.id)))
        plan: GpuPlan = self.scheduler.decide(view)  # type: ignore[union-attr]
        rank = {int(job): k for k, job in enumerate(ids)}
        renumbered = replace(plan, actions=tuple(replace(a, job=rank[a.job]) for a in plan.actions))  # type: ignore[union-attr,call-arg]
        self.plans.append(plan_text(renumbered))
        jobs = tuple(ControlJob(int(job), "ada", "", 1, 1, 0, 0, 0, 60, "", False) for job in ids)
        facts = replace(self.surroundings, jobs=len(ids))
        of_control = ControlView(shown, facts, jobs, facts.servers, {}, (), (), (), (), {}, {})
        record(self.folder / f"view-{len(self.plans):06d}.json", self.name, of_control, renumbered)
        return plan


def workload(models: tuple[str, ...], work: float) -> GpuJobs:
    n = 7
    submit_s = [0.0, 5.0, 70.0, 80.0, 200.0, 400.0, 405.0]
    linear = GpuJobs.linear(submit_s, np.ones(n), np.ones(n), max_gpus=np.array([4, 2, 4, 1, 4, 4, 2]), pool=TRAINING)
    columns = {name: getattr(linear, name) for name in linear.__dataclass_fields__}
    measured = {"model": np.zeros(n, np.int64), "batch": np.full(n, 40), "work": np.full(n, work), "models": models}
    return GpuJobs(**{**columns, **measured, "run_s": np.full(n, np.nan), "restart_s": np.full(n, 5.0)})


@pytest.mark.parametrize("name", ["sia", "sia-plus"])
def test_recorded_views_of_the_simulator_lead_to_the_same_plans_to_the_byte(name: str, tmp_path: Path) -> None:
    profiles = read_profiles(write_profiles(tmp_path / "profiles"), CLUSTER)
    scheduler = RecordedScheduler(name, tmp_path)
    jobs = workload(profiles.models, 300.0)
    log = GpuSimulation(CLUSTER, jobs, scheduler, speeds=profiles.speeds, strict=True).run()  # type: ignore[arg-type]
    assert len(set(log.segments["gpus"].tolist())) >= 3, "jobs change their size"
    paths = sorted(tmp_path.glob("view-*.json"))
    assert len(paths) == len(scheduler.plans) > 10
    deciders: dict[str, ViewDecider] = {}
    for path, plan in zip(paths, scheduler.plans, strict=True):
        recorded = read_recorded(path)
        assert decide_again(recorded, deciders) == recorded.plan == plan
    forgetful = [decide_again(recorded) == recorded.plan for recorded in map(read_recorded, paths)]
    assert not all(forgetful), "it learns from the views before"
    assert len(list(tmp_path.glob("speeds-*.npz"))) == 1


def test_sia_decides_only_on_what_its_jobs_can_use() -> None:
    jobs = [
        running(1, "t1", tres_per_node="gres:gpu:2"),
        running(2, "i2", tres_per_node="gres:gpu:2"),
        running(3, "t2", tres_per_node="gres:gpu:3", Comment=""),
        pending(4, tres_per_node="gres:gpu:6"),
        pending(5, tres_per_node="gres:gpu:5"),
    ]
    cluster = ControlCluster(jobs=jobs, reservations=[loan("i2")])
    cluster.nodes["t1"] = ("drained", "gpu:a100:8", "gpu:a100:2", "train")
    cluster.nodes["t2"] = ("mixed", "gpu:a100:8", "gpu:a100:3", "train")
    cluster.nodes["i2"] = ("mixed", "gpu:t4:4", "gpu:t4:2", "inference train")
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), POOLS, FirstSubmissions())
    part = usable_part(view.view, TRAINING)
    assert [view.jobs[k].id for k in part.jobs.id] == [1, 5], "6 GPUs are too many, and 2 is on a lent node"
    own = part.servers.pool == TRAINING
    assert dict(zip(np.array(view.nodes)[own].tolist(), part.servers.gpus[own].tolist())) == {"t1": 2, "t2": 5}
    assert [part.held.of(k) for k in range(2)] == [{0: 2}, {}]
