"""``mirage agent status`` and ``rebind``: where the agent runs, and for which cluster."""

from __future__ import annotations

import json

import click

from mirage.cli import cli_context as cluster
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import quantity
from mirage.job_state import MISSING


@click.command(context_settings=CONTEXT, epilog=examples("mirage agent status", "mirage agent status --json"))
@json_output
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Print where the agent runs and its present outage; exit status 1 if none runs.

    Passes of `mirage agent once` count as an agent while they come at their interval.
    """
    from dataclasses import asdict

    from mirage.agent import service
    from mirage.agent.hosting.installed_passes import entry_trouble
    from mirage.agent.hosting.pass_memory import outage_of_passes, recent_passes
    from mirage.agent.monitoring.outage import known_outage

    now_s = cluster.clock()
    with cluster.store() as store:
        outage = known_outage(store, cluster.home().agent_state, now_s)
        found = service.last_agent(store) if outage is not None else service.running_agent(store, now_s)
        if outage is None and found is None:
            home = cluster.home()
            outage = outage_of_passes(home.pass_memory, home.agent_state, store.identity().polled_s, now_s)
        alive = len(store.chains(alive=True))
        url = str(store.engine.url)
    passes, trouble = recent_passes(cluster.home().pass_memory, now_s), entry_trouble(cluster.home())
    if as_json:
        facts = (
            None if found is None else {"host": found.host, "pid": found.pid, "lease_s": round(found.until_s - now_s)}
        )
        since_s, words = (outage.since_s, outage.in_words(now_s)) if outage is not None else (None, None)
        values = {"agent": facts, "chains": alive, "store": url, "outage_since": since_s, "outage": words}
        hosting = {"passes": None if passes is None else asdict(passes), "entry_trouble": trouble or None}
        click.echo(json.dumps({**values, **hosting}))
    elif found is None and passes is not None:
        click.echo(f"{passes.in_words()} manage {quantity(alive, 'chain')} of {url}")
        if outage is not None:
            click.echo(outage.in_words(now_s))
    elif found is None:
        waiting = f"{quantity(alive, 'chain')} of {url} {'waits' if alive == 1 else 'wait'}"
        click.echo(f"no agent runs; {waiting} for one: mirage agent start")
    else:
        click.echo(f"process {found.pid} on {found.host} manages {quantity(alive, 'chain')} of {url}")
        if found.suspension:
            click.echo(found.suspension)
        if outage is not None:
            click.echo(outage.in_words(now_s))
    if trouble and not as_json:
        click.echo(trouble)
    if found is None and passes is None:
        ctx.exit(1)


@click.command(context_settings=CONTEXT, epilog=examples("mirage agent rebind"))
@click.option("--force", is_flag=True, help="Bind it even if no job of its chains is in the queue.")
def rebind(force: bool) -> None:
    """Bind the store to the cluster that Slurm's commands reach, after its controller moved.

    Only for the same cluster under a new address, where the jobs of the chains run and wait: on another cluster the job
    IDs belong to other jobs.
    """
    from mirage.agent import service
    from mirage.agent.chain.tag import parse_tag
    from mirage.agent.model import LinkState
    from mirage.errors import ConfigurationError, first_of
    from mirage.slurm.backend import cluster_of

    slurm = cluster.client()
    slurm.everybody = False
    found = cluster_of(slurm.configuration())
    with cluster.store() as store:
        if service.running_agent(store, cluster.clock()) is not None:
            raise ConfigurationError("an agent manages this store; stop it first: mirage agent stop")
        before = store.identity()
        links = [link for link in store.links(open=True) if link.state is not LinkState.ENDED]
        jobs = [str(link.job) for link in links if link.job != MISSING]
        tags = (parse_tag(job.comment) for job in slurm.observe().jobs)
        if jobs and not force and not any(tag is not None and tag.store == before.identity for tag in tags):
            raise ConfigurationError(
                f"no job of the chains ({first_of(jobs)}) is in the queue of {found}, so it is probably another "
                f"cluster; use SLURM_CONF to reach {before.cluster}, or give --force if these jobs have ended"
            )
        store.rebind(found)
    click.echo(f"{before.cluster or 'no cluster'} -> {found}")
