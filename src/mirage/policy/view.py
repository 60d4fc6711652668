"""What a policy may know: the state of the cluster, as read-only structs of arrays.

Times are seconds since 1970-01-01 UTC, or since the beginning of a trace without absolute times. ``MISSING`` (−1)
marks unknown values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MOST_PENDING = 1_000
"""Most pending jobs in a provisioner's view: a forecast for one link takes long enough with these, and a job after a
thousand others affects the link no more than a newcomer would."""

MOST_ENDED = 5_000
"""Most ended jobs in a view, the latest ones."""


@dataclass(frozen=True, slots=True)
class QueueJobs:
    """Pending, running or held jobs, n rows; pending ones in queue order where it is known.

    Names and accounts are codes, as users are: equal codes mean the same name or account in all columns of a view, and
    in all views of one simulation or of one agent process; ``MISSING`` where Slurm or the trace reports none. Names are
    folded first (``mirage.slurm_words.job_names``): ``train_017`` and ``train_018`` are one.

    Attributes:
        gpus: Per node; −1 where the job takes whole nodes.
        cpus: Per node; −1 where the job takes whole nodes.
        eligible_s: Since when age counts, also of held jobs that were eligible before; ``MISSING`` where none does, and
            for a pending job that gains none now because others of its user do (``Limit.ageing``).
        start_s: Start of a running job; ``MISSING`` for a pending one.
        width: Nodes held now; 0 for a pending job.
        done_s: Run time already done, including earlier segments.
        priority: As the scheduler last computed it; 0 where it has none, and while held. Slurm shows at least 1: also
            for none, and where the nice value leaves less.
        name: Code of the folded job name.
        account: Code of the account that the job is charged to.
        nice: What was subtracted from the priority (``--nice``); 0 in a simulation, which shows none.
    """

    id: Ints
    user: Ints
    partition: Ints
    qos: Ints
    nodes: Ints
    gpus: Ints
    cpus: Ints
    limit_s: Ints
    submit_s: Ints
    eligible_s: Ints
    start_s: Ints
    width: Ints
    done_s: NDArray[np.float64]
    priority: NDArray[np.float64]
    name: Ints
    account: Ints
    nice: Ints

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Self:
        """The jobs where ``chosen`` is true."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def before(self, others: Self) -> Self:
        """These jobs, followed by others."""
        columns = [(getattr(self, field.name), getattr(others, field.name)) for field in fields(self)]
        return type(self)(*map(np.concatenate, columns))


@dataclass(frozen=True, slots=True)
class Nodes:
    """What the machine has: one row per pool of whole nodes, or per node where jobs share.

    Attributes:
        pools: Whether rows are pools.
        capacity: Shape (rows, 2): nodes and 0 of a pool, GPUs and CPUs of a node; without nodes that are down or leave.
        free: Shape (rows, 2), as ``capacity`` but without what is in use.
        allowed: Shape (partitions, rows): which partition may use which row.
    """

    pools: bool
    capacity: Ints
    free: Ints
    allowed: NDArray[np.bool_]

    @property
    def total(self) -> int:
        """Number of nodes with any capacity."""
        return int(self.capacity[:, 0].sum() if self.pools else self.capacity.any(axis=1).sum())


@dataclass(frozen=True, slots=True)
class Ended:
    """Jobs that ran and ended lately, from accounting; n rows in order of their end.

    Jobs that ended in the same second are in no particular order. Names and accounts are codes as in ``QueueJobs``.

    Attributes:
        cpus: Per node, rounded up, also of a job that took whole nodes; −1 where nodes are pools, or where it is
            unknown.
    """

    user: Ints
    nodes: Ints
    limit_s: Ints
    submit_s: Ints
    start_s: Ints
    end_s: Ints
    name: Ints
    account: Ints
    cpus: Ints

    def __len__(self) -> int:
        return len(self.end_s)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Self:
        """The jobs where ``chosen`` is true."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def nothing(cls) -> Self:
        """An empty history."""
        return cls(*np.zeros((9, 0), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class QueuedLink:
    """The next link of a chain, submitted and not started yet.

    Attributes:
        job: Its id.
        submitted_s: When it was submitted, or first released where it was held from the start.
        accrues_s: Since when its age counts; ``MISSING`` where it was never eligible, or where a limit on jobs that
            gain age still excludes it.
        limit_s: Its time limit.
        held: Whether it is held now.
        begins_s: The time before which it cannot start; ``MISSING`` for none.
    """

    job: int
    submitted_s: int
    accrues_s: int
    limit_s: int
    held: bool = False
    begins_s: int = -1


@dataclass(frozen=True, slots=True)
class ChainView:
    """The chain a provisioner manages, at the time of a decision.

    Attributes:
        nodes: Nodes of every link.
        limit_s: Time limit of every link.
        predecessor: Id of the link that runs or waits now.
        submitted_s: When it was submitted.
        started_s: When it started; ``MISSING`` while it waits.
        ends_s: When it will end at the latest; ``MISSING`` while it waits.
        step_s: Time to the next decision if this one is to wait.
        user: Code of the user of the links.
        partition: Code of the partition of the links.
        gpus: Per node; −1 where a link takes whole nodes.
        cpus: Per node; −1 where a link takes whole nodes.
        name: Code of the folded name of the links, as in ``QueueJobs``.
        account: Code of their account.
        queued: The next link, once it has been submitted; None before.
        priority: Priority of the next link's job as the scheduler last computed it, held by a dependency or not; 0
            where there is no such job, or it has none.
        accrues_s: Since when the age in that priority counts; ``MISSING`` where it contains none.
        qos: Code of the QOS of the links, as in ``QueueJobs``; ``MISSING`` where it is unknown.
        nice: What the user subtracts from the priority of the links.
    """

    nodes: int
    limit_s: int
    predecessor: int
    submitted_s: int
    started_s: int
    ends_s: int
    step_s: int
    user: int = 0
    partition: int = 0
    gpus: int = -1
    cpus: int = -1
    name: int = -1
    account: int = -1
    queued: QueuedLink | None = None
    priority: float = 0.0
    accrues_s: int = -1
    qos: int = -1
    nice: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Everything a policy may know now.

    Attributes:
        pending: Jobs that compete for nodes; in a provisioner's view the first ``MOST_PENDING``.
        held: Jobs that do not compete now: held, waiting for a time or for another job, or over a limit of their user.
        chain: The chain to decide about; None for policies of the whole cluster.
        qos_factor: By code of the QOS, its priority over the largest, 0 … 1; empty where it is unknown.
        tiers: By code of the partition, its ``PriorityTier``: jobs of a higher one come first, whatever their
            priorities; empty where all are equal.
        phase_s: Seconds since the ten-minute pass of ``mirage-2023``; 0 elsewhere, as Slurm does not report it.
        user_keys: By code of the user, the number on which random draws about the user depend. On a real cluster it
            follows from the name, so that all processes draw the same, whatever their codes; empty where codes are the
            same in every process, as in a simulation.
    """

    now_s: int
    nodes: Nodes
    pending: QueueJobs
    running: QueueJobs
    held: QueueJobs
    ended: Ended
    chain: ChainView | None = None
    phase_s: int = 0
    qos_factor: tuple[float, ...] = ()
    tiers: tuple[int, ...] = ()
    user_keys: tuple[int, ...] = ()

    def keys_of(self, users: Ints) -> NDArray[np.uint64]:
        """The keys of users, shape (users,); the code itself where there is no key."""
        codes = users.astype(np.uint64)
        if not self.user_keys:
            return codes
        keys = np.array(self.user_keys, dtype=np.uint64)
        known = (users >= 0) & (users < len(keys))
        return np.where(known, keys[np.where(known, users, 0)], codes)

    def of_user(self, user: int) -> Self:
        """The view with the jobs of one user only, as with ``PrivateData=jobs``.

        Nodes that other jobs use stay in use.

        Args:
            user: Code of the user.
        """
        own = {name: getattr(self, name) for name in ("pending", "running", "held", "ended")}
        return replace(self, **{name: jobs[jobs.user == user] for name, jobs in own.items()})
