"""What a policy may know: the cluster as it stands, as read-only structs of arrays.

Times are seconds since 1970-01-01 UTC, or since the beginning of a trace that says no more. ``MISSING`` (−1) marks
what is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MOST_PENDING = 1_000
"""Pending jobs that a provisioner is shown at most: a forecast for one link takes long enough with these, and what
waits behind a thousand others competes with the link only as a newcomer would."""

MOST_ENDED = 5_000
"""Ended jobs that a view shows at most, the latest ones."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Pending, running or held jobs, n rows; pending ones in queue order where it is known.

    Names and accounts are codes as users are: equal codes mean the same name or account, in all views of one
    simulation and of one agent as long as it lives, and in all columns of a view; ``MISSING`` where Slurm or the
    trace tells none. Names are folded first (``mirage.slurm_words.job_names``): ``train_017`` and ``train_018`` are
    one.

    Attributes:
        gpus: Per node; −1 where the job takes whole nodes.
        cpus: Per node; −1 where the job takes whole nodes.
        eligible_s: Since when age counts, of held jobs too that were eligible before; ``MISSING`` where none does, and
            now for a pending job that has none, as others of its user gather it (``Limit.ageing``).
        start_s: Start of a running job; ``MISSING`` for a pending one.
        width: Nodes held now; 0 for a pending job.
        done_s: Run time already done, in earlier stretches too.
        priority: As the scheduler last computed it; 0 where it has none, and while held. Slurm shows no less than 1:
            for none, and where the nice leaves less.
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
        """Some of the jobs."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def before(self, others: Self) -> Self:
        """These jobs, and others behind them."""
        columns = [(getattr(self, field.name), getattr(others, field.name)) for field in fields(self)]
        return type(self)(*map(np.concatenate, columns))


@dataclass(frozen=True, slots=True)
class Nodes:
    """What the machine has: one row a pool of whole nodes, or one a node where jobs share nodes.

    Attributes:
        pools: Whether rows are pools.
        capacity: Shape (rows, 2): nodes and 0 of a pool, GPUs and CPUs of a node; without what is down or leaving.
        free: Shape (rows, 2), the same without what is in use.
        allowed: Shape (partitions, rows): which partition may use what.
    """

    pools: bool
    capacity: Ints
    free: Ints
    allowed: NDArray[np.bool_]

    @property
    def total(self) -> int:
        """Nodes that are there."""
        return int(self.capacity[:, 0].sum() if self.pools else self.capacity.any(axis=1).sum())


@dataclass(frozen=True, slots=True)
class Ended:
    """Jobs that ran and ended lately, n rows in order of their end: what accounting tells.

    Jobs that ended in the same second are in no particular order. Names and accounts are codes as in ``Jobs``.
    """

    user: Ints
    nodes: Ints
    limit_s: Ints
    submit_s: Ints
    start_s: Ints
    end_s: Ints
    name: Ints
    account: Ints

    def __len__(self) -> int:
        return len(self.end_s)

    @classmethod
    def nothing(cls) -> Self:
        """No history."""
        return cls(*np.zeros((8, 0), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class QueuedLink:
    """The next link of a chain, submitted and not started yet.

    Attributes:
        job: Its id.
        submitted_s: When it was submitted, or let loose for the first time where it had been held from the start.
        accrues_s: Since when its age counts; ``MISSING`` where it was never eligible, or waits for a place among those
            that gather age.
        limit_s: Its time limit.
        held: Whether it is held now.
        begins_s: The moment before which it cannot start; ``MISSING`` for none.
    """

    job: int
    submitted_s: int
    accrues_s: int
    limit_s: int
    held: bool = False
    begins_s: int = -1


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain a provisioner looks after, at the moment of a decision.

    Attributes:
        nodes: Nodes of every link.
        limit_s: Time limit of every link.
        predecessor: Id of the link that runs or waits now.
        submitted_s: When it was submitted.
        started_s: When it started; ``MISSING`` while it waits.
        ends_s: When it will end at the latest; ``MISSING`` while it waits.
        step_s: Time to the next decision if this one is to wait.
        user: Whose jobs the links are.
        partition: Where they run.
        gpus: Per node; −1 where a link takes whole nodes.
        cpus: Per node; −1 where a link takes whole nodes.
        name: Code of the folded name of the links, as in ``Jobs``.
        account: Code of their account.
        queued: The next link, once it has been submitted; None before.
        priority: Of the job of the next link as the scheduler last computed it, held by a dependency or not; 0 where
            there is no such job, or it has none.
        accrues_s: Since when the age in that priority counts; ``MISSING`` where it holds none.
        qos: Code of the QOS of the links, as in ``Jobs``; ``MISSING`` where it is unknown.
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
        pending: Jobs that compete for nodes; of a provisioner's view the first ``MOST_PENDING``.
        held: Jobs that do not compete now: held, waiting for a time or for another job, or over a limit of their user.
        chain: The chain to decide about; None for policies of the whole cluster.
        qos_factor: By code of the QOS, its priority over the largest, 0 … 1; empty where it is unknown.
        tiers: By code of the partition, its ``PriorityTier``: jobs of a higher one come first, whatever their
            priorities; empty where all are equal.
        phase_s: Seconds since the ten-minute pass of ``mirage-2023``; 0 elsewhere, as no Slurm tells it.
    """

    now_s: int
    nodes: Nodes
    pending: Jobs
    running: Jobs
    held: Jobs
    ended: Ended
    chain: Chain | None = None
    phase_s: int = 0
    qos_factor: tuple[float, ...] = ()
    tiers: tuple[int, ...] = ()
