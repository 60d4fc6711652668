"""``mirage chain pause``, ``resume`` and ``stop``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mirage.cli import context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.agent.model import Chain
    from mirage.agent.store.protocol import Store


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain pause train-k3f9"))
@click.argument("name")
def pause(name: str) -> None:
    """Pause chain NAME: its job runs on, the waiting one is cancelled, none is submitted."""
    with cluster.store() as store:
        chain = find(store, name)
        _change(store, chain, "paused", "paused by hand", "active")
        withdraw(store, chain)
    click.echo(f"chain {chain.name} is paused; `mirage chain resume {chain.name}` goes on", err=True)


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain resume train-k3f9"))
@click.argument("name")
def resume(name: str) -> None:
    """Go on with chain NAME after a pause, whoever made it."""
    with cluster.store() as store:
        chain = find(store, name)
        _change(store, chain, "active", "", "paused")
    click.echo(f"chain {chain.name} goes on with the agent's next look", err=True)


@click.command(
    context_settings=CONTEXT,
    epilog=examples("mirage chain stop train-k3f9", "mirage chain stop --after-this-link serve"),
)
@click.argument("name")
@click.option("--after-this-link", is_flag=True, help="Let the job that runs come to its end.")
def stop(name: str, after_this_link: bool) -> None:
    """End chain NAME: cancel its jobs and submit no more."""
    with cluster.store() as store:
        chain = find(store, name)
        _change(store, chain, "ending", "stopped by hand", "active", "paused")
        withdraw(store, chain)
        if not after_this_link:
            slurm = cluster.client()
            for link in store.links(chain.id):
                if link.state.value == "running":
                    slurm.cancel(link.job)
    click.echo(f"chain {chain.name} is stopped", err=True)


def withdraw(store: Store, chain: Chain) -> None:
    """Cancel the waiting job of a chain; the agent cancels one that is not known yet."""
    from mirage.agent.model import EventRecord, LinkState
    from mirage.job_state import MISSING

    now_s, slurm = int(cluster.clock()), cluster.client()
    for link in store.links(chain.id):
        if link.state in (LinkState.HELD, LinkState.QUEUED) and link.job != MISSING and link.cancelled_s == MISSING:
            event = EventRecord(chain.id, link.number, now_s, "withdrawn", f"job {link.job}, by hand")
            slurm.cancel(link.job)
            store.change_link(chain.id, link.number, event, cancelled_s=now_s)


def _change(store: Store, chain: Chain, state: str, why: str, *only_from: str) -> None:
    from mirage.agent.model import ChainState, EventRecord

    if chain.state.value not in only_from:
        raise ConfigurationError(
            f"chain {chain.name} is {chain.state.value}; only {' or '.join(only_from)} ones can be"
        )
    kind = {"active": "resumed"}.get(state, state)
    event = EventRecord(chain.id, 0, int(cluster.clock()), kind, why)
    columns = {"refusals": 0, "failures": 0, "next_try_s": 0} if state == "active" else {}
    store.change_chain(chain.id, event, state=ChainState(state), why=why, **columns)
