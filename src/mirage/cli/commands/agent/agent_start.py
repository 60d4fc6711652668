"""``mirage agent start`` and ``stop``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.agent.agent_install import check_job_options, job_options, submit_agent_job
from mirage.cli.commands.agent.foreground_agent import is_pass_under_way
from mirage.cli.options import CONTEXT, examples
from mirage.errors import LeaseHeld, SlurmError, StoreError

if TYPE_CHECKING:
    from mirage.agent.store.protocol import Store


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage agent start", "mirage agent start --systemd", "mirage agent start --in-job -p service -t 1-0"
    ),
)
@click.option("--systemd", is_flag=True, help="Run it as a user unit that systemd keeps alive.")
@click.option("--in-job", is_flag=True, help="Run it as a small Slurm job that submits its own successor.")
@job_options
def start(systemd: bool, in_job: bool, partition: str, limit_s: int | None, sbatch_options: tuple[str, ...]) -> None:
    """Start the agent if none runs; with --in-job, words after -- are options for sbatch.

    It is not started if Slurm's commands reach another cluster than that of the chains.
    """
    from mirage.agent import service

    if systemd and in_job:
        raise click.UsageError("give --systemd or --in-job, not both")
    check_job_options(in_job, partition, limit_s, sbatch_options)
    home = cluster.home()
    with cluster.store() as store:
        found = service.running_agent(store, cluster.clock())
        identity = store.identity().identity
        if found is not None and found.here and is_pass_under_way(store):
            service.stop(found)
            found = None
        if found is None:
            cluster.check_cluster(store)
            _warn_of_silence()
    if found is not None:
        click.echo(f"an agent runs already on {found.host}, process {found.pid}", err=True)
        if found.suspension:
            click.echo(f"mirage: warning: {found.suspension}", err=True)
    elif systemd:
        click.echo(f"started by systemd as {service.install_unit(os.environ).name}")
    elif in_job:
        click.echo(submit_agent_job(home, identity, partition, limit_s, sbatch_options))
    else:
        try:
            click.echo(f"started process {service.start(home, os.environ, cluster.clock())}; it logs to {home.log}")
        except LeaseHeld as error:
            click.echo(str(error), err=True)


def _warn_of_silence() -> None:
    """Prints a warning if Slurm gives no answer now.

    Raises:
        RequestNotSent: It cannot, as its configuration is not there.
    """
    slurm = cluster.client()
    try:
        cluster.check_controller(slurm)
    except SlurmError as error:
        click.echo(f"mirage: warning: {error}; the agent tries again until Slurm answers", err=True)


@click.command(context_settings=CONTEXT, epilog=examples("mirage agent stop"))
def stop() -> None:
    """End the agent of this host; a chain continues only with jobs that are already queued."""
    from mirage.agent import service

    not_passed_on: list[str] = []
    try:
        with cluster.store() as store:
            found = service.running_agent(store, cluster.clock())
            not_passed_on = _not_passed_on(store)
    except StoreError as error:
        found = service.recorded_agent(cluster.home())
        if found is None:
            raise
        click.echo(f"mirage: warning: {error}", err=True)
    if found is None:
        click.echo("no agent runs", err=True)
        return
    service.stop(found)
    click.echo(f"ended process {found.pid}")
    for name in not_passed_on:
        click.echo(
            f"mirage: warning: chain {name} still needs an agent, until its first job without one has taken over: "
            "mirage agent start",
            err=True,
        )


def _not_passed_on(store: Store) -> list[str]:
    """Returns the chains that continue without an agent, but have a link that needs one."""
    from mirage.agent.model import LinkState
    from mirage.job_state import MISSING

    return [
        chain.name
        for chain in store.chains(alive=True)
        if chain.spec.agentless
        and any(
            link.state is not LinkState.ENDED and (link.number <= chain.spec.agentless_after or link.job == MISSING)
            for link in store.links(chain.id)
        )
    ]
