"""The withdrawal of a queued link: cancel it, and submit another one held.

The intention is stored first (``withdrawn_s``). Then the link gets a dependency on the running one, which Slurm refuses
where the link has started, so that no running link is cancelled. Then it is cancelled, and the next one is planned and
submitted as usual. An agent that dies in between resumes there.
"""

from __future__ import annotations

from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.decision.refusals import comes_too_late
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING, JobState

WAITING = (LinkState.HELD, LinkState.QUEUED)


def finish_withdrawal(context: CycleContext, chain: Chain) -> None:
    """Cancel the link with a stored withdrawal, unless the chain needs it now.

    An old decision, as after a long outage, does not count.

    Raises:
        SlurmUnreachable: No answer; the next cycle tries again.
    """
    for link in context.of(chain, *WAITING, LinkState.RUNNING):
        if link.withdrawn_s == MISSING or link.cancelled_s != MISSING or chain.state is not ChainState.ACTIVE:
            continue
        running = context.of(chain, LinkState.RUNNING)
        age_s = context.now_s - link.withdrawn_s
        fresh = 0 <= age_s <= context.settings.fresh_s
        if link.state is LinkState.RUNNING or len(running) != 1 or not fresh:
            context.change_link(link, withdrawn_s=MISSING)
        elif (job := context.job_of(chain, link)) is not None and job.state is JobState.PENDING:
            _withdraw(context, chain, link, running[0])


def _withdraw(context: CycleContext, chain: Chain, link: Link, present: Link) -> None:
    try:
        context.backend.update(link.job, {"Dependency": f"afterany:{present.job}"})
    except SlurmRefused as error:
        context.change_link(link, comes_too_late(context, link, "withdraw", error), withdrawn_s=MISSING)
        return
    if not context.cancel(chain, link.job, "another is submitted in its place"):
        context.change_link(link, withdrawn_s=MISSING)
        return
    event = context.event(chain.id, link.number, "taken-back", f"job {link.job}: another is submitted in its place")
    over = {"state": LinkState.ENDED, "outcome": JobState.CANCELLED, "ended_s": context.now_s}
    context.change_link(link, event, cancelled_s=context.now_s, **over)
