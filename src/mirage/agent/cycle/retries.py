"""Retries: when a chain submits again after a refusal, a lost answer or a quick end.

A job that sbatch refuses, that cannot run, or that has nothing to do would be submitted every minute indefinitely: each
submission waits longer, then the chain is paused. A chain that uses more links in a day than its user allows is paused,
too, for any reason.
"""

from __future__ import annotations

import time

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.duration import DAY_S, MINUTE_S, UNLIMITED_S
from mirage.errors import SlurmRefused, quantity
from mirage.job_state import MISSING, JobState

BROKEN = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL, JobState.NODE_FAIL, JobState.DEADLINE})

NO_ROOM = "node configuration"
"""In the message of sbatch about a job that fits no node (ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)."""

LINKS_A_DAY, SPARE_LINKS = 3, 5
"""A chain may use three times the links that its limit needs in a day, plus five."""

CLEARED = "exclusion-cleared"
"""Kind of the event that the nodes excluded for failures may be used again."""

WITHDRAWN = "withdrawn"
"""Kind of the event that a waiting link is cancelled by a command of Mirage, or by the agent of a chain that ends."""

CANCELLED_WITHIN_S = 5 * MINUTE_S
"""Time from this event to the end of the job, with the difference of two clocks that munge allows."""

RECENT_EVENTS = 50
"""Number of last events of a chain that are searched."""

NO_FAULT = frozenset({JobState.PREEMPTED, JobState.NODE_FAIL, JobState.BOOT_FAIL})
"""A link that follows one of these outcomes is a replacement, and does not count."""


def refused(context: CycleContext, chain: Chain, link: Link, error: SlurmRefused) -> Chain:
    """The chain after a refusal of sbatch: it waits longer each time, then is paused.

    A refused further link is given up while another one waits: the chain continues with that one.
    """
    if any(known.number < link.number for known in context.next_links(chain)):
        over = {"state": LinkState.ENDED, "outcome": JobState.CANCELLED, "ended_s": context.now_s}
        event = context.event(chain.id, link.number, "refused", f"no further link waits: {error}")
        context.change_link(link, event, **over, withdrawn_s=context.now_s)
        return chain
    refusals = chain.refusals + 1
    times = quantity(refusals, "time")
    event = context.event(chain.id, link.number, "refused", str(error))
    if chain.excluded and NO_ROOM in str(error):
        cleared = f"{chain.excluded}: without them no node can run the job"
        return context.change_chain(chain, event, context.event(chain.id, 0, CLEARED, cleared), excluded="")
    if refusals >= context.settings.refusals and chain.state is ChainState.ACTIVE:
        why = f"sbatch refused {times}: {error}; mend the cause, then `mirage chain resume {chain.name}`"
        paused = context.event(chain.id, 0, "paused", why)
        return context.change_chain(chain, event, paused, refusals=refusals, state=ChainState.PAUSED, why=why)
    retry_s = context.now_s + context.settings.retry_after_s(refusals)
    context.trouble(chain, f"{error}; refused {times}, tried again after {clock_of(retry_s)}")
    return context.change_chain(chain, event, refusals=refusals, next_try_s=retry_s)


def settle(context: CycleContext, chain: Chain, link: Link, settings: AgentSettings, missing_s: int) -> bool:
    """Allow another submission of a link once it certainly has no job; whether it was allowed.

    The first time at once, then later and later. The chain is not paused for it: Slurm has not refused anything.

    Args:
        missing_s: Time for which no poll has shown its job: where accounting never answers, the queue alone decides.
    """
    waited_s = context.now_s - link.attempted_s
    if waited_s < 0:  # the clock was set back: wait again
        context.store.change_link(chain.id, link.number, attempted_s=context.now_s)
        return False
    is_known = context.snapshot.has_accounting or missing_s >= settings.runaway_s
    if is_known and waited_s >= settings.settle_s:
        event = context.event(
            chain.id, link.number, "unsubmitted", "no job carries its tag; it will be submitted again"
        )
        context.change_link(link, event, attempted_s=MISSING)
        unanswered = min(chain.refusals + 1, settings.refusals - 1)
        retry_s = context.now_s + settings.retry_after_s(unanswered) if chain.refusals else 0
        context.change_chain(chain, refusals=unanswered, next_try_s=retry_s)
        return True
    return False


def links_a_day(chain: Chain, limit_s: int) -> int:
    """The links that may start within 24 hours: as configured, else from their limit."""
    if chain.spec.links_a_day:
        return chain.spec.links_a_day
    needed = -(-DAY_S // limit_s) if 0 < limit_s < UNLIMITED_S else 1
    return LINKS_A_DAY * needed + SPARE_LINKS


def pause_if_spent(context: CycleContext, chain: Chain) -> Chain:
    """The chain, postponed or paused where another link would exceed the daily limit.

    While a link runs or another one waits, the next submission waits; otherwise the chain is paused.
    """
    planned = [link for link in context.of(chain, LinkState.PLANNED) if link.attempted_s == MISSING]
    if not planned or chain.state is not ChainState.ACTIVE:
        return chain
    links = context.links[chain.id]
    limit_s = max((link.limit_s for link in links), default=MISSING)
    most = links_a_day(chain, limit_s)
    if planned[0].number <= most:  # it has not used that many links in total
        return chain
    since_s = max(context.now_s - DAY_S, chain.resumed_s)
    used_s, before = list[int](), JobState.UNKNOWN
    for link in context.store.links(chain.id):
        if since_s < link.started_s and before not in NO_FAULT:
            used_s.append(link.started_s)
        before = link.outcome
    if len(used_s) < most:
        return chain
    have = "has" if len(used_s) == 1 else "have"
    why = f"{quantity(len(used_s), 'link')} {have} started within 24 hours, as many as may (--links-a-day)"
    if context.of(chain, LinkState.RUNNING, LinkState.HELD, LinkState.QUEUED):
        next_s = used_s[-most] + DAY_S
        context.trouble(chain, f"{why}; the next is submitted after {clock_of(next_s)}")
        return context.change_chain(chain, next_try_s=next_s) if chain.next_try_s != next_s else chain
    why += (
        f"; see `mirage chain explain {chain.name}` for the cause, then `mirage chain resume {chain.name}` allows as "
        "many again"
    )
    return pause(context, chain, why)


def failed_soon(link: Link, settings: AgentSettings) -> bool:
    """Whether a link failed by itself soon after its start."""
    by_itself = MISSING == link.cancelled_s == link.signalled_s != link.started_s
    return by_itself and link.outcome in BROKEN and link.ended_s - link.started_s <= settings.early_end_s(link.limit_s)


def marked_if_withdrawn(context: CycleContext, link: Link) -> Link:
    """A link that has ended; withdrawn, if a command of Mirage has cancelled it.

    The command writes its event before it cancels, and marks the link after that. This cycle may have read the link
    before, or the command was killed. An event that is much older than the end had another outcome.
    """
    if link.outcome is not JobState.CANCELLED or link.started_s != MISSING or link.was_withdrawn:
        return link
    events = context.store.events(link.chain, last=RECENT_EVENTS)
    since_s = [event.time_s for event in events if event.kind == WITHDRAWN and event.link == link.number]
    if not any(abs(link.ended_s - time_s) <= CANCELLED_WITHIN_S for time_s in since_s):
        return link
    return context.change_link(link, cancelled_s=context.now_s, withdrawn_s=context.now_s)


def count_end(context: CycleContext, chain: Chain, link: Link) -> Chain:
    """The chain after a link has ended: unchanged, slowed down, or paused."""
    by_us = link.cancelled_s != MISSING or link.was_withdrawn
    if by_us and link.signalled_s == MISSING:  # ended by us before it could prove itself
        return chain
    if link.started_s == MISSING:
        return _never_started(context, chain, link)
    ran_s = max(link.ended_s - link.started_s, 0)
    if link.signalled_s != MISSING or ran_s > context.settings.early_end_s(link.limit_s):
        calm = {"failures": 0, "quick_ends": 0, "next_try_s": 0}
        return context.change_chain(chain, **calm) if chain.failures or chain.quick_ends else chain
    how = f"{link.outcome.name}" + (f" {link.exit_code}" if link.exit_code else "")
    if link.outcome in BROKEN:
        return _broken(context, chain, link, f"job {link.job} after {ran_s} s with {how}")
    quick_ends = chain.quick_ends + 1
    if link.outcome is JobState.PREEMPTED:  # not the job's fault: slow down, but never pause
        quick_ends = min(quick_ends, context.settings.quick_ends - 1)
    how = "exit 0" if link.outcome is JobState.COMPLETED else how
    what = f"links end at once, the last (job {link.job}) after {ran_s} s with {how}"
    if link.outcome is JobState.COMPLETED and chain.failures:
        chain = context.change_chain(chain, failures=0)
    return _slowed(context, chain, quick_ends, what)


def _never_started(context: CycleContext, chain: Chain, link: Link) -> Chain:
    """After a job that was cancelled from outside while pending, or that vanished unobserved."""
    if link.outcome is JobState.CANCELLED:
        why = f"job {link.job} (link {link.number}) was cancelled from outside while it waited"
        return pause(context, chain, f"{why}; `mirage chain resume {chain.name}` continues it")
    return _broken(
        context, chain, link, f"job {link.job} was gone before it was observed running ({link.outcome.name})"
    )


def _broken(context: CycleContext, chain: Chain, link: Link, how: str) -> Chain:
    failures = chain.failures + 1
    if failures < context.settings.failures:
        retry_s = context.now_s + context.settings.retry_after_s(failures)
        context.trouble(chain, f"failed soon after the start: {how}; the next is submitted after {clock_of(retry_s)}")
        return context.change_chain(chain, failures=failures, next_try_s=retry_s)
    why = f"{failures} links in a row failed soon after their start, the last: {how}; {way_on(chain)}"
    return pause(context, context.change_chain(chain, failures=failures), why)


def way_on(chain: Chain) -> str:
    """What to do about a chain that is paused because its jobs fail."""
    return (
        f"mend the cause (links run a copy of the script: `mirage chain edit {chain.name} SCRIPT` replaces it), then "
        f"`mirage chain resume {chain.name}`"
    )


def _slowed(context: CycleContext, chain: Chain, quick_ends: int, what: str) -> Chain:
    if quick_ends >= context.settings.quick_ends:
        why = f"{quick_ends} times in a row {what}; give them something to do, then `mirage chain resume {chain.name}`"
        return pause(context, context.change_chain(chain, quick_ends=quick_ends), why)
    retry_s = context.now_s + context.settings.retry_after_s(quick_ends)
    context.trouble(chain, f"{what}; the next is submitted after {clock_of(retry_s)}")
    return context.change_chain(chain, quick_ends=quick_ends, next_try_s=retry_s)


def pause_where_not_allowed(context: CycleContext, chain: Chain) -> Chain:
    """The chain, paused where the site allows none in its partition or QOS."""
    if chain.state is not ChainState.ACTIVE:
        return chain
    for link in context.of(chain, LinkState.HELD, LinkState.QUEUED, LinkState.RUNNING):
        job = context.job_of(chain, link)
        if job is not None and (why := context.settings.site.place_refusal(job.partition, job.qos)):
            return pause(context, chain, why)
    return chain


def pause(context: CycleContext, chain: Chain, why: str) -> Chain:
    """The chain paused until its user resumes it."""
    return context.change_chain(chain, context.event(chain.id, 0, "paused", why), state=ChainState.PAUSED, why=why)


def clock_of(time_s: int) -> str:
    """A time in the local form of this machine."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time_s))
