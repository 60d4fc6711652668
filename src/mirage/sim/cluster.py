"""A simulated cluster: groups of equal nodes, partitions, limits, outages, reservations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple, Self

import numpy as np

from mirage.duration import UNLIMITED_S
from mirage.errors import ClusterError, first_of, quantity, shown
from mirage.whole_numbers import make_whole


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes.

    Attributes:
        name: Its name in messages.
        count: Number of nodes.
        gpus: GPUs of each node.
        cpus: CPU cores of each node.
        memory_mib: Memory of each node that jobs share; None where it is unknown: then no job takes any of it.
    """

    name: str
    count: int
    gpus: int = 0
    cpus: int = 1
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        make_whole(self, "gpus", "cpus", "memory_mib")
        if min(self.gpus, self.cpus) < 0:
            raise ClusterError(
                f"a node of group {self.name!r} has {self.gpus} GPUs and {self.cpus} CPUs; give 0 or more of each"
            )


@dataclass(frozen=True, slots=True)
class Partition:
    """A Slurm partition: which groups its jobs may use and what it adds to their priority.

    Attributes:
        groups: Names of its node groups; empty for all.
        tier: ``PriorityTier``; jobs of a higher tier are considered first.
        job_factor: ``PriorityJobFactor``, any scale; divided by the largest of all partitions.
        max_limit_s: ``MaxTime``.
        default_memory_mib: ``DefMemPerNode``: memory per node of a job whose memory is unknown, on shared nodes of
            known memory; without a default, the job takes none.
        default_memory_per_cpu_mib: ``DefMemPerCPU``, likewise per CPU.
        default_memory_per_gpu_mib: ``DefMemPerGPU``, likewise per GPU.
        max_nodes: ``MaxNodes`` of a job; None for any number.
        declared: Whether it has been declared; False for the only one of a cluster without declared partitions.
    """

    name: str
    groups: tuple[str, ...] = ()
    tier: int = 1
    job_factor: float = 1.0
    max_limit_s: int = UNLIMITED_S
    default_memory_mib: int | None = None
    default_memory_per_cpu_mib: int | None = None
    default_memory_per_gpu_mib: int | None = None
    max_nodes: int | None = None
    declared: bool = True

    def __post_init__(self) -> None:
        groups: object = self.groups
        if isinstance(groups, str):
            raise ClusterError(f"partition {self.name!r} needs a tuple of the names of its node groups, got {groups!r}")
        make_whole(self, "max_limit_s", "max_nodes")


UNDECLARED = Partition("batch", declared=False)
"""The partition of a cluster without declared ones."""

LIMITED_PER = ("user", "account", "all")
"""What a limit counts together: the jobs of each user, of each account, or all."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on what runs, or gains age, at once.

    A job that would exceed it waits, and others pass it.

    Slurm's ``MaxJobsPU`` and ``MaxTRESPU`` of a QOS are limits per user, ``MaxJobsPA`` and ``MaxTRESPA`` per account,
    ``GrpJobs`` and ``GrpTRES`` of all together (sacctmgr(1)); a QOS of a partition limits the jobs of that partition.
    ``MaxJobsAccruePU``, ``MaxJobsAccruePA`` and ``GrpJobsAccrue`` limit the number of waiting jobs that gain age. Those
    of associations (``MaxJobsAccrue``, ``GrpJobsAccrue``) count jobs of the users and accounts that they name.

    Attributes:
        per: Which jobs are counted together: per ``user``, per ``account`` or ``all``.
        jobs: Jobs that may run at once; None for any number.
        nodes: Nodes that they may hold at once.
        gpus: GPUs that they may hold at once; a job that takes whole nodes counts with the most GPUs that any node
            of its partition has.
        qos: Names of the QOS of the jobs that it counts and stops, ``""`` for jobs of none; empty for all jobs.
        partitions: Names of their partitions; empty for all jobs.
        ageing: Waiting jobs that may gain age at once, in the order of submission; the others gain none until one of
            these leaves. Of several limits that count a job the first decides, as in Slurm. Only the discipline
            ``slurm`` applies it.
        users: Names of the users whose jobs it counts; empty for all. Only for limits on jobs that gain age.
        accounts: Names of the accounts, likewise.
    """

    per: str = "user"
    jobs: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    ageing: int | None = None
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.per not in LIMITED_PER:
            raise ClusterError(f"a limit is per {', '.join(LIMITED_PER)}; got {self.per!r}")
        most = [value for value in (self.jobs, self.nodes, self.gpus, self.ageing) if value is not None]
        if not most or min(most) < 0:
            raise ClusterError(f"a limit needs jobs, nodes, gpus or ageing of 0 or more, got {self}")
        if self.of_association and self.of_running:
            raise ClusterError(f"a limit that names users or accounts may only limit ageing, got {self}")

    @property
    def of_running(self) -> bool:
        """Whether it limits what runs, and not only what gains age."""
        return (self.jobs, self.nodes, self.gpus) != (None, None, None)

    @property
    def of_association(self) -> bool:
        """Whether it names the users or accounts of the jobs it counts."""
        return bool(self.users or self.accounts)

    def __str__(self) -> str:
        kinds = (("job", self.jobs), ("node", self.nodes), ("GPU", self.gpus))
        most = [quantity(number, noun) for noun, number in kinds if number is not None]
        if self.ageing is not None:
            most.append(f"{quantity(self.ageing, 'job')} that {'gains' if self.ageing == 1 else 'gain'} age")
        parts = [" and ".join(most)]
        parts += ["of all together" if self.per == "all" else f"per {self.per}"]
        parts += [f"for {first_of(self.users)}"] * bool(self.users)
        parts += [f"in account {first_of(self.accounts)}"] * bool(self.accounts)
        parts += [f"of QOS {', '.join(self.qos)}"] * bool(self.qos)
        return " ".join(parts + [f"in partition {', '.join(self.partitions)}"] * bool(self.partitions))


@dataclass(frozen=True, slots=True)
class CapacityChange:
    """A change of capacity: from ``time_s`` on a group has ``nodes`` more, or fewer.

    Where it has fewer, nodes in use leave as they become free.
    """

    time_s: int
    group: str
    nodes: int

    def __post_init__(self) -> None:
        make_whole(self, "time_s", "nodes")


class CapacityStep(NamedTuple):
    """A time at which a group gains or loses nodes.

    Attributes:
        reservation: Index of the reservation that begins or ends, None for a change.
    """

    time_s: int
    group: str
    nodes: int
    reservation: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation: nodes that queued jobs may not use for a while, announced beforehand.

    Maintenance is an example. Plans respect it: no job starts whose limit reaches into it, unless enough nodes are left
    outside it. A job that runs when it begins, because it was announced late, keeps its nodes until it ends.

    Attributes:
        start_s: When it begins.
        end_s: When its nodes return.
        group: Its node group.
        nodes: Number of nodes.
        announced_s: When it was made; it is unknown before. None for one that has always been known.
    """

    start_s: int
    end_s: int
    group: str
    nodes: int
    announced_s: int | None = None

    def __post_init__(self) -> None:
        make_whole(self, "start_s", "end_s", "nodes", "announced_s")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes, partitions and limits.

    Attributes:
        groups: The node groups.
        partitions: The first is the default one.
        shared_nodes: Whether jobs share nodes and are placed by GPUs, cores and memory; otherwise every job takes whole
            nodes.
        qos_factors: QOS name → factor, any scale; divided by the largest.
        qos_preempts: QOS name → names of those whose running jobs it may preempt, where it needs their nodes; only the
            discipline ``slurm`` applies it.
        limits: Limits on what users, accounts or all together may run at once; all of them apply.
        changes: Nodes that come and go without an announcement.
        reservations: Announced times without some nodes; respected by the disciplines that plan by limits.
    """

    groups: tuple[NodeGroup, ...]
    partitions: tuple[Partition, ...] = (UNDECLARED,)
    shared_nodes: bool = False
    qos_factors: dict[str, float] = field(default_factory=dict)
    qos_preempts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    changes: tuple[CapacityChange, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    def __post_init__(self) -> None:
        for name in ("groups", "partitions", "limits", "changes", "reservations"):
            if not isinstance(value := getattr(self, name), Sequence):
                raise ClusterError(f"the {name} of a cluster are a tuple, even of one; got {shown(value)}")
        none = [g for g in self.groups if not isinstance(g.count, int | np.integer) or g.count < 1]
        if none or not self.groups:
            such = ", ".join(f"group {g.name!r} has {g.count!r} nodes" for g in none) or "there is none"
            raise ClusterError(f"a cluster needs node groups of at least one whole node each, but {such}")
        if not self.partitions:
            raise ClusterError("a cluster needs at least one partition")
        _check_names("node groups", [g.name for g in self.groups])
        _check_names("partitions", [p.name for p in self.partitions])
        known = {g.name for g in self.groups}
        for name in [n for p in self.partitions for n in p.groups] + [c.group for c in self.absences()]:
            if name not in known:
                raise ClusterError(f"there is no node group {name!r}; the groups are {first_of(sorted(known))}")
        self._check_qos()
        for limit in self.limits:
            self._check_limit(limit)
        for group in self.groups:
            self._check_levels(group)
        for reservation in self.reservations:
            _check_reservation(reservation)
        if self.shared_nodes and any(g.gpus == 0 and g.cpus == 0 for g in self.groups):
            raise ClusterError("jobs share nodes, and a node has neither GPUs nor CPUs; correct its CPUs")
        for group in self.groups:
            if group.memory_mib is not None and group.memory_mib < 1:
                raise ClusterError(
                    f"a node of group {group.name!r} has {group.memory_mib} MiB of memory; leave it out if not known"
                )

    def _check_qos(self) -> None:
        for name, factor in self.qos_factors.items():
            if not isfinite(factor):
                raise ClusterError(f"the factor of QOS {name!r} is {factor}; give a finite number")
        for name in {*self.qos_preempts, *(other for names in self.qos_preempts.values() for other in names)}:
            if name not in self.qos_factors:
                raise ClusterError(f"no QOS {name!r} to preempt or be preempted; there are {sorted(self.qos_factors)}")

    def _check_limit(self, limit: Limit) -> None:
        partitions = [partition.name for partition in self.partitions]
        qos = ["", *self.qos_factors]
        for kind, names, known in (("QOS", limit.qos, qos), ("partition", limit.partitions, partitions)):
            for name in names:
                if name not in known:
                    raise ClusterError(f"no {kind} {name!r} to limit; there are {sorted(known)}")

    def absences(self) -> tuple[CapacityChange | Reservation, ...]:
        """All changes of the number of nodes: capacity changes and reservations."""
        return *self.changes, *self.reservations

    def _check_levels(self, group: NodeGroup) -> None:
        level = own = group.count
        for step in self.capacity_steps():
            if step.group == group.name:
                level += step.nodes
                own += step.nodes if step.reservation is None else 0
            if level < 0 or (self.shared_nodes and max(level, own) > group.count):
                most = f", and at most {group.count}, its count, as its nodes are shared" if self.shared_nodes else ""
                raise ClusterError(
                    f"group {group.name!r} would have {level if level < 0 else own} nodes from {_utc(step.time_s)} "
                    f"on; changes{' and reservations' if self.reservations else ''} must leave it 0 or more{most}"
                )

    def capacity_steps(self) -> list[CapacityStep]:
        """Changes, and begins and ends of reservations, in order of time.

        Within one second reservations end, then changes apply in the order given, then reservations begin.
        """
        found = [CapacityStep(c.time_s, c.group, c.nodes) for c in self.changes]
        for k, r in enumerate(self.reservations):
            found += [CapacityStep(r.start_s, r.group, -r.nodes, k), CapacityStep(r.end_s, r.group, r.nodes, k)]
        return sorted(found, key=lambda m: (m.time_s, 0 if m.reservation is None else -m.nodes))

    @classmethod
    def pool(cls, nodes: int) -> Self:
        """A cluster of equal nodes (or processors) that are allocated whole."""
        return cls((NodeGroup("node", nodes),))

    @classmethod
    def gpu(cls, nodes: int, gpus_per_node: int, cpus_per_node: int = 64) -> Self:
        """A cluster of nodes with GPUs that are allocated one by one."""
        return cls((NodeGroup("gpu", nodes, gpus_per_node, cpus_per_node),), shared_nodes=True)

    @property
    def nodes(self) -> int:
        """Number of nodes at the beginning."""
        return sum(g.count for g in self.groups)

    def groups_of(self, partition: Partition) -> tuple[NodeGroup, ...]:
        """The node groups of a partition."""
        return tuple(g for g in self.groups if not partition.groups or g.name in partition.groups)

    @property
    def counts_memory(self) -> bool:
        """Whether jobs take memory: they share nodes, and the memory of some nodes is known."""
        return self.shared_nodes and any(g.memory_mib is not None for g in self.groups)

    def of_node(self, partition: Partition) -> tuple[int, int]:
        """Most GPUs and most CPUs of a node in a partition, which a whole node counts as."""
        groups = self.groups_of(partition)
        return max((g.gpus for g in groups), default=0), max((g.cpus for g in groups), default=0)

    def bins(self) -> list[tuple[NodeGroup, int]]:
        """Bins of the simulator: (group, nodes); one per group, or one per node that jobs share."""
        if not self.shared_nodes:
            return [(g, g.count) for g in self.groups]
        return [(g, 1) for g in self.groups for _ in range(g.count)]


def _utc(second: int) -> str:
    return f"{np.datetime64(second, 's')}Z"


def _check_names(what: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ClusterError(f"two {what} have the name {first_of(twice)}; rename one")


def _check_reservation(reservation: Reservation) -> None:
    start_s, end_s, announced_s = reservation.start_s, reservation.end_s, reservation.announced_s
    if reservation.nodes < 1:
        problem = f"reserves {reservation.nodes} nodes; reserve at least one"
    elif end_s <= start_s:
        problem = f"lasts from {_utc(start_s)} to {_utc(end_s)}; it must end after it begins"
    elif announced_s is not None and announced_s > start_s:
        problem = (
            f"begins at {_utc(start_s)} and is announced at {_utc(announced_s)}; announce it by its begin, or "
            "describe a change of the nodes instead"
        )
    else:
        return
    raise ClusterError(f"a reservation of group {reservation.group!r} {problem}")
