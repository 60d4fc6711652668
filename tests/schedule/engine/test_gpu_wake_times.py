"""Results that are no plans, and times of the next call, which must be later than now."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from mirage.errors import ContractBroken
from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.kernel.gpu_arrays import SCHEDULER, dereference
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("a", "v100", 1, 1),))
JOBS = GpuJobs.linear([40, 41], [1, 1], [9, 1])


class Wakes:
    """Starts all waiting jobs, and requests its next call at one time."""

    def __init__(self, wake_s: float) -> None:
        self.wake_s, self.called_s = wake_s, []

    def decide(self, view: GpuView) -> GpuPlan:
        self.called_s.append(view.now_s)
        starts = tuple(GpuStart(int(job)) for job in view.jobs.id[view.jobs.pending])
        return GpuPlan(starts, None if len(self.called_s) > 1 else self.wake_s)


class Silent:
    """Returns no plan."""

    def decide(self, view: GpuView) -> None:
        return None


def test_what_is_no_plan_is_refused_with_the_schedulers_name() -> None:
    with pytest.raises(
        ContractBroken, match=r"^Silent returns None; let decide return a GpuPlan, an empty one to wait$"
    ):
        GpuSimulation(CLUSTER, JOBS, Silent()).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("wake_s", [40.0, 12.5, -inf, nan])
def test_wake_time_that_is_not_later_than_now_is_refused_with_the_schedulers_name(wake_s: float) -> None:
    with pytest.raises(
        ContractBroken,
        match=rf"^at 40\.0 s Wakes requests its next call at {wake_s} s; let it give a later time as wake_s, or None$",
    ):
        GpuSimulation(CLUSTER, JOBS, Wakes(wake_s)).run()


@pytest.mark.parametrize(("wake_s", "called_s"), [(40.0001, 40 + 2**-10), (inf, None)])
def test_wake_time_is_the_next_tick_at_the_earliest_and_may_never_come(wake_s: float, called_s: float | None) -> None:
    scheduler = Wakes(wake_s)
    GpuSimulation(CLUSTER, JOBS, scheduler).run()
    assert scheduler.called_s == [40, *([called_s] if called_s else []), 41, 49]


@kernel(SCHEDULER)
def _wakes_at_once(situation: Any) -> int:
    state = dereference(situation)[1]
    state.clock[0].wake_s = state.clock[0].now_s
    return 0


def test_compiled_scheduler_that_requests_its_next_call_at_once_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"^at 40\.0 s hasty requests its next call at 40\.0 s"):
        GpuSimulation(CLUSTER, JOBS, CompiledScheduler("hasty", _wakes_at_once)).run()
