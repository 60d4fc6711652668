"""The cluster as it stands now: what Slurm shows, as a view, and what predicts in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mirage.errors import ConfigurationError, SlurmError
from mirage.job_state import MISSING, JobState

if TYPE_CHECKING:
    from mirage.policy.view import View
    from mirage.predict.start.predictor import JobRequest, StartPredictor
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.text.requested_size import RequestedSize
    from mirage.slurm.values import AccountedJob, Machine, Queue, QueuedJob
    from mirage.slurm.view import Names

NORMAL = "normal"
"""The QOS of jobs that name none, where an association has no default of its own."""

MOST_THREADS = 4
"""Futures are played by so many threads at most: a login node is shared."""


@dataclass
class ClusterNow:
    """One look at a cluster: four of Slurm's commands.

    Attributes:
        options: Of slurm.conf, keys in lower case.
        accounted: Jobs of the last days; none where accounting did not answer.
        remarks: What could not be observed, in words.
        default_qos: Of this user's jobs that name none.
    """

    client: SlurmClient
    options: Mapping[str, str]
    machine: Machine
    queue: Queue
    accounted: tuple[AccountedJob, ...]
    names: Names
    view: View
    predictor: StartPredictor
    remarks: tuple[str, ...] = field(default=())
    default_qos: str = NORMAL

    @property
    def name(self) -> str:
        """The cluster's name among others."""
        from mirage.slurm.backend import cluster_of

        return cluster_of(self.options)

    @property
    def shared(self) -> bool:
        """Whether jobs may share nodes."""
        from mirage.slurm.view import shares_nodes

        return shares_nodes(self.machine, self.options)

    def requests(self, size: RequestedSize) -> list[JobRequest]:
        """A job in the numbers of the view, one request for each partition that will do."""
        from mirage.predict.start.predictor import JobRequest

        user, code = self.names.code("user", self.client.user), self.names.codes["partition"]
        qos = self.names.code("qos", size.qos or self.default_qos) if self.view.qos_factor else MISSING
        return [
            JobRequest(size.nodes, size.limit_s, code[place], size.gpus, size.cpus, user, qos, size.nice)
            for place in size.partitions
        ]

    def mine(self) -> list[QueuedJob]:
        """Pending jobs of this user."""
        return [job for job in self.queue.jobs if job.user == self.client.user and job.state is JobState.PENDING]


def look(client: SlurmClient, history_s: int, *, seed: int) -> ClusterNow:
    """Look at the cluster.

    Args:
        history_s: How far back accounting is read, for run times and for jobs yet to come.

    Raises:
        SlurmError: scontrol, sinfo or squeue had no answer.
    """
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_ask, client, history_s)
        from mirage.predict.start.predictor import StartPredictor  # a second of loading, while Slurm answers
        from mirage.sim.slurm_conf.settings import SlurmSettings
        from mirage.slurm.view import Names, view_of

        options, machine, queue, accounted, remarks = asked.result()
    names = Names()
    view = view_of(queue, machine, accounted, names, options)
    settings, default_qos = SlurmSettings.from_options(options, "scontrol show config"), NORMAL
    if settings.weight_qos > 0.0:
        try:
            default_qos = client.default_qos() or NORMAL
            view = replace(view, qos_factor=qos_factors(client, names))
        except (SlurmError, ConfigurationError) as error:
            remarks += (
                f"accounting shows no priorities of QOS, so yours is taken for that of your other jobs: {error}",
            )
    predictor = StartPredictor(view, settings, seed=seed, threads=min(MOST_THREADS, len(os.sched_getaffinity(0))))
    if not len(view.ended):
        remarks += ("accounting tells of no job that has ended: every job is taken to run until its limit",)
    return ClusterNow(client, options, machine, queue, accounted, names, view, predictor, remarks, default_qos)


def qos_factors(client: SlurmClient, names: Names) -> tuple[float, ...]:
    """By code of the QOS, its priority over the largest, as Slurm normalizes it.

    Raises:
        ConfigurationError: What sacctmgr printed cannot be read.
        SlurmError: It had no answer.
    """
    from mirage.sim.slurm_conf.qos import qos_table

    factors = qos_table(client.qos(), "sacctmgr show qos").factors
    most = max(*factors.values(), 1.0)
    by_code = {names.code("qos", name): factor / most for name, factor in factors.items()}
    return tuple(by_code.get(code, 0.0) for code in range(len(names.codes["qos"])))


def _ask(
    client: SlurmClient, history_s: int
) -> tuple[Mapping[str, str], Machine, Queue, tuple[AccountedJob, ...], tuple[str, ...]]:
    """Four commands, one after another."""
    with told_what_to_do():
        options, machine, queue = client.configuration(), client.machine(), client.observe()
    return options, machine, queue, *accounts(client, queue.time_s - history_s)


@contextlib.contextmanager
def told_what_to_do() -> Iterator[None]:
    """Where the controller does not answer, what to do stands before Slurm's own words.

    Raises:
        SlurmError: What was raised within.
    """
    try:
        yield
    except SlurmError as error:
        advice = "without the queue nothing can be predicted, and no controller told it; if it is down, try again later"
        raise type(error)(advice, str(error)) from error


def accounts(client: SlurmClient, since_s: int) -> tuple[tuple[AccountedJob, ...], tuple[str, ...]]:
    """Jobs that accounting knows; where it does not answer none, and why."""
    try:
        return client.accounting(since_s), ()
    except SlurmError as error:
        return (), (f"accounting did not answer: {error}",)
