"""The hand-over from one link to the next: readiness, signal, grace, end."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from mirage.agent.chain.submission import CHAIN, LINK
from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.job_state import MISSING
from mirage.slurm_words.hostlist import expand_hosts

HOST, JOB = "MIRAGE_HOST", "MIRAGE_JOB"


class Shell(Protocol):
    """A shell that runs a user's command."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        """Whether it exits with 0 within the time."""
        ...


class ReadinessProbes:
    """The readiness probes: ready commands in threads, so that a slow one delays nobody."""

    def __init__(self, shell: Shell, at_once: int = 8) -> None:
        self.shell = shell
        self.pool = ThreadPoolExecutor(at_once, thread_name_prefix="ready")
        self.asked: dict[tuple[int, int], Future[bool]] = {}

    def is_ready(self, context: CycleContext, chain: Chain, link: Link) -> bool:
        """Whether the last command succeeded; a new one is started where none is under way."""
        key = (link.chain, link.number)
        future = self.asked.get(key)
        if future is not None and not future.done():
            return False
        said = future is not None and future.exception() is None and future.result()
        if said:
            del self.asked[key]
            return True
        asked, spec = chain.spec.submission, chain.spec
        environment = {**asked.environment, CHAIN: chain.name, LINK: str(link.number), **job_environment(context, link)}
        self.asked[key] = self.pool.submit(
            self.shell.succeeds, spec.ready_command, environment, asked.directory, context.settings.ready_timeout_s
        )
        return False

    def close(self) -> None:
        """Stop the probes without waiting for them."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def job_environment(context: CycleContext, link: Link) -> dict[str, str]:
    """The variables that tell a ready command where a link runs."""
    job = context.snapshot.by_id.get(link.job)
    hosts = expand_hosts(job.nodelist) if job is not None and job.nodelist else []
    return {JOB: str(link.job), HOST: hosts[0] if hosts else ""}


def hand_over(context: CycleContext, chain: Chain, probes: ReadinessProbes) -> bool:
    """One step of a chain's hand-over; whether one is under way."""
    running = context.of(chain, LinkState.RUNNING)
    if not running:
        return False
    newest = running[-1]
    if newest.ready_s == MISSING:
        newest = _with_readiness(context, chain, newest, probes)
    ending = chain.state is ChainState.ENDING and chain.spec.until_s != MISSING and context.now_s >= chain.spec.until_s
    leaving = running if ending else running[:-1] if newest.ready_s != MISSING else []
    for link in leaving:
        _end_previous(context, chain, link)
    return len(running) > 1 or newest.ready_s == MISSING


def _with_readiness(context: CycleContext, chain: Chain, link: Link, probes: ReadinessProbes) -> Link:
    spec = chain.spec
    if spec.ready_command:
        ready_s = context.now_s if probes.is_ready(context, chain, link) else MISSING
    else:
        ready_s = link.started_s + spec.warmup_s
        ready_s = ready_s if context.now_s >= ready_s else MISSING
    if ready_s == MISSING:
        return link
    return context.change_link(link, context.event(chain.id, link.number, "ready"), ready_s=ready_s)


def _end_previous(context: CycleContext, chain: Chain, link: Link) -> None:
    """Signal the previous link, and end it when its grace is over.

    The signal is sent before it is written down: killed in between, the agent sends it twice, which a checkpoint
    survives; the other way round the link would be ended without having been told.
    """
    spec = chain.spec
    if link.signalled_s == MISSING:
        if spec.signal:
            context.backend.signal(link.job, spec.signal)
        event = context.event(chain.id, link.number, "signalled", f"{spec.signal or 'no signal'} to job {link.job}")
        link = context.change_link(link, event, signalled_s=context.now_s)
    grace_s = spec.grace_s if spec.signal else 0
    if link.cancelled_s == MISSING and context.now_s - link.signalled_s >= grace_s:
        context.backend.cancel(link.job)
        event = context.event(chain.id, link.number, "ended-by-us", f"job {link.job}, grace of {grace_s} s over")
        context.change_link(link, event, cancelled_s=context.now_s)
