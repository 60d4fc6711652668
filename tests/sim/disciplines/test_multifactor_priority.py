"""Slurm's multifactor priority against the accounting of a real Slurm 22.05.8."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import MINUTE_S, UNLIMITED_S
from mirage.forecast.priority_offsets import use_by_user
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.contract.from_view import priority_offsets
from mirage.sim.job_updates import requeue
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.cluster_conf import cluster_from_slurm_conf
from mirage.sim.slurm_conf.qos import with_qos
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable


def priorities(cluster: Cluster, settings: SlurmSettings, **columns: object) -> list[float]:
    """Priorities of jobs that wait for one that runs on all nodes."""
    n = len(columns["nodes"]) + 1  # type: ignore[arg-type]
    given = {"nodes": [cluster.nodes, *columns.pop("nodes")]}  # type: ignore[misc]
    given |= {name: [-1 if name in ("gpus", "cpus") else "", *column] for name, column in columns.items()}  # type: ignore[misc]
    table = JobTable.build(
        range(n), submit_s=[0, *[1] * (n - 1)], elapsed_s=[600] * n, limit_s=[600] * n, user=["u"] * n, **given
    )  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings)
    sim.advance(1)
    return sorted((float(p) for p in sim.view().pending.priority), reverse=True)


NODES = NodeGroup("n", 16, 8, 64)
SHARED = Cluster((NODES,), (Partition("train", job_factor=10), Partition("hi", job_factor=50)), shared_nodes=True)


def test_size_counts_nodes_and_cpus_half_each_where_nodes_are_shared() -> None:
    settings = SlurmSettings(weight_size=100_000)
    one, eight = 100_000 * (1 / 16 + 1 / 1024) / 2, 100_000 * (8 / 16 + 512 / 1024) / 2
    found = priorities(SHARED, settings, nodes=[1, 8, 1], gpus=[1, -1, -1], cpus=[1, -1, -1])
    assert found == [int(eight), 100_000 / 16, int(one)]
    small = priorities(SHARED, replace(settings, favor_small=True), nodes=[1, 8], gpus=[1, -1], cpus=[1, -1])
    assert small == [int(100_000 - one), int(100_000 - eight)]


def test_size_counts_nodes_where_jobs_take_them_whole() -> None:
    found = priorities(Cluster((NODES,)), SlurmSettings(weight_size=100_000), nodes=[1, 8])
    assert found == [50_000, 6_250]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("small", [False, True])
def test_size_relative_to_time_is_that_of_a_real_slurm(*, shared: bool, small: bool) -> None:
    """JOBSIZE of sprio on 22.05.8 for seven jobs of three nodes of 8 CPUs."""
    shown = [100_000, 3_333, 95_238, 166_667, 1_000_000, 11_111, 0]
    settings = SlurmSettings(weight_size=1_000_000, size_over_time=True, favor_small=small)
    nodes, minutes = [3, 1, 2, 1, 3, 1, 1], [10, 100, 7, 1.5, 0.4, 30, UNLIMITED_S // MINUTE_S]
    table = JobTable.build(
        range(8), submit_s=[0, *[1] * 7], elapsed_s=[9] * 8, nodes=[3, *nodes], cpus=[24, 24, 4, 12, 1, 20, 1, 1],
        gpus=[-1, -1, 0, 0, 0, 0, -1, 0], limit_s=[600, *(round(60 * limit) for limit in minutes)],
    )  # fmt: skip
    cluster = Cluster((NodeGroup("n", 3, 0, 8),), shared_nodes=shared)
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings)
    sim.advance(1)
    view = sim.view()
    expected = np.array([0, *(1_000_000 - size if small else size for size in shown)])[view.pending.id]
    assert view.pending.priority.tolist() == pytest.approx(expected, abs=1.0)
    has = view.pending.priority > 0
    assert priority_offsets(view.pending, view, settings)[has] == pytest.approx(0, abs=1.0)


def test_gpus_and_cpus_count_by_their_share_of_the_partition() -> None:
    cluster = Cluster((NODES, NodeGroup("x", 4, 4, 32)), (Partition("all"), Partition("few", ("x",))), True)
    jobs = {"nodes": [2, 2, 1], "gpus": [4, 4, -1], "cpus": [8, 8, -1], "partition": ["all", "few", "few"]}
    found = priorities(cluster, SlurmSettings(weight_gpus=144_000), **jobs)
    assert found == [4 / 16 * 144_000, 4 / 16 * 144_000, 4 / 144 * 144_000]
    found = priorities(cluster, SlurmSettings(weight_cpus=1152), **jobs)
    assert found == [32 / 128 * 1152, 8 / 128 * 1152, 8 / 1152 * 1152]


def test_the_priorities_of_a_real_slurm(shared_data: Path) -> None:
    """First jobs of a real replay: QOS, partition, size, GPUs, fair-share of one user."""
    folder = shared_data / "slurm-fidelity"
    conf = folder / "conf" / "fid60" / "slurm.conf"
    with (folder / "w60.nopreempt.observed.csv").open(newline="") as file:
        real = {row["id"]: int(row["priority"]) for row in csv.DictReader(file)}
    with (folder / "w60.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[:3]
    cluster = with_qos(cluster_from_slurm_conf(conf), conf.with_name("qos.txt"))
    settings = SlurmSettings.from_slurm_conf(conf)
    assert (settings.weight_gpus, settings.weight_size) == (1000, 100)
    for row in rows:
        nodes = int(row["nodes"])
        gpus = nodes * int(row["gpus_per_node"])
        (found,) = priorities(cluster, settings, nodes=[nodes], gpus=[gpus], cpus=[nodes], qos=[row["qos"]])
        assert found == pytest.approx(real[row["id"]], abs=1)


def test_jobs_of_equal_priority_go_by_submission_however_long_they_were_held() -> None:
    """Job 1 competes only from 30 s on; job 2 came later; one starts after job 0 has ended."""
    table = JobTable.build(
        range(3), submit_s=[0, 5, 10], elapsed_s=[60] * 3, limit_s=[60] * 3, nodes=[2] * 3, user=["u"] * 3
    )
    cluster = Cluster.pool(2)
    jobs = workload(table, cluster)
    jobs.jobs.begin_s[1] = 30
    assert Simulation(cluster, jobs, "slurm").run().start_s.tolist() == [0, 60, 120]
    assert Simulation(cluster, jobs, "easy").run().start_s.tolist() == [0, 120, 60], "first eligible, first served"


def test_a_requeued_job_follows_those_submitted_before_its_requeue() -> None:
    """Job 0 is requeued at 20; job 2 came before, job 3 after, while job 0 was held back."""
    table = JobTable.build(
        range(4), submit_s=[0, 5, 10, 25], elapsed_s=[60] * 4, limit_s=[60] * 4, nodes=[2] * 4, user=["u"] * 4
    )
    cluster = Cluster.pool(2)
    sim = Simulation(cluster, workload(table, cluster), "slurm")
    sim.advance(20)
    requeue(sim, 0, begin_s=30)
    starts = [(int(s.start_s), int(s.id)) for s in sim.run().segments]
    assert starts == [(0, 0), (20, 1), (80, 2), (140, 0), (200, 3)]


@pytest.mark.parametrize(
    ("nodes", "run_s", "first"),
    [(2, 1000, "bob"), (1, 90, "ada"), (2, 60, "bob")],
    ids=["running, two nodes for one", "ended, 90 s for 100", "ended, two nodes 60 s for 100"],
)
def test_fair_share_counts_nodes_by_time_once(nodes: int, run_s: int, first: str) -> None:
    """At 100 s, when priorities are computed, bob's job has used a node; ada's may be over."""
    table = JobTable.build(
        range(5),
        submit_s=[0, 0, 0, 1, 2],
        elapsed_s=[run_s, 1000, 1000, 50, 50],
        limit_s=[1000] * 5,
        nodes=[nodes, 1, 1, 4, 4],
        user=["ada", "bob", "eve", "ada", "bob"],
    )
    settings = SlurmSettings(weight_fairshare=1000.0, calc_period_s=100, half_life_s=1e9)
    cluster = Cluster.pool(4)
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings)
    sim.advance(150)
    pending = sim.view().pending
    assert {3: "ada", 4: "bob"}[int(pending.id[pending.priority.argmax()])] == first
    assert len(set(pending.priority.tolist())) == 2


@pytest.mark.parametrize(
    ("gpus", "cpus", "run_s", "first"),
    [
        (0, 12, 1000, "ada"),
        (-1, 1, 1000, "ada"),
        (-1, 1, 20, "ada"),
        (-1, 1, 5, "bob"),
        (0, 1, 1000, "bob"),
    ],
    ids=["twelve CPUs", "a whole node", "a whole node for 20 s", "for 5 s", "one CPU"],
)
def test_fair_share_counts_cpus_where_nodes_are_shared(gpus: int, cpus: int, run_s: int, first: str) -> None:
    """At 100 s ada's two jobs of 1 CPU have used 200 CPU-seconds; bob's may have used more."""
    table = JobTable.build(
        range(5), submit_s=[0, 0, 0, 1, 2], elapsed_s=[1000, 1000, run_s, 50, 50], limit_s=[1000] * 5,
        nodes=[1, 1, 1, 3, 3], cpus=[1, 1, cpus, -1, -1], gpus=[0, 0, gpus, -1, -1],
        user=["ada", "ada", "bob", "ada", "bob"],
    )  # fmt: skip
    settings = SlurmSettings(weight_fairshare=1000.0, calc_period_s=100, half_life_s=1e9)
    cluster = Cluster((NodeGroup("n", 3, 1, 16),), shared_nodes=True)
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings)
    sim.advance(100)
    view = sim.view()
    assert ["", *sim.workload.table.user.names][view.pending.user[0]] == first
    used, _ = use_by_user(view, settings.half_life_s)
    assert used[:3].tolist() == pytest.approx(sim.state.usage.tolist(), rel=1e-6), "as a forecast from this view"


def test_all_users_of_accounts_without_usage_have_the_whole_fair_share() -> None:
    """As ``sshare`` shows it on 22.05.8, however many users an account has."""
    accounts = {"ran": "busy", "ann": "small", "bob": "large", "bea": "large"}
    table = JobTable.build(
        range(5), submit_s=[0, 1, 1, 1, 1], elapsed_s=[900] * 5, limit_s=[900] * 5, nodes=[4] * 5,
        user=["ran", *accounts], account=["busy", *accounts.values()],
    )  # fmt: skip
    cluster = Cluster.pool(4)
    sim = Simulation(cluster, workload(table, cluster), "slurm", SlurmSettings(weight_fairshare=10_000))
    sim.advance(400)
    pending = sim.view().pending
    assert dict(zip(pending.id.tolist(), pending.priority.tolist())) == {1: 2_000, 2: 10_000, 3: 10_000, 4: 10_000}
