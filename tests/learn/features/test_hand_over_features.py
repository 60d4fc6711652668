"""Features of a hand-over: known answers, and the same ones in both worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.lab.virtual.program import Program
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.learn.features.forecast_features import LEVELS, forecast_features
from mirage.learn.features.hand_over_features import feature_names, features_of
from mirage.learn.features.queue_history import queue_history
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.sim.cluster import Cluster, NodeGroup
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.slurm_view import Names
from mirage.trace.table import JobTable
from tests.support.made_up_views import chain, ended, jobs, view
from tests.support.two_worlds import slurm_view

HOUR_S = 3600


def test_the_numbers_are_those_of_the_view() -> None:
    now_s = 1000 * HOUR_S
    snapshot = view(
        now_s,
        8,
        3,
        pending=jobs({"nodes": 4, "limit_s": 2 * HOUR_S, "submit_s": now_s - 3 * HOUR_S}),
        running=jobs({"id": 99, "nodes": 5, "width": 5, "limit_s": 48 * HOUR_S, "start_s": now_s - 38 * HOUR_S,
                      "submit_s": now_s - 40 * HOUR_S}),
        history=ended((1, 2, HOUR_S, now_s - 1800, now_s - 1800, now_s - 60)),
        chain=ChainView(5, 48 * HOUR_S, 99, now_s - 40 * HOUR_S, now_s - 38 * HOUR_S, now_s + 10 * HOUR_S, 1800),
    )  # fmt: skip
    values, names = features_of(snapshot)
    assert values.dtype == np.float32
    assert names == feature_names(forecast=False)
    features = dict(zip(names, values.tolist()))
    expected_wait_h = 10 + 2 * (1740 / 3600)  # the present link runs on; then the pending job, as jobs so far
    assert features == pytest.approx({
        "remaining_h": 10, "link_nodes": 5, "link_limit_h": 48, "link_waited_h": 2,
        "expected_gap_h": expected_wait_h - 10, "limit_gap_h": 2, "expected_overlap_h": 0, "limit_overlap_h": 0,
        "pending_jobs": 1, "pending_nodes": 4, "pending_node_h": 8, "longest_pending_h": 3, "running_jobs": 1,
        "free_nodes": 3, "total_nodes": 8, "submitted_last_hour": 1, "submitted_nodes_last_hour": 2, "mean_wait_h": 1,
    })  # fmt: skip


def test_a_forecast_adds_its_quantiles_minus_what_remains() -> None:
    starts_s = np.array([[1, 2], [3, 3], [5, 5], [7, 9], [9, 11]]) * HOUR_S
    forecast = StartForecast(0, 4 * HOUR_S, np.array([0, 1800]), starts_s, 9 * HOUR_S)
    values = forecast_features(forecast)
    snapshot = view(0, 8, 3, chain=chain(4 * HOUR_S))
    together, names = features_of(snapshot, forecast)
    assert names == feature_names(forecast=True)
    np.testing.assert_array_equal(together[-len(values) :], values.astype(np.float32))
    features = dict(zip(names[-len(values) :], values.tolist()))
    assert features["gap_q50_h"] == 1
    assert features["gap_q05_h"] == pytest.approx(-3 + 0.05 * 4 * 2)
    assert features["later_gap_q50_h"] == 1
    assert features["later_gap_mean_h"] == pytest.approx(2)
    assert (features["gap_mean_h"], features["interruption_mean_h"], features["overlap_mean_h"]) == pytest.approx(
        (1, 1.8, 0.8)
    )
    assert features["open_share"] == pytest.approx(0.2)
    assert sum(name.startswith("gap_q") for name in names) == len(LEVELS)


def at_the_end(forecast: StartForecast) -> StartForecast:
    return replace(forecast, delays_s=np.zeros(1, dtype=np.int64), starts_s=forecast.starts_s[:, :1])


def test_where_nothing_remains_later_is_now() -> None:
    forecast = at_the_end(StartForecast(0, 0, np.array([0]), np.array([[1, 2], [3, 3]]) * HOUR_S, 9 * HOUR_S))
    values = forecast_features(forecast)
    assert values[4] == values[-7] == 2


@pytest.mark.parametrize("shared", [False, True], ids=["whole nodes", "shared nodes"])
def test_both_worlds_show_the_same_features_and_the_same_history(shared: bool) -> None:
    cluster = Cluster((NodeGroup("node", 4, 4, 32),), shared_nodes=True) if shared else Cluster.pool(4)
    rng = np.random.default_rng(5)
    n = 120
    limit_s = 600 * rng.integers(1, 12, n)
    table = JobTable.build(
        range(n), submit_s=np.sort(rng.integers(0, 20 * HOUR_S, n)), elapsed_s=limit_s * rng.uniform(0.1, 1.0, n) // 1,
        limit_s=limit_s, nodes=rng.integers(1, 4, n), user=[f"u{k}" for k in rng.integers(0, 4, n)],
        gpus=rng.integers(1, 4, n) * 2, cpus=rng.integers(1, 30, n),
        dependency=[f"afterany:{k - 2}" if k % 17 == 5 else "" for k in range(n)],
    )  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster, refuse=False), "easy", begin_s=0)
    slurm, names = VirtualSlurm(sim, lambda _: Program(run_s=150)), Names()
    busy = 0
    for _ in range(4):
        slurm.sleep(4 * HOUR_S + 77)
        mine, its = sim.view(), slurm_view(slurm, names)
        link = ChainView(2, 24 * HOUR_S, -7, mine.now_s - 9000, mine.now_s - 7200, mine.now_s + 22 * HOUR_S, 1800)
        features = [features_of(replace(snapshot, chain=link))[0] for snapshot in (mine, its)]
        np.testing.assert_allclose(*features, rtol=1e-6)
        np.testing.assert_array_equal(queue_history(mine), queue_history(its))
        busy += len(mine.pending) * len(mine.running) * len(mine.ended)
    assert busy
    assert isinstance(its, View)
