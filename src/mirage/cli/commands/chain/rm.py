"""``mirage chain rm``: remove chains that are done, permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.agent.model import Chain
    from mirage.agent.store.protocol import Store


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain rm train-k3f9", "mirage chain rm --all-done"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all-done", is_flag=True, help="Remove every chain that is done.")
def rm(names: tuple[str, ...], all_done: bool) -> None:
    """Remove chains that are done: their history, and the copies of their scripts.

    NAME must be complete here; it can be used again afterwards. Jobs are not touched: those of a chain that is done
    have ended.
    """
    if bool(names) == all_done:
        what = "give the names or --all-done, not both" if names else "name the chains, or give --all-done"
        raise click.UsageError(what)
    with cluster.store() as store:
        chosen = [find(store, name) for name in dict.fromkeys(names)]
        if all_done:
            chosen = [chain for chain in store.chains() if chain.state.value == "done"]
        for chain in chosen:
            if chain.state.value != "done":
                ends = chain.state.value == "stopping"
                remedy = "stop it first: mirage chain stop"
                if ends:
                    remedy = "wait until its jobs have ended: mirage chain stop --wait"
                raise ConfigurationError(f"chain {chain.name} is {chain.state.value}; {remedy} {chain.name}")
        for chain in chosen:
            _remove(store, chain)
    click.echo(f"removed {', '.join(chain.name for chain in chosen) or 'nothing: no chain is done'}", err=True)


def _remove(store: Store, chain: Chain) -> None:
    from mirage.agent.store.chain_file import NAME, read_chain_file

    home = cluster.home()
    folder = home.chain_folder(chain.name)
    stored = read_chain_file(folder)
    ours = stored is None or stored.key == chain.key  # two stores may share a home
    if ours:
        (folder / NAME).unlink(missing_ok=True)  # first: a chain with this file can be recovered
    store.remove_chain(chain.id)
    if ours:
        home.forget(chain.name)
