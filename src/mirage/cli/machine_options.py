"""The cluster that a command simulates: from options, a ``slurm.conf`` or a cluster file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from mirage.cli.options import option_group
from mirage.cli.values import COUNT, Count
from mirage.errors import JobRefused, first_of, quantity

if TYPE_CHECKING:
    from mirage.sim.cluster import Cluster
    from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
    from mirage.sim.workload import Workload
    from mirage.trace.table import JobTable

DEFAULT_CPUS = 64
_FROM_A_CLUSTER_FILE = ("nodes", "processors", "gpus_per_node", "cpus_per_node", "slurm_conf", "settings")
_WITH_SETTINGS = ("conservative", "slurm")
"""The built-in disciplines with parameters that ``--settings`` and ``--max-job-test`` change."""

SETTINGS = ("slurm-default", "lonestar6")


class SimulatedMachine(NamedTuple):
    """A cluster, its scheduler's settings and their source, and the think time of its users."""

    cluster: Cluster
    settings: SlurmSettings
    source: str
    think_s: int = 0


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """The options of a simulated cluster; None where an option was not given."""

    nodes: int | None
    processors: int | None
    gpus_per_node: int | None
    cpus_per_node: int | None
    slurm_conf: str | None
    settings: str | None
    max_job_test: int | None
    skip_impossible: bool
    cluster: str | None = None

    @property
    def given(self) -> bool:
        """Whether the options describe a cluster."""
        return any(place is not None for place in (self.nodes, self.processors, self.slurm_conf, self.cluster))

    @property
    def files(self) -> tuple[str | None, ...]:
        """The files that the options name."""
        return self.slurm_conf, self.cluster

    def machine(self, discipline: str = "slurm") -> SimulatedMachine:
        """Returns the cluster that the options describe; warns of unused options.

        ``--nodes`` together with ``--slurm-conf`` takes the scheduler from the file and replaces its nodes.

        Args:
            discipline: The queue discipline, which may not use all options.

        Raises:
            click.UsageError: The options describe no cluster, or two.
            ConfigurationError: The slurm.conf or the cluster file cannot be read.
        """
        self._report_unused(discipline)
        if self.cluster is not None:
            return self._of_cluster_file(self.cluster)
        if self.nodes is not None and self.processors is not None:
            raise click.UsageError("--nodes and --processors exclude each other")
        if self.slurm_conf is not None and self.settings is not None:
            raise click.UsageError("--slurm-conf and --settings exclude each other")
        count = self.nodes if self.nodes is not None else self.processors
        if count is None and self.slurm_conf is None:
            raise click.UsageError(
                "give the size of the cluster: --nodes N, --processors N, --slurm-conf FILE or --cluster FILE"
            )
        if self.nodes is None and (self.gpus_per_node, self.cpus_per_node) != (None, None):
            raise click.UsageError(
                "--gpus-per-node and --cpus-per-node need --nodes N; "
                + (
                    "--processors makes one pool without nodes"
                    if count
                    else "without it --slurm-conf defines the nodes"
                )
            )
        settings = self._scheduler()
        if count is not None:
            if self.slurm_conf is not None:
                self._report_replaced(self.slurm_conf)
            cluster = _cluster(count, self.gpus_per_node, self.cpus_per_node)
        else:
            from mirage.sim.slurm_conf.cluster_conf import (
                closed_remark,
                cluster_from_slurm_conf,
                other_options_remark,
                shared_nodes_remark,
            )

            assert self.slurm_conf is not None
            cluster = cluster_from_slurm_conf(self.slurm_conf)
            for remark in (closed_remark, other_options_remark, shared_nodes_remark):
                if text := remark(self.slurm_conf, cluster):
                    click.echo(f"mirage: {self.slurm_conf}: {text}", err=True)
        return SimulatedMachine(cluster, settings, self.slurm_conf or self.settings or SETTINGS[0])

    def _report_unused(self, discipline: str) -> None:
        """Reports parameters of a scheduler that a built-in discipline does not have."""
        from mirage.sim.disciplines.discipline_registry import DISCIPLINES

        given = [f"--{name.replace('_', '-')}" for name in ("settings", "max_job_test") if getattr(self, name)]
        if given and discipline in DISCIPLINES and discipline not in _WITH_SETTINGS:
            click.echo(
                f"mirage: warning: {discipline} does not use {' and '.join(given)}; {' and '.join(_WITH_SETTINGS)} do",
                err=True,
            )

    def _report_replaced(self, slurm_conf: str) -> None:
        """Reports that the nodes and partitions of a slurm.conf, if it has any, are not used."""
        from mirage.sim.slurm_conf.slurm_settings import read_options

        option = "--nodes" if self.nodes is not None else "--processors"
        if "nodename" in read_options(slurm_conf):
            click.echo(
                f"mirage: {option} replaces the nodes and partitions of {slurm_conf}, with their limits; without "
                f"{option} they are simulated",
                err=True,
            )

    def workload(self, table: JobTable, cluster: Cluster, trace: str) -> Workload:
        """Returns the jobs of a trace to replay; warns of those with another place or size.

        Args:
            table: The trace.
            cluster: The simulated cluster.
            trace: Name of the trace, for messages.

        Raises:
            JobRefused: A job can never run, and ``--skip-impossible`` is not given.
            ConfigurationError: There is no job to replay.
        """
        from mirage.sim.workload import other_partitions, workload

        if others := other_partitions(table, cluster):
            most = first_of(sorted(others, key=lambda name: -others[name]))
            click.echo(
                f"mirage: warning: {quantity(sum(others.values()), 'job')} of {trace} are of partitions that "
                f"{self.cluster or self.slurm_conf} does not have ({most}): they run in its first one, "
                f"{cluster.partitions[0].name}",
                err=True,
            )
        each = int((table.cpus // table.nodes.clip(1)).max(initial=1))
        if self.processors is not None and each > 1:
            click.echo(
                f"mirage: warning: {trace} counts nodes, with up to {each} CPUs each, and each node counts as one "
                "processor here; give the number of nodes with --nodes",
                err=True,
            )
        if without := int((table.limit_s <= 0).sum()):
            click.echo(
                f"mirage: warning: {quantity(without, 'job')} of {trace} without a time limit: the scheduler plans "
                "with the run times, which shortens waits; add the limits to the trace (Timelimit of sacct)",
                err=True,
            )
        if self.gpus_per_node is not None and (table.gpus == 0).all():
            click.echo(
                f"mirage: warning: no job of {trace} has a GPU, so none waits for one; if the accounting does not "
                "record GPUs (AccountingStorageTRES without gres/gpu), leave --gpus-per-node out",
                err=True,
            )
        try:
            jobs = workload(table, cluster, refuse=not self.skip_impossible)
        except JobRefused as refused:
            if self.nodes is not None and (table.nodes == table.cpus).all():
                raise JobRefused(
                    f"{refused}; if {trace} counts processors, not nodes, replace --nodes by --processors"
                ) from None
            raise
        jobs.require_jobs(trace)
        for reason, count in jobs.left_out.items():
            click.echo(f"mirage: {quantity(count, 'job')} of {trace} left out: {reason}", err=True)
        return jobs

    def _of_cluster_file(self, path: str) -> SimulatedMachine:
        """Returns the cluster of a cluster file, which defines all but ``--max-job-test``."""
        from mirage.sim.slurm_conf.cluster_file import read_cluster_file

        for name in _FROM_A_CLUSTER_FILE:
            if getattr(self, name) is not None:
                raise click.UsageError(
                    f"--cluster and --{name.replace('_', '-')} exclude each other; the file defines it"
                )
        read = read_cluster_file(path)
        return SimulatedMachine(read.cluster, self._tested(read.settings), path, read.users.think_time_s)

    def _scheduler(self) -> SlurmSettings:
        """Returns the parameters of the scheduler."""
        from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

        if self.slurm_conf is not None:
            report_remarks(self.slurm_conf)
            found = SlurmSettings.from_slurm_conf(self.slurm_conf)
        else:
            found = SlurmSettings.lonestar6() if self.settings == "lonestar6" else SlurmSettings()
        return self._tested(found)

    def _tested(self, settings: SlurmSettings) -> SlurmSettings:
        """Returns the parameters with ``--max-job-test``, where it is given."""
        return settings if self.max_job_test is None else replace(settings, max_job_test=self.max_job_test)


machine_options = option_group(
    "machine",
    MachineOptions,
    click.option("-N", "--nodes", type=COUNT, metavar="N", help="Nodes of the cluster."),
    click.option(
        "--processors",
        type=Count(most=1_000_000_000),
        metavar="N",
        help="Processors of the cluster, for logs that count processors (SWF): one pool of N.",
    ),
    click.option(
        "--gpus-per-node",
        type=COUNT,
        metavar="N",
        help="Let jobs share nodes GPU by GPU; without it jobs take whole nodes.",
    ),
    click.option(
        "--cpus-per-node",
        type=COUNT,
        metavar="N",
        help=f"Let jobs share nodes core by core.  [default with --gpus-per-node: {DEFAULT_CPUS}]",
    ),
    click.option(
        "--slurm-conf",
        metavar="FILE",
        help="Take nodes, partitions and the scheduler's parameters from a slurm.conf.",
    ),
    click.option(
        "--cluster",
        metavar="FILE",
        help="Take the whole cluster, with limits, outages and reservations, from a cluster file in TOML.",
    ),
    click.option(
        "--settings",
        type=click.Choice(SETTINGS),
        help="The scheduler's parameters, if no file gives them, for slurm and conservative.  [default: slurm-default]",
    ),
    click.option(
        "--max-job-test",
        type=COUNT,
        metavar="N",
        help="Maximum number of jobs in the backfill plan (Slurm's bf_max_job_test).",
    ),
    click.option(
        "--skip-impossible",
        is_flag=True,
        help="Leave out jobs that can never run there, instead of stopping.",
    ),
)
"""``-N``, ``--processors``, ``--slurm-conf``, ``--cluster``, ``--settings`` and so on: the cluster to simulate."""


def report_remarks(slurm_conf: str) -> None:
    """Reports what Slurm or the simulator ignores in a slurm.conf."""
    from mirage.sim.slurm_conf.slurm_settings import (
        fair_share_remark,
        foreign_file_remark,
        ignored_remark,
        other_parameters_remark,
        priority_type_remark,
        read_options,
        small_parameters_remark,
    )

    options = read_options(slurm_conf)
    for remark in (
        foreign_file_remark, ignored_remark, priority_type_remark, fair_share_remark, small_parameters_remark,
        other_parameters_remark,
    ):  # fmt: skip
        if text := remark(options):
            click.echo(f"mirage: {slurm_conf}: {text}", err=True)


def _cluster(nodes: int, gpus: int | None, cpus: int | None) -> Cluster:
    from mirage.sim.cluster import Cluster, NodeGroup

    if gpus is not None:
        return Cluster.gpu(nodes, gpus, cpus or DEFAULT_CPUS)
    if cpus is not None:
        return Cluster((NodeGroup("node", nodes, 0, cpus),), shared_nodes=True)
    return Cluster.pool(nodes)


def discipline_help() -> str:
    """Returns the names of the disciplines for help texts, without loading the simulator."""
    from mirage.sim.disciplines.discipline_registry import DISCIPLINES

    *names, last = DISCIPLINES
    return f"{', '.join(names)} or {last}"
