"""Measures by hand: of a log before its end, of no jobs, and of classes of jobs."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.engine.measures import StepFunction, measures
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuAction, GpuPlan, GpuPreempt, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import GpuJobs

TWO_SERVERS = GpuCluster((ServerGroup("a", "v100", 2, 4),))


class Script:
    """Gives plans at given times."""

    def __init__(self, plans: dict[float, list[GpuAction]]) -> None:
        self.plans = plans

    def decide(self, view: GpuView) -> GpuPlan:
        wake_s = min((time_s for time_s in self.plans if time_s > view.now_s), default=None)
        return GpuPlan(tuple(self.plans.get(view.now_s, ())), wake_s)


def log_of(
    jobs: GpuJobs,
    plans: dict[float, list[GpuAction]],
    cluster: GpuCluster = TWO_SERVERS,
    until_s: float = inf,
    costs: LifeCosts | None = None,
) -> GpuLog:
    return GpuSimulation(cluster, jobs, Script(plans), costs=costs, strict=True).run(until_s)


def test_measures_before_the_end_by_hand() -> None:
    """Until 80: two jobs have ended, one runs on one GPU of either server, and one waits."""
    jobs = GpuJobs.linear([10, 20, 30, 60], [5, 2, 2, 8], [40, 20, 100, 1])
    plans: dict[float, list[GpuAction]] = {
        10: [GpuStart(0, {0: 4, 1: 1})],
        25: [GpuStart(1, {1: 2})],
        50: [GpuStart(2, {0: 1, 1: 1})],
        150: [],
    }
    log = log_of(jobs, plans, until_s=80, costs=LifeCosts.of(jobs, first_start_s=np.array([0.0, 0.0, 5.0, 0.0])))
    found = measures(log)
    assert (found.jobs, found.ended) == (4, 2)
    assert (found.mean_jct_s, found.median_jct_s, found.p99_jct_s) == (32.5, 32.5, pytest.approx(25 + 0.99 * 15))
    assert (found.mean_wait_s, found.p99_wait_s) == ((0 + 5 + 20 + 20) / 4, 20)
    assert found.makespan_s == 70
    assert (found.gpu_h * 3600, found.useful_gpu_h * 3600) == pytest.approx((200 + 40 + 60, 290))
    assert (found.lost_gpu_h, found.overhead_gpu_h * 3600) == (0, pytest.approx(10))
    assert found.gar == 5 / 8  # 2 for 30 s, 5 for 20 s, 7 for 20 s
    assert found.sor == 300 / (8 * 70)
    assert found.gfr == (30 + 70) / (2 * 70)  # the first server is full until 50
    assert found.jwtd_s == {2: (12.5, pytest.approx(19.25)), 4: (0, 0), 8: (20, 20)}
    assert found.jtted == (1, 1, 2)  # of 300 GPU-s, the last 60 are on one server too many
    # requested: 5 from 10 on, 7 from 20 on, 9 from 30 on, 7 from 45 on; fewer than 8 count as 8
    fair = [40 / 40, 25 / 20 / ((70 + 135) / 25 / 8)]
    assert (found.mean_unfairness, found.worst_unfairness) == pytest.approx((sum(fair) / 2, fair[1]))
    assert (found.preemptions, found.restarts, found.excess_gpus, found.breaches, found.unmet_server_h) == (0,) * 5


def test_measures_of_preempted_jobs_by_hand() -> None:
    """Job 0 is killed at 50 with all its work, and runs again from 60; its restart takes 4 s."""
    jobs = GpuJobs.linear([0, 50], [8, 2], [100, 10])
    plans: dict[float, list[GpuAction]] = {
        0: [GpuStart(0)],
        50: [GpuPreempt(0, "kill", needed_gpus=3), GpuStart(1)],
        60: [GpuStart(0)],
    }
    found = measures(log_of(jobs, plans, costs=LifeCosts.of(jobs, restart_s=4.0)))
    assert (found.preemptions, found.restarts, found.excess_gpus) == (1, 1, 5)
    assert (found.lost_gpu_h * 3600, found.overhead_gpu_h * 3600) == pytest.approx((400, 32))
    assert (found.makespan_s, found.mean_wait_s) == (164, 5)
    # 8 GPUs are requested until 50 and from 60 on, 10 between; the second job lives between only
    crowd = (8 * 154 + 10 * 10) / 164 / 8
    assert found.worst_unfairness == pytest.approx(164 / (100 * crowd))
    assert found.mean_unfairness == pytest.approx((164 / (100 * crowd) + 10 / (10 * 10 / 8)) / 2)


def test_nothing_is_measured_without_jobs_or_before_the_first() -> None:
    jobs = GpuJobs.linear([10], [1], [5])
    for log, count in ((log_of(jobs[:0], {}), 0), (log_of(jobs, {10: [GpuStart(0)]}, until_s=5), 1)):
        found = measures(log)
        assert (found.jobs, found.ended, found.makespan_s, found.gpu_h) == (count, 0, 0, 0)
        unknown = (found.mean_jct_s, found.median_jct_s, found.p99_jct_s, found.gar, found.sor, found.gfr)
        assert np.isnan([*unknown, *found.jtted, found.mean_unfairness, found.worst_unfairness]).all()
    assert np.isnan(measures(log_of(jobs[:0], {})).mean_wait_s)
    assert measures(log_of(jobs[:0], {})).jwtd_s == {}


def test_a_window_in_which_nothing_runs_is_empty() -> None:
    found = measures(log_of(GpuJobs.linear([10], [1], [5]), {10: [], 40: [GpuStart(0)]}, until_s=30))
    assert (found.makespan_s, found.gar, found.sor, found.gfr) == (20, 0, 0, 0)
    assert (found.mean_wait_s, np.isnan(found.jtted).all()) == (20, True)


def test_waits_are_grouped_by_the_lower_bounds_of_sizes() -> None:
    sizes = [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 100]
    jobs = GpuJobs.linear([0] * len(sizes), sizes, [99] * len(sizes))
    plans: dict[float, list[GpuAction]] = {k: [GpuStart(k)] for k in range(len(sizes))}
    found = measures(log_of(jobs, plans, GpuCluster((ServerGroup("a", "v100", 10, 40),))))
    medians = {size: wait_s for size, (wait_s, _) in found.jwtd_s.items()}
    assert medians == {1: 0, 2: 1.5, 4: 3.5, 8: 5.5, 16: 7.5, 32: 9.5, 64: 11.5}
    assert found.jwtd_s[2][1] == pytest.approx(1.95)


def test_the_fewest_servers_are_those_of_the_largest_size_of_the_type() -> None:
    """On one type, servers of 2 and of 4 GPUs; on the other, of 8."""
    cluster = GpuCluster((ServerGroup("a", "v100", 2, 2), ServerGroup("b", "v100", 1, 4), ServerGroup("c", "t4", 2, 8)))
    jobs = GpuJobs.linear([0, 0, 0], [4, 8, 1], [10, 10, 10])
    apart = {0: [GpuStart(0, {0: 2, 1: 2}), GpuStart(1, {3: 4, 4: 4}), GpuStart(2, {2: 1})]}
    together = {0: [GpuStart(0, {2: 4}), GpuStart(1, {3: 8}), GpuStart(2, {4: 1})]}
    assert measures(log_of(jobs, apart, cluster)).jtted == (1, 2, 2)
    assert measures(log_of(jobs, together, cluster)).jtted == (1, 1, 1)


def test_jobs_without_a_run_time_alone_have_no_fairness() -> None:
    jobs = GpuJobs.linear([0, 0, 0], [1, 1, 1], [10, 20, 30])
    log = log_of(jobs, {0: [GpuStart(0), GpuStart(1)], 10: [GpuStart(2)]})
    some = replace(log, jobs=replace(jobs, run_s=np.array([np.nan, 0.0, 30.0])))
    assert (measures(some).mean_unfairness, measures(some).worst_unfairness) == (40 / 30, 40 / 30)
    none = replace(log, jobs=replace(jobs, run_s=np.full(3, np.nan)))
    assert np.isnan([measures(none).mean_unfairness, measures(none).worst_unfairness]).all()


@pytest.mark.parametrize(
    ("length_s", "level", "share"),
    [
        ([10, 10], [1, 3], 0.25),
        ([10, 10], [3, 1], 0.25),
        ([10, 11], [1, 3], 0.75),
        ([5, 0, 1], [4, 2, 0], 1),
        ([1], [2], 0.5),
    ],
)
def test_the_median_share_is_that_of_half_of_the_time(length_s: list[float], level: list[int], share: float) -> None:
    steps = StepFunction(np.array(length_s, np.float64), np.array(level))
    assert steps.median_share(4) == share
    assert steps.gpu_s == np.dot(length_s, level)


def test_steps_without_length_have_no_median() -> None:
    assert np.isnan(StepFunction(np.zeros(2), np.ones(2, np.int64)).median_share(4))
