"""Jobs, nodes and partitions as Slurm tells them, in any version and format.

Times are seconds since 1970-01-01 UTC, ``MISSING`` where Slurm has none (``N/A``, ``Unknown``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.job_state import MISSING, JobState


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records of Slurm that could not be read: how many, and the first of them."""

    count: int = 0
    first: str = ""

    def and_one(self, record: str) -> Skipped:
        """One more."""
        return Skipped(self.count + 1, self.first if self.count else record[:200])


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as the controller knows it: pending, running, or ended not long ago.

    Attributes:
        id: The number that ``scancel`` and ``scontrol`` take.
        array: Task expression of an array that still waits as one (``4-9%4``); empty otherwise.
        reason: Why it waits, in Slurm's words.
        priority: As Slurm last computed it, a job that waits for another one too; 0 of one on hold. Slurm shows no less
            than 1 of all others, however large their nice is.
        nice: What the user, or an operator, has subtracted from the priority (``--nice``).
        nodes: Requested while pending, held while running.
        cpus: In all.
        gpus: In all, 0 for none.
        start_s: Of a running or ended job; of a pending one what Slurm's backfill plan expects, if anything.
        end_s: Of an ended job; of a running one when its limit ends.
        accrues_s: Since when its age counts (``AccrueTime``): since it was first eligible, held again or not;
            ``MISSING`` before that, and where Slurm does not tell.
        dependency: As Slurm shows it, ``afterany:17(unfulfilled)``; empty for none.
        exit_code: Of an ended job.
        exit_signal: What killed it, 0 for nothing.
        nodelist: Hosts held, as a host list.
        whole_nodes: Whether it has, or will have, its nodes for itself (``--exclusive``), whatever else it asked for.
        completing: Whether it holds nodes only to leave them; one that was requeued seems to start at every look then.
    """

    id: int
    state: JobState
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    array: str = ""
    reason: str = ""
    priority: float = 0.0
    nice: int = 0
    nodes: int = 1
    cpus: int = 1
    gpus: int = 0
    limit_s: int = MISSING
    submit_s: int = MISSING
    eligible_s: int = MISSING
    accrues_s: int = MISSING
    start_s: int = MISSING
    end_s: int = MISSING
    dependency: str = ""
    comment: str = ""
    exit_code: int = 0
    exit_signal: int = 0
    nodelist: str = ""
    whole_nodes: bool = False
    completing: bool = False


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """A job as accounting knows it, after its end as before.

    Attributes:
        comment: Filled in after the end, and only where the site stores it.
        submit_line: The words of the ``sbatch`` that made it (Slurm 21.08 on); empty where unknown.
    """

    id: int
    state: JobState
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    nodes: int = 1
    limit_s: int = MISSING
    submit_s: int = MISSING
    eligible_s: int = MISSING
    start_s: int = MISSING
    end_s: int = MISSING
    exit_code: int = 0
    exit_signal: int = 0
    comment: str = ""
    submit_line: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the machine.

    Attributes:
        state: Slurm's word, lower case without its flags: ``idle``, ``mixed``, ``allocated``, ``down``, ``drained`` …
        usable: Whether jobs can run or are running there.
    """

    name: str
    state: str
    usable: bool
    cpus: int
    gpus: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition.

    Attributes:
        max_time_s: Longest limit it takes, ``UNLIMITED_S`` for none.
        default_time_s: Limit of a job that names none; ``MISSING`` where it is the longest.
        whole_nodes: Whether jobs get nodes for themselves whatever they ask (OverSubscribe=EXCLUSIVE).
    """

    name: str
    default: bool
    max_time_s: int
    default_time_s: int
    nodes: tuple[str, ...]
    priority_tier: int = 1
    whole_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes and partitions of a cluster."""

    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs that the controller knows at a moment.

    Attributes:
        time_s: When, on the cluster's clock.
    """

    time_s: int
    jobs: tuple[QueuedJob, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission: the options, script and environment for ``sbatch``.

    Attributes:
        options: Long name without dashes → value, None for a flag: ``{"partition": "gpu", "exclusive": None}``. They
            override ``#SBATCH`` lines and ``SBATCH_…`` variables as sbatch's own command line does.
        script: Path of the batch script.
        arguments: Its arguments.
        environment: In which sbatch runs, and which it hands on.
        directory: In which sbatch runs.
        limits: Soft limits by name (``NOFILE``) that sbatch hands on to the job.
    """

    script: str
    options: Mapping[str, str | None] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    limits: Mapping[str, int] = field(default_factory=dict)
