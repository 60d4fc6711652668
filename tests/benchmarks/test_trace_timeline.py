"""Observations at a moment of a trace equal those of the view of that moment."""

from __future__ import annotations

import numpy as np

from mirage.job_state import MISSING
from mirage.predict.run_times.run_time_observations import observed
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from trace_timeline import Timeline


def trace() -> JobTable:
    """Jobs that start at once on a large machine, so that a replay repeats the trace."""
    random = np.random.default_rng(5)
    n = 60
    submit_s = np.cumsum(random.integers(10, 400, n))
    run_s = random.integers(20, 4000, n)
    return JobTable.build(
        range(n), submit_s=submit_s, start_s=submit_s, end_s=submit_s + run_s, limit_s=np.full(n, 3600),
        nodes=np.ones(n, dtype=np.int64), user=[f"u{k % 3}" for k in range(n)],
        name=[f"Train_{k}" if k % 2 else "" for k in range(n)], account=["lab"] * n,
    )  # fmt: skip


def test_a_moment_of_a_trace_equals_the_view_of_it() -> None:
    table = trace()
    cluster = Cluster.pool(100)
    sim = Simulation(cluster, workload(table, cluster), "fcfs")
    now_s = int(table.submit_s[40]) + 5
    sim.advance(now_s)
    of_view, of_trace = observed(sim.view()), Timeline(table).at(now_s)
    assert of_trace.ended.sum() > 20
    assert (~of_trace.ended).sum() > 1
    # a replay ends jobs at their limit, the trace records what came after
    assert of_view.ended.tolist() == of_trace.ended.tolist()
    for mine, theirs in zip(_rows(of_view), _rows(of_trace), strict=True):
        assert mine == theirs


def _rows(past) -> list[tuple[object, ...]]:
    names = past.requests.name
    named = np.where(names == MISSING, MISSING, 0)  # codes differ, equality of names does not
    return sorted(zip(past.requests.submit_s.tolist(), past.requests.limit_s.tolist(), named.tolist(),
                      past.use.round(9).tolist(), past.ended.tolist(), strict=True))  # fmt: skip


def test_jobs_without_a_limit_are_left_out() -> None:
    table = trace().with_columns(limit_s=np.where(np.arange(60) < 10, MISSING, 3600))
    assert len(Timeline(table).use) == 50


def test_names_are_folded() -> None:
    requests = Timeline(trace()).requests
    assert set(requests.name.tolist()) == {MISSING, 0}
