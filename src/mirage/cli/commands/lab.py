"""``mirage lab``: a private real Slurm on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mirage.cli.lazy import CommandGroup
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.values import IntegerRange
from mirage.errors import quantity, shown
from mirage.process import interrupted_by_signals

DEFAULT = Path("mirage-lab")


def directory(command: Any) -> Any:
    """Adds the argument DIRECTORY, the location of the cluster."""
    return click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT)(command)


@click.group(
    cls=CommandGroup,
    context_settings=CONTEXT,
    epilog=examples("mirage lab up --nodes 8", 'eval "$(mirage lab env)"', "mirage lab down"),
)
def lab() -> None:
    """A private real Slurm cluster in one directory, on loopback, without root access."""


@lab.command(
    context_settings=CONTEXT,
    epilog=examples("mirage lab up", "mirage lab up big --nodes 64 --accounting", "mirage lab up fast --speed 60"),
)
@directory
@click.option("-N", "--nodes", metavar="N", default=4, show_default=True, type=IntegerRange(1, 500))
@click.option(
    "--gpus", default=8, show_default=True, type=IntegerRange(0, 16), help="GPUs per node; none of them is real."
)
@click.option(
    "--speed", default=1, show_default=True, type=IntegerRange(1, 60), help="Cluster seconds per real second."
)
@click.option("--accounting/--no-accounting", default=False, help="Run MariaDB and slurmdbd.")
@click.option("--rest/--no-rest", default=False, help="Run slurmrestd.")
@click.option(
    "--port",
    default=0,
    show_default=True,
    type=IntegerRange(0, 64_000),
    metavar="N",
    help="First port: the cluster uses N to N+3, and one per node from N+101; 0 for free ports.",
)
@click.option(
    "--preempt",
    default="none",
    type=click.Choice(["none", "qos", "partition_prio"]),
    show_default=True,
    help="Let jobs preempt others, by their QOS (with --accounting) or by the tiers of partitions.",
)
@click.option("--set", "extra", multiple=True, metavar="KEY=VALUE", help="An additional line of slurm.conf.")
@json_output
def up(directory: Path, as_json: bool, **wanted: Any) -> None:
    """Start a cluster in DIRECTORY, or the processes of it that do not run."""
    from mirage.lab.real.lab_spec import LabSpec
    from mirage.lab.real.private_cluster import PrivateCluster

    for line in wanted["extra"]:
        key = line.partition("=")[0].strip()
        if key.lower() in _OWN_KEYS:
            raise click.UsageError(f"--set {key}: the lab sets it; leave it out{_OWN_KEYS[key.lower()]}")
    cluster = PrivateCluster(LabSpec(directory=directory, **wanted))
    _refuse_another(cluster.spec, directory, wanted)
    if is_given("preempt") and cluster.spec.preempt == "qos" and not cluster.spec.accounting:
        raise click.UsageError("--preempt qos needs --accounting: Slurm has QOS in its database only")
    with interrupted_by_signals() as interrupted:
        cluster.up(interrupted=interrupted)
    if as_json:
        click.echo(json.dumps({"directory": str(cluster.spec.directory), "environment": cluster.user_environment}))
        return
    pace = f", at {cluster.spec.speed} times real time" if cluster.spec.speed > 1 else ""
    click.echo(f"{quantity(cluster.spec.nodes, 'node')} idle in {cluster.spec.directory}{pace}", err=True)
    click.echo(f'to use it: eval "$(mirage lab env {shlex.quote(str(directory))})"', err=True)


_PORT = ", or give --port"
_OWN_KEYS = {
    "slurmctldport": _PORT,
    "slurmdport": _PORT,
    "slurmctldhost": "",
    "slurmuser": "",
    "slurmduser": "",
    "authinfo": "",
}
"""Lines of slurm.conf with which a lab does not start, and the option in place of each."""


@lab.command(context_settings=CONTEXT, epilog=examples("mirage lab down", "mirage lab down big --purge"))
@directory
@click.option("--purge", is_flag=True, help="Also remove the files that it wrote; your own files stay.")
def down(directory: Path, purge: bool) -> None:
    """End all processes of the cluster in DIRECTORY, including the agent of its chains."""
    cluster = _there(directory)
    _end_agent(cluster)
    if purge:
        cluster.purge()
    else:
        cluster.down()


@lab.command(context_settings=CONTEXT, epilog=examples("mirage lab status", "mirage lab status big --json"))
@directory
@json_output
def status(directory: Path, as_json: bool) -> None:
    """List the running processes of the cluster in DIRECTORY."""
    running = _there(directory).running()
    if as_json:
        click.echo(json.dumps(running))
        return
    for name, pid in running.items():
        click.echo(f"{name} {pid}")


@lab.command(context_settings=CONTEXT, epilog=examples('eval "$(mirage lab env)"; squeue'))
@directory
def env(directory: Path) -> None:
    """Print shell commands that select the running cluster in DIRECTORY.

    Chains submitted to it are stored in the folder mirage-home of DIRECTORY, separate from those of any other cluster.
    """
    for name, value in _running(directory).user_environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@lab.command(
    context_settings={**CONTEXT, "allow_interspersed_args": False},
    epilog=examples("mirage lab run mirage-lab squeue", "mirage lab run fast date"),
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(directory: Path, command: tuple[str, ...]) -> None:
    """Run COMMAND as a client of the running cluster in DIRECTORY, on its clock.

    All words after DIRECTORY are those of COMMAND, its -h and --help among them.
    """
    environment = {**os.environ, **_running(directory).user_environment}
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        raise click.UsageError(f"cannot run {shown(command[0])}: {error.strerror}") from None


def _refuse_another(there: Any, directory: Path, wanted: dict[str, Any]) -> None:
    """Refuses a moved cluster, and options that differ from those of the existing one."""
    from mirage.errors import ConfigurationError
    from mirage.lab.real.cluster_files import first_directory

    if (first := first_directory(there.directory)) != there.directory:
        raise ConfigurationError(
            f"the cluster in {directory} was made in {first}, and its files name that; move it back, or `mirage lab "
            f"down {directory} --purge` first"
        )
    ctx = click.get_current_context()
    given = {
        str(option.name): max(option.opts, key=len)
        for option in ctx.command.params
        if ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    }
    other = [given[name] for name in wanted if name in given and wanted[name] != getattr(there, name)]
    if other:
        raise ConfigurationError(
            f"the cluster in {directory} was made with other {', '.join(other)}; leave that out to start it as it is, "
            f"or `mirage lab down {directory} --purge` first"
        )


def _end_agent(cluster: Any) -> None:
    """Ends the agent of a private cluster's chains, if one runs."""
    from mirage.agent import service
    from mirage.agent.paths import Home
    from mirage.agent.store.sql_store import open_store
    from mirage.errors import ConfigurationError, StoreError

    if not (cluster.spec.home / "store.db").exists():
        return
    try:
        with contextlib.closing(open_store(Home.named({"MIRAGE_HOME": str(cluster.spec.home)}).store_url)) as store:
            found = service.running_agent(store, 0.0)  # 0.0 ignores the lease, for a fast clock
        if found is not None:
            service.stop(found)
    except (StoreError, ConfigurationError) as error:
        click.echo(f"mirage: warning: the agent of this cluster may still run: {error}", err=True)


def _there(directory: Path) -> Any:
    from mirage.errors import ConfigurationError
    from mirage.lab.real.cluster_files import first_directory, is_written
    from mirage.lab.real.cluster_processes import daemons_of
    from mirage.lab.real.lab_spec import LabSpec
    from mirage.lab.real.private_cluster import PrivateCluster

    cluster = PrivateCluster(LabSpec(directory=directory))
    first = LabSpec(directory=first_directory(directory))
    if not is_written(first) and (left := daemons_of(first.directory)):
        raise ConfigurationError(
            f"the files of the private cluster in {first.directory} are gone or moved, and its processes still run; to "
            f"end them: kill -9 {' '.join(map(str, left))}"
        )
    if not is_written(cluster.spec):
        raise ConfigurationError(
            f"there is no private cluster in {directory}; start one with `mirage lab up {directory}`"
        )
    return cluster


def _running(directory: Path) -> Any:
    from mirage.errors import ConfigurationError

    cluster = _there(directory)
    if not cluster.running():
        raise ConfigurationError(f"the cluster in {directory} does not run; start it with `mirage lab up {directory}`")
    return cluster
