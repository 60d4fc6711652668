"""Split views: bases and open parts of servers, and plans for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.control.control_view import FirstSubmissions, control_view
from mirage.schedule.scheduler_contract import GpuLend, GpuPlan, GpuPreempt, GpuResize, GpuStart
from mirage.schedule.schedulers.open_parts import merged, split_servers
from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, running


def test_a_split_view_has_the_same_gpus_and_the_extra_ones_on_open_parts() -> None:
    words = {"tres_per_node": "N/A", "Comment": "mirage-control gpus=3-12"}
    jobs = [running(5, "t[1-2]", tres_per_job="gres:gpu:10", **words), running(6, "i2", tres_per_node="gres:gpu:2")]
    cluster = ControlCluster(jobs=jobs, reservations=[loan("i2")])
    for name, state in (("t1", "5"), ("t2", "7")):  # two GPUs of t2 are those of another job
        cluster.nodes[name] = ("mixed", "gpu:a100:8", f"gpu:a100:{state}", "train")
    cluster.nodes["i2"] = ("mixed", "gpu:t4:4", "gpu:t4:2", "inference train")
    pools = replace(POOLS, scheduler="aryl", most_gpus=12)
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), pools, FirstSubmissions()).view
    split, real = split_servers(view, 0)
    assert view.servers.free.tolist() == [3, 1, 4, 2, 4]
    assert real.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert split.servers.free.tolist() == [3, 1, 4, 2, 4, 0, 0]
    assert split.servers.gpus.tolist() == [5, 6, 4, 4, 4, 3, 2]
    number = [int(k) for k in np.argsort(view.jobs.gpus)]
    assert split.held.of(number[1]) == {5: 3, 0: 2, 1: 5}, "3 of the first server are its base"
    assert split.held.of(number[0]) == {3: 2}, "lent servers are left as they are"
    assert split.jobs.servers.tolist() == [3, 1]
    plan = GpuPlan((GpuLend(2, 0), GpuPreempt(0), GpuResize(0, {5: 3, 0: 1, 1: 2}, reason="r"), GpuStart(1)), 7.0)
    assert merged(plan, real) == GpuPlan(
        (GpuLend(2, 0), GpuPreempt(0), GpuResize(0, {0: 4, 1: 2}, reason="r"), GpuStart(1)), 7.0
    )
