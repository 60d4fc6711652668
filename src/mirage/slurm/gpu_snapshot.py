"""Snapshots of GPU clusters for a controller: a squeue, a sinfo and a scontrol each."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.errors import SlurmUnreachable, quantity, shown
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob, SlurmReservation
from mirage.slurm.text.gpu_nodes import GPU_NODES_COMMAND, GpuNode, read_gpu_nodes
from mirage.slurm.text.gpu_queue import GpuQueueJob, gpu_queue_command, read_gpu_queue
from mirage.slurm.text.reservations import RESERVATIONS_COMMAND, read_reservations
from mirage.slurm_words.hostlist import expand_hosts

REQUESTS = 5
"""Requests to slurmctld that one snapshot takes; without ``sinfo`` they are three.

``squeue`` requests jobs and partitions, ``sinfo`` partitions and nodes, and ``scontrol`` reservations (22.05.8).
"""


@dataclass(frozen=True, slots=True)
class GpuSnapshot:
    """A GPU cluster as its controller reports it.

    Attributes:
        time_s: When the snapshot was begun, in seconds since 1970.
    """

    time_s: int
    jobs: tuple[GpuQueueJob, ...]
    nodes: tuple[GpuNode, ...]
    reservations: tuple[SlurmReservation, ...]


@dataclass(frozen=True, slots=True)
class GpuSnapshotText:
    """A snapshot as Slurm's commands have printed it, with the nodes as they were read.

    Attributes:
        time_s: When it was begun, in seconds since 1970.
        mark: Ends every separator in ``jobs``.
        jobs: The output of ``squeue``.
        nodes: The nodes.
        reservations: The output of ``scontrol show reservation``.
    """

    time_s: int
    mark: str
    jobs: str
    nodes: tuple[GpuNode, ...]
    reservations: str

    def parsed(self) -> GpuSnapshot:
        """The snapshot.

        Raises:
            SlurmUnreachable: A command printed something that cannot be read completely.
        """
        return GpuSnapshot(self.time_s, _jobs(self.jobs, self.mark), self.nodes, _reservations(self.reservations))


class GpuSnapshotSeries:
    """Successive snapshots of a cluster, every second one without ``sinfo``.

    In between, the nodes are those of the snapshot before, and their GPUs in use follow from the jobs. So a node that
    fails, or returns, is observed one snapshot later.

    Args:
        slurm: The cluster.
    """

    def __init__(self, slurm: SlurmClient) -> None:
        self.slurm = slurm
        self._last: tuple[tuple[GpuNode, ...], tuple[GpuQueueJob, ...]] | None = None  # with its sinfo

    def take(self, time_s: float) -> GpuSnapshotText:
        """The present snapshot; after a failure, the next one has a ``sinfo``.

        Args:
            time_s: The present time, in seconds since 1970.

        Raises:
            SlurmUnreachable: A command had no answer, or one that cannot be read completely.
            SlurmRefused: Slurm refused a command.
        """
        last, self._last = self._last, None
        mark = secrets.token_hex(4)
        printed = self.slurm.output(gpu_queue_command(mark))
        jobs = _jobs(printed, mark)
        nodes = _nodes(self.slurm) if last is None else nodes_after(*last, jobs)
        reservations = self.slurm.output(RESERVATIONS_COMMAND)
        _reservations(reservations)
        if last is None:
            self._last = nodes, jobs
        return GpuSnapshotText(int(time_s), mark, printed, nodes, reservations)


def nodes_after(
    nodes: Sequence[GpuNode], before: Iterable[GpuQueueJob], jobs: Iterable[GpuQueueJob]
) -> tuple[GpuNode, ...]:
    """The nodes when jobs have started and left since ``sinfo``.

    GPUs in use that the jobs do not explain remain in use.

    Args:
        nodes: As ``sinfo`` reported them.
        before: The jobs at that time.
        jobs: The jobs of now.
    """
    then, now = _held(before), _held(jobs)
    left = {node for job, held in then.items() if job not in now for node in held}
    change: Counter[str] = Counter()
    for held in now.values():
        change.update(held)
    for held in then.values():
        change.subtract(held)
    return tuple(
        replace(
            node,
            state=node.state.replace("allocated", "mixed") if node.name in left else node.state,
            used=min(max(node.used + change[node.name], 0), node.gpus),
        )
        for node in nodes
    )


def _held(jobs: Iterable[GpuQueueJob]) -> dict[tuple[int, int], Mapping[str, int]]:
    """The GPUs that jobs hold, by id and start, and by node."""
    alive = (JobState.RUNNING, JobState.SUSPENDED)
    return {(one.job.id, one.job.start_s): gpus_by_node(one.job) for one in jobs if one.job.state in alive}


def gpus_by_node(job: QueuedJob) -> Mapping[str, int]:
    """The GPUs of a job on each of its nodes, as equal as possible; empty if it has no nodes."""
    try:
        hosts = expand_hosts(job.nodelist)
    except ValueError:
        return {}
    share, rest = divmod(job.gpus, len(hosts)) if hosts else (0, 0)
    return {host: share + (k < rest) for k, host in enumerate(hosts)}


def take_gpu_snapshot(slurm: SlurmClient, time_s: float) -> GpuSnapshot:
    """The present snapshot.

    Args:
        slurm: The cluster.
        time_s: The present time, in seconds since 1970.

    Raises:
        SlurmUnreachable: A command had no answer, or one that cannot be read completely.
        SlurmRefused: Slurm refused a command.
    """
    return GpuSnapshotSeries(slurm).take(time_s).parsed()


def _jobs(printed: str, mark: str) -> tuple[GpuQueueJob, ...]:
    jobs, unreadable = read_gpu_queue(printed, mark)
    _check_read("squeue", unreadable)
    return jobs


def _nodes(slurm: SlurmClient) -> tuple[GpuNode, ...]:
    nodes, unreadable = read_gpu_nodes(slurm.output(GPU_NODES_COMMAND))
    _check_read("sinfo", unreadable)
    if not nodes:
        raise SlurmUnreachable("sinfo reports no node")
    return nodes


def all_reservations(slurm: SlurmClient) -> tuple[SlurmReservation, ...]:
    """All reservations of nodes.

    Raises:
        SlurmUnreachable: The command had no answer, or one that cannot be read completely.
        SlurmRefused: Slurm refused the command.
    """
    return _reservations(slurm.output(RESERVATIONS_COMMAND))


def _reservations(printed: str) -> tuple[SlurmReservation, ...]:
    if not printed.strip():
        raise SlurmUnreachable("scontrol show reservation printed nothing; without reservations it prints that")
    found, skipped = read_reservations(printed)
    _check_read("scontrol show reservation", (skipped.first,) * skipped.count)
    return found


def _check_read(command: str, unreadable: tuple[str, ...]) -> None:
    if unreadable:
        raise SlurmUnreachable(
            f"{command} printed {quantity(len(unreadable), 'record')} that cannot be read: {shown(unreadable[0])}"
        )
