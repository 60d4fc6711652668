"""``mirage endpoint``: the upstream file of a proxy, kept pointing at the live link."""

from __future__ import annotations

import time
from pathlib import Path

import click

from mirage.cli import context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.options import CONTEXT, examples
from mirage.errors import shown


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage endpoint serve --port 8000",
        "mirage endpoint serve --kind haproxy --port 8000 -o serve.cfg --watch --reload 'systemctl reload haproxy'",
    ),
)
@click.argument("name")
@click.option("--port", type=click.IntRange(1, 65_535), required=True, help="On which every job of the chain serves.")
@click.option("--kind", type=click.Choice(["nginx", "haproxy", "traefik"]), default="nginx", show_default=True)
@click.option("-o", "out", type=click.Path(path_type=Path), help="Write it there, in one step. [default: print it]")
@click.option("--watch", is_flag=True, help="Keep it up to date until Ctrl-C.")
@click.option("--reload", "reload_", metavar="CMD", help="Run this whenever the file has changed.")
@click.option(
    "--every",
    "every_s",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="S",
    help="With --watch: between looks.",
)
def endpoint(name: str, port: int, kind: str, out: Path | None, watch: bool, reload_: str | None, every_s: int) -> None:
    """Write where the live job of chain NAME serves, as a proxy reads it.

    While no job is live the file points nowhere, and the proxy answers that the service is unavailable.
    """
    import os

    from mirage.agent.cycle.readiness import SystemShell
    from mirage.agent.endpoint import live_link, render, write_if_changed
    from mirage.slurm_words.hostlist import expand_hosts

    if watch and out is None:
        raise click.UsageError("--watch needs -o FILE")
    slurm = cluster.client()
    with cluster.store() as store:
        chain = find(store, name)
        while True:
            live = live_link(store.links(chain.id))
            hosts = [job.nodelist for job in slurm.observe().jobs if live is not None and job.id == live.job]
            host = expand_hosts(hosts[0])[0] if hosts and hosts[0] else None
            text = render(kind, chain.name, host, port)
            if out is None:
                click.echo(text, nl=False)
            elif write_if_changed(out, text):
                click.echo(f"{chain.name} is at {host or 'no host'}", err=True)
                if reload_ and not SystemShell().succeeds(reload_, os.environ, ".", 60.0):
                    click.echo(f"mirage: {shown(reload_)} failed", err=True)
            if not watch:
                return
            time.sleep(every_s)
