"""The workload of a simulation: a job table as checked records, in order of submission."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import format_duration
from mirage.errors import ConfigurationError, JobRefused, quantity, shown
from mirage.job_state import MISSING, JobState
from mirage.kernel.record_arrays import Records, records
from mirage.sim.cluster import Cluster, Limit, Partition
from mirage.sim.kernel.arrays import (
    AFTER_ANY,
    AFTER_NONE,
    AFTER_OK,
    AFTER_START,
    ANSWERS_END,
    NO_JOB,
    REQUEST,
    WHOLE_NODE,
)
from mirage.slurm_words.timestamps import LATEST_S
from mirage.trace.table import JobTable, Labels, check_table

_SUCCEEDS = (JobState.COMPLETED, JobState.UNKNOWN, JobState.RUNNING, JobState.PENDING)
_AFTER = {"after": AFTER_START, "afterany": AFTER_ANY, "afterok": AFTER_OK}
_SEPARATOR = re.compile("[,?]")


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs to replay.

    Attributes:
        jobs: REQUEST records by submit time; field ``id`` is the row here.
        table: The jobs' rows of the trace, in the same order.
        left_out: Reason → number of rows of the trace that are not replayed.
        dependencies_dropped: Number of jobs with simplified dependencies: of a list only the first entry of a supported
            kind is used, delays (``after:1+5``) are ignored.
    """

    jobs: Records
    table: JobTable
    left_out: dict[str, int]
    dependencies_dropped: int = 0

    @property
    def users(self) -> int:
        """Number of users to account for."""
        return max(len(self.table.user.names), 1) + 1

    def require_jobs(self, trace: str = "the trace") -> None:
        """Refuses a workload without jobs.

        Args:
            trace: Name of the trace, for the message.

        Raises:
            ConfigurationError: There are no jobs; the message says why.
        """
        if not len(self.jobs):
            reasons = ", ".join(f"{count:,} that {reason}" for reason, count in self.left_out.items())
            why = f"left out: {reasons}" if reasons else "no job was read from it; name another trace"
            raise ConfigurationError(f"{trace} has no job to simulate; {why}")


def workload(table: JobTable, cluster: Cluster, *, refuse: bool = True) -> Workload:
    """Convert a trace into the simulator's form.

    A job without a time limit gets its run time as limit, as in studies of SWF logs. Rows that never ran, or without a
    run time or a number of nodes in the trace, are left out: they cannot be replayed.

    Args:
        table: The trace.
        cluster: The simulated cluster.
        refuse: Whether a job that can never run is an error; otherwise it is left out and counted.

    Raises:
        ConfigurationError: The trace is no job table, or submits a job after 2099; or the cluster is none.
        JobRefused: A job is larger than the machine, or requests what no node has.
    """
    if not isinstance(cluster, Cluster):
        raise ConfigurationError(f"the cluster must be a Cluster, such as Cluster.pool(76), got {shown(cluster)}")
    check_table(table)
    if (last_s := int(table.submit_s.max(initial=0))) > LATEST_S:
        raise ConfigurationError(f"submit_s is {last_s}, after 2099; give seconds since 1970, not milliseconds")
    amiss = _amiss(table)
    left_out = {reason: int(rows.sum()) for reason, rows in amiss.items() if rows.any()}
    replayed = (table[~np.any(list(amiss.values()), axis=0)] if left_out else table).sorted_by_submit()
    jobs, dropped = _with_dependencies(job_records(replayed, cluster), replayed)
    if refuse:
        refuse_misfits(jobs, replayed, cluster)
    elif reasons := misfits(jobs, cluster):
        stays = np.ones(len(replayed), dtype=bool)
        stays[list(reasons)] = False
        left_out["can never run"] = len(reasons)
        replayed, jobs = replayed[stays], jobs[stays].copy().view(np.recarray)
        renumber(jobs)
    return Workload(jobs, replayed, left_out, dropped)


def refuse_misfits(jobs: Records, table: JobTable, cluster: Cluster) -> None:
    """Refuses jobs that can never run.

    Args:
        jobs: REQUEST records.
        table: Their rows of the trace.
        cluster: The simulated cluster.

    Raises:
        JobRefused: A job is larger than the machine, or requests what no node has.
    """
    if reasons := misfits(jobs, cluster):
        row, reason = next(iter(reasons.items()))
        raise JobRefused(
            f"job {table.job_id[row]} can never run: {reason} ({quantity(len(reasons), 'such job')} in all; "
            "leave them out with --skip-impossible, or change the simulated cluster)"
        )


def _amiss(table: JobTable) -> dict[str, NDArray[np.bool_]]:
    """Reason → rows that cannot be replayed for it, shape (n,); each under its first reason."""
    reasons = {
        "never started": table.never_started,
        "had not ended": table.unfinished,
        "tell no submission": table.submit_s < 0,
        "tell no nodes (map the columns with --columns, and nodes==1 for one each)": table.nodes <= 0,
        "tell no run time": table.run_s < 0,
    }
    found: dict[str, NDArray[np.bool_]] = {}
    excluded = np.zeros(len(table), dtype=bool)
    for reason, rows in reasons.items():
        found[reason] = rows & ~excluded
        excluded |= rows
    return found


def other_partitions(table: JobTable, cluster: Cluster) -> dict[str, int]:
    """Number of jobs by partition of a trace, for partitions that a cluster lacks.

    These jobs run in its first partition. There are none if the cluster declares no partitions.
    """
    known = [partition.name for partition in cluster.partitions]
    if not cluster.partitions[0].declared:
        return {}
    counts = np.bincount(table.partition.codes[table.partition.codes >= 0], minlength=len(table.partition.names))
    return {name: int(n) for name, n in zip(table.partition.names, counts, strict=True) if n and name not in known}


def renumber(jobs: Records) -> None:
    """Renumber ids as rows after rows were dropped; dependencies on dropped jobs count as met."""
    where = {int(old): new for new, old in enumerate(jobs.id)}
    for row in np.flatnonzero(jobs.after >= 0):
        jobs.after[row] = where.get(int(jobs.after[row]), NO_JOB)
    jobs.after_kind[jobs.after == NO_JOB] = AFTER_NONE
    jobs.id = np.arange(len(jobs))


def job_records(table: JobTable, cluster: Cluster) -> Records:
    """REQUEST records of the rows of a trace, numbered by row."""
    jobs = records(REQUEST, len(table))
    jobs.id = np.arange(len(table))
    jobs.submit_s = table.submit_s
    jobs.begin_s = MISSING
    jobs.run_s = table.run_s
    jobs.limit_s = np.where(table.limit_s > 0, table.limit_s, np.maximum(table.run_s, 1))
    jobs.nodes = table.nodes
    jobs.gpus, jobs.cpus = _per_node(table, cluster)
    jobs.user = codes(table.user)
    jobs.account = codes(table.account)
    jobs.partition = _index(table.partition, [p.name for p in cluster.partitions])
    jobs.memory = _memory(table, cluster, jobs)
    jobs.qos = _index(table.qos, ["", *cluster.qos_factors])
    jobs.after = NO_JOB
    jobs.failed = ~np.isin(table.state, _SUCCEEDS)
    return jobs


def _per_node(table: JobTable, cluster: Cluster) -> tuple[Ints, Ints]:
    n = len(table)
    if not cluster.shared_nodes:
        return np.full(n, WHOLE_NODE), np.zeros(n, dtype=np.int64)
    nodes = np.maximum(table.nodes, 1)
    known = table.gpus >= 0
    if not any(group.gpus for group in cluster.groups):
        known |= table.cpus >= 0
    gpus = np.where(known, -(-table.gpus.clip(0) // nodes), WHOLE_NODE)
    cpus = np.where(table.cpus >= 0, -(-table.cpus // nodes), 1)
    return gpus, np.maximum(cpus, 1)


def _memory(table: JobTable, cluster: Cluster, jobs: Records) -> Ints:
    """Memory per node of each job in MiB; 0 where the cluster counts none.

    ``WHOLE_NODE`` is all memory of a node.
    """
    if not cluster.counts_memory:
        return np.zeros(len(table), dtype=np.int64)
    requested = np.where(table.memory_mib == 0, WHOLE_NODE, -(-table.memory_mib // np.maximum(table.nodes, 1)))
    return np.where(table.memory_mib >= 0, requested, default_memory(jobs, cluster))


def default_memory(jobs: Records, cluster: Cluster) -> Ints:
    """Memory per node of jobs that request none: their partition's default, at most a node's."""
    found = np.zeros(len(jobs), dtype=np.int64)
    for p, partition in enumerate(cluster.partitions if cluster.counts_memory else ()):
        most = max((g.memory_mib or 0 for g in cluster.groups_of(partition)), default=0)
        each = (
            np.full(len(jobs), partition.default_memory_mib or 0)
            + jobs.cpus * (partition.default_memory_per_cpu_mib or 0)
            + np.maximum(jobs.gpus, 0) * (partition.default_memory_per_gpu_mib or 0)
        )
        found = np.where(jobs["partition"] == p, np.minimum(each, most), found)
    return found


def codes(labels: Labels) -> Ints:
    """Label codes plus one: 0 for missing; names begin at 1."""
    return labels.codes + 1


def _index(labels: Labels, names: list[str]) -> Ints:
    """Rows' indices in ``names``; 0 where the name is missing or not among them."""
    known = {name: k for k, name in enumerate(names)}
    of_code = np.array([known.get(name, 0) for name in labels.names] + [0], dtype=np.int64)
    return of_code[labels.codes]


def _with_dependencies(jobs: Records, table: JobTable) -> tuple[Records, int]:
    """The jobs with dependencies such as ``afterany:ID``, and the number simplified.

    Jobs outside the trace count as ended.
    """
    if not table.dependency.names:
        return jobs, 0
    row_of = {str(name): row for row, name in enumerate(table.job_id)}
    dropped = 0
    for row in np.flatnonzero(table.dependency.codes >= 0):
        listed = _SEPARATOR.split(table.dependency.names[table.dependency.codes[row]])
        known = [(kind, ids.split(":")) for kind, _, ids in (word.partition(":") for word in listed) if kind in _AFTER]
        dropped += len(listed) != 1 or len(known) != 1 or len(known[0][1]) > 1 or "+" in known[0][1][0]
        for kind, ids in known[:1]:
            if (target := ids[0].split("(")[0].split("+")[0]) in row_of:
                jobs.after[row] = row_of[target]
                jobs.after_kind[row] = _AFTER[kind]
    return jobs, dropped


def misfits(jobs: Records, cluster: Cluster) -> dict[int, str]:
    """Row → reason of the jobs that can never run, at any time."""
    reasons: dict[int, str] = {}
    for limit in cluster.limits:
        reasons |= _beyond(jobs, cluster, limit)
    for p, partition in enumerate(cluster.partitions):
        rows = np.flatnonzero(jobs["partition"] == p)  # as an attribute it is numpy's own method
        for row in rows[jobs.limit_s[rows] > partition.max_limit_s]:
            reasons[int(row)] = (
                f"its time limit is {format_duration(int(jobs.limit_s[row]))} and {_in_words(partition)} allows "
                f"{format_duration(partition.max_limit_s)}"
            )
        for row in rows[jobs.nodes[rows] > partition.max_nodes] if partition.max_nodes is not None else ():
            reasons[int(row)] = (
                f"it requests {quantity(int(jobs.nodes[row]), 'node')} and {_in_words(partition)} allows "
                f"{partition.max_nodes}"
            )
        room = _room(jobs if len(rows) == len(jobs) else jobs[rows], cluster, partition)
        for row in rows[jobs.nodes[rows] > room]:
            reasons[int(row)] = (
                f"it requests {quantity(int(jobs.nodes[row]), 'node')}{_of_node(jobs[row], cluster)}, and "
                f"{_in_words(partition)} has {_there(int(room[np.searchsorted(rows, row)]), cluster, partition)}"
            )
    return dict(sorted(reasons.items()))


def _beyond(jobs: Records, cluster: Cluster, limit: Limit) -> dict[int, str]:
    """Row → reason of the jobs that exceed a limit on their own."""
    counted = is_counted(jobs, cluster, limit)
    kinds = (
        ("jobs", "job", np.ones(len(jobs), np.int64)),
        ("nodes", "node", jobs.nodes),
        ("gpus", "GPU", gpus_counted(jobs, cluster)),
    )
    reasons: dict[int, str] = {}
    for what, noun, each in kinds:
        most = getattr(limit, what)
        for row in np.flatnonzero(counted & (each > most)) if most is not None else ():
            held = quantity(int(each[row]), noun)
            reasons[int(row)] = f"it counts as {held} and the limit is {limit}"
    return reasons


def is_counted(jobs: Records, cluster: Cluster, limit: Limit) -> NDArray[np.bool_]:
    """Which jobs a limit counts, by their QOS and partition."""
    qos = [not limit.qos or name in limit.qos for name in ("", *cluster.qos_factors)]
    partitions = [not limit.partitions or p.name in limit.partitions for p in cluster.partitions]
    counted: NDArray[np.bool_] = np.array(qos)[jobs["qos"]] & np.array(partitions)[jobs["partition"]]
    return counted


def gpus_counted(jobs: Records, cluster: Cluster) -> Ints:
    """GPUs that each job counts as under a limit.

    A whole node counts as the most GPUs of a node in its partition.
    """
    of_node = np.array([cluster.of_node(partition)[0] for partition in cluster.partitions])
    counted: Ints = jobs.nodes * np.where(jobs.gpus == WHOLE_NODE, of_node[jobs["partition"]], jobs.gpus)
    return counted


def _room(jobs: Records, cluster: Cluster, partition: Partition) -> Ints:
    """For each job, the most suitable nodes that the partition will have at any time."""
    room = np.zeros(len(jobs), dtype=np.int64)
    for group in cluster.groups_of(partition):
        growth = np.cumsum(
            [0] + [c.nodes for c in sorted(cluster.changes, key=lambda c: c.time_s) if c.group == group.name]
        )
        count = group.count + (0 if cluster.shared_nodes else int(growth.max()))
        holds = (jobs.gpus <= group.gpus) & (jobs.cpus <= group.cpus) if cluster.shared_nodes else True
        if cluster.counts_memory and group.memory_mib is not None:
            holds &= jobs.memory <= group.memory_mib
        room += np.where(holds, count, 0)
    return room


def _in_words(partition: Partition) -> str:
    return f"partition {partition.name!r}" if partition.declared else "the cluster"


def _there(nodes: int, cluster: Cluster, partition: Partition) -> str:
    """The nodes that are there, in words; where none is suitable, also what they have."""
    if not cluster.shared_nodes:
        return str(nodes)
    largest = [
        f"{quantity(group.gpus, 'GPU')}, {quantity(group.cpus, 'CPU')}" for group in cluster.groups_of(partition)
    ]
    return quantity(nodes, "such node") + f" (a node has {' or '.join(dict.fromkeys(largest))})" * (not nodes)


def _of_node(job: Any, cluster: Cluster) -> str:
    """What a job requests of each node, in words."""
    if not cluster.shared_nodes:
        return ""
    parts = [
        quantity(int(job.gpus), "GPU"),
        quantity(int(job.cpus), "CPU"),
        *([f"{job.memory} MiB"] if cluster.counts_memory else []),
    ]
    return f" with {', '.join(part for part in parts if not part.startswith(('0 ', '-')))} each"


def to_minutes(jobs: Records, epoch_s: int) -> Records:
    """Round times to minutes for ``mirage-2023``: submissions down, run times up to 1 or more.

    Args:
        jobs: REQUEST records.
        epoch_s: Start of the grid; jobs submitted in its first, partial minute count as submitted then.
    """
    grid = jobs.copy().view(np.recarray)
    grid.submit_s = np.maximum(jobs.submit_s // 60 * 60, epoch_s)
    grid.limit_s = np.maximum(jobs.limit_s // 60 * 60, 60)
    run_s = np.minimum(jobs.run_s, jobs.limit_s)
    grid.run_s = np.minimum(np.maximum(-(-run_s // 60) * 60, 60), grid.limit_s)
    grid.begin_s = np.where(jobs.after_kind >= ANSWERS_END, -(-jobs.begin_s // 60) * 60, jobs.begin_s)
    return grid


def link_record(
    job_id: int, *, nodes: int, limit_s: int, run_s: int | None = None, gpus: int = WHOLE_NODE, cpus: int = 1,
    memory: int = 0, user: int = 0, partition: int = 0, qos: int = 0, priority_offset: float = 0.0, after: int = NO_JOB,
    after_kind: int = AFTER_ANY, begin_s: int = MISSING, failed: bool = False,
) -> Records:  # fmt: skip
    """One REQUEST record to inject; without ``run_s`` it runs until its limit.

    Args:
        job_id: Its id; not one the trace uses.
        memory: Per node, in MiB; ``WHOLE_NODE`` for all memory of a node.
        priority_offset: Site priority added to the computed one.
        after: Id of a job it must wait for.
        after_kind: Kind of the dependency; by default until that job has ended in any way.
        failed: Whether it will end unsuccessfully.
    """
    job = records(REQUEST, 1)
    columns = job.view(np.ndarray)  # attributes of records are many times slower
    columns["id"] = job_id
    columns["nodes"], columns["limit_s"] = nodes, limit_s
    columns["run_s"] = limit_s if run_s is None else run_s
    columns["gpus"], columns["cpus"], columns["memory"] = gpus, cpus, memory
    columns["user"], columns["partition"], columns["qos"] = user, partition, qos
    columns["priority_offset"], columns["failed"] = priority_offset, failed
    columns["begin_s"] = begin_s
    columns["after"] = after
    columns["after_kind"] = AFTER_NONE if after == NO_JOB else after_kind
    return job
