"""A compiled scheduler decides on views as it decides in the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.engine.kernel.gpu_arrays import LEND, PREEMPT, RESIZE, RETURN, TICK_S
from mirage.schedule.engine.view_scheduler import ViewScheduler
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.aryl_memory import BASE
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.schedulers.view_schedulers import check_view_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

TRAINING, INFERENCE = 0, 1
CLUSTER = GpuCluster((ServerGroup("t", "v100", 3, 4, "training"), ServerGroup("i", "t4", 5, 4, "inference", speed=0.5)))


def jobs_of(seed: int, n: int = 120, elastic: int = 1) -> GpuJobs:
    rng = np.random.default_rng(seed)
    run_s = rng.integers(60, 7200, n)
    submit_s, gpus = np.sort(rng.integers(0, 40_000, n)), rng.choice([1, 2, 3, 4, 6], n)
    return GpuJobs.linear(
        submit_s,
        gpus,
        run_s,
        max_gpus=gpus * np.random.default_rng(seed).integers(1, elastic, n, endpoint=True),
        estimate_s=run_s * rng.uniform(0.4, 3.0, n),
        restart_s=rng.integers(0, 60, n),
        save_s=rng.integers(0, 30, n),
        pool=TRAINING,
    )


def play(scheduler: object, jobs: GpuJobs, demand: list[Demand]) -> GpuLog:
    return GpuSimulation(CLUSTER, jobs, scheduler, demand=demand, known="run-time", strict=True).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fifo", "sjf"])
@pytest.mark.parametrize("seed", range(2))
def test_the_queue_of_waiting_jobs_needs_no_memory(name: str, seed: int) -> None:
    compiled = make_scheduler(name)
    engine, views = play(compiled, jobs_of(seed), []), play(ViewScheduler(compiled), jobs_of(seed), [])
    assert len(engine.segments) > 100
    assert engine.segments.tobytes() == views.segments.tobytes()
    for column in ("time_s", "kind", "id", "gpus", "estimate_s"):
        assert engine.decisions[column].tobytes() == views.decisions[column].tobytes(), column


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["aryl", "aryl-plus"])
def test_loans_and_reclaims_need_no_memory_if_jobs_leave_at_once(name: str, seed: int) -> None:
    fixed = {"moves": False} if name == "aryl-plus" else {}
    made = make_scheduler(name, elastic=False, preempt="kill", interval_s=TICK_S, **fixed)
    compiled = replace(made, round_s=None)  # every call is one on loans
    rng = np.random.default_rng(seed)
    demand = [
        Demand(float(time_s), INFERENCE, int(rng.integers(0, 6)), max(float(time_s) - 300, 0))
        for time_s in range(0, 60_000, 700)
    ]
    jobs = jobs_of(seed)
    engine, views = play(compiled, jobs, demand), play(ViewScheduler(compiled, TRAINING, BASE), jobs, demand)
    assert {LEND, RETURN, PREEMPT} <= set(engine.decisions.kind.tolist())
    assert engine.segments.tobytes() == views.segments.tobytes()
    assert engine.decisions.estimate_s.tobytes() == views.decisions.estimate_s.tobytes()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("on_loans", [True, False])
@pytest.mark.parametrize("name", ["aryl", "aryl-plus"])
def test_extra_workers_need_no_memory_if_they_are_shared_at_every_call(name: str, seed: int, on_loans: bool) -> None:
    fixed = {"moves": False} if name == "aryl-plus" else {}
    made = make_scheduler(name, preempt="kill", interval_s=TICK_S, extra_on_loans=on_loans, **fixed)
    compiled = replace(made, round_s=None)
    demand = [Demand(5000.0 * k, INFERENCE, k % 4, 5000.0 * k) for k in range(12)]
    jobs = jobs_of(seed, elastic=3)
    engine, views = play(compiled, jobs, demand), play(ViewScheduler(compiled, TRAINING, BASE), jobs, demand)
    assert {LEND, RETURN, RESIZE} <= set(engine.decisions.kind.tolist())
    assert engine.segments.tobytes() == views.segments.tobytes()
    assert engine.decisions.estimate_s.tobytes() == views.decisions.estimate_s.tobytes()
    lent = engine.placement_rows.server[engine.segments["first"]] >= 3
    extra = engine.segments["gpus"] > np.asarray(jobs.gpus)[engine.segments["id"]]
    assert (extra & ~lent).any()
    assert (extra & lent).any() == on_loans


def test_schedulers_without_a_view_are_refused_with_the_others() -> None:
    with pytest.raises(ConfigurationError, match=r"srtf needs .* choose one of fifo, sjf"):
        check_view_scheduler("srtf")
    with pytest.raises(UnknownName, match="Did you mean 'aryl'"):
        check_view_scheduler("arylo")
