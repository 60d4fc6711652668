"""A policy in plain Python and the same one compiled must be indistinguishable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.policy.contract import Policy
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster
from mirage.sim.disciplines.discipline_registry import PAUSED
from mirage.sim.kernel.arrays import BY_PREEMPTION
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.plain_srtf import Srtf


def random_table(seed: int, jobs: int, nodes: int) -> JobTable:
    rng = np.random.default_rng(seed)
    return JobTable.build(
        np.arange(jobs),
        submit_s=np.sort(rng.integers(0, rng.choice([5, 100, 500]), jobs)),
        elapsed_s=rng.integers(0, 100, jobs),
        limit_s=rng.integers(1, 150, jobs),
        nodes=rng.integers(1, nodes, jobs, endpoint=True),
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), jobs=st.integers(1, 40), nodes=st.integers(1, 10))
def test_plain_and_compiled_give_the_same_schedule(seed: int, jobs: int, nodes: int) -> None:
    cluster = Cluster.pool(nodes)
    work = workload(random_table(seed, jobs, nodes), cluster)
    policy = Srtf(work.jobs.run_s)
    assert isinstance(policy, Policy)
    plain = simulate(cluster, work, policy)
    compiled = simulate(cluster, work, "srtf")
    assert plain.segments.tobytes() == compiled.segments.tobytes()
    check_schedule(plain, cluster)


def test_a_short_job_displaces_a_long_one_which_resumes_later() -> None:
    cluster = Cluster.pool(2)
    table = JobTable.build([1, 2], submit_s=[0, 10], elapsed_s=[100, 5], limit_s=[200, 200], nodes=[2, 1])
    work = workload(table, cluster)
    sim = Simulation(cluster, work, Srtf(work.jobs.run_s))
    schedule = sim.run()
    assert [(s.id, s.start_s, s.end_s) for s in schedule.segments] == [(0, 0, 10), (1, 10, 15), (0, 15, 105)]
    assert schedule.segments.why[0] == BY_PREEMPTION


def test_every_action_has_a_reason() -> None:
    cluster = Cluster.pool(1)
    table = JobTable.build([1], submit_s=[0], elapsed_s=[100], limit_s=[200], nodes=[1])
    work = workload(table, cluster)
    sim = Simulation(cluster, work, PAUSED)
    sim.inject(nodes=1, limit_s=70)
    (action,) = Srtf([100, 70]).decide(sim.view()).actions
    assert action.reason == "shortest:left_s=70"
