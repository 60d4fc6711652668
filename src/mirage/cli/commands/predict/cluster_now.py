"""The present state of the cluster: Slurm's output as a view, with its predictor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mirage.errors import ConfigurationError, SlurmError, SlurmUnreachable, quantity
from mirage.job_state import MISSING, JobState

if TYPE_CHECKING:
    from mirage.policy.view import View
    from mirage.predict.start.predictor import JobRequest, StartPredictor
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.records import AccountedJob, Machine, Queue, QueuedJob, SlurmReservation
    from mirage.slurm.slurm_view import Names
    from mirage.slurm.text.requested_size import RequestedSize

NORMAL = "normal"
"""The QOS of jobs without one, if the association has no default."""

MOST_THREADS = 4
"""Maximum number of threads that simulate futures: a login node is shared."""


@dataclass
class ClusterNow:
    """A snapshot of a cluster, from five of Slurm's commands.

    Attributes:
        options: The options of slurm.conf, keys in lower case.
        accounted: Jobs of the last days; empty if accounting gave no answer.
        remarks: What could not be observed, in words.
        default_qos: QOS of this user's jobs without one.
        reservations: Reservations that have not ended.
        hidden: The sign that jobs of other users are hidden, in words; empty where none shows it.
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
    reservations: tuple[SlurmReservation, ...] = ()
    hidden: str = ""

    @property
    def name(self) -> str:
        """Name of the cluster, unique among clusters."""
        from mirage.slurm.backend import cluster_of

        return cluster_of(self.options)

    @property
    def shared(self) -> bool:
        """Whether jobs may share nodes."""
        from mirage.slurm.slurm_view import shares_nodes

        return shares_nodes(self.machine, self.options)

    @property
    def down(self) -> set[str]:
        """Names of the partitions that start no jobs."""
        return {partition.name for partition in self.machine.partitions if partition.down}

    def requests(self, size: RequestedSize) -> list[JobRequest]:
        """Returns a job as requests in codes of the view, one for each possible partition.

        Raises:
            ConfigurationError: Its earliest start cannot be read, or all its partitions are down.
        """
        from mirage.predict.start.predictor import JobRequest

        if not (places := [place for place in size.partitions if place not in self.down]):
            raise ConfigurationError(
                f"no start can be predicted: the partition {','.join(size.partitions)} is down; request another one"
            )
        user, code = self.names.code("user", self.client.user), self.names.codes["partition"]
        qos = self.names.code("qos", size.qos or self.default_qos) if self.view.qos_factor else MISSING
        return [
            JobRequest(
                size.nodes, size.limit_s, code[place], size.gpus, size.cpus, user, qos, size.nice, self.delay_s(size)
            )
            for place in places
        ]  # fmt: skip

    def delay_s(self, size: RequestedSize) -> int:
        """Returns the seconds from now to the earliest start of a job.

        Raises:
            ConfigurationError: It cannot be read.
        """
        from mirage.slurm_words.timestamps import next_instant_s

        now_s = self.queue.time_s
        return max(next_instant_s(size.begin, now_s) - now_s, 0) if size.begin else 0

    def reserved(self, partitions: Sequence[str], quantiles_s: Sequence[float], limit_s: int) -> list[str]:
        """Returns the reservations of its nodes that begin before a job ends, in words.

        Args:
            partitions: Its partitions.
            quantiles_s: Shape (levels,), quantiles of its wait; empty where nothing is predicted.
            limit_s: Its time limit.
        """
        from mirage.predict.start.quantile_levels import MEDIAN
        from mirage.report.terminal.prediction_text import local

        if not quantiles_s:
            return []
        now_s = self.queue.time_s
        until_s = now_s + quantiles_s[MEDIAN] + limit_s
        nodes = {node.name for node in self.machine.nodes if not set(partitions).isdisjoint(node.partitions)}
        return [
            f"reservation {one.name} is not considered: {quantity(count, 'node')} from {local(one.start_s)} to "
            f"{local(one.end_s)}"
            for one in self.reservations
            if now_s < one.start_s < until_s and (count := len(nodes.intersection(one.nodes)))
        ]

    def mine(self) -> list[QueuedJob]:
        """Returns the pending jobs of this user."""
        return [job for job in self.queue.jobs if job.user == self.client.user and job.state is JobState.PENDING]


def observe_cluster(client: SlurmClient, history_s: int, *, seed: int) -> ClusterNow:
    """Takes a snapshot of the cluster.

    Args:
        client: The cluster.
        history_s: Seconds of accounting to read, up to now, for run times and future arrivals.
        seed: Seed of the predictor.

    Raises:
        SlurmError: scontrol, sinfo or squeue failed, or no node was reported.
        ConfigurationError: No node is up.
    """
    with ThreadPoolExecutor(1) as pool:
        observed = pool.submit(_query, client, history_s)
        from mirage.predict.start.predictor import StartPredictor  # loads for a second while Slurm answers
        from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
        from mirage.slurm.hidden_jobs import hidden_jobs, unexplained_nodes
        from mirage.slurm.slurm_view import Names, ended_of, throttled_tasks, view_of

        options, machine, queue, reservations, accounted, remarks = observed.result()
    names = Names()
    view = view_of(queue, machine, ended_of(accounted, names), names, options)
    settings, default_qos = SlurmSettings.from_options(options, "scontrol show config"), NORMAL
    if settings.weight_qos > 0.0:
        try:
            default_qos = client.default_qos() or NORMAL
            view = replace(view, qos_factor=qos_factors(client, names))
        except (SlurmError, ConfigurationError) as error:
            remarks += (
                f"accounting shows no QOS priorities, so yours is assumed to be that of your other jobs: {error}",
            )
    predictor = StartPredictor(view, settings, seed=seed, threads=min(MOST_THREADS, len(os.sched_getaffinity(0))))
    if hidden := hidden_jobs(options, queue, client.user, unexplained_nodes(machine, queue, client.user)):
        remarks += (
            f"the jobs of other users are hidden ({hidden}), so only yours are simulated, and the start may be much "
            "later; Slurm's own estimate is the better guide, and this prediction is not stored",
        )
    if throttled := throttled_tasks(queue):
        remarks += (f"not simulated: {quantity(throttled, 'task')} of throttled arrays; the start may be later",)
    if not len(view.ended):
        remarks += ("accounting shows no ended jobs: every job is assumed to run until its limit",)
    return ClusterNow(
        client, options, machine, queue, accounted, names, view, predictor, remarks, default_qos, reservations, hidden
    )


def qos_factors(client: SlurmClient, names: Names) -> tuple[float, ...]:
    """Returns by code of the QOS its priority divided by the largest, as Slurm normalizes it.

    Raises:
        ConfigurationError: The output of sacctmgr cannot be read.
        SlurmError: sacctmgr failed.
    """
    from mirage.sim.slurm_conf.qos import qos_table

    factors = qos_table(client.qos(), "sacctmgr show qos").factors
    most = max(*factors.values(), 1.0)
    by_code = {names.code("qos", name): factor / most for name, factor in factors.items()}
    return tuple(by_code.get(code, 0.0) for code in range(len(names.codes["qos"])))


def _query(
    client: SlurmClient, history_s: int
) -> tuple[Mapping[str, str], Machine, Queue, tuple[SlurmReservation, ...], tuple[AccountedJob, ...], tuple[str, ...]]:
    """Runs the five commands one after another."""
    with with_advice():
        options, machine, queue = client.configuration(), client.machine(), client.observe()
        if not machine.nodes:
            raise SlurmUnreachable("sinfo reports no node")
    if not any(node.usable for node in machine.nodes):
        raise ConfigurationError(
            f"no prediction: no node is up; drained, down or reserved: {quantity(len(machine.nodes), 'node')}"
        )
    accounted, remarks = accounts(client, queue.time_s - history_s)
    try:
        return options, machine, queue, client.reservations(), accounted, remarks
    except SlurmError as error:
        return options, machine, queue, (), accounted, (*remarks, f"scontrol shows no reservations: {error}")


@contextlib.contextmanager
def with_advice() -> Iterator[None]:
    """Adds advice in front of Slurm's message if the controller does not answer.

    Raises:
        SlurmError: The error raised inside, with the advice.
    """
    try:
        yield
    except SlurmError as error:
        advice = "no prediction without the queue, and the controller did not report it; if it is down, try again later"
        raise type(error)(advice, str(error)) from error


def accounts(client: SlurmClient, since_s: int) -> tuple[tuple[AccountedJob, ...], tuple[str, ...]]:
    """Returns the jobs of accounting; if it gives no answer, none and the reason."""
    try:
        return client.accounting(since_s), ()
    except SlurmError as error:
        return (), (f"accounting did not answer: {error}",)
