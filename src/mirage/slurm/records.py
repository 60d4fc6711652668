"""Jobs, nodes and partitions as Slurm reports them, in any version and format.

Times are seconds since 1970-01-01 UTC, ``MISSING`` where Slurm has none (``N/A``, ``Unknown``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.job_state import MISSING, JobState


@dataclass(frozen=True, slots=True)
class SkippedRecords:
    """Records of Slurm that could not be read: their number, and the first of them."""

    count: int = 0
    first: str = ""

    def and_one(self, record: str) -> SkippedRecords:
        """The same with one more record."""
        return SkippedRecords(self.count + 1, self.first if self.count else record[:200])


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as the controller knows it: pending, running, or ended not long ago.

    Attributes:
        id: The number that ``scancel`` and ``scontrol`` take.
        array: Task expression of an array that still waits as one record (``4-9%4``); empty otherwise.
        reason: Why it waits, in Slurm's words.
        priority: As Slurm last computed it, also of a job that waits for another; 0 of a held one. Slurm shows at least
            1 for all others, however large their nice value is.
        nice: What the user, or an operator, has subtracted from the priority (``--nice``).
        nodes: Requested while pending, held while running.
        cpus: In total.
        gpus: In total, 0 for none.
        start_s: Of a running or ended job; of a pending one the start in Slurm's backfill plan, if any.
        end_s: Of an ended job; of a running one when its limit ends.
        accrues_s: Since when its age counts (``AccrueTime``): since it was first eligible, even if held again;
            ``MISSING`` before that, and where Slurm does not report it.
        dependency: As Slurm shows it, ``afterany:17(unfulfilled)``; empty for none.
        exit_code: Of an ended job.
        exit_signal: The signal that ended it, 0 for none.
        nodelist: Hosts held, as a host list.
        whole_nodes: Whether it has, or will have, whole nodes (``--exclusive``), whatever else it requested.
        completing: Whether it only holds nodes until they are cleaned up; a requeued job then shows a new start in
            every snapshot.
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
    """A job as accounting knows it, before or after its end.

    Attributes:
        comment: Set after the end, and only where the site stores it.
        submit_line: The command line of its ``sbatch`` (since Slurm 21.08); empty where unknown.
        cpus: Allocated in total; ``MISSING`` before its start, and where unknown.
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
    cpus: int = MISSING

    @property
    def was_refused(self) -> bool:
        """Whether Slurm refused it: accounting may show a request that failed at once."""
        return self.state is JobState.FAILED and self.submit_s == self.start_s == self.end_s != MISSING


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the machine.

    Attributes:
        state: Slurm's word, in lower case without its flags: ``idle``, ``mixed``, ``allocated``, ``down``, ``drain`` …
        usable: Whether jobs can run or are running there.
    """

    name: str
    state: str
    usable: bool
    cpus: int
    gpus: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition.

    Attributes:
        max_time_s: Longest limit it accepts, ``UNLIMITED_S`` for none.
        default_time_s: Limit of a job that gives none; ``MISSING`` where it is the longest.
        whole_nodes: Whether jobs get whole nodes whatever they request (OverSubscribe=EXCLUSIVE).
        down: Whether it starts no jobs (State=DOWN or INACTIVE).
    """

    name: str
    default: bool
    max_time_s: int
    default_time_s: int
    nodes: tuple[str, ...]
    priority_tier: int = 1
    whole_nodes: bool = False
    down: bool = False


@dataclass(frozen=True, slots=True)
class SlurmReservation:
    """A reservation of nodes; a recurring one is its present or next occurrence.

    Attributes:
        start_s: Begin, seconds since 1970.
        end_s: End, seconds since 1970.
        flags: Slurm's words: ``MAINT``, ``DAILY``, ``FLEX`` …
        users: Users that may use it; empty where it names none.
        accounts: Accounts that may use it; empty where it names none.
        partial: Whether it has only some cores of its nodes.
        lends: Whether jobs with ``--signal=R:…`` may run there until it needs the nodes (``MaxStartDelay``).
        active: Whether it has begun and not ended, by Slurm's own state.
    """

    name: str
    start_s: int
    end_s: int
    nodes: tuple[str, ...]
    flags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partial: bool = False
    lends: bool = False
    active: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes and partitions of a cluster."""

    nodes: tuple[Node, ...]
    partitions: tuple[SlurmPartition, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A snapshot of the jobs that the controller knows.

    Attributes:
        time_s: Time of the snapshot, on the cluster's clock.
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
        environment: Environment of sbatch, which passes it on to the job.
        directory: Working directory of sbatch.
        limits: Soft limits by name (``NOFILE``) that sbatch passes on to the job.
    """

    script: str
    options: Mapping[str, str | None] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    limits: Mapping[str, int] = field(default_factory=dict)
