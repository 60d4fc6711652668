"""The interface between Mirage and a cluster: submit, observe, cancel, and a few changes.

``mirage.slurm.client.SlurmClient`` runs Slurm's commands (``mirage.slurm.queue_source`` makes it read the queue with
scontrol or slurmrestd instead of squeue), and ``mirage.lab`` holds a simulated Slurm. Every method may raise:

- ``SlurmUnreachable``: it is unknown whether the request took effect; try again later;
- ``SlurmRefused``: Slurm answered with a refusal; its text is in the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mirage.slurm.records import AccountedJob, Machine, Queue, SlurmReservation, Submission


class Backend(Protocol):
    """A cluster under Slurm, or a stand-in for one."""

    @property
    def user(self) -> str:
        """The user of the jobs submitted here, as named in the queue."""
        ...

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its id."""
        ...

    def observe(self) -> Queue:
        """Every job the controller knows, including those that ended lately; one client command."""
        ...

    def probe(self) -> None:
        """Get an answer from the controller at the least cost to it; a refusal is an answer."""
        ...

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Jobs alive at or after ``since_s``; empty where the site has no accounting.

        It costs one client command.
        """
        ...

    def machine(self) -> Machine:
        """Nodes and partitions."""
        ...

    def reservations(self) -> tuple[SlurmReservation, ...]:
        """The reservations of nodes that have not ended, as far as this user may see them."""
        ...

    def configuration(self) -> Mapping[str, str]:
        """The options of slurm.conf as the controller has them, keys in lower case."""
        ...

    def cancel(self, job: int | Sequence[int], *, only_pending: bool = False) -> None:
        """End a job, or several, in any state; a job that has already ended is no error.

        One client command. A refusal means that at least one of them was not cancelled.

        Args:
            only_pending: Leave a job alone that no longer waits, as ``scancel --state=PENDING`` does. The call does not
                report which happened; the next snapshot of the queue does.
        """
        ...

    def signal(self, job: int | Sequence[int], name: str, *, to_batch_shell: bool = False) -> None:
        """Send a signal (``USR2``) to the batch script and all steps of one or more running jobs.

        One client command. A job that has ended, or waits, is no error. A refusal means that at least one of the others
        was not signalled.

        Args:
            to_batch_shell: Whether only the batch shell gets it, which passes it on.
        """
        ...

    def signal_steps(self, job: int | Sequence[int], name: str) -> None:
        """Send a signal to all steps of one or more running jobs, but not to their batch scripts.

        One client command, with refusals as for ``signal``.
        """
        ...

    def update(self, job: int | Sequence[int], changes: Mapping[str, str]) -> None:
        """Change a job, or several, as ``scontrol update`` does.

        For example ``{"Dependency": "", "TimeLimit": "30"}``.

        One client command. A refusal means that at least one of them was not changed.
        """
        ...

    def release(self, job: int) -> None:
        """Release a held job, as ``scontrol release`` does."""
        ...

    def requeue(self, job: int, *, hold: bool = False) -> None:
        """Requeue a running job, held if ``hold``."""
        ...

    def move_nodes(self, partition: str, nodes: tuple[str, ...]) -> None:
        """Set the nodes of a partition, until the next reconfiguration.

        It needs an operator's rights.
        """
        ...


def cluster_of(options: Mapping[str, str]) -> str:
    """Identity of the cluster: its name, its first controller and the controller's port.

    Args:
        options: As returned by ``Backend.configuration``.
    """
    host = options.get("slurmctldhost[0]") or options.get("slurmctldhost") or options.get("controlmachine", "")
    host = host.partition("(")[0]
    return f"{options.get('clustername', '')}@{host}:{options.get('slurmctldport', '')}".lower()
