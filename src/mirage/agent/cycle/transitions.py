"""The transitions of a chain: another link, a pause, or its end."""

from __future__ import annotations

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.job_state import MISSING, JobState

WAITING = (LinkState.PLANNED, LinkState.HELD, LinkState.QUEUED)

BROKEN = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL, JobState.NODE_FAIL, JobState.DEADLINE})
AT_THE_LIMIT_S = 180
"""An exit so close before the limit is a drain, not the end of the work."""


def steer(context: CycleContext, chain: Chain, newly_ended: list[Link]) -> Chain:
    """The chain after links have ended: its next link is planned, or it winds up."""
    if chain.state is ChainState.ACTIVE and (why := _finished(context, chain)):
        chain = context.change_chain(chain, context.event(chain.id, 0, "ending", why), state=ChainState.ENDING, why=why)
    if chain.state is ChainState.ACTIVE:
        for link in newly_ended:
            chain = _count_failure(context, chain, link)
    if chain.state is ChainState.ACTIVE:
        _plan_next(context, chain)
        return chain
    withdraw(context, chain)
    if chain.state is ChainState.ENDING and not context.of(chain, *WAITING, LinkState.RUNNING):
        chain = context.change_chain(chain, context.event(chain.id, 0, "done", chain.why), state=ChainState.DONE)
    return chain


def withdraw(context: CycleContext, chain: Chain) -> None:
    """Cancel every waiting link of a chain, each as soon as its job is known."""
    for link in context.of(chain, *WAITING):
        if link.job != MISSING and link.cancelled_s == MISSING:
            context.backend.cancel(link.job)
            event = context.event(chain.id, link.number, "withdrawn", f"job {link.job}: {chain.why}")
            context.change_link(link, event, cancelled_s=context.now_s)
        elif link.state is LinkState.PLANNED and link.attempted_s == MISSING:
            ended = {"state": LinkState.ENDED, "outcome": JobState.CANCELLED, "ended_s": context.now_s}
            context.change_link(link, context.event(chain.id, link.number, "withdrawn", "never submitted"), **ended)


def _plan_next(context: CycleContext, chain: Chain) -> None:
    """Plan the link after one that runs or has ended, if the chain is to have one."""
    links = context.links.get(chain.id, [])
    last = links[-1] if links else None
    if last is not None and last.state in WAITING:
        return
    number = last.number + 1 if last is not None else 1
    if (chain.spec.links and number > chain.spec.links) or _is_past_end(context, chain):
        return
    context.add_link(Link(chain.id, number))


def _is_past_end(context: CycleContext, chain: Chain) -> bool:
    return chain.spec.until_s != MISSING and context.now_s >= chain.spec.until_s


def _finished(context: CycleContext, chain: Chain) -> str:
    """The reason why a chain gets no further link; empty while it does."""
    links = context.links.get(chain.id, [])
    for link in links:
        if link.finished:
            return f"link {link.number} said that the work is done"
    if _is_past_end(context, chain):
        return "its time is over"
    if not links or (last := links[-1]).state is not LinkState.ENDED:
        return _done_by_exit(chain, links)
    if chain.spec.links and last.number >= chain.spec.links:
        return f"all {chain.spec.links} links have run"
    return _done_by_exit(chain, links)


def _done_by_exit(chain: Chain, links: list[Link]) -> str:
    if not chain.spec.until_done:
        return ""
    for link in links:
        if link.state is LinkState.ENDED and link.outcome is JobState.COMPLETED and link.signalled_s == MISSING:
            early = MISSING in (link.started_s, link.limit_s) or (
                link.ended_s < link.started_s + link.limit_s - AT_THE_LIMIT_S
            )
            if early:
                return f"link {link.number} ended by itself with exit code 0"
    return ""


def _count_failure(context: CycleContext, chain: Chain, link: Link) -> Chain:
    """The chain paused after early failures in a row, or after a cancellation from outside."""
    if link.outcome is JobState.CANCELLED and link.started_s == MISSING and link.cancelled_s == MISSING:
        why = f"job {link.job} (link {link.number}) was cancelled from outside while it waited"
        return pause(context, chain, f"{why}; `mirage chain resume {chain.name}` goes on")
    ran_s = link.ended_s - link.started_s if MISSING not in (link.started_s, link.ended_s) else 0
    if link.outcome not in BROKEN or ran_s > context.settings.early_s:
        return context.change_chain(chain, failures=0) if chain.failures and ran_s > 0 else chain
    failures = chain.failures + 1
    if failures < context.settings.failures:
        return context.change_chain(chain, failures=failures)
    why = (
        f"{failures} links in a row failed soon after their start, the last (job {link.job}) after {ran_s} s with "
        f"{link.outcome.name} {link.exit_code}; mend the cause, then `mirage chain resume {chain.name}`"
    )
    return pause(context, context.change_chain(chain, failures=failures), why)


def pause(context: CycleContext, chain: Chain, why: str) -> Chain:
    """The chain paused until its user resumes it."""
    return context.change_chain(chain, context.event(chain.id, 0, "paused", why), state=ChainState.PAUSED, why=why)
