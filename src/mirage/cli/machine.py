"""The machine a command simulates: its nodes and its scheduler's parameters, from options or a ``slurm.conf``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from mirage.sim.cluster import Cluster
    from mirage.sim.slurm_conf.settings import SlurmSettings

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_CPUS = 64
SETTINGS = ("slurm-default", "lonestar6")


class Machine(NamedTuple):
    """A cluster, how its scheduler is set, and where that came from."""

    cluster: Cluster
    settings: SlurmSettings
    said_by: str


def machine_options(command: Command) -> Command:
    """``-N``, ``--processors``, ``--slurm-conf``, ``--settings`` and their kin."""
    for option in reversed(
        (
            click.option("-N", "--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of the cluster."),
            click.option(
                "--processors",
                type=click.IntRange(min=1),
                metavar="N",
                help="The same for logs that count processors (SWF): one pool of N.",
            ),
            click.option(
                "--gpus-per-node",
                type=click.IntRange(min=1),
                metavar="G",
                help="Let jobs share nodes GPU by GPU; without it jobs take whole nodes.",
            ),
            click.option(
                "--cpus-per-node",
                type=click.IntRange(min=1),
                metavar="C",
                help=f"Let jobs share nodes core by core.  [default with --gpus-per-node: {DEFAULT_CPUS}]",
            ),
            click.option(
                "--slurm-conf",
                metavar="FILE",
                help="Take nodes, partitions and the scheduler's parameters from a slurm.conf.",
            ),
            click.option(
                "--settings",
                type=click.Choice(SETTINGS),
                help="The scheduler's parameters, where no slurm.conf gives them.  [default: slurm-default]",
            ),
            click.option(
                "--max-job-test",
                type=click.IntRange(min=1),
                metavar="N",
                help="How many jobs the backfill plan holds at most (Slurm's bf_max_job_test).",
            ),
        )
    ):
        command = option(command)
    return command


def chosen_machine(
    *,
    nodes: int | None,
    processors: int | None,
    gpus_per_node: int | None,
    cpus_per_node: int | None,
    slurm_conf: str | None,
    settings: str | None,
    max_job_test: int | None,
) -> Machine:
    """The machine that the options of ``machine_options`` describe.

    ``--nodes`` beside ``--slurm-conf`` keeps the file's scheduler and replaces its machine.

    Raises:
        click.UsageError: They describe none, or two.
        ConfigurationError: The slurm.conf cannot be read.
    """
    from mirage.sim.slurm_conf.cluster_conf import cluster_from_slurm_conf
    from mirage.sim.slurm_conf.settings import SlurmSettings

    if nodes is not None and processors is not None:
        raise click.UsageError("--nodes and --processors exclude each other")
    if slurm_conf is not None and settings is not None:
        raise click.UsageError("--slurm-conf and --settings exclude each other")
    count = nodes if nodes is not None else processors
    if count is None and slurm_conf is None:
        raise click.UsageError("say how large the cluster is: --nodes N, --processors N or --slurm-conf FILE")
    if slurm_conf is not None:
        found = SlurmSettings.from_slurm_conf(slurm_conf)
    else:
        found = SlurmSettings.lonestar6() if settings == "lonestar6" else SlurmSettings()
    if max_job_test is not None:
        found = replace(found, max_job_test=max_job_test)
    if count is None:
        assert slurm_conf is not None
        cluster = cluster_from_slurm_conf(slurm_conf)
    else:
        cluster = _cluster(count, gpus_per_node, cpus_per_node)
    return Machine(cluster, found, slurm_conf or settings or SETTINGS[0])


def _cluster(nodes: int, gpus: int | None, cpus: int | None) -> Cluster:
    from mirage.sim.cluster import Cluster, NodeGroup

    if gpus is not None:
        return Cluster.gpu(nodes, gpus, cpus or DEFAULT_CPUS)
    if cpus is not None:
        return Cluster((NodeGroup("node", nodes, 0, cpus),), shared_nodes=True)
    return Cluster.pool(nodes)


def discipline_help() -> str:
    """The disciplines by name, for help texts, without loading the simulator."""
    from mirage.sim.disciplines.registry import DISCIPLINES

    *names, last = DISCIPLINES
    return f"{', '.join(names)} or {last}"
