"""The hand-over from one link to the next: readiness, signal, grace, end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mirage.agent.chain.submission import CHAIN, LINK
from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, EventRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING
from mirage.slurm_words.hostlist import expand_hosts

HOST, JOB = "MIRAGE_HOST", "MIRAGE_JOB"


class Shell(Protocol):
    """A shell that runs a user's command."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        """Whether it exits with 0 within the time."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A ready command that was started.

    Attributes:
        run: Number and start of the link that it asks about: a requeued link is asked about anew.
        begun_s: Real seconds.
    """

    run: tuple[int, int]
    begun_s: float
    answer: Future[bool]


class ReadinessProbes:
    """The readiness probes: ready commands in threads, so that a slow one delays nobody.

    Args:
        shell: Runs them.
        at_once: So many at most, but for those that hang beyond their time: a working directory on a file system that
            does not answer is waited for without end.
        real_s: Real seconds, from wherever.
    """

    def __init__(self, shell: Shell, at_once: int = 8, real_s: Callable[[], float] = time.monotonic) -> None:
        self.shell, self.at_once, self.real_s = shell, at_once, real_s
        self.asked: dict[int, Probe] = {}

    def is_ready(self, context: CycleContext, chain: Chain, link: Link) -> bool:
        """Whether the last command succeeded; a new one is started where none is under way."""
        run = (link.number, link.started_s)
        probe = self.asked.get(link.chain)
        if probe is not None and probe.run == run:
            if not probe.answer.done():
                return False
            if probe.answer.exception() is None and probe.answer.result():
                del self.asked[link.chain]
                return True
        timeout_s = context.settings.ready_timeout_s
        if self._under_way(2 * timeout_s) < self.at_once:
            asked, spec = chain.spec.submission, chain.spec
            environment = {
                **asked.environment,
                CHAIN: chain.name,
                LINK: str(link.number),
                **job_environment(context, link),
            }
            answer: Future[bool] = Future()
            work = partial(self.shell.succeeds, spec.ready_command, environment, asked.directory, timeout_s)
            threading.Thread(target=_answer, args=(work, answer), name="ready", daemon=True).start()
            self.asked[link.chain] = Probe(run, self.real_s(), answer)
        return False

    def _under_way(self, patience_s: float) -> int:
        """How many commands are, without those that hang."""
        since_s = self.real_s() - patience_s
        return sum(not probe.answer.done() and probe.begun_s >= since_s for probe in self.asked.values())


def _answer(work: Callable[[], bool], answer: Future[bool]) -> None:
    """Do the work of a thread."""
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a hand-over is at.

    Attributes:
        busy: Whether one is under way, so that the chain is to be looked at soon.
        next_s: The moment at which something is to be done to the second; ``MISSING`` for none.
    """

    busy: bool = False
    next_s: int = MISSING


def job_environment(context: CycleContext, link: Link) -> dict[str, str]:
    """The variables that tell a ready command where a link runs."""
    job = context.snapshot.by_id.get(link.job)
    hosts = expand_hosts(job.nodelist) if job is not None and job.nodelist else []
    return {JOB: str(link.job), HOST: hosts[0] if hosts else ""}


def hand_over(context: CycleContext, chain: Chain, probes: ReadinessProbes) -> Progress:
    """One step of a chain's hand-over.

    A link is told to leave when the next is ready, and in any case its grace before its own limit where the next one
    has been released: whoever is ended by the limit alone has lost what it had not saved. (A grace as long as the limit
    itself counts as half of it.)
    """
    running = context.of(chain, LinkState.RUNNING)
    released = context.of(chain, LinkState.QUEUED)
    if not running:
        return Progress(bool(released))
    newest = running[-1]
    if newest.ready_s == MISSING:
        newest = _with_readiness(context, chain, newest, probes)
    ending = chain.state is ChainState.ENDING and chain.spec.until_s != MISSING and context.now_s >= chain.spec.until_s
    told = running if ending else running[:-1] if newest.ready_s != MISSING else []
    leaving = {link.number for link in told}
    moments = [newest.started_s + chain.spec.warmup_s] if newest.ready_s == MISSING else []
    for link in running:
        link = next(known for known in context.links[chain.id] if known.number == link.number)
        followed = bool(released) or link.number != newest.number
        if link.number in leaving or (followed and chain.spec.signal and context.now_s >= last_call_s(chain, link)):
            moments.append(_end_previous(context, chain, link, cancel=link.number in leaving))
        elif followed:
            moments.append(last_call_s(chain, link))
    busy = len(running) > 1 or newest.ready_s == MISSING or bool(released)
    return Progress(busy, min((at_s for at_s in moments if at_s > context.now_s), default=MISSING))


def last_call_s(chain: Chain, link: Link) -> int:
    """When a link is to be told at the latest that its limit ends it."""
    return _limit_ends_s(link) - min(chain.spec.grace_s, link.limit_s // 2)


def next_last_call_s(context: CycleContext, chain: Chain) -> int:
    """When a link with a released successor is to be told that its limit ends it; ``MISSING`` for none.

    To be asked behind the decisions of a cycle, which release.
    """
    running = context.of(chain, LinkState.RUNNING)
    followed = running if context.of(chain, LinkState.QUEUED) else running[:-1]
    calls_s = [last_call_s(chain, link) for link in followed if link.signalled_s == MISSING and chain.spec.signal]
    return min((at_s for at_s in calls_s if at_s > context.now_s), default=MISSING)


def _limit_ends_s(link: Link) -> int:
    """When the limit ends a link; never where it has none."""
    return link.started_s + link.limit_s if 0 < link.limit_s < UNLIMITED_S else UNLIMITED_S


def _with_readiness(context: CycleContext, chain: Chain, link: Link, probes: ReadinessProbes) -> Link:
    spec = chain.spec
    ready_s = MISSING
    if spec.ready_command:
        ready_s = context.now_s if probes.is_ready(context, chain, link) else MISSING
    elif not spec.ready_by_job and context.now_s >= link.started_s + spec.warmup_s:
        ready_s = link.started_s + spec.warmup_s
    if ready_s == MISSING:
        return link
    return context.change_link(link, context.event(chain.id, link.number, "ready"), ready_s=ready_s)


def _end_previous(context: CycleContext, chain: Chain, link: Link, *, cancel: bool) -> int:
    """Signal the previous link, and end it when its grace is over; when that is, ``MISSING`` where it is done.

    The signal is sent before it is written down: killed in between, the agent sends it twice, which a checkpoint
    survives; the other way round the link would be ended without having been told.
    """
    spec = chain.spec
    if context.job_of(chain, link) is None:  # it has gone, or the number is somebody else's now
        return MISSING
    if link.signalled_s == MISSING:
        link = context.change_link(link, _signal(context, chain, link), signalled_s=context.now_s)
    grace_s = spec.grace_s if spec.signal else 0
    ends_s = link.signalled_s + grace_s
    if not cancel or link.cancelled_s != MISSING:
        return MISSING
    if context.now_s < ends_s:
        return ends_s
    if context.cancel(chain, link.job, "its grace is over"):
        event = context.event(chain.id, link.number, "ended-by-us", f"job {link.job}, grace of {grace_s} s over")
        context.change_link(link, event, cancelled_s=context.now_s)
    return MISSING


def _signal(context: CycleContext, chain: Chain, link: Link) -> EventRecord:
    """The event of a signal; one that Slurm refuses does not keep the next link from taking over."""
    name = chain.spec.signal
    try:
        if name:
            context.backend.signal(link.job, name)
    except SlurmRefused as error:
        context.trouble(chain, f"{name} cannot be sent to job {link.job}: {error}")
        return context.event(chain.id, link.number, "signal-refused", str(error))
    return context.event(chain.id, link.number, "signalled", f"{name or 'no signal'} to job {link.job}")
