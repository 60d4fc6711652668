"""Limits on what runs at once: of users, accounts or all, by QOS and partition."""

from __future__ import annotations

import pytest

from mirage.errors import ClusterError, JobRefused
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

ANYWHERE = ["fcfs", "easy", "conservative", "slurm"]
BOTH = (Partition("p0"), Partition("p1"))
QOS = {"low": 1.0, "high": 5.0}


def table(n: int, **columns: object) -> JobTable:
    """Jobs of one node, 100 s, user u and account a by default, submitted at once."""
    given: dict[str, object] = {"submit_s": [0] * n, "elapsed_s": [100] * n, "limit_s": [100] * n, "nodes": [1] * n}
    return JobTable.build(range(n), **given | {"user": ["u"] * n, "account": ["a"] * n} | columns)


def cluster_with(*limits: Limit, shared: bool = False) -> Cluster:
    return Cluster((NodeGroup("node", 4, 8, 16),), BOTH, shared, qos_factors=QOS, limits=limits)


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize(
    ("limit", "columns", "starts_s"),
    [
        (Limit(jobs=2), {"user": ["u", "u", "u", "v"]}, [0, 0, 100, 0]),
        (Limit(nodes=2), {"user": ["u", "u", "v", "v"], "nodes": [2, 1, 1, 1]}, [0, 100, 0, 0]),
        (Limit(gpus=16), {"user": ["u", "u", "u", "v"]}, [0, 0, 100, 0]),
        (Limit("account", jobs=1), {"account": ["a", "b", "a", "b"]}, [0, 0, 100, 100]),
        (Limit("account", nodes=2), {"account": ["a", "a", "a", "b"]}, [0, 0, 100, 0]),
        (Limit("all", jobs=3), {"user": ["u", "v", "w", "x"]}, [0, 0, 0, 100]),
        (Limit("all", gpus=8), {"user": ["u", "v", "w", "x"]}, [0, 100, 200, 300]),
        (Limit("all", jobs=1, qos=("low",)), {"qos": ["low", "low", "high", ""]}, [0, 100, 0, 0]),
        (Limit("all", jobs=1, qos=("",)), {"qos": ["low", "low", "", ""]}, [0, 0, 0, 100]),
        (Limit(jobs=1, partitions=("p1",)), {"partition": ["p1", "p1", "p0", "p0"]}, [0, 100, 0, 0]),
        (Limit(jobs=1, qos=("low",), partitions=("p1",)),
         {"qos": ["low"] * 4, "partition": ["p1", "p0", "p1", "p0"]}, [0, 0, 100, 0]),
    ],
)  # fmt: skip
def test_whom_a_limit_stops(name: str, limit: Limit, columns: dict[str, list[object]], starts_s: list[int]) -> None:
    cluster = cluster_with(limit)
    schedule = simulate(cluster, workload(table(4, **columns), cluster), name)
    assert schedule.start_s.tolist() == starts_s
    check_schedule(schedule, cluster)


@pytest.mark.parametrize("name", ANYWHERE)
def test_every_limit_holds_and_gpus_are_counted_as_requested(name: str) -> None:
    cluster = cluster_with(Limit(jobs=3), Limit("all", gpus=9), shared=True)
    jobs_table = table(5, user=["u", "u", "u", "u", "v"], gpus=[2, 2, 2, 1, 3], cpus=[1] * 5)
    assert simulate(cluster, workload(jobs_table, cluster), name).start_s.tolist() == [0, 0, 0, 100, 0]
    whole = table(2, user=["u", "v"], gpus=[-1, 2], cpus=[-1, 1])
    assert simulate(cluster, workload(whole, cluster), name).start_s.tolist() == [0, 100], "8 and 2 are more than 9"


def test_a_job_over_a_limit_neither_closes_its_partition_nor_has_a_reservation() -> None:
    """Both loops of Slurm skip a wide job over a limit: it reserves no nodes."""
    length_s = {"elapsed_s": [100, 100, 900], "limit_s": [100, 100, 900]}
    jobs_table = table(3, user=["u", "u", "v"], submit_s=[0, 1, 1], nodes=[1, 4, 1], **length_s)
    settings = SlurmSettings(weight_size=1000)
    limited, free = cluster_with(Limit(jobs=1)), cluster_with()
    schedule = simulate(limited, workload(jobs_table, limited), "slurm", settings)
    assert schedule.start_s.tolist() == [0, 901, 1]
    assert simulate(free, workload(jobs_table, free), "slurm", settings).start_s.tolist() == [0, 100, 200]


def test_a_job_over_a_limit_gains_age() -> None:
    jobs_table = table(3, user=["u", "u", "v"], submit_s=[0, 0, 50], nodes=[4, 4, 4])
    cluster = cluster_with(Limit(jobs=1))
    schedule = simulate(cluster, workload(jobs_table, cluster), "slurm", SlurmSettings(weight_age=1_000_000))
    assert schedule.start_s.tolist() == [0, 100, 200]


def test_an_injected_job_counts_with_the_account_of_its_user() -> None:
    cluster = cluster_with(Limit("account", jobs=1))
    sim = Simulation(cluster, workload(table(2, user=["u", "v"], account=["a", "b"]), cluster), "easy")
    sim.advance(0)
    assert sim.run_until_started(sim.inject(nodes=1, limit_s=10, user=1)) == 100
    with pytest.raises(JobRefused, match="it counts as 1 job and the limit is 0 jobs per user of QOS high"):
        Simulation(
            cluster_with(Limit(jobs=0, qos=("high",))), workload(table(1), cluster), "easy"
        ).inject(nodes=1, limit_s=10, qos=2)  # fmt: skip


def test_a_job_admitted_under_one_qos_is_checked_again_under_another() -> None:
    cluster = cluster_with(Limit(nodes=1, qos=("high",)))
    sim = Simulation(cluster, workload(table(1), cluster), "easy")
    sim.inject(nodes=2, limit_s=10, qos=1)
    with pytest.raises(JobRefused, match="it counts as 2 nodes"):
        sim.inject(nodes=2, limit_s=10, qos=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limit("group", jobs=1), r"^a limit is per user, account, all; got 'group'$"),
        (Limit, r"^a limit needs jobs, nodes, gpus or ageing of 0 or more, got"),
        (lambda: Limit(jobs=-1), r"^a limit needs jobs, nodes, gpus or ageing of 0 or more"),
        (lambda: cluster_with(Limit(jobs=1, qos=("best",))), r"^no QOS 'best' to limit; there are \['', 'high', 'low'"),
        (lambda: cluster_with(Limit(jobs=1, partitions=("x",))), r"^no partition 'x' to limit; there are \['p0', 'p1'"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(make: object, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        make()  # type: ignore[operator]


def test_a_limit_in_words() -> None:
    assert str(Limit(jobs=2)) == "2 jobs per user"
    many = Limit("all", nodes=4, gpus=16, qos=("low",), partitions=("p0", "p1"))
    assert str(many) == "4 nodes and 16 GPUs of all together of QOS low in partition p0, p1"
