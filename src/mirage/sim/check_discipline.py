"""Check of a queue discipline on small clusters; run it on your own before you plug it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mirage.errors import ConfigurationError, ContractBroken, MirageError, shown
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.disciplines.discipline_registry import DisciplineSpec, discipline_spec
from mirage.sim.simulation import Simulation
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable

JOBS = 60
_CROWD_S = (5, 100, 500)
"""Jobs arrive within this many seconds: the fewer, the more of them overlap."""


def check_discipline(discipline: str | DisciplineSpec, seeds: int = 4) -> None:
    """Run a discipline on every kind of cluster that it supports and check its schedules.

    Every job runs, none early, beyond its limit, or on missing nodes (``check_schedule``). A second run gives the same
    schedule, and so does a fork taken on the way.

    Args:
        discipline: Its name or its specification.
        seeds: Number of workloads on each cluster.

    Raises:
        ContractBroken: The first violation found.
        ConfigurationError: It is neither, or there is no workload.
    """
    spec = discipline_spec(discipline) if isinstance(discipline, str) else discipline
    if not isinstance(spec, DisciplineSpec):
        raise ConfigurationError(f"a discipline is checked by its name or its DisciplineSpec; got {shown(spec)}")
    if seeds < 1:
        raise ConfigurationError(f"a check needs a workload, got {seeds} seeds; give at least 1")
    for kind, cluster in _clusters(spec):
        for seed in range(seeds):
            try:
                _check(spec, cluster, _jobs(cluster, seed))
            except MirageError as error:
                raise ContractBroken(f"{spec.entry} on {kind}, seed {seed}: {error}") from error


def _check(spec: DisciplineSpec, cluster: Cluster, jobs: Workload) -> None:
    sim = Simulation(cluster, jobs, spec)
    sim.advance(sim.now_s + 60)
    fork = sim.fork()
    schedule = sim.run()
    check_schedule(schedule, cluster)
    for again, what in ((fork, "a fork"), (Simulation(cluster, jobs, spec), "a second run")):
        if again.run().segments.tobytes() != schedule.segments.tobytes():
            raise ContractBroken(f"{what} gives another schedule; a discipline must depend on its arguments alone")


def _clusters(spec: DisciplineSpec) -> Iterator[tuple[str, Cluster]]:
    over_both = (Partition("p0"), Partition("p1", ("b",)))
    yield "one pool", Cluster.pool(7)
    if not spec.one_pool:
        yield "two pools", Cluster((NodeGroup("a", 3), NodeGroup("b", 4)), over_both)
        shared = Cluster((NodeGroup("a", 3, 2, 4), NodeGroup("b", 2, 4, 8)), over_both, shared_nodes=True)
        yield "shared nodes", shared
        small, large = (replace(group, memory_mib=group.cpus * 10) for group in shared.groups)
        yield "shared nodes with memory", replace(shared, groups=(small, large))
    if spec.reservations:
        made = (Reservation(130, 180, "node", 3), Reservation(300, 400, "node", 7, announced_s=200))
        yield "one pool with reservations", replace(Cluster.pool(7), reservations=made)
    if spec.limits:
        yield "one pool with limits", replace(Cluster.pool(7), limits=(Limit(jobs=2), Limit("all", nodes=5)))
    if spec.reservations and not spec.one_pool:
        pools = Cluster((NodeGroup("a", 3), NodeGroup("b", 4)), over_both)
        yield "two pools with a reservation", replace(pools, reservations=(Reservation(130, 300, "b", 3),))


def _jobs(cluster: Cluster, seed: int) -> Workload:
    """Jobs that fit the cluster, of varying density; half end long before their limit."""
    random = np.random.default_rng(seed)
    nodes = random.integers(1, 3, JOBS, endpoint=True)
    limit_s = random.integers(1, 120, JOBS)
    table = JobTable.build(
        np.arange(JOBS),
        submit_s=np.sort(random.integers(0, _CROWD_S[seed % len(_CROWD_S)], JOBS)),
        elapsed_s=limit_s * random.integers(0, 2, JOBS) + random.integers(0, 5, JOBS),
        limit_s=limit_s,
        nodes=nodes,
        gpus=nodes * random.integers(0, 2, JOBS, endpoint=True) if cluster.shared_nodes else [-1] * JOBS,
        cpus=nodes * random.integers(1, 4, JOBS, endpoint=True),
        user=[f"user{k}" for k in random.integers(0, 4, JOBS)],
        partition=[f"p{k % len(cluster.partitions)}" if len(cluster.partitions) > 1 else "" for k in range(JOBS)],
        memory_mib=nodes * random.integers(0, 40, JOBS, endpoint=True),
    )
    return workload(table, cluster, refuse=False)
