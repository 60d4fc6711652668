"""Admission of jobs: admitted, refused with the reason, left out and counted; growth."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import ClusterError, ConfigurationError, ContractBroken, JobRefused
from mirage.job_state import JobState
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup, Partition
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.sim.kernel.arrays import NEVER_S
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable
from tests.support.audit import audit

ANYWHERE = ["fcfs", "easy", "conservative", "slurm"]


def table(*rows: tuple[int, int, int, int], **columns: object) -> JobTable:
    """Jobs (submit_s, run_s, limit_s, nodes) called j0, j1, …"""
    numbers = dict(zip(("submit_s", "elapsed_s", "limit_s", "nodes"), zip(*rows)))
    return JobTable.build([f"j{k}" for k in range(len(rows))], **numbers, **columns)


SMALL = NodeGroup("small", 2, gpus=1, cpus=4)
LARGE = NodeGroup("large", 1, gpus=4, cpus=8)
GPUS = Cluster((SMALL, LARGE), (Partition("all"), Partition("few", ("small",), max_limit_s=3600)), shared_nodes=True)


def limited(limit: Limit) -> Cluster:
    return Cluster((NodeGroup("node", 4, gpus=4),), qos_factors={"q": 1.0}, limits=(limit,))


@pytest.mark.parametrize(
    ("cluster", "jobs", "message"),
    [
        (
            Cluster.pool(4),
            table((0, 1, 9, 5)),
            "j0 can never run: it requests 5 nodes, and the cluster has 4",
        ),
        (
            GPUS,
            table((0, 1, 9, 4), gpus=[4]),
            "it requests 4 nodes with 1 GPU, 1 CPU each, and partition 'all' has 3 such",
        ),
        (
            GPUS,
            table((0, 1, 9, 2), gpus=[8]),
            "it requests 2 nodes with 4 GPUs, 1 CPU each, and partition 'all' has 1 such",
        ),
        (
            GPUS,
            table((0, 1, 9, 1), gpus=[5]),
            r"1 CPU each, and partition 'all' has 0 such nodes \(a node has 1 GPU, 4 CPUs or 4 GPUs, 8 CPUs\)",
        ),
        (
            GPUS,
            table((0, 1, 9, 1), gpus=[2], partition=["few"]),
            "with 2 GPUs, 1 CPU each, and partition 'few' has 0",
        ),
        (
            GPUS,
            table((0, 1, 9, 1), cpus=[9]),
            "with 9 CPUs each, and partition 'all' has 0 such nodes",
        ),
        (GPUS, table((0, 1, 7200, 1), gpus=[1], partition=["few"]), "its time limit is 02:00:00 and partition 'few' a"),
        (
            Cluster((NodeGroup("node", 4),), (Partition("p", max_nodes=2),)),
            table((0, 1, 9, 3), (0, 1, 9, 2)),
            r"it requests 3 nodes and partition 'p' allows 2 \(1 such job in all",
        ),
        (limited(Limit(nodes=1)), table((0, 1, 9, 2)), "it counts as 2 nodes and the limit is 1 node per user"),
        (limited(Limit("all", gpus=7)), table((0, 1, 9, 2)), "as 8 GPUs and the limit is 7 GPUs of all together"),
        (limited(Limit("all", jobs=0)), table((0, 1, 9, 1)), "it counts as 1 job and the limit is 0 jobs of all"),
        (limited(Limit(jobs=0, qos=("q",))), table((0, 1, 9, 1), qos=["q"]), "is 0 jobs per user of QOS q"),
    ],
)
def test_a_job_that_can_never_run_is_refused_with_the_shortfall(cluster: Cluster, jobs: JobTable, message: str) -> None:
    with pytest.raises(JobRefused, match=message):
        workload(jobs, cluster)


def test_a_workload_of_another_cluster_is_refused() -> None:
    jobs = workload(table((0, 10, 20, 1), (5, 10, 20, 4)), Cluster.pool(4))
    with pytest.raises(JobRefused, match="job j1 can never run: it requests 4 nodes, and the cluster has 3 "):
        Simulation(Cluster.pool(3), jobs, "easy")


@pytest.mark.parametrize("returned", [None, []])
def test_a_policy_that_returns_no_plan_is_named(returned: Any) -> None:
    class Careless:
        def decide(self, view: object) -> Any:
            return returned

    with pytest.raises(ContractBroken, match=rf"Careless returns {returned!r}".replace("[", r"\[")):
        simulate(Cluster.pool(3), table((0, 10, 20, 1)), Careless())


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("jobs.csv", r"jobs must be a JobTable, such as read_trace\(file\)\.table, got str"),
        (
            JobTable.build(["j"], submit_s=[1_700_000_000_000], nodes=[1], elapsed_s=[1]),
            "submit_s is 1700000000000, after 2099; give seconds since 1970, not milliseconds",
        ),
    ],
)
def test_jobs_that_are_no_table_or_not_in_seconds_are_refused(jobs: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        simulate(Cluster.pool(2), jobs)


@pytest.mark.parametrize(
    ("cluster", "settings", "message"),
    [
        (76, None, r"the cluster must be a Cluster, such as Cluster\.pool\(76\), got 76"),
        (Cluster.pool(2), {"weight_age": 5}, "the settings must be SlurmSettings, got {'weight_age': 5}"),
    ],
)
def test_what_is_no_cluster_or_no_settings_is_refused(cluster: Any, settings: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        simulate(cluster, table((0, 10, 20, 1)), "easy", settings)


def test_a_job_that_fits_the_machine_once_it_has_grown_is_let_in() -> None:
    cluster = Cluster((NodeGroup("node", 2),), changes=(CapacityChange(100, "node", 3),))
    for name in ANYWHERE:
        schedule = simulate(cluster, workload(table((0, 10, 20, 4), (0, 10, 20, 1)), cluster), name)
        check_schedule(schedule, cluster)
        assert schedule.start_s[0] == 100


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_cluster_may_grow_by_more_nodes_than_it_had(name: str) -> None:
    groups = (NodeGroup("a", 1), NodeGroup("b", 1))
    cluster = Cluster(groups, changes=(CapacityChange(10, "a", 500), CapacityChange(10, "b", 500)))
    jobs = workload(table(*[(20, 50, 60, 1)] * 1002), cluster)
    sim = Simulation(cluster, jobs, name, SlurmSettings(max_job_test=2000, default_queue_depth=2000))
    sim.advance(30)
    audit(sim)
    assert len(sim.view().running) == 1002


def test_what_is_left_out_is_counted_and_dependencies_still_point_at_the_right_jobs() -> None:
    rows = [(0, 50, 60, 1), (0, 50, 60, 9), (0, 10, 60, 1), (0, 10, 60, 1), (0, -1, 60, 1)]
    jobs = table(*rows, dependency=["", "", "afterany:j0", "afterok:j1", ""])
    work = workload(jobs, Cluster.pool(2), refuse=False)
    assert work.left_out == {"tell no run time": 1, "can never run": 1}
    assert work.dependencies_dropped == 0
    assert work.table.job_id.tolist() == ["j0", "j2", "j3"]
    assert work.jobs.id.tolist() == [0, 1, 2]
    assert simulate(Cluster.pool(2), work, "fcfs").start_s.tolist() == [0, 50, 0]  # j1 counts as ended


def test_jobs_from_before_the_beginning_count_as_ended() -> None:
    jobs = workload(table((0, 10, 20, 1), (50, 10, 20, 1), dependency=["", "afterok:j0"]), Cluster.pool(1))
    sim = Simulation(Cluster.pool(1), jobs, "fcfs", begin_s=40)
    assert sim.run().start_s.tolist() == [-1, 50]


def test_a_job_cut_off_with_the_end_of_the_trace_is_not_waited_for() -> None:
    whole = workload(table((0, 10, 20, 1), (50, 10, 20, 1), dependency=["afterany:j1", ""]), Cluster.pool(1))
    first = Workload(whole.jobs[:1].copy().view(np.recarray), whole.table[:1], {})
    assert simulate(Cluster.pool(1), first, "fcfs").start_s.tolist() == [0]


# -- jobs from outside --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"nodes": 4}, "and partition 'all' has 3"),
        ({"nodes": 1, "gpus": 5}, "partition 'all' has 0 such nodes"),
        ({"nodes": 1, "gpus": 2, "partition": 1}, "partition 'few' has 0"),
        ({"nodes": 1, "limit_s": 7200, "partition": 1}, "its time limit is 02:00:00"),
        ({"nodes": 1, "partition": 2}, "there is no partition 2; there are 2"),
        ({"nodes": 1, "user": 99}, "there is no user 99"),
        ({"nodes": 1, "after": 12345}, "there is no job 12345 to wait for"),
        ({"nodes": 0}, "a job needs at least a node, a second and a CPU; got nodes=0"),
        ({"nodes": 1, "gpus": 0, "cpus": 0}, "got nodes=1, limit_s=60, gpus=0, cpus=0"),
        ({"nodes": 1, "limit_s": 0}, "limit_s=0"),
        ({"nodes": 1, "limit_s": 2**62}, "the longest limit is .* got limit_s=4611686018427387904"),
        ({"nodes": 1, "run_s": -1}, "a job needs a run time of 0 s or more .* run_s=-1"),
        ({"nodes": 1, "priority_offset": float("nan")}, "and a finite priority; .* priority_offset=nan"),
    ],
)
def test_an_injected_job_is_refused_for_the_same_reasons(wanted: dict[str, Any], message: str) -> None:
    sim = Simulation(GPUS, workload(table((0, 10, 20, 1), gpus=[1]), GPUS), "easy")
    with pytest.raises(JobRefused, match=message):
        sim.inject(**{"limit_s": 60, **wanted})
    for name, value in {"nodes": 1.5, "limit_s": timedelta(hours=1), "user": "ada", "partition": "gpu"}.items():
        with pytest.raises(ConfigurationError, match=rf"^{name} is {re.escape(repr(value))}; give a whole number"):
            sim.inject(**{"nodes": 1, "limit_s": 60, name: value})
    with pytest.raises(ConfigurationError, match=r"^until_s is nan; give a whole number"):
        sim.advance(math.nan)  # type: ignore[arg-type]
    audit(sim)


def test_a_time_after_all_events_is_reached_at_once() -> None:
    sim = Simulation(GPUS, workload(table((0, 10, 20, 1), gpus=[1]), GPUS), "easy")
    assert sim.advance(2**60) == NEVER_S - 1
    assert sim.schedule().end_s.tolist() == [10]


@pytest.mark.parametrize("name", ANYWHERE)
def test_an_injected_job_waits_for_another_and_for_its_time(name: str) -> None:
    cluster = Cluster.pool(2)
    sim = Simulation(cluster, workload(table((0, 100, 200, 1)), cluster), name)
    sim.advance(10)
    waits_for_job = sim.inject(nodes=1, limit_s=30, after=0)
    waits_for_time = sim.inject(nodes=1, limit_s=30, begin_s=70)
    waits_for_both = sim.inject(nodes=1, limit_s=30, after=0, begin_s=170)
    unrivalled = sim.inject(nodes=1, limit_s=10)
    sim.run()
    starts_s = {int(s.id): int(s.start_s) for s in sim.segments()}
    passes_s = 30 if name == "slurm" else 1  # the main loop starts them at once; nothing waits for a pass here
    assert starts_s[waits_for_time] == 70
    assert starts_s[waits_for_job] == 100
    assert starts_s[waits_for_both] == 170
    assert starts_s[unrivalled] - 10 < passes_s


def test_the_start_of_a_watched_job_is_reported_even_after_the_fact() -> None:
    cluster = Cluster.pool(1)
    sim = Simulation(cluster, workload(table((0, 50, 60, 1)), cluster), "easy")
    sim.advance(10)
    link = sim.inject(nodes=1, limit_s=100)
    sim.advance(60)  # stops when the link starts
    assert sim.now_s == 50
    sim.advance(60)
    assert sim.run_until_started(link) == 50
    with pytest.raises(ValueError, match="has ended"):
        sim.run_until_started(link)


def test_approach_lets_everything_earlier_happen_though_a_watched_job_starts() -> None:
    cluster = Cluster.pool(1)
    sim = Simulation(cluster, workload(table((0, 50, 60, 1), (120, 10, 20, 1)), cluster), "easy")
    sim.advance(10)
    sim.inject(nodes=1, limit_s=40)
    sim.approach(130)
    audit(sim)
    assert sim.now_s == 130
    assert len(sim.view().ended) == 2
    assert sim.view().running.id.tolist() == [1]  # it ends at 130, and that has not happened yet


def test_only_a_fork_of_the_same_simulation_is_restored() -> None:
    one, other = (Simulation(Cluster.pool(nodes), table((0, 10, 20, 1)), "easy") for nodes in (2, 3))
    one.restore(one.fork().fork())
    with pytest.raises(ConfigurationError, match="restore takes a fork of the same simulation"):
        one.restore(other)


def test_a_job_due_when_the_clock_was_set_is_not_forgotten() -> None:
    cluster = Cluster.pool(1)
    sim = Simulation(cluster, workload(table((0, 5, 60, 1)), cluster), "easy")
    link = sim.inject(nodes=1, limit_s=40, begin_s=100)
    sim.approach(100)
    assert sim.run_until_started(link) == 100


# -- room ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ANYWHERE, "srtf", "mirage-2023"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_thousands_may_wait(name: str, nodes: int) -> None:
    cluster = Cluster.pool(nodes)
    n = 3000
    jobs = workload(table(*[(k // 100, 60, 60, 1) for k in range(n)]), cluster)
    schedule = simulate(cluster, jobs, name)
    check_schedule(schedule, cluster)
    assert schedule.metrics()["jobs"] == n


def test_thousands_may_be_injected() -> None:
    cluster = Cluster.pool(2)
    sim = Simulation(cluster, workload(table((0, 50, 60, 1)), cluster), "easy")
    ids = [sim.inject(nodes=1, limit_s=10) for _ in range(3000)]
    audit(sim)
    sim.run()
    assert sorted(sim.segments().id) == [0, *ids]


def test_unlimited_jobs_hold_their_nodes_and_no_plan_counts_on_their_end() -> None:
    cluster = Cluster.pool(2)
    rows = [(0, 10**9, UNLIMITED_S, 1), (0, 5, UNLIMITED_S, 2), (1, 5, UNLIMITED_S, 2), (2, 5, 9, 2), (3, 7, 9, 1)]
    work = workload(table(*rows), cluster)
    for name in ("easy", "conservative"):
        sim = Simulation(cluster, work, name)
        sim.advance(1000)
        audit(sim)
        assert sim.view().ended.end_s.tolist() == [10]  # the last job fits beside the endless one until anybody's turn


def test_an_empty_workload_is_over_at_once() -> None:
    cluster = Cluster.pool(1)
    empty = workload(JobTable.build([]), cluster)
    for name in ANYWHERE:
        assert simulate(cluster, empty, name).metrics()["jobs"] == 0


# -- clusters that cannot be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "shared", "message"),
    [
        ([(10, -3)], False, "would have -1 nodes from 1970-01-01T00:00:10Z on"),
        ([(10, -1), (20, -2)], True, "would have -1 nodes from 1970-01-01T00:00:20Z on"),
        (
            [(10, 1)],
            True,
            "would have 3 nodes from 1970-01-01T00:00:10Z on; changes must leave it 0 or more, and at most",
        ),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: list[tuple[int, int]], shared: bool, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        Cluster(
            (NodeGroup("g", 2, gpus=1),),
            shared_nodes=shared,
            changes=tuple(CapacityChange(at, "g", by) for at, by in changes),
        )


def test_nodes_that_leave_one_by_one_are_different_ones_and_come_back() -> None:
    cluster = Cluster(
        (NodeGroup("g", 3, gpus=1),),
        shared_nodes=True,
        changes=tuple(CapacityChange(at, "g", by) for at, by in [(10, -1), (20, -2), (30, 1), (40, 2)]),
    )
    sim = Simulation(cluster, workload(table((0, 5, 9, 1), (99, 5, 9, 1), gpus=[1, 1]), cluster), "easy")
    levels = []
    for time_s in (5, 15, 25, 35, 45):
        sim.advance(time_s)
        audit(sim)
        levels.append(int(sim.view().nodes.free[:, 0].sum()))
    assert levels == [3, 2, 0, 1, 3]


def test_one_pool_disciplines_refuse_other_clusters() -> None:
    work = workload(table((0, 5, 9, 1), gpus=[1]), GPUS)
    for name in (name for name, spec in DISCIPLINES.items() if spec.one_pool):
        with pytest.raises(ConfigurationError, match="supports one pool of whole nodes only"):
            Simulation(GPUS, work, name)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"end_s": [50], "elapsed_s": [0], "state": [JobState.CANCELLED]}, "never started"),
        ({"elapsed_s": [0], "state": [JobState.CANCELLED]}, "never started"),
        ({"end_s": [50]}, "never started"),
        ({"start_s": [10], "elapsed_s": [40], "state": [JobState.RUNNING]}, "had not ended"),
        ({"submit_s": [-1], "elapsed_s": [40]}, "tell no submission"),
        (
            {"nodes": [-1], "elapsed_s": [40]},
            "tell no nodes (map the columns with --columns, and nodes==1 for one each)",
        ),
        (
            {"nodes": [0], "elapsed_s": [40]},
            "tell no nodes (map the columns with --columns, and nodes==1 for one each)",
        ),
        ({}, "tell no run time"),
        ({"submit_s": [-1], "nodes": [-1], "end_s": [50]}, "never started"),
        ({"start_s": [10], "end_s": [10], "state": [JobState.CANCELLED]}, None),
        ({"end_s": [50], "elapsed_s": [40]}, None),
        ({"elapsed_s": [0]}, None),
    ],
)
def test_why_a_row_is_not_replayed(known: dict[str, list[int]], reason: str | None) -> None:
    work = workload(JobTable.build(["j"], **{"submit_s": [0], "nodes": [1], **known}), Cluster.pool(2))
    assert work.left_out == ({} if reason is None else {reason: 1})
    assert len(work.jobs) == (reason is None)


def test_a_job_cancelled_while_it_waited_blocks_no_other() -> None:
    jobs = JobTable.build(
        ["runs", "cancelled", "next"], submit_s=[0, 0, 0], elapsed_s=[100, 0, 10], end_s=[-1, 30, -1], nodes=[1, 2, 1],
        limit_s=[100, 100, 10], state=[JobState.COMPLETED, JobState.CANCELLED, JobState.COMPLETED],
    )  # fmt: skip
    assert simulate(Cluster.pool(2), workload(jobs, Cluster.pool(2)), "fcfs").start_s.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("dependency", "start_s", "dropped"),
    [
        ("afterany:j0", 50, 0),
        ("afterok:j0(unfulfilled)", 50, 0),
        ("afterok:j0,afterany:j1", 50, 1),
        ("singleton,afterany:j0", 50, 1),
        ("afterany:j0?afterany:j1", 50, 1),
        ("afterok:j0:j1", 50, 1),
        ("after:j0+5", 0, 1),
        ("singleton", 0, 1),
        ("afternotok:j0", 0, 1),
        ("afterany:gone", 0, 0),
    ],
)
def test_dependencies_that_are_not_modelled_are_counted(dependency: str, start_s: int, dropped: int) -> None:
    jobs = table((0, 50, 60, 1), (0, 70, 80, 1), (0, 10, 60, 1), dependency=["", "", dependency])
    work = workload(jobs, Cluster.pool(3))
    assert work.dependencies_dropped == dropped
    assert simulate(Cluster.pool(3), work, "fcfs").start_s[2] == start_s
