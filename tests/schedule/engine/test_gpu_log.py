"""The log of a simulation: GPUs by number, locations of segments, and amounts at its time."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from mirage.errors import ContractBroken
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuAction, GpuLend, GpuPlan, GpuPreempt, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("a", "v100", 1, 4), ServerGroup("b", "v100", 1, 2)))


class Script:
    """Gives plans at given times."""

    def __init__(self, plans: dict[float, list[GpuAction]]) -> None:
        self.plans = plans

    def decide(self, view: GpuView) -> GpuPlan:
        wake_s = min((time_s for time_s in self.plans if time_s > view.now_s), default=None)
        return GpuPlan(tuple(self.plans.get(view.now_s, ())), wake_s)


@pytest.fixture
def log() -> GpuLog:
    """Job 2 gets a GPU of job 0, which ends then, and one that was free; job 3 leaves at once."""
    jobs = GpuJobs.linear([0, 0, 10, 10], [2, 1, 4, 1], [10, 20, 10, 10])
    plans: dict[float, list[GpuAction]] = {
        0: [GpuStart(0, {0: 2}, reason="first"), GpuStart(1, {0: 1}, reason="second")],
        10: [GpuStart(2, {0: 3, 1: 1})],
        15: [GpuStart(3, {1: 1})],
        22: [],
    }
    return GpuSimulation(CLUSTER, jobs, Script(plans), strict=True).run(until_s=22)


def test_every_gpu_has_the_lowest_number_that_is_free_at_its_start(log: GpuLog) -> None:
    assert [row.tolist() for row in log.gpu_intervals()] == [
        (0, 0, 0, 0, 10), (0, 1, 0, 0, 10), (0, 2, 1, 0, 20), (0, 0, 2, 10, 20), (0, 1, 2, 10, 20), (0, 3, 2, 10, 20),
        (1, 0, 2, 10, 20), (1, 1, 3, 15, np.inf),
    ]  # fmt: skip


def test_gpus_are_numbered_where_only_a_later_server_is_used() -> None:
    jobs = GpuJobs.linear([0], [2], [10])
    log = GpuSimulation(CLUSTER, jobs, Script({0: [GpuStart(0, {1: 2})]})).run()
    assert [row.tolist() for row in log.gpu_intervals()] == [(1, 0, 0, 0, 10), (1, 1, 0, 0, 10)]


def test_segments_have_their_places(log: GpuLog) -> None:
    assert [log.places(k) for k in range(4)] == [{0: 2}, {0: 1}, {0: 3, 1: 1}, {1: 1}]
    assert log.placement_segments().tolist() == [0, 1, 2, 2, 3]
    assert log.placement_segments().dtype == np.int64


def test_a_log_has_all_amounts_of_its_time(log: GpuLog) -> None:
    """At 22 job 3 runs since 15."""
    assert log.now_s == 22
    assert log.rows.id.tolist() == [0, 1, 2, 3]
    assert (log.rows.executed.tolist(), log.rows.queued_s.tolist()) == ([20, 20, 40, 7], [0, 0, 0, 5])
    assert (log.rows.progress.tolist(), log.rows.due_s.tolist()) == ([20, 20, 40, 7], [10, 20, 20, 25])
    assert [log.reasons[row.reason] for row in log.decisions] == ["first", "second", "", ""]
    assert isinstance(log.reasons, tuple)


def test_a_log_does_not_change_with_the_simulation() -> None:
    simulation = GpuSimulation(CLUSTER, GpuJobs.linear([0], [1], [10]), Script({0: [GpuStart(0)]}))
    early = simulation.run(until_s=5)
    simulation.run()
    assert (early.now_s, early.rows.executed.tolist(), early.segments.end_s.tolist()) == (5, [5], [np.inf])


def test_a_segment_without_length_holds_no_gpu() -> None:
    jobs = GpuJobs.linear([0, 0], [4, 4], [10, 10])
    plans: dict[float, list[GpuAction]] = {0: [GpuStart(0, {0: 4})], 5: [GpuPreempt(0, "kill"), GpuStart(1, {0: 4})]}
    log = GpuSimulation(CLUSTER, jobs, Script(plans), strict=True).run(until_s=5)
    assert [row.tolist()[:3] for row in log.gpu_intervals()] == [(0, k, 0) for k in range(4)] + [
        (0, k, 1) for k in range(4)
    ]
    segments = log.segments.copy()
    segments.end_s[:] = segments.start_s
    assert len(replace(log, segments=segments).gpu_intervals()) == 0


def test_more_gpus_at_one_time_than_a_server_has_are_reported(log: GpuLog) -> None:
    rows = log.placement_rows.copy()
    rows.gpus[3] = 2
    with pytest.raises(ContractBroken) as broken:
        replace(log, placement_rows=rows).gpu_intervals()
    assert str(broken.value) == "server 1 has 2 GPUs; more are held at 15.0 s, by job 3 too"


def test_demand_that_is_not_met_counts_until_the_time_of_the_log() -> None:
    cluster = GpuCluster((ServerGroup("t", "v100", 1, 4, "training"), ServerGroup("i", "v100", 3, 4, "inference")))
    jobs = GpuJobs.linear([0], [1], [100], pool=0)
    plans: dict[float, list[GpuAction]] = {0: [GpuStart(0), GpuLend(1, 0), GpuLend(2, 0)], 90: []}
    demand = [Demand(10, 1, 2), Demand(20, 1, 3)]
    log = GpuSimulation(cluster, jobs, Script(plans), demand=demand, force_after_s=inf, strict=True).run(until_s=25.5)
    assert log.unmet_server_s == 1 * 10 + 2 * 5.5
    assert (log.breaches, len(log.loans)) == (0, 2)
