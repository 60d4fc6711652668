"""``mirage endpoint``: a proxy's upstream file that follows the live job of a chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.commands.chain.steer import warn_without_agent
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.output import check_output
from mirage.cli.values import DURATION_WITH_UNIT
from mirage.errors import ConfigurationError, UnknownName, shown

if TYPE_CHECKING:
    from mirage.agent.endpoint import Endpoint, Port
    from mirage.agent.store.sql_store import SqlStore


class PortOption(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A port, or an expression of the job ID."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Port:
        """Returns the port of a text."""
        from mirage.agent.endpoint import Port

        try:
            return Port.parse(str(value))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage endpoint serve --port 8000",
        "mirage endpoint serve --port 8000 -o serve.conf --reload 'nginx -s reload' --install",
        "mirage endpoint serve --kind haproxy --port 20000+JOB%20000 -o serve.cfg --watch",
        "mirage endpoint --list",
    ),
)
@click.argument("name", required=False)
@click.option(
    "--port",
    type=PortOption(),
    metavar="PORT",
    help="Port on which every job of the chain serves: a number, or BASE+JOB%SPAN with the job ID.",
)
@click.option(
    "--kind", type=click.Choice(["nginx", "haproxy", "traefik", "envoy", "litellm"]), default="nginx", show_default=True
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write this file, atomically. [default: print it]")
@click.option("--reload", "reload_", metavar="CMD", help="Run this command after each change of the file.")
@click.option("--install", is_flag=True, help="Let the agent keep the file up to date while it runs.")
@click.option(
    "--uninstall", is_flag=True, help="The agent stops updating the files of NAME, or the one of -o; they stay."
)
@click.option("--list", "listed", is_flag=True, help="List the files that the agent keeps up to date.")
@click.option(
    "--watch", is_flag=True, help="Keep the file up to date in the foreground, until Ctrl-C or the chain's end."
)
@click.option(
    "--every",
    "every_s",
    type=DURATION_WITH_UNIT,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Time between queries of --watch.",
)
@json_output
def endpoint(
    name: str | None,
    port: Port | None,
    kind: str,
    out: Path | None,
    reload_: str | None,
    install: bool,
    uninstall: bool,
    listed: bool,
    watch: bool,
    every_s: int,
    as_json: bool,
) -> None:
    """Write the address of the live job of chain NAME to a proxy's configuration.

    While no job is live, the file names no server, and the proxy answers that the service is unavailable.
    """
    from mirage.agent.background.endpoints import check_unfollowed
    from mirage.agent.endpoint import Endpoint, check_replaceable
    from mirage.cli.commands.chain.endpoint_watch import Follower, Watch, ended_by_signal

    if sum((install, uninstall, listed, watch)) > 1:
        raise click.UsageError("give one of --install, --uninstall, --list and --watch")
    _check_alone(as_json=as_json, listed=listed, watch=watch)
    if reload_ is not None and out is None:
        raise click.UsageError("--reload runs a command after changes of a file; give -o FILE")
    if listed:
        _print_installed(name, as_json)
        return
    if name is None:
        raise click.UsageError("Missing argument 'NAME'.")
    if uninstall:
        _uninstall(name, out)
        return
    if port is None:
        raise click.UsageError("Missing option '--port'.")
    if (watch or install) and out is None:
        raise click.UsageError(f"--{'watch' if watch else 'install'} needs -o FILE")
    with cluster.store() as store:
        chain = find(store, name)
        wanted = Endpoint(chain.name, kind, port, _place(out or Path("-")), reload_ or "")
        if install:
            check_replaceable(wanted.file)
            _install(store, wanted)
            return
        cluster.check_cluster(store)  # on another one, its links would be absent
        if out is not None:
            check_output(out)
            check_replaceable(out)
            check_unfollowed(cluster.home(), wanted)
        if not watch:
            follower = Follower(chain, wanted)
            follower.links = store.links(chain.id)
            follower.query_slurm()
            if out is None:
                click.echo(wanted.text(follower.job), nl=False)
            elif not follower.write():
                raise click.exceptions.Exit(1)  # the failure is printed
            return
    with ended_by_signal() as arrived:  # reopens the store: one that was lost for a while comes back as another file
        Watch(chain, wanted, every_s).run()
    if arrived:
        click.echo(f"mirage: ended by {arrived[0]}; {out} stays as it is", err=True)


def _check_alone(*, as_json: bool, listed: bool, watch: bool) -> None:
    """Refuses options that would have no effect.

    Raises:
        click.UsageError: There is one.
    """
    if as_json and not listed:
        raise click.UsageError("--json prints the files of --list; give that, too")
    if is_given("every_s") and not watch:
        raise click.UsageError("--every is the time between queries of --watch; the agent has one of its own")
    if listed and any(map(is_given, ("port", "kind", "out", "reload_"))):
        raise click.UsageError("--list prints the files of the agent; leave --port, --kind, -o and --reload out")


def _install(store: SqlStore, wanted: Endpoint) -> None:
    """Persists an endpoint for the agent."""
    from mirage.agent.background.endpoints import install_endpoint
    from mirage.agent.service import running_agent

    install_endpoint(cluster.home(), wanted)
    found = running_agent(store, cluster.clock())
    writer = f"the agent on {found.host} (process {found.pid})" if found else "the agent"
    click.echo(f"{writer} writes {wanted.file} from its next cycle on", err=True)
    warn_without_agent(store)


def _uninstall(name: str, out: Path | None) -> None:
    """Removes endpoints from the agent; their chain may no longer exist."""
    from mirage.agent.background.endpoints import installed_endpoints, uninstall_endpoints

    home = cluster.home()
    removed = uninstall_endpoints(home, name, _place(out) if out else None)
    if not removed:
        known = [f"{one.file} of {one.chain}" for one in installed_endpoints(home)[0]]
        what = f"no endpoint of {shown(name)}" + (f" in {out}" if out else "")
        raise ConfigurationError(f"the agent follows {what}; it follows {', '.join(known) or 'none'}")
    for file in removed:
        click.echo(f"the agent follows {file} no longer; the file stays as it is", err=True)


def _place(out: Path) -> Path:
    """Returns the absolute path of a file, the same for each way to it through `..`."""
    return out.parent.resolve() / out.name if ".." in out.parts else out.absolute()


def _print_installed(name: str | None, as_json: bool) -> None:
    """Prints the endpoints that the agent updates, or those of a chain."""
    from mirage.agent.background.endpoints import installed_endpoints

    found, unread = installed_endpoints(cluster.home())
    with cluster.store(to_read=True) as store:
        rows = [_row(store, one) for one in found if name in (None, one.chain)]
    for path, why in unread.items():
        click.echo(f"mirage: warning: {path}: {why}; remove it, and install the endpoint again", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    lines = [[str(cell) for cell in row.values()] for row in rows]
    lines = [["CHAIN", "KIND", "PORT", "FILE", "RELOAD", "STATE"], *lines]
    widths = [max(len(line[k]) for line in lines) for k in range(6)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def _row(store: SqlStore, one: Endpoint) -> dict[str, str]:
    """Returns an endpoint with the agent's last report about it."""
    try:
        events = store.events(store.chain(one.chain).id)
        own = [event for event in events if event.kind.startswith("endpoint") and str(one.file) in event.detail]
        last = own[-1] if own else None
        state = f"{last.kind.removeprefix('endpoint-')}: {last.detail}" if last else "not written yet"
        if last is not None and last.kind == "endpoint":
            state = last.detail.removeprefix(f"{one.file} ")
    except UnknownName:
        state = "no such chain: points nowhere"
    return {
        "chain": one.chain,
        "kind": one.kind,
        "port": str(one.port),
        "file": str(one.file),
        "reload": one.reload or "-",
        "state": state,
    }
