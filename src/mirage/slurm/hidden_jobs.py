"""Whether Slurm hides the jobs of other users (``PrivateData=jobs``).

A forecast from such a queue would see free nodes where others run.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.slurm.records import Machine, Queue
from mirage.slurm_words.hostlist import expand_hosts

LEAST_NODES = 3
"""Number of nodes in use without a visible job that show, without an option, that jobs are hidden."""

_IN_USE = ("alloc", "mix")


def are_private(options: Mapping[str, str]) -> bool:
    """Whether ``PrivateData`` hides the jobs of others from ordinary users.

    Args:
        options: The options of slurm.conf, keys in lower case.
    """
    words = {word.strip().lower() for word in options.get("privatedata", "").split(",")}
    return bool(words & {"jobs", "all"})


def hidden_jobs(options: Mapping[str, str], queue: Queue, user: str, unexplained: str) -> str:
    """The sign that jobs of other users are hidden, in words; empty where none shows it.

    Operators and administrators see all jobs, also with the option. Where a site filters squeue otherwise, most of the
    nodes in use have no visible job.

    Args:
        options: The options of slurm.conf, keys in lower case.
        queue: A snapshot of the queue.
        user: The user who has queried it.
        unexplained: The last result of ``unexplained_nodes``.
    """
    if _shows_others(queue, user):
        return ""
    return f"PrivateData={options['privatedata']}" if are_private(options) else unexplained


def unexplained_nodes(machine: Machine, queue: Queue, user: str) -> str:
    """That most nodes in use have no visible job, in words; empty where they have.

    Args:
        machine: Nodes and partitions.
        queue: The queue of the same moment: in a later one, a job that has just ended may be missing.
        user: The user who has queried it.
    """
    in_use = {node.name for node in machine.nodes if node.state.startswith(_IN_USE)}
    explained = {host for job in queue.jobs for host in _hosts(job.nodelist)}
    unexplained = len(in_use - explained)
    if not _shows_others(queue, user) and unexplained >= LEAST_NODES and 2 * unexplained > len(in_use):
        return f"{unexplained} of {len(in_use)} nodes in use have no visible job"
    return ""


def _shows_others(queue: Queue, user: str) -> bool:
    return any(job.user != user for job in queue.jobs)


def _hosts(nodelist: str) -> list[str]:
    try:
        return expand_hosts(nodelist)
    except ValueError:
        return []
