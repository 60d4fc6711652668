"""Inference demand: from a file, and with a daily shape."""

from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, TraceError
from mirage.schedule.compare.inference_demand import (
    DailyDemand,
    demand_of_servers,
    pool_of_jobs,
    read_demand,
)
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster

CLUSTER = GpuCluster((ServerGroup("a", "v100", 2, 8, "training"), ServerGroup("b", "t4", 40, 4, "inference")))


def test_demand_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "demand.csv"
    path.write_text("time_s,pool,servers,announced_s,announced\n600,inference,7,300,9\n0,inference,3,,\n")
    assert read_demand(path, CLUSTER) == (Demand(0, 1, 3), Demand(600, 1, 7, 300, 9))
    for text, message in (
        ("time_s,servers\n0,3\n", "demand.csv:1: no column pool"),
        ("time_s,pool,servers,announced\n0,inference,3,4\n", "demand.csv:1: announced needs a column announced_s"),
        ("time_s,pool,servers\n0,serving,3\n", "demand.csv:2: unknown pool 'serving'. Known: inference, training"),
        (
            "time_s,pool,servers\n9,inference,3\n0,inference,1\n9.0,inference,2\n",
            "demand.csv:4: pool inference has a demand at 9.0 s already; leave one",
        ),
        ("time_s,pool,servers\n0,inference,-3\n", "demand.csv:2: servers is '-3'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=message):
            read_demand(path, CLUSTER)


def test_demand_of_servers_lists_changes_with_their_announcements() -> None:
    found = demand_of_servers([0, 100, 200, 300], [5, 5, 8, 2], 1, 9, notice_s=60)
    assert found == (Demand(0, 1, 5, 0, 5), Demand(200, 1, 8, 140, 8), Demand(300, 1, 2, 240, 2))
    times, servers = np.arange(4000) * 10.0, 50 + np.arange(4000) % 7
    wrong = demand_of_servers(times, servers, 1, 60, error=0.1, seed=5)
    ratio = np.array([change.announced / change.servers for change in wrong if change.announced is not None])
    assert wrong == demand_of_servers(times, servers, 1, 60, error=0.1, seed=5)
    assert (ratio < 0.85).any()
    assert max(change.announced or 0 for change in wrong) == 60, "the largest demand to come is not known"
    assert all(change.announced is not None and 0 <= change.announced <= 60 for change in wrong)


def test_daily_demand_is_low_for_most_of_the_day() -> None:
    demand = DailyDemand(low=0.25, high=0.9, notice_s=600).over(CLUSTER, 2 * 86_400, seed=0)
    servers = np.array([change.servers for change in demand])
    assert (servers.min(), servers.max()) == (10, 36)
    peak = demand[int(servers.argmax())]
    assert peak.time_s == pytest.approx(14 * 3600, abs=3600)
    assert all(change.announced_s == max(change.time_s - 600, 0) and change.pool == 1 for change in demand)
    shape = np.interp(np.arange(0, 2 * 86_400, 60), [change.time_s for change in demand], servers)
    assert (shape < 20).mean() > 0.5
    with pytest.raises(ConfigurationError, match=r"from 0\.9 to 0\.2 of the servers"):
        DailyDemand(0.9, 0.2)
    with pytest.raises(ConfigurationError, match=r'the cluster has the pools training; .* pool = "inference"'):
        DailyDemand().over(gpu_cluster("philly7704"), 1, seed=0)


def test_jobs_run_in_the_pool_without_demand() -> None:
    assert pool_of_jobs(CLUSTER, [Demand(0, 1, 3)]) == 0
    assert pool_of_jobs(CLUSTER, [Demand(0, 0, 1)]) == 1
    groups = (*CLUSTER.groups, ServerGroup("c", "k80", 1, 1, "other"))
    assert pool_of_jobs(GpuCluster(groups), [Demand(0, 1, 3)]) == 0
    for served in ([Demand(0, 0, 1)], [Demand(0, 0, 1), Demand(0, 1, 1), Demand(0, 2, 1)]):
        with pytest.raises(ConfigurationError, match="leave one pool to the jobs, or name it training"):
            pool_of_jobs(GpuCluster(groups), served)
