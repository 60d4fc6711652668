"""``mirage chain pause``, ``resume`` and ``stop``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mirage.cli import context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError, SlurmError, SlurmUnreachable

if TYPE_CHECKING:
    from mirage.agent.model import Chain, LinkState
    from mirage.agent.store.protocol import Store


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain pause train-k3f9"))
@click.argument("name")
def pause(name: str) -> None:
    """Pause chain NAME: its job runs on, the waiting one is cancelled, none is submitted."""
    from mirage.agent.model import LinkState

    with cluster.store() as store:
        chain = find(store, name)
        _check_cluster(store)
        _change(store, chain, "paused", "paused by hand", "active")
        _cancel(store, chain, LinkState.HELD, LinkState.QUEUED, only_pending=True)
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
    from mirage.agent.model import LinkState

    with cluster.store() as store:
        chain = find(store, name)
        _check_cluster(store)
        state = "ending" if after_this_link else "stopping"
        from_states = ("active", "paused") if after_this_link else ("active", "paused", "ending", "stopping")
        _change(store, chain, state, "stopped by hand", *from_states)
        running = () if after_this_link else (LinkState.RUNNING,)
        _cancel(store, chain, LinkState.HELD, LinkState.QUEUED, *running, only_pending=after_this_link)
    click.echo(f"chain {chain.name} is stopped", err=True)


def _check_cluster(store: Store) -> None:
    """See that Slurm's commands speak to the cluster of the chains, if they speak at all.

    Raises:
        WrongCluster: They speak to another, where the numbers of our jobs are somebody else's.
    """
    from mirage.slurm.backend import cluster_of

    try:
        store.bind(cluster_of(cluster.client().configuration()))
    except SlurmError as error:
        click.echo(f"mirage: {error}", err=True)


def _cancel(store: Store, chain: Chain, *states: LinkState, only_pending: bool) -> None:
    """Cancel the jobs of links in some states now, each only where the queue shows that it is ours.

    The agent may have seen a link last before it started: with ``only_pending`` such a job runs on. The agent cancels
    what is not seen yet, and everything where Slurm does not answer.
    """
    from mirage.agent.cycle.own_jobs import is_of_link, own_jobs
    from mirage.agent.model import EventRecord
    from mirage.job_state import MISSING, JobState

    now_s, slurm = int(cluster.clock()), cluster.client()
    try:
        own = own_jobs(slurm.observe().jobs, slurm.user, store.identity().identity)
        for link in reversed(store.links(chain.id)):  # what waits first: the end of what runs would let it start
            job = own.by_id.get(link.job)
            if link.state not in states or link.cancelled_s != MISSING or job is None:
                continue
            if only_pending and job.state is not JobState.PENDING:
                continue
            if is_of_link(job, chain.key, link.number):
                slurm.cancel(job.id, only_pending=only_pending)
                event = EventRecord(chain.id, link.number, now_s, "withdrawn", f"job {job.id}, by hand")
                store.change_link(chain.id, link.number, event, cancelled_s=now_s)
    except SlurmUnreachable as error:
        click.echo(f"mirage: {error}; the agent cancels the jobs when Slurm answers again", err=True)


def _change(store: Store, chain: Chain, state: str, why: str, *only_from: str) -> None:
    from mirage.agent.model import ChainState, EventRecord

    if chain.state.value not in only_from:
        raise ConfigurationError(
            f"chain {chain.name} is {chain.state.value}; only {' or '.join(only_from)} ones can be"
        )
    now_s = int(cluster.clock())
    event = EventRecord(chain.id, 0, now_s, {"active": "resumed"}.get(state, state), why)
    columns: dict[str, Any] = {"trouble": ""}
    if state == "active":
        columns |= {"refusals": 0, "failures": 0, "quick_ends": 0, "next_try_s": 0, "resumed_s": now_s}
    if state in ("ending", "stopping"):
        columns["stopped_s"] = now_s
    store.change_chain(chain.id, event, state=ChainState(state), why=why, **columns)
