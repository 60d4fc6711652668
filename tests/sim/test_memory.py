"""Memory of shared nodes: a node without free memory takes no job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import ClusterError, JobRefused
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster, NodeGroup, Partition, Reservation
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from tests.support.clusters import Case, cases, shared, with_reservations

ANYWHERE = ["fcfs", "easy", "conservative", "slurm"]
EXACT = SlurmSettings(bf_resolution_s=1)
ALL = 0
UNKNOWN = -1


def nodes(*memory_mib: int | None, **partition: int) -> Cluster:
    """Nodes of 8 GPUs and 64 CPUs with so much memory."""
    groups = tuple(NodeGroup(f"n{k}", 1, 8, 64, size) for k, size in enumerate(memory_mib))
    return Cluster(groups, (Partition("p", **partition),), shared_nodes=True)


def table(memory_mib: list[int], **columns: object) -> JobTable:
    """Jobs of one GPU, one CPU and 100 s, submitted at once by default."""
    n = len(memory_mib)
    given: dict[str, object] = {"submit_s": [0] * n, "limit_s": [100] * n, "nodes": [1] * n, "gpus": [1] * n}
    given |= {"cpus": [1] * n} | columns
    return JobTable.build(range(n), **{"elapsed_s": given["limit_s"]} | given, memory_mib=memory_mib)


def starts_of(cluster: Cluster, jobs: JobTable, name: str) -> list[int]:
    schedule = simulate(cluster, workload(jobs, cluster), name, EXACT)
    check_schedule(schedule, cluster)
    starts: list[int] = schedule.start_s.tolist()
    return starts


# -- hand-calculated ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize(
    ("of_nodes", "memory_mib", "starts_s"),
    [
        ([100, 100], [60, 60, 60], [0, 0, 100]),
        ([100, 100], [60, 60, 40, 40], [0, 0, 0, 0]),
        ([100, 100], [50, 50, 50, 50, 1], [0, 0, 0, 0, 100]),
        ([None], [60, 60, 60], [0, 0, 0]),
        ([None, 100], [60, 60, 60], [0, 0, 0]),
        ([100, None], [1000, 1000], [0, 0]),
        ([None, 1], [ALL, ALL, 60], [0, 0, 0]),
        ([100], [ALL, 1], [0, 100]),
        ([100], [1, ALL], [0, 100]),
        ([100, 100], [ALL, ALL, ALL], [0, 0, 100]),
        ([100, 100], [10, 10, ALL, ALL], [0, 0, 0, 100]),
        ([100], [UNKNOWN, ALL, UNKNOWN], [0, 0, 0]),
        ([100], [100, UNKNOWN], [0, 0]),
    ],
)
def test_jobs_start_where_memory_is_free(
    name: str, of_nodes: list[int | None], memory_mib: list[int], starts_s: list[int]
) -> None:
    assert starts_of(nodes(*of_nodes), table(memory_mib), name) == starts_s


@pytest.mark.parametrize("name", ANYWHERE)
def test_memory_of_several_nodes_is_that_of_each_rounded_up(name: str) -> None:
    jobs = table([119, 41, 40], nodes=[2, 1, 1], gpus=[2, 1, 1], cpus=[2, 1, 1])
    assert starts_of(nodes(100, 100), jobs, name)[:2] == [0, 100]


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_job_that_takes_nodes_whole_takes_their_memory(name: str) -> None:
    assert starts_of(nodes(100, 100), table([10, 10, 10], gpus=[-1, -1, 1]), name) == [0, 0, 100]
    assert starts_of(nodes(10, 100), table([50, 50], gpus=[-1, 1]), name) == [0, 100], "the small node is too small"


@pytest.mark.parametrize(
    ("name", "starts_s"),
    [
        ("fcfs", [0, 100, 200, 200, 200]),
        ("easy", [0, 100, 200, 0, 0]),
        ("conservative", [0, 100, 200, 0, 0]),
        ("slurm", [0, 100, 200, 0, 0]),
    ],
)
def test_the_head_finds_its_memory_when_it_was_promised(name: str, starts_s: list[int]) -> None:
    """The head waits for 80 of 100 MiB until 100 s, so 20 are left for longer jobs."""
    jobs = table([30, 80, 40, 20, 40], limit_s=[100, 100, 200, 200, 100])
    assert starts_of(nodes(100), jobs, name) == starts_s


@pytest.mark.parametrize("name", ANYWHERE)
def test_memory_comes_back_with_a_node_and_goes_with_it(name: str) -> None:
    away = (CapacityChange(0, "n0", -1), CapacityChange(50, "n0", 1))
    assert starts_of(replace(nodes(100), changes=away), table([100, 1]), name) == [50, 150]
    reserved = (Reservation(50, 80, "n1", 1),)
    jobs = table([60, 60, 60], limit_s=[100, 100, 40], submit_s=[0, 0, 1])
    found = starts_of(replace(nodes(100, 100), reservations=reserved), jobs, name)
    assert found == [0, 80, 1 if name in ("easy", "conservative") else 100], "slurm's next pass is too late for the gap"


def test_memory_is_free_a_turnover_after_a_job() -> None:
    cluster = nodes(100)
    for name in ANYWHERE:
        sim = Simulation(cluster, workload(table([60, 60]), cluster), name, replace(EXACT, turnover_s=7))
        assert sim.run().start_s.tolist()[0] == 0
        assert sim.schedule().start_s.tolist()[1] == 107


def test_a_job_displaces_another_for_its_memory() -> None:
    qos = {"qos_factors": {"low": 1.0, "high": 2.0}, "qos_preempts": {"high": ("low",)}}
    cluster = replace(nodes(100, 100), **qos)
    jobs = table([60, 60, 60], submit_s=[0, 1, 10], qos=["low", "low", "high"])
    sim = Simulation(cluster, workload(jobs, cluster), "slurm", replace(EXACT, youngest_first=True))
    sim.advance(10)
    running = sim.view().running
    assert sorted(running.id.tolist()) == [0, 2]
    assert running.start_s[running.id == 2].tolist() == [10]


# -- what nobody told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "starts_s"),
    [
        ({}, [0, 0, 0]),
        ({"default_memory_mib": 40}, [0, 0, 100]),
        ({"default_memory_per_cpu_mib": 20}, [0, 0, 100]),
        ({"default_memory_per_gpu_mib": 15}, [0, 0, 100]),
        ({"default_memory_mib": 10**9}, [0, 100, 200]),
    ],
)
def test_a_job_of_which_nothing_is_known_takes_the_default(default: dict[str, int], starts_s: list[int]) -> None:
    jobs = table([UNKNOWN] * 3, gpus=[2] * 3, cpus=[2] * 3)
    if "default_memory_per_gpu_mib" in default:
        jobs = jobs.with_columns(gpus=np.array([3, 3, 2]))  # 45, 45 and 30 MiB
    assert starts_of(nodes(100, **default), jobs, "easy") == starts_s


def test_an_injected_job_requests_memory_or_takes_the_default() -> None:
    cluster = nodes(100, default_memory_mib=30)
    sim = Simulation(cluster, workload(table([60]), cluster), "easy")
    sim.advance(1)
    request = {"nodes": 1, "limit_s": 10, "gpus": 1}
    assert sim.run_until_started(sim.inject(**request, memory=50)) == 100
    sim = Simulation(cluster, workload(table([60]), cluster), "easy")
    sim.advance(1)
    assert sim.run_until_started(sim.inject(**request)) == 1
    assert sim.run_until_started(sim.inject(**request)) == 11, "10 MiB are left beside 60 and 30"
    with pytest.raises(JobRefused, match="MiB each"):
        sim.inject(**request, memory=101)
    with pytest.raises(JobRefused, match="memory=-2"):
        sim.inject(**request, memory=-2)


def test_a_job_that_no_node_has_memory_for_is_refused_or_left_out() -> None:
    jobs = table([60, 101, 202], nodes=[1, 1, 2], gpus=[1, 1, 2], cpus=[1, 1, 2])
    with pytest.raises(
        JobRefused,
        match=r"it requests 1 node with 1 GPU, 1 CPU, 101 MiB each, and partition 'p' has 0",
    ):
        workload(jobs, nodes(100, 100))
    assert workload(jobs, nodes(100, 101), refuse=False).table.job_id.tolist() == ["0", "1"]
    assert workload(jobs, nodes(None, None, 1)).table.job_id.tolist() == ["0", "1", "2"]


def test_a_node_without_memory_is_none() -> None:
    with pytest.raises(ClusterError, match="group 'n0' has 0 MiB of memory"):
        nodes(0)


def test_views_show_gpus_and_cpus() -> None:
    cluster = nodes(100, 100)
    sim = Simulation(cluster, workload(table([60]), cluster), "easy")
    sim.advance(0)
    assert sim.view().nodes.free.tolist() == [[7, 63], [8, 64]]
    assert sim.view().nodes.capacity.tolist() == [[8, 64], [8, 64]]


def test_memory_counts_where_jobs_share_nodes_alone() -> None:
    pool = Cluster((NodeGroup("node", 2, memory_mib=100),))
    assert not pool.counts_memory
    assert starts_of(pool, table([1000, 1000]), "easy") == [0, 0]


# -- beside what is known to be right -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANYWHERE)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_memory_is_counted_as_cores_are(name: str, data: st.DataObject) -> None:
    """On one node, jobs short of memory wait as jobs short of as many cores do."""
    size = data.draw(st.integers(2, 12))
    one = Cluster((NodeGroup("n", 1, 4, size),), shared_nodes=True)
    case = data.draw(cases(st.just(one) | with_reservations(st.just(one))))
    other = replace(case.cluster, groups=(NodeGroup("n", 1, 4, 1000, size),))
    jobs = workload(
        case.jobs.table.with_columns(cpus=np.ones_like(case.jobs.table.cpus), memory_mib=case.jobs.table.cpus), other
    )
    scheduler = SlurmSettings(weight_age=1000, turnover_s=case.turnover_s, calc_period_s=60)
    by_cores = Simulation(case.cluster, case.jobs, name, scheduler).run()
    by_memory = Simulation(other, jobs, name, scheduler).run()
    np.testing.assert_array_equal(by_memory.start_s, by_cores.start_s)


@pytest.mark.parametrize("name", ANYWHERE)
@settings(max_examples=30, deadline=None)
@given(case=cases(shared()))
def test_memory_that_never_runs_short_changes_nothing(name: str, case: Case) -> None:
    roomy = replace(case.cluster, groups=tuple(replace(group, memory_mib=10**6) for group in case.cluster.groups))
    jobs = workload(case.jobs.table.with_columns(memory_mib=case.jobs.table.cpus), roomy)
    scheduler = SlurmSettings(weight_age=1000, weight_size=100, turnover_s=case.turnover_s)
    without = Simulation(case.cluster, case.jobs, name, scheduler).run()
    np.testing.assert_array_equal(Simulation(roomy, jobs, name, scheduler).run().start_s, without.start_s)


def test_accounts_of_a_real_slurm_fit_its_nodes(shared_data) -> None:  # type: ignore[no-untyped-def]
    """Eight jobs of 8 CPUs and 22,400 MiB on nodes of 64 CPUs, 62,000 MiB: two fit one."""
    found = read_trace(shared_data / "sacct-fixtures/xdmod/pozidriv.log.gz", on_error="skip").table
    alike = found[(found.memory_mib == 22_400) & (found.cpus == 8) & (found.nodes == 1)][:8]
    assert len(alike) == 8
    jobs = alike.with_columns(
        submit_s=np.zeros(8, np.int64), start_s=np.full(8, -1), end_s=np.full(8, -1),
        elapsed_s=np.full(8, 50), limit_s=np.full(8, 50),
    )  # fmt: skip
    machine = Cluster((NodeGroup("n", 2, 0, 64, 62_000),), shared_nodes=True)
    assert starts_of(machine, jobs, "easy") == [0, 0, 0, 0, 50, 50, 50, 50]
