"""The transitions of a chain: another link, a pause, or its end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from mirage.agent.chain.budget import Budget, budget_of, next_size
from mirage.agent.chain.spec_check import shortest_link_s
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.observations import ON_HOLD
from mirage.agent.cycle.retries import RECENT_EVENTS, WITHDRAWN, clock_of, count_end, marked_if_withdrawn
from mirage.agent.model import WAITING, Chain, ChainState, EventRecord, Link, LinkState, next_link
from mirage.atomic_file import write_atomically
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState

INTERRUPTED, RESERVED, BUDGET_LOW = "interrupted", "reserved", "budget-low"
"""Kinds of events: a long interruption, a reservation that lets no link run, and the last link within a budget."""

AT_THE_LIMIT_S = 180
"""An exit this close before the limit is a drain, not the end of the work."""

OVERRUN_SHARE = 0.5
"""A waiting link stays while this part of the shortest link is within the budget."""

TOO_SOON = 0.25
"""A link that starts within this share of the previous one's limit after it was of no use while that one waited."""

SLURM_EARLY_S = 60
"""Slurm sends the signal of ``--signal`` up to this much earlier (sbatch(1))."""


def steer(context: CycleContext, chain: Chain, newly_ended: list[Link], *, revises: bool = False) -> Chain:
    """The chain after links have ended: its next link is planned, or the chain winds up.

    Args:
        revises: Whether its policy revises queued links, so that several of them may wait.
    """
    newly_ended = [marked_if_withdrawn(context, link) for link in newly_ended]
    if chain.state is ChainState.ACTIVE and (end := _finished(context, chain)):
        state, why, stopped_s = end
        event = context.event(chain.id, 0, "ending", why)
        chain = context.change_chain(chain, event, state=state, why=why, stopped_s=min(stopped_s, context.now_s))
    if chain.state is ChainState.ACTIVE:
        if chain.spec.agentless:
            _name_previous(context, chain)
        for link in newly_ended:
            chain = count_end(context, chain, link)
    if chain.state is ChainState.ACTIVE:
        if chain.spec.budget_node_h:
            _withdraw_unaffordable(context, chain)
        _cancel_overtaken(context, chain)
        most, of_site = chain.spec.waiting_links, context.settings.site.most_waiting_links
        _plan_next(context, chain, (most if of_site is None else min(most, of_site)) if revises else 1)
        _note_interruption(context, chain)
        return chain
    withdraw(context, chain)
    if chain.state is ChainState.STOPPING:
        _cancel_running(context, chain)
    over = chain.state in (ChainState.ENDING, ChainState.STOPPING)
    if over and not context.of(chain, *WAITING, LinkState.RUNNING):
        chain = context.change_chain(chain, context.event(chain.id, 0, "done", chain.why), state=ChainState.DONE)
    return chain


def _name_previous(context: CycleContext, chain: Chain) -> None:
    """Name the running link for the next one, in the form in which ``link.sh`` reads it."""
    running = [link for link in context.of(chain, LinkState.RUNNING) if link.number <= chain.spec.agentless_after]
    file = context.agentless_folder(chain) / "link.0"
    if not running:
        return
    ends_s = running[-1].limit_ends_s
    text = f"job={running[-1].job} next= freed=0 quick=-1 end={ends_s if ends_s < UNLIMITED_S else ''}\n"
    try:
        if not file.exists() or file.read_text() != text:
            write_atomically(file, text.encode(), 0o600)
    except OSError as error:
        context.trouble(chain, f"cannot write {file}: {error.strerror}")


def _note_interruption(context: CycleContext, chain: Chain) -> None:
    """Log once that no link has run for longer than the user accepts without a message."""
    links = context.links.get(chain.id, [])
    ended_s = [link.ended_s for link in links if link.state is LinkState.ENDED and link.started_s != MISSING]
    if not chain.spec.notify or not ended_s or context.of(chain, LinkState.RUNNING):
        return
    since_s = max(ended_s)
    if context.now_s < since_s + chain.spec.notify_gap_s:
        return
    if any(e.kind == INTERRUPTED and e.time_s >= since_s for e in context.store.events(chain.id, last=RECENT_EVENTS)):
        return
    context.change_chain(chain, context.event(chain.id, 0, INTERRUPTED, f"no job has run since {clock_of(since_s)}"))


def withdraw(context: CycleContext, chain: Chain) -> None:
    """Cancel every waiting link of a chain, each once its job is in the queue.

    A link that has just started continues to run, except in a chain that is stopped. One that never ran does not count.
    """
    for link in context.of(chain, *WAITING):
        if link.state is LinkState.PLANNED and link.attempted_s == MISSING:
            ended = {"state": LinkState.ENDED, "outcome": JobState.CANCELLED, "ended_s": context.now_s}
            event = context.event(chain.id, link.number, WITHDRAWN, "never submitted")
            context.change_link(link, event, **ended, withdrawn_s=context.now_s)
        else:
            only_pending = chain.state is not ChainState.STOPPING
            _cancel(context, chain, link, WITHDRAWN, only_pending=only_pending, withdrawn_s=context.now_s)


def _cancel_running(context: CycleContext, chain: Chain) -> None:
    """Cancel the running links, except one that reported that the work is done.

    That one is about to end.
    """
    for link in context.of(chain, LinkState.RUNNING):
        if not link.finished:
            _cancel(context, chain, link, "cancelled")


def _cancel(
    context: CycleContext, chain: Chain, link: Link, kind: str, *, only_pending: bool = False, **columns: int
) -> None:
    if link.cancelled_s != MISSING or context.job_of(chain, link) is None:
        return
    if context.cancel(chain, link.job, chain.why, only_pending=only_pending):
        event = context.event(chain.id, link.number, kind, f"job {link.job}: {chain.why}")
        context.change_link(link, event, cancelled_s=context.now_s, **columns)


def _cancel_overtaken(context: CycleContext, chain: Chain) -> None:
    """Cancel a link that still waits while a later one runs, before it ends that one."""
    running = context.of(chain, LinkState.RUNNING)
    for link in context.of(chain, LinkState.HELD, LinkState.QUEUED):
        if running and link.number < running[-1].number and not link.earlier:
            overtaken = replace(chain, why=f"link {running[-1].number} has started before it")
            _cancel(context, overtaken, link, WITHDRAWN, only_pending=True, withdrawn_s=context.now_s)


def _plan_next(context: CycleContext, chain: Chain, most_waiting: int) -> None:
    """Plan the link after one that runs or has ended, if the chain gets another one.

    Args:
        most_waiting: Maximum number of links that wait at once.
    """
    links = context.links.get(chain.id, [])
    last = links[-1] if links else None
    waiting = context.next_links(chain)
    if waiting and (len(waiting) >= most_waiting or not _needs_further(context, chain, waiting[-1])):
        return
    link = next_link(chain.id, last)
    if chain.spec.links and any(known.never_ran for known in links):  # also one before the last
        link = replace(link, given_up=sum(known.never_ran for known in context.store.links(chain.id)))
    if (chain.spec.links and link.place > chain.spec.links) or _is_past_end(context, chain):
        return
    if chain.spec.budget_node_h and not _next_is_affordable(context, chain):
        return
    event = _last_link_event(context, chain, link) if chain.spec.budget_node_h else None
    context.add_link(link, *filter(None, [event]))


def _needs_further(context: CycleContext, chain: Chain, last: Link) -> bool:
    """Whether a further link must compete while the last one waits.

    A chain of links that run for a limit each needs the start of one link per limit, so one per limit must begin to
    compete, however long each waits. That is due where the last one has competed for its limit and has not started.

    It is due after twice this time where the last link has started almost together with its predecessor, as where both
    waited for the same fair share. If Slurm has refused a further link, the next attempt follows after another limit.
    """
    if last.state is not LinkState.QUEUED or last.begins_s > context.now_s or not 0 < last.limit_s < UNLIMITED_S:
        return False
    if last.reason.startswith(ON_HOLD):
        return False
    if chain.spec.never_two or chain.spec.budget_node_h or chain.reserved or chain.failures or chain.quick_ends:
        return False
    ran = [link for link in context.links[chain.id] if link.started_s != MISSING]
    together = any(after.started_s - link.started_s < TOO_SOON * link.limit_s for link, after in pairwise(ran[-2:]))
    refused_s = max((link.ended_s for link in context.links[chain.id] if link.number > last.number), default=MISSING)
    return context.now_s - max(last.released_s, refused_s) >= last.limit_s * (2 if together else 1)


def _next_is_affordable(context: CycleContext, chain: Chain, share: float = 1.0) -> bool:
    """Whether the budget of a chain has room for another link, which may be shortened.

    Args:
        share: Part of the shortest link that must fit.
    """
    budget, nodes, usual_s = _budget(context, chain)
    shortest_s = shortest_link_s(chain.spec, max(usual_s, 0))
    return budget is None or budget.longest_limit_s(nodes) >= share * shortest_s


def _withdraw_unaffordable(context: CycleContext, chain: Chain) -> None:
    """Cancel the waiting link of a chain with a budget that was lowered.

    A running link may overrun its limit by a minute; a waiting one is not cancelled for that.
    """
    if context.of(chain, *WAITING) and not _next_is_affordable(context, chain, OVERRUN_SHARE):
        why = f"the budget of {_node_hours(chain.spec.budget_node_h)} is used up"
        withdraw(context, replace(chain, why=why))


def _last_link_event(context: CycleContext, chain: Chain, link: Link) -> EventRecord | None:
    """The event that less than one link is left after a link; None where more is left."""
    budget, nodes, usual_s = _budget(context, chain)
    left_s = UNLIMITED_S if budget is None else budget.longest_limit_s(nodes) - max(usual_s, 0)
    if left_s >= usual_s:
        return None
    left = _node_hours(max(left_s, 0) * nodes / HOUR_S)
    detail = f"after this link {left} of {_node_hours(chain.spec.budget_node_h)} are left: less than one link"
    return context.event(chain.id, link.number, BUDGET_LOW, detail)


def _budget(context: CycleContext, chain: Chain) -> tuple[Budget | None, int, int]:
    """The budget of a chain, and the nodes and the usual limit of its next link."""
    links = context.store.links(chain.id)
    return (budget_of(chain, links, context.now_s), *next_size(chain.spec, links))


def _node_hours(node_h: float) -> str:
    return f"{_hours(node_h)} node-hours"


def _hours(node_h: float) -> str:
    return f"{node_h:.3g}" if 0 < node_h < 1 else f"{node_h:.1f}"


def _is_past_end(context: CycleContext, chain: Chain) -> bool:
    return chain.spec.until_s != MISSING and context.now_s >= chain.spec.until_s


def _finished(context: CycleContext, chain: Chain) -> tuple[ChainState, str, int] | None:
    """The final state of a chain that gets no further link, with reason and time.

    None while it gets one. The time is that of the cause, which may be a poll ago: a chain that wants no link is not
    interrupted.
    """
    links = context.links.get(chain.id, [])
    if (agentless := context.agentless_link(chain)) is not None:
        log = context.agentless_folder(chain) / "log"
        return ChainState.ENDING, f"link {agentless.number} continues it without an agent; log: {log}", context.now_s
    for link in links:
        if link.finished:
            ended_s = link.ended_s if link.state is LinkState.ENDED else context.now_s
            return ChainState.STOPPING, f"link {link.number} reported that the work is done", ended_s
    if (done := _done_by_exit(chain, links)) is not None:
        return ChainState.STOPPING, f"link {done.number} ended by itself with exit code 0", done.ended_s
    if _is_past_end(context, chain):
        return ChainState.ENDING, "its time is over", chain.spec.until_s
    if chain.spec.budget_node_h and links and not context.of(chain, *WAITING, LinkState.RUNNING):
        budget, _, _ = _budget(context, chain)
        if budget is not None and not _next_is_affordable(context, chain):
            why = f"its budget is used up: {_hours(budget.used_h)} of {_node_hours(budget.node_h)}"
            return ChainState.ENDING, why, max(link.ended_s for link in links)
    if links and is_last(chain, links[-1]):
        why = "its only link has run" if chain.spec.links == 1 else f"all {chain.spec.links} links have run"
        return ChainState.ENDING, why, links[-1].ended_s
    return None


def is_last(chain: Chain, link: Link) -> bool:
    """Whether a link has ended and is the last one of its chain."""
    return (
        bool(chain.spec.links) and link.state is LinkState.ENDED and next_link(chain.id, link).place > chain.spec.links
    )


def _done_by_exit(chain: Chain, links: list[Link]) -> Link | None:
    """The link with the exit that ends the chain; None where there is none."""
    if not chain.spec.until_done:
        return None
    drain_s = max(AT_THE_LIMIT_S, chain.spec.slurm_warning_s + SLURM_EARLY_S)
    for link in links:
        by_itself = link.outcome is JobState.COMPLETED and link.signalled_s == MISSING
        early = link.started_s == MISSING or link.ended_s < link.limit_ends_s - drain_s
        if link.state is LinkState.ENDED and by_itself and early:
            return link
    return None
