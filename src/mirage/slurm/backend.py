"""The seam between Mirage and a cluster: submit, observe, cancel, and a few changes.

``mirage.slurm.client.SlurmClient`` runs Slurm's commands (``mirage.slurm.queue_source`` lets it look through scontrol
or slurmrestd instead of squeue), and ``mirage.lab`` holds a simulated Slurm. Every method may raise:

- ``SlurmUnreachable``: nothing is known about whether it happened; try again later;
- ``SlurmRefused``: Slurm answered, and said no; its words are in the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mirage.slurm.values import AccountedJob, Machine, Queue, Submission


class Backend(Protocol):
    """A cluster under Slurm, or what behaves like one."""

    @property
    def user(self) -> str:
        """Whose the jobs are that are submitted here, as the queue names them."""
        ...

    def submit(self, submission: Submission) -> int:
        """Submit a job; its id."""
        ...

    def observe(self) -> Queue:
        """Every job the controller knows, those that ended lately among them. One client command."""
        ...

    def probe(self) -> None:
        """Get an answer from the controller, at the least cost to it; a refusal is one."""
        ...

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Jobs that were alive at or after ``since_s``; empty where the site keeps no accounts.

        It costs one client command.
        """
        ...

    def machine(self) -> Machine:
        """Nodes and partitions."""
        ...

    def configuration(self) -> Mapping[str, str]:
        """The options of slurm.conf as the controller has them, keys in lower case."""
        ...

    def cancel(self, job: int | Sequence[int], *, only_pending: bool = False) -> None:
        """End a job wherever it stands, or several; one that has ended already is no error.

        One client command. A refusal says that at least one of them was not cancelled.

        Args:
            only_pending: Leave it alone where it does not wait any more, as ``scancel --state=PENDING`` does. Nobody
                tells which it was: the next look at the queue does.
        """
        ...

    def signal(self, job: int | Sequence[int], name: str) -> None:
        """Send a signal (``USR2``) to the batch script and to all steps of a job that runs, or of several.

        One client command. A job that has ended, or waits, is no error. A refusal says that at least one of the others
        has not been signalled.
        """
        ...

    def update(self, job: int | Sequence[int], changes: Mapping[str, str]) -> None:
        """Change a job, or several, as ``scontrol update`` does.

        For example ``{"Dependency": "", "TimeLimit": "30"}``.

        One client command. A refusal says that at least one of them was not changed.
        """
        ...

    def release(self, job: int) -> None:
        """Let a held job compete again, as ``scontrol release`` does."""
        ...

    def requeue(self, job: int, *, hold: bool = False) -> None:
        """Put a running job back into the queue."""
        ...

    def move_nodes(self, partition: str, nodes: tuple[str, ...]) -> None:
        """Set the nodes of a partition, until the next reconfiguration.

        It needs an operator's rights.
        """
        ...


def cluster_of(options: Mapping[str, str]) -> str:
    """The cluster that answers: its name, its first controller and that one's port.

    Args:
        options: As ``Backend.configuration`` gives them.
    """
    host = options.get("slurmctldhost[0]") or options.get("slurmctldhost") or options.get("controlmachine", "")
    host = host.partition("(")[0]
    return f"{options.get('clustername', '')}@{host}:{options.get('slurmctldport', '')}".lower()
