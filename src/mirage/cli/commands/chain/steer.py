"""``mirage chain pause``, ``resume`` and ``stop``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.list import find
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError, SlurmError, SlurmUnreachable

if TYPE_CHECKING:
    from mirage.agent.model import Chain
    from mirage.agent.store.protocol import Store

WAIT_S = 1.0
"""Seconds between two reads of the store by ``mirage chain stop --wait``."""


AGENT_CANCELS = "the agent cancels the jobs when Slurm answers again"


@dataclass(frozen=True, slots=True)
class AfterCancel:
    """The jobs of a chain after the jobs of some links were cancelled.

    Attributes:
        cancelled: The jobs cancelled now or before.
        running: The other running jobs, from the queue, or as the agent observed them if Slurm does not answer.
        answered: Whether Slurm has answered.
    """

    cancelled: tuple[int, ...]
    running: tuple[int, ...]
    answered: bool = True


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain pause train-k3f9"))
@click.argument("name")
def pause(name: str) -> None:
    """Pause chain NAME: its job runs on, the waiting one is cancelled, none is submitted."""
    with cluster.store() as store:
        chain = find(store, name)
        check_cluster(store)
        _change(store, chain, "paused", "paused by hand", "active")
        jobs = cancel_jobs(store, chain, "by hand", only_pending=True)
    click.echo(
        f"chain {chain.name} is paused: {_run_out(jobs)}, none follows until `mirage chain resume {chain.name}`",
        err=True,
    )


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain resume train-k3f9"))
@click.argument("name")
def resume(name: str) -> None:
    """Resume chain NAME after a pause, whether set by you or by the agent."""
    with cluster.store() as store:
        chain = find(store, name)
        _change(store, chain, "active", "", "paused")
        warn_without_agent(store)
    click.echo(f"chain {chain.name} resumes with the agent's next poll", err=True)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage chain stop train-k3f9", "mirage chain stop --after-this-link serve", "mirage chain stop --wait serve"
    ),
)
@click.argument("name")
@click.option("--after-this-link", is_flag=True, help="Let the running job run to its end.")
@click.option("--wait", is_flag=True, help="Return once the chain is done: all its jobs have ended.")
def stop(name: str, after_this_link: bool, wait: bool) -> None:
    """End chain NAME: cancel its jobs and submit no more.

    The chain is done once the agent has observed the end of its jobs; --wait waits for that.
    """
    from mirage.agent.paths import stop_agentless

    with cluster.store() as store:
        chain = find(store, name)
        check_cluster(store)
        if chain.spec.agentless:
            folder = cluster.home().agentless_folder(chain.name)
            if folder.is_dir():
                stop_agentless(folder)
            if chain.state.value == "done":
                click.echo(f"chain {chain.name}: no job follows the running one; log: {folder}/log", err=True)
                return
        state = "ending" if after_this_link else "stopping"
        if after_this_link or chain.state.value != state:  # repeated, it only cancels what is left
            _change(
                store, chain, state, "stopped by hand", "active", "paused", *([] if after_this_link else ["ending"])
            )
        jobs = cancel_jobs(store, chain, "by hand", only_pending=after_this_link)
        if after_this_link:
            click.echo(f"chain {chain.name} is ending: {_run_out(jobs)}, none follows", err=True)
        else:
            click.echo(f"chain {chain.name} is stopping: {_stopped(jobs)}", err=True)
        if wait:
            _wait_until_done(store, chain)


def _run_out(jobs: AfterCancel) -> str:
    """Returns what happens to running jobs when only waiting jobs are cancelled."""
    if not jobs.running:
        return "no job of it runs" if jobs.answered else "a job of it that has started by now runs to its end"
    return f"{_named(jobs.running)} {'runs to its end' if len(jobs.running) == 1 else 'run to their ends'}"


def _stopped(jobs: AfterCancel) -> str:
    """Returns what happens to the jobs when all are cancelled."""
    if jobs.running:
        return f"{_named(jobs.running)} {'is' if len(jobs.running) == 1 else 'are'} cancelled by the agent"
    if not jobs.cancelled:
        return "the queue shows no job of it"
    return f"{_named(jobs.cancelled)} {'is' if len(jobs.cancelled) == 1 else 'are'} cancelled"


def _named(jobs: tuple[int, ...]) -> str:
    return f"job {jobs[0]}" if len(jobs) == 1 else f"jobs {' and '.join(map(str, jobs))}"


def _wait_until_done(store: Store, chain: Chain) -> None:
    """Waits until a chain is done, which requires an agent.

    Raises:
        ConfigurationError: No agent runs.
    """
    from mirage.agent.hosting.pass_memory import recent_passes
    from mirage.agent.model import ChainState
    from mirage.agent.service import running_agent

    click.echo("waiting until the agent has observed the end of its jobs ...", err=True)
    while store.chain(chain.name).state is not ChainState.DONE:
        now_s = cluster.clock()
        found = running_agent(store, now_s)
        if found is None and recent_passes(cluster.home().pass_memory, now_s) is None:
            raise ConfigurationError(
                f"chain {chain.name} cannot be done while no agent runs; mirage agent start, then repeat this command"
            )
        if found is not None and found.suspension:
            raise ConfigurationError(f"chain {chain.name} cannot be done now: {found.suspension}")
        time.sleep(WAIT_S)
    click.echo(f"chain {chain.name} is done", err=True)


def warn_without_agent(store: Store) -> None:
    """Warns if neither an agent nor passes manage the chains of a store."""
    from mirage.agent.hosting.pass_memory import recent_passes
    from mirage.agent.service import running_agent

    now_s = cluster.clock()
    if running_agent(store, now_s) is None and recent_passes(cluster.home().pass_memory, now_s) is None:
        click.echo("mirage: warning: no agent runs; start it with `mirage agent start`", err=True)


def check_cluster(store: Store) -> None:
    """Checks that Slurm's commands reach the cluster of the chains; prints an error of Slurm.

    Raises:
        WrongCluster: They reach another cluster, where the job IDs belong to other jobs.
    """
    from mirage.slurm.backend import cluster_of

    try:
        store.bind(cluster_of(cluster.client().configuration()))
    except SlurmError as error:
        click.echo(f"mirage: {error}", err=True)


def cancel_jobs(
    store: Store, chain: Chain, why: str, *, only_pending: bool, unanswered: str = AGENT_CANCELS
) -> AfterCancel:
    """Cancels the jobs of a chain, each only if the queue shows that it is ours.

    A link may have started after the agent's last poll: with ``only_pending`` such a job runs on. Jobs that
    the queue does not show yet are cancelled by the agent of a chain that gets no further link. A link that has not
    run does not count among the links of its chain.

    Args:
        why: Detail of the event.
        only_pending: Whether running jobs run on.
        unanswered: What happens, or is to be done, where Slurm gives no answer.
    """
    from mirage.agent.cycle.own_jobs import is_of_link, own_jobs
    from mirage.agent.cycle.retries import WITHDRAWN
    from mirage.agent.model import EventRecord, LinkState
    from mirage.job_state import MISSING, JobState
    from mirage.slurm_words.states import ALIVE

    states = [LinkState.HELD, LinkState.QUEUED, *([] if only_pending else [LinkState.RUNNING])]
    now_s = int(cluster.clock())
    links = [link for link in store.links(chain.id) if link.state is not LinkState.ENDED and link.job != MISSING]
    cancelled = [link.job for link in links if link.cancelled_s != MISSING]
    running, answered = [], True
    try:
        slurm = cluster.client()
        own = own_jobs(slurm.observe().jobs, slurm.user, store.identity().identity)
        for link in reversed(links):  # waiting jobs first: the end of a running one would let them start
            job = own.by_id.get(link.job)
            if link.cancelled_s != MISSING or job is None or job.state not in ALIVE or not is_of_link(job, chain, link):
                continue
            if link.state in states and not (only_pending and job.state is not JobState.PENDING):
                event = EventRecord(chain.id, link.number, now_s, WITHDRAWN, f"job {job.id}, {why}")
                store.change_link(chain.id, link.number, event)  # the agent may observe the end at once
                slurm.cancel(job.id, only_pending=only_pending)
                (known,) = (one for one in store.links(chain.id) if one.number == link.number)
                if only_pending and known.state is LinkState.RUNNING:  # it started before it could be cancelled
                    running.append(job.id)
                    continue
                store.change_link(chain.id, link.number, cancelled_s=now_s, withdrawn_s=now_s)
                cancelled.append(job.id)
            else:
                running.append(job.id)
    except SlurmUnreachable as error:
        click.echo(f"mirage: {error}; {unanswered}", err=True)
        if unanswered == AGENT_CANCELS:
            warn_without_agent(store)
        answered = False
        left = [link for link in links if link.state is LinkState.RUNNING or not only_pending]
        running = [link.job for link in left if link.job not in cancelled]
    return AfterCancel(tuple(sorted(cancelled)), tuple(sorted(running)), answered)


def _why_not(present: str, wanted: str) -> str:
    """Returns the state of a chain, and why it cannot change into another."""
    if present == wanted:
        return f"{present} already"
    if present == "done":
        return "done already: all its jobs have ended"
    if wanted == "active":
        return f"{present}, and not paused: there is nothing to resume"
    return f"{present} already: no job follows"


def _change(store: Store, chain: Chain, state: str, why: str, *only_from: str) -> None:
    from mirage.agent.model import ChainState, EventRecord
    from mirage.job_state import MISSING

    if chain.state.value not in only_from:
        raise ConfigurationError(f"chain {chain.name} is {_why_not(chain.state.value, state)}")
    now_s = int(cluster.clock())
    event = EventRecord(chain.id, 0, now_s, {"active": "resumed"}.get(state, state), why)
    columns: dict[str, Any] = {"trouble": ""}
    if state == "active":
        columns |= {"refusals": 0, "failures": 0, "quick_ends": 0, "next_try_s": 0, "resumed_s": now_s}
    if state in ("ending", "stopping") and chain.stopped_s == MISSING:
        columns["stopped_s"] = now_s
    if not store.change_chain(chain.id, event, from_state=chain.state, state=ChainState(state), why=why, **columns):
        raise ConfigurationError(f"chain {chain.name} was changed in the meantime; repeat this command")
