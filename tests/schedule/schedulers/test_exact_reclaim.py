"""Exact reclaim: against all sets of servers, and in whole runs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mirage.errors import PlanInfeasible, UnknownName
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers import exact_reclaim
from mirage.schedule.schedulers.exact_reclaim import ReclaimProblem, least_loss_servers
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

pytest.importorskip("scipy")

TRAINING, INFERENCE = 0, 1


def _problem(jobs: list[tuple[int, ...]], loss: list[float], servers: int, wanted: int) -> ReclaimProblem:
    used = np.bincount([k for on in jobs for k in on], minlength=servers)
    return ReclaimProblem(np.arange(servers) + 7, used, jobs, np.array(loss), wanted)


def test_shared_jobs_by_hand() -> None:
    """Job 0 of loss 5 holds servers 0 and 1; jobs 1 and 2 hold one server each.

    One server is cheapest alone; for two, the pair that job 0 holds is cheaper than the two others.
    """
    jobs: list[tuple[int, ...]] = [(0, 1), (2,), (3,)]
    assert least_loss_servers(_problem(jobs, [5, 2, 4], 4, 1)) == [2]
    assert sorted(least_loss_servers(_problem(jobs, [5, 2, 4], 4, 2))) == [0, 1]
    assert sorted(least_loss_servers(_problem(jobs, [7, 2, 4], 4, 2))) == [2, 3]
    assert sorted(least_loss_servers(_problem(jobs, [5, 2, 4], 4, 9))) == [0, 1, 2, 3]


def test_servers_that_cost_nothing_come_first_the_emptiest_first() -> None:
    problem = ReclaimProblem(np.arange(4), np.array([3, 1, 0, 2]), [(0,)], np.array([1.0]), 2)
    assert least_loss_servers(problem) == [2, 1]
    assert least_loss_servers(
        ReclaimProblem(np.arange(2), np.array([1, 1]), [(0,), (1,)], np.array([2.0, 1.0]), 1)
    ) == [1]


@pytest.mark.parametrize("seed", range(6))
def test_no_set_of_servers_loses_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        servers, wanted = 8, int(rng.integers(1, 8))
        jobs = [
            tuple(sorted(rng.choice(servers, int(rng.choice([1, 2, 3, 5])), replace=False).tolist())) for _ in range(9)
        ]
        problem = _problem(jobs, rng.lognormal(6, 2, 9).tolist(), servers, wanted)
        chosen = least_loss_servers(problem)
        assert len(set(chosen)) == len(chosen) == wanted
        assert problem.lost(chosen) == pytest.approx(min(map(problem.lost, combinations(range(servers), wanted))))


def test_a_program_that_takes_too_long_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_reclaim, "LIMIT_S", 0.0)
    rng = np.random.default_rng(0)
    jobs = [tuple(sorted(rng.choice(60, 4, replace=False).tolist())) for _ in range(90)]
    with pytest.raises(PlanInfeasible, match=r"out of \d+ with jobs, were not found within 0 s.*reclaim=greedy"):
        least_loss_servers(_problem(jobs, rng.lognormal(6, 2, 90).tolist(), 60, 25))


def _played(seed: int, reclaim: str) -> tuple[float, float, int]:
    """Lost GPU-seconds, unmet server-seconds and breaches of a crowded run without saves."""
    rng = np.random.default_rng(seed)
    cluster = GpuCluster((ServerGroup("a", "v100", 2, 4), ServerGroup("b", "v100", 12, 4, pool="inference")))
    n = 60
    jobs = GpuJobs.linear(
        np.sort(rng.uniform(0, 20_000, n)), rng.choice([2, 3, 4, 8, 12], n), rng.lognormal(8, 1, n) + 60,
        restart_s=20.0, pool=TRAINING,
    )  # fmt: skip
    changes = [Demand(3000.0 * k, INFERENCE, int(rng.integers(0, 12)), max(3000.0 * k - 300, 0.0)) for k in range(12)]
    scheduler = make_scheduler("aryl-plus", reclaim=reclaim, preempt="kill", headroom=0.0)
    costs = LifeCosts.of(jobs, first_start_s=0.0, checkpoint_work=jobs.gpus * 1800.0)
    log = GpuSimulation(cluster, jobs, scheduler, demand=changes, known="run-time", costs=costs, strict=True).run()
    return float(log.rows.lost.sum()), log.unmet_server_s, log.breaches


def test_exact_runs_meet_demand_and_lose_less_in_sum() -> None:
    exact = np.array([_played(seed, "exact") for seed in range(4)])
    greedy = np.array([_played(seed, "greedy") for seed in range(4)])
    assert exact[:, 1:].sum() == greedy[:, 1:].sum() == 0
    assert 0 < exact[:, 0].sum() < greedy[:, 0].sum()


def test_runs_without_reclaims_of_used_servers_are_equal() -> None:
    cluster = GpuCluster((ServerGroup("a", "v100", 2, 4), ServerGroup("b", "v100", 2, 4, pool="inference")))
    jobs = GpuJobs.linear([0, 100], [4, 8], [900, 900], pool=TRAINING)
    demand = [Demand(0, INFERENCE, 0)]
    ends = [
        GpuSimulation(
            cluster, jobs, make_scheduler("aryl-plus", reclaim=way), demand=demand, known="run-time", strict=True
        ).run().rows.due_s.tolist()
        for way in ("greedy", "exact")
    ]  # fmt: skip
    assert ends[0] == ends[1]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"reclaim.*'best'. Known: exact, greedy"):
        make_scheduler("aryl-plus", reclaim="best")
