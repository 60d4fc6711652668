"""The hand-over from one link to the next: readiness, signal, grace, end."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mirage.agent.chain.submission import CHAIN, LINK
from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import SHELL, STEPS, Chain, ChainState, Link, LinkState
from mirage.daemon_threads import answer_in_thread
from mirage.duration import MINUTE_S
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.hostlist import expand_hosts

log = logging.getLogger("mirage.agent")

HOST, JOB = "MIRAGE_HOST", "MIRAGE_JOB"

AWAY_AFTER = 2
"""Number of commands in a row without an answer after which the controller counts as away."""

LONGEST_MARGIN_S = 60
"""A signal is sent at most this much earlier, and at most a tenth of the limit, however slow the cycles are."""

KILLED_LATER_S = 120
"""Slurm checks limits every half minute, and gives a job ``KillWait`` to end."""

LATE_S = 5
"""A signal that comes this much less than the grace before the limit still counts as in time."""

JOBS_A_COMMAND = 100
"""Maximum jobs per command: to signal fifty takes an eighth of a second (3,000 jobs queued, Slurm 22.05.8)."""


LATE_READY_S = 10 * MINUTE_S
"""A link that is not ready becomes a problem of the chain after this time, or a tenth of its limit if that is less."""


class Shell(Protocol):
    """A shell that runs a user's command."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        """Whether it exits with 0 within the time."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A ready command that was started.

    Attributes:
        run: Number and start of the link that it checks: a requeued link is checked again.
        begun_s: Start of the command, real seconds.
    """

    run: tuple[int, int]
    begun_s: float
    answer: Future[bool]


class ReadinessProbes:
    """The readiness probes: ready commands in threads, so that a slow one does not block.

    Args:
        shell: Runs the commands.
        at_once: Maximum number of commands, not counting those that hang beyond their time: a working directory on a
            file system that does not answer blocks its command indefinitely.
        real_s: Clock of real seconds.
    """

    def __init__(self, shell: Shell, at_once: int = 8, real_s: Callable[[], float] = time.monotonic) -> None:
        self.shell, self.at_once, self.real_s = shell, at_once, real_s
        self.probes: dict[int, Probe] = {}

    def is_ready(self, context: CycleContext, chain: Chain, link: Link) -> bool:
        """Whether the last command succeeded; starts a new one where none is running."""
        run = (link.number, link.started_s)
        probe = self.probes.get(link.chain)
        if probe is not None and probe.run == run:
            if not probe.answer.done():
                return False
            if probe.answer.exception() is None and probe.answer.result():
                del self.probes[link.chain]
                return True
        timeout_s = context.settings.ready_timeout_s
        if self._under_way(2 * timeout_s) < self.at_once:
            submission, spec = chain.spec.submission, chain.spec
            environment = {
                **submission.environment,
                CHAIN: chain.name,
                LINK: str(link.number),
                **job_environment(context, link),
            }
            work = partial(self.shell.succeeds, spec.ready_command, environment, submission.directory, timeout_s)
            self.probes[link.chain] = Probe(run, self.real_s(), answer_in_thread(work, "ready"))
        return False

    def wait(self, patience_s: float) -> bool:
        """Wait some real seconds for the commands under way; whether one has succeeded."""
        done = wait([probe.answer for probe in self.probes.values()], patience_s).done
        return any(answer.exception() is None and answer.result() for answer in done)

    def _under_way(self, patience_s: float) -> int:
        """The number of commands under way, not counting those that hang."""
        since_s = self.real_s() - patience_s
        return sum(not probe.answer.done() and probe.begun_s >= since_s for probe in self.probes.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a hand-over.

    Attributes:
        busy: Whether one is under way, so that the chain must be polled soon.
        next_s: The next time at which something is due to the second; ``MISSING`` for none.
    """

    busy: bool = False
    next_s: int = MISSING


def job_environment(context: CycleContext, link: Link) -> dict[str, str]:
    """The variables that name a link's job and host for its ready command."""
    job = context.snapshot.by_id.get(link.job)
    hosts = expand_hosts(job.nodelist) if job is not None and job.nodelist else []
    return {JOB: str(link.job), HOST: hosts[0] if hosts else ""}


def hand_over(
    context: CycleContext,
    chain: Chain,
    probes: ReadinessProbes,
    turn_in_s: Callable[[CycleContext, Chain, Link], int] = lambda *_: 0,
) -> Progress:
    """One step of a chain's hand-over.

    A link is signalled when the next one is ready, and in any case its grace before its own limit, whether or not
    another link follows: a link that only its limit ends loses what it has not saved. Signals and endings are
    collected, and ``send_signals`` and ``end_links`` send them at the end of the cycle.

    Args:
        turn_in_s: Seconds until the proxies of a chain are checked again, 0 once they point to its newest link; before
            that no earlier link is signalled.
    """
    running = context.of(chain, LinkState.RUNNING)
    if not running:
        return Progress(context.awaits_start(chain))
    newest = running[-1]
    if newest.ready_s == MISSING:
        newest = _with_readiness(context, chain, newest, probes)
    ending = chain.state is ChainState.ENDING and chain.spec.until_s != MISSING and context.now_s >= chain.spec.until_s
    longest_s = context.settings.site.most_overlap_s
    capped_s = newest.started_s + longest_s if longest_s is not None and len(running) > 1 else MISSING
    over = capped_s != MISSING and newest.ready_s == MISSING and context.now_s >= capped_s
    if over:
        context.trouble(chain, context.settings.site.refusal("two links have overlapped as long as this site allows"))
    elif newest.ready_s == MISSING and context.now_s >= _late_ready_s(newest):
        by_job = "it has not called `mirage link ready`" if chain.spec.ready_by_job else ""
        if why := f"{chain.spec.ready_command} does not succeed" if chain.spec.ready_command else by_job:
            context.trouble(chain, f"job {newest.job} runs and is not ready: {why}")
    ready = newest.ready_s != MISSING
    first_signals = any(link.signalled_s == MISSING for link in running[:-1])
    turn_s = turn_in_s(context, chain, newest) if ready and first_signals else 0
    vacating = running if ending else running[:-1] if (ready and not turn_s) or over else []
    agentless = context.agentless_link(chain)
    if agentless is not None and agentless.state is LinkState.ENDED:  # its successor has taken over from it already
        vacating = [link for link in running if link.number < agentless.number]
    leaving = {link.number for link in vacating}
    moments = [newest.started_s + chain.spec.warmup_s] if newest.ready_s == MISSING else []
    moments += [capped_s] if capped_s != MISSING else []
    moments += [context.now_s + turn_s] if turn_s else []
    for link in running:
        if agentless is not None and link.number == agentless.number:  # its own successor signals it, or Slurm does
            continue
        link = next(known for known in context.links[chain.id] if known.number == link.number)
        job = context.job_of(chain, link)
        if job is not None and job.state is JobState.SUSPENDED:
            what = "its limit does not run, and no signal reaches it until it runs again"
            context.trouble(chain, f"job {job.id} is suspended: {what}")
            continue
        call_s = last_call_s(context, chain, link)
        signal, _ = chain.spec.signal_to(link.number)
        if link.number in leaving or (signal and context.now_s >= call_s):
            moments.append(_end_previous(context, chain, link, cancel=link.number in leaving))
        elif signal:
            moments.append(call_s)
    busy = len(running) > 1 or newest.ready_s == MISSING or context.awaits_start(chain)
    return Progress(busy, min((at_s for at_s in moments if at_s > context.now_s), default=MISSING))


def grace_s(chain: Chain, link: Link) -> int:
    """The time from the signal to the end of a link; at most half of its limit."""
    return min(chain.spec.grace_s, max(link.limit_s // 2, 0)) if chain.spec.signal_to(link.number)[0] else 0


def last_call_s(context: CycleContext, chain: Chain, link: Link) -> int:
    """The latest time of a link's signal: grace and margin before its limit.

    The margin covers the duration of a cycle.
    """
    margin_s = min(context.margin_s, LONGEST_MARGIN_S, max(link.limit_s // 10, 0))
    return link.limit_ends_s - grace_s(chain, link) - margin_s


def next_last_call_s(context: CycleContext, chain: Chain) -> int:
    """The earliest time at which a link needs its signal; ``MISSING`` for none."""
    running = [link for link in context.of(chain, LinkState.RUNNING) if chain.spec.signal_to(link.number)[0]]
    calls_s = [last_call_s(context, chain, link) for link in running if link.signalled_s == MISSING]
    return min(calls_s, default=MISSING)


def is_unsignalled(chain: Chain, link: Link) -> bool:
    """Whether the limit has ended a link without a signal its grace before.

    Slurm's own signal counts where the link was submitted with one: it needs no agent.
    """
    by_agent = bool(chain.spec.signal_to(link.number)[0]) and not _is_signalled_by_slurm(chain, link)
    return by_agent and _is_signalled_late(chain, link)


def _is_signalled_by_slurm(chain: Chain, link: Link) -> bool:
    """Whether Slurm itself has signalled a link: not if its controller was down until later."""
    return bool(chain.spec.slurm_warning_of(link.number)) and link.signalled_s <= _ended_by_limit_s(link)


def note_end(context: CycleContext, chain: Chain, link: Link) -> None:
    """Log that the limit has ended a link before the agent signalled it in time."""
    if not chain.spec.signal_to(link.number)[0] or not _is_signalled_late(chain, link):
        return
    came = "without a signal of the agent"
    if link.signalled_s != MISSING:
        after_s = _ended_by_limit_s(link) - link.signalled_s
        came = f"{after_s} s after its signal, of a grace of {grace_s(chain, link)} s"
        came = came if after_s >= 0 else f"{-after_s} s before its signal: Slurm did not answer"
    kind, detail = "unsignalled", f"job {link.job} reached its limit {came}"
    if _is_signalled_by_slurm(chain, link):
        kind, detail = "signalled-by-slurm", f"{detail}; Slurm's own --signal has reached its batch script"
    context.change_link(link, context.event(chain.id, link.number, kind, detail))


def _is_signalled_late(chain: Chain, link: Link) -> bool:
    if link.outcome is not JobState.TIMEOUT or link.started_s == MISSING:
        return False
    due_s = _ended_by_limit_s(link) - grace_s(chain, link) + LATE_S
    return link.signalled_s == MISSING or link.signalled_s > due_s


def _late_ready_s(link: Link) -> int:
    """When a running link becomes a problem of its chain, if it is not ready by then."""
    return link.started_s + min(LATE_READY_S, (link.limit_ends_s - link.started_s) // 10)


def _ended_by_limit_s(link: Link) -> int:
    """The time at which the limit ended a link, later where the job was suspended."""
    return max(link.limit_ends_s, link.ended_s - KILLED_LATER_S)


def _with_readiness(context: CycleContext, chain: Chain, link: Link, probes: ReadinessProbes) -> Link:
    spec = chain.spec
    ready_s = MISSING
    if spec.ready_command:
        ready_s = context.now_s if probes.is_ready(context, chain, link) else MISSING
    elif not spec.ready_by_job and context.now_s >= link.started_s + spec.warmup_s:
        ready_s = link.started_s + spec.warmup_s
    elif (agentless := context.agentless_link(chain)) is not None and agentless.number == link.number:
        ready_s = context.now_s if (context.agentless_folder(chain) / "ready.1").exists() else MISSING
    if ready_s == MISSING:
        return link
    return context.change_link(link, context.event(chain.id, link.number, "ready"), ready_s=ready_s)


def _end_previous(context: CycleContext, chain: Chain, link: Link, *, cancel: bool) -> int:
    """Request the signal of a link, and its end once the grace is over.

    Returns:
        The end of its grace; ``MISSING`` where nothing is left to do.
    """
    spec, job = chain.spec, context.job_of(chain, link)
    if job is None:  # it is gone, or another job has its number now
        return MISSING
    grace_s = spec.grace_s if spec.signal_to(link.number)[0] else 0
    signalled_s = link.signalled_s
    if signalled_s == MISSING:
        context.signals.append((chain, link))
        signalled_s = context.now_s
    ends_s = signalled_s + grace_s
    if not cancel or link.cancelled_s != MISSING:
        return MISSING
    if context.now_s < ends_s:
        return ends_s
    context.endings.append((chain, link))
    return MISSING


def send_signals(context: CycleContext, wanted: Sequence[tuple[Chain, Link]]) -> dict[int, str]:
    """Signal links: one command for all links with the same signal.

    Each ``scancel`` with a signal reads the whole queue (22.05.8). The signal is sent before it is stored: if the agent
    is killed in between, it sends it twice, which a checkpoint survives; the other way round a link would be ended
    without a signal. A signal that Slurm refuses does not stop the next link from taking over.

    Returns:
        The reason for each signal that was not sent, by chain; a later cycle sends it.
    """
    by_name: dict[tuple[str, str], list[tuple[Chain, Link]]] = {}
    for chain, link in wanted:
        by_name.setdefault(chain.spec.signal_to(link.number), []).append((chain, link))
    unsent: dict[int, str] = {}
    for (name, receivers), row in by_name.items():
        refused: dict[int, str] = {}
        if name:
            backend, to_shell = context.backend, {"to_batch_shell": True} if receivers == SHELL else {}
            send = partial(backend.signal_steps if receivers == STEPS else backend.signal, name=name, **to_shell)
            refused, failed = _send(context, row, send)
            unsent |= failed
        for chain, link in row:
            if chain.id in unsent:
                continue
            event = context.event(chain.id, link.number, "signalled", f"{name or 'no signal'} to job {link.job}")
            if chain.id in refused:
                context.trouble(chain, f"{name} cannot be sent to job {link.job}: {refused[chain.id]}")
                event = context.event(chain.id, link.number, "signal-refused", refused[chain.id])
            context.change_link(link, event, signalled_s=context.now_s)
    return unsent


def end_links(context: CycleContext, wanted: Sequence[tuple[Chain, Link]]) -> dict[int, str]:
    """End the links that have used up their grace, all by one command.

    Returns:
        The reason for each link that was not ended, by chain; a later cycle ends it.
    """
    refused, failed = _send(context, wanted, context.backend.cancel)
    for chain, link in wanted:
        link = next(known for known in context.links[chain.id] if known.number == link.number)
        if chain.id in refused:
            context.trouble(chain, f"job {link.job} cannot be cancelled (its grace is over): {refused[chain.id]}")
        elif chain.id not in failed:
            grace_s = chain.spec.grace_s if chain.spec.signal_to(link.number)[0] else 0
            event = context.event(chain.id, link.number, "ended-by-us", f"job {link.job}, grace of {grace_s} s over")
            context.change_link(link, event, cancelled_s=context.now_s)
    return failed


def _send(
    context: CycleContext, wanted: Sequence[tuple[Chain, Link]], send: Callable[[Sequence[int]], None]
) -> tuple[dict[int, str], dict[int, str]]:
    """Send a command to the jobs of links; returns refusals and failures by chain.

    Where a command for several jobs fails, each job gets its own: the problem of one chain affects no other. After two
    in a row without an answer the controller counts as away, and the rest is not tried.
    """
    refused: dict[int, str] = {}
    failed: dict[int, str] = {}
    for first in range(0, len(wanted), JOBS_A_COMMAND):
        part = wanted[first : first + JOBS_A_COMMAND]
        if context.unanswered < AWAY_AFTER:
            with contextlib.suppress(Exception):  # one by one shows which chain has the problem
                send([link.job for _, link in part])
                continue
        for chain, link in part:
            if context.unanswered >= AWAY_AFTER:
                failed[chain.id] = "Slurm did not answer about other chains"
                continue
            try:
                send([link.job])
                context.unanswered = 0
            except SlurmRefused as error:
                refused[chain.id], context.unanswered = str(error), 0
            except SlurmUnreachable as error:
                failed[chain.id] = str(error)
                context.unanswered += 1
            except Exception as error:
                log.exception("fault", extra={"chain": chain.name})
                failed[chain.id] = f"a fault of Mirage: {type(error).__name__}: {error}"
    return refused, failed
