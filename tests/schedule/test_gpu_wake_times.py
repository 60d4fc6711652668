"""Answers that are no plans, and times to be asked again: later than now, or the simulation would never end."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from mirage.errors import ContractBroken
from mirage.schedule.cluster import GpuCluster, ServerGroup
from mirage.schedule.contract import Plan, Start, View
from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.kernel.arrays import SCHEDULER
from mirage.schedule.engine.kernel.reference import dereference
from mirage.schedule.engine.simulation import GpuSimulation
from mirage.schedule.workload.jobs import GpuJobs
from mirage.sim.kernel.compile import kernel

CLUSTER = GpuCluster((ServerGroup("a", "v100", 1, 1),))
JOBS = GpuJobs.linear([40, 41], [1, 1], [9, 1])


class Wakes:
    """Starts whoever waits, and wants to be asked again at one time."""

    def __init__(self, wake_s: float) -> None:
        self.wake_s, self.asked_s = wake_s, []

    def decide(self, view: View) -> Plan:
        self.asked_s.append(view.now_s)
        starts = tuple(Start(int(job)) for job in view.jobs.id[view.jobs.pending])
        return Plan(starts, None if len(self.asked_s) > 1 else self.wake_s)


class Silent:
    """Answers nothing."""

    def decide(self, view: View) -> None:
        return None


def test_what_is_no_plan_is_refused_with_the_schedulers_name() -> None:
    with pytest.raises(ContractBroken, match=r"^Silent returns None; let decide return a Plan"):
        GpuSimulation(CLUSTER, JOBS, Silent()).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("wake_s", [40.0, 12.5, -inf, nan])
def test_wake_time_that_is_not_later_than_now_is_refused_with_the_schedulers_name(wake_s: float) -> None:
    with pytest.raises(ContractBroken, match=rf"^at 40\.0 s Wakes requests its next call at {wake_s} s; .* later"):
        GpuSimulation(CLUSTER, JOBS, Wakes(wake_s)).run()


@pytest.mark.parametrize(("wake_s", "asked_s"), [(40.0001, 40 + 2**-10), (inf, None)])
def test_wake_time_is_the_next_tick_at_the_earliest_and_may_never_come(wake_s: float, asked_s: float | None) -> None:
    scheduler = Wakes(wake_s)
    GpuSimulation(CLUSTER, JOBS, scheduler).run()
    assert scheduler.asked_s == [40, *([asked_s] if asked_s else []), 41, 49]


@kernel(SCHEDULER)
def _wakes_at_once(situation: Any) -> int:
    state = dereference(situation)[1]
    state.clock[0].wake_s = state.clock[0].now_s
    return 0


def test_compiled_scheduler_that_wants_to_be_asked_again_at_once_is_refused() -> None:
    with pytest.raises(ContractBroken, match=r"^at 40\.0 s hasty requests its next call at 40\.0 s"):
        GpuSimulation(CLUSTER, JOBS, CompiledScheduler("hasty", _wakes_at_once)).run()
