"""Snapshots of GPU clusters for a controller: a squeue, a sinfo and a scontrol each."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from mirage.errors import SlurmUnreachable, shown
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import SlurmReservation
from mirage.slurm.text.gpu_nodes import GPU_NODES_COMMAND, GpuNode, read_gpu_nodes
from mirage.slurm.text.gpu_queue import GpuQueueJob, gpu_queue_command, read_gpu_queue
from mirage.slurm.text.reservations import RESERVATIONS_COMMAND, read_reservations

REQUESTS = 5
"""Requests to slurmctld that one snapshot takes.

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
    """A snapshot as Slurm's commands have printed it.

    Attributes:
        time_s: When it was begun, in seconds since 1970.
        mark: Ends every separator in ``jobs``.
        jobs: The output of ``squeue``.
        nodes: The output of ``sinfo``.
        reservations: The output of ``scontrol show reservation``.
    """

    time_s: int
    mark: str
    jobs: str
    nodes: str
    reservations: str

    def parsed(self) -> GpuSnapshot:
        """The snapshot.

        Raises:
            SlurmUnreachable: A command printed something that cannot be read completely.
        """
        jobs, unreadable = read_gpu_queue(self.jobs, self.mark)
        _check_read("squeue", unreadable)
        nodes, unreadable = read_gpu_nodes(self.nodes)
        _check_read("sinfo", unreadable)
        if not nodes:
            raise SlurmUnreachable("sinfo reports no node")
        return GpuSnapshot(self.time_s, jobs, nodes, _reservations(self.reservations))


def take_gpu_snapshot_text(slurm: SlurmClient, time_s: float) -> GpuSnapshotText:
    """The present snapshot as text.

    Args:
        slurm: The cluster.
        time_s: The present time, in seconds since 1970.

    Raises:
        SlurmUnreachable: A command had no answer.
        SlurmRefused: Slurm refused a command.
    """
    mark = secrets.token_hex(4)
    printed = [slurm.output(words) for words in (gpu_queue_command(mark), GPU_NODES_COMMAND, RESERVATIONS_COMMAND)]
    return GpuSnapshotText(int(time_s), mark, *printed)


def take_gpu_snapshot(slurm: SlurmClient, time_s: float) -> GpuSnapshot:
    """The present snapshot.

    Args:
        slurm: The cluster.
        time_s: The present time, in seconds since 1970.

    Raises:
        SlurmUnreachable: A command had no answer, or one that cannot be read completely.
        SlurmRefused: Slurm refused a command.
    """
    return take_gpu_snapshot_text(slurm, time_s).parsed()


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
            f"{command} printed {len(unreadable)} records that cannot be read: {shown(unreadable[0])}"
        )
