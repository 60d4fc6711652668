"""Random clusters and workloads, small enough that jobs meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mirage.job_state import JobState
from mirage.sim.cluster import LIMITED_PER, CapacityChange, Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable

HORIZON_S = 300


@dataclass(frozen=True)
class Case:
    """A cluster and what is submitted to it."""

    cluster: Cluster
    jobs: Workload
    turnover_s: int = 0

    def __repr__(self) -> str:
        names = ("submit_s", "begin_s", "run_s", "limit_s", "nodes", "gpus", "cpus", "memory", "user", "partition")
        jobs = self.jobs.jobs
        columns = {name: jobs[name].tolist() for name in (*names, "after", "after_kind", "failed")}
        return f"Case({self.cluster}, {columns}, {self.turnover_s})"


@st.composite
def pools(draw: st.DrawFn) -> Cluster:
    return Cluster.pool(draw(st.integers(1, 12)))


def _partitions(draw: st.DrawFn, groups: tuple[NodeGroup, ...]) -> tuple[Partition, ...]:
    names = [g.name for g in groups]
    subsets = draw(st.lists(st.sets(st.sampled_from(names)), min_size=1, max_size=3))
    tiers = [draw(st.integers(1, 2)) for _ in subsets]
    return tuple(Partition(f"p{k}", tuple(sorted(s)), tier) for k, (s, tier) in enumerate(zip(subsets, tiers)))


@st.composite
def grouped(draw: st.DrawFn) -> Cluster:
    """Several pools of whole nodes, partitions over them."""
    counts = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    groups = tuple(NodeGroup(f"g{k}", count) for k, count in enumerate(counts))
    return Cluster(groups, _partitions(draw, groups))


@st.composite
def shared(draw: st.DrawFn) -> Cluster:
    """Nodes shared GPU by GPU and core by core."""
    kinds = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 8)), min_size=1, max_size=3))
    groups = tuple(NodeGroup(f"g{k}", count, gpus, cpus) for k, (count, gpus, cpus) in enumerate(kinds))
    return Cluster(groups, _partitions(draw, groups), shared_nodes=True)


@st.composite
def with_memory(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Shared nodes that declare memory, all or some; partitions with every kind of default."""
    cluster = draw(clusters)
    sizes = draw(st.lists(st.none() | st.integers(1, 50), min_size=len(cluster.groups), max_size=len(cluster.groups)))
    sizes[0] = sizes[0] or 20
    kinds = ("default_memory_mib", "default_memory_per_cpu_mib", "default_memory_per_gpu_mib")
    defaults: list[dict[str, Any]] = [
        {draw(st.sampled_from(kinds)): draw(st.integers(1, 10))} if draw(st.booleans()) else {}
        for _ in cluster.partitions
    ]
    return replace(
        cluster,
        groups=tuple(replace(group, memory_mib=size) for group, size in zip(cluster.groups, sizes)),
        partitions=tuple(replace(own, **default) for own, default in zip(cluster.partitions, defaults)),
    )


@st.composite
def with_limits(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Up to three limits, on users, accounts or all, for all jobs or some QOS and partitions."""
    cluster = replace(draw(clusters), qos_factors={"q1": 1.0, "q2": 5.0})
    most = {"jobs": 3, "nodes": cluster.nodes, "gpus": sum(g.count * g.gpus for g in cluster.groups)}
    least = {"gpus": max(g.gpus for g in cluster.groups)}  # a job of one node has room
    names = {"qos": ["", *cluster.qos_factors], "partitions": [p.name for p in cluster.partitions]}
    limits = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = draw(st.sets(st.sampled_from(sorted(most)), min_size=1))
        among: dict[str, Any] = {of: tuple(sorted(draw(st.sets(st.sampled_from(some))))) for of, some in names.items()}
        per = draw(st.sampled_from(LIMITED_PER))
        values: dict[str, Any] = {kind: draw(st.integers(least.get(kind, 1), most[kind])) for kind in kinds}
        limits.append(Limit(per, **values, **among))
    return replace(cluster, limits=tuple(limits))


@st.composite
def with_changes(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Nodes go and come back; a pool may also grow."""
    cluster = draw(clusters)
    changes: list[CapacityChange] = []
    for group in cluster.groups:
        level = peak = group.count
        most = group.count + (0 if cluster.shared_nodes else 3)
        for time_s in sorted(draw(st.lists(st.integers(0, HORIZON_S), max_size=3))):
            target = draw(st.integers(0, most))
            if target != level:
                changes.append(CapacityChange(time_s, group.name, target - level))
            level, peak = target, max(peak, target)
        if level < peak:  # nobody waits for ever
            changes.append(CapacityChange(HORIZON_S + 1, group.name, peak - level))
    return replace(cluster, changes=tuple(changes))


@st.composite
def with_reservations(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Up to three reservations that fit together, announced before they begin or always known."""
    cluster = draw(clusters)
    made: list[Reservation] = []
    for _ in range(draw(st.integers(1, 3))):
        group = draw(st.sampled_from(cluster.groups))
        start_s = draw(st.integers(0, HORIZON_S))
        end_s = start_s + draw(st.integers(1, HORIZON_S))
        reserved = sum(r.nodes for r in made if r.group == group.name and r.start_s < end_s and start_s < r.end_s)
        if reserved < group.count:
            announced_s = draw(st.none() | st.integers(0, start_s))
            nodes = draw(st.integers(1, group.count - reserved))
            made.append(Reservation(start_s, end_s, group.name, nodes, announced_s))
    return replace(cluster, reservations=tuple(made))


@st.composite
def cases(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster], *, waits: bool = False, max_jobs: int = 25) -> Case:
    """A cluster with jobs that fit it; number and seed are drawn, which is much faster.

    Half of the clusters need time between two jobs on a node.

    Args:
        waits: Whether jobs also wait for each other and for a time.
    """
    cluster = draw(clusters)
    n = draw(st.integers(1, max_jobs))
    case = random_case(cluster, n, draw(st.integers(0, 2**32 - 1)), waits)
    return replace(case, turnover_s=draw(st.sampled_from([0, 0, 7, 40])))


def _owners(cluster: Cluster, n: int, seed: int) -> dict[str, list[str]]:
    """QOS and accounts of jobs, where limits depend on them."""
    if not cluster.limits:
        return {}
    rng = np.random.default_rng(seed + 1)
    return {
        "qos": [str(name) for name in rng.choice(["", *cluster.qos_factors], n)],
        "account": [str(name) for name in rng.choice(["", "a1", "a2"], n)],
    }


def _memory(cluster: Cluster, nodes: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Memory of jobs, where the cluster counts it: none given, all of the nodes, or some."""
    if not cluster.counts_memory:
        return {}
    most = max(group.memory_mib or 0 for group in cluster.groups)
    a_node = np.random.default_rng(seed + 2).integers(-1, most, len(nodes), endpoint=True)
    return {"memory_mib": np.where(a_node < 0, -1, a_node * nodes)}


def random_case(cluster: Cluster, n: int, seed: int, waits: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    crowd_s = rng.choice([5, 60, HORIZON_S])  # the shorter, the more ties
    submit_s = np.sort(rng.integers(0, crowd_s, n))
    nodes = rng.integers(1, max(cluster.nodes * 2 // 3, 1), n, endpoint=True)
    gpus = rng.integers(-1, max(g.gpus for g in cluster.groups), n, endpoint=True)
    cpus = rng.integers(1, max(g.cpus for g in cluster.groups), n, endpoint=True)
    partitions = rng.integers(0, len(cluster.partitions), n)
    after, kinds = rng.integers(0, 3 * n, n), rng.choice(["after", "afterany", "afterok"], n)
    table = JobTable.build(
        np.arange(n),
        submit_s=submit_s,
        elapsed_s=rng.integers(0, 100, n) * rng.integers(0, 2, n) + rng.integers(0, 5, n),
        limit_s=rng.choice([1, 2, 10, 60, 120], n) + rng.integers(0, 3, n),
        nodes=nodes,
        gpus=np.where(gpus < 0, -1, gpus * nodes),
        cpus=cpus * nodes,
        state=np.where(rng.random(n) < 0.8, int(JobState.COMPLETED), int(JobState.FAILED)),
        user=[f"u{u}" for u in rng.integers(0, 4, n)],
        partition=[f"p{p}" if len(cluster.partitions) > 1 else "" for p in partitions],
        **_owners(cluster, n, seed),
        **_memory(cluster, nodes, seed),
        dependency=[f"{kinds[row]}:{after[row]}" if waits and after[row] < row else "" for row in range(n)],
    )
    jobs = workload(table, cluster, refuse=False)
    if waits:
        begin_s = rng.integers(0, 2 * HORIZON_S, n)[jobs.table.job_id.astype(np.int64)]
        jobs.jobs.begin_s[:] = np.where(begin_s <= HORIZON_S, begin_s, -1)
    return Case(cluster, jobs)
