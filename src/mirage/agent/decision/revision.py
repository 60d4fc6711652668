"""Revision of a queued link: hold, release, postpone, shorten or withdraw it.

The chain must continue even if the agent dies afterwards. So a link is held by a dependency on the running one, never
by a bare hold, and never postponed beyond the running one's end. Further links that wait are held first, each by the
one before it: none of them may start before a link that is held. Slurm refuses every change of a link that has started,
except of its limit; so a limit is changed only while a dependency holds the link.

A withdrawal is stored first (``withdrawn_s``). Then the link gets a dependency on the running one, which Slurm refuses
where the link has started, so that no running link is cancelled. Then it is cancelled, and the next one is planned and
submitted as usual. An agent that dies in between resumes there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mirage.agent.chain.spec_check import least_link_s
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import clock_of
from mirage.agent.decision.open_decision import Undecided
from mirage.agent.model import Chain, ChainState, EventRecord, Link, LinkState
from mirage.duration import MINUTE_S, format_duration
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.policy.plan import Action, Hold, Plan, Postpone, Release, Shorten, Submit, Withdraw

FREE = {"Dependency": ""}
AT_ONCE = {"StartTime": "now"}

WITHDRAW = "withdraw"
"""The recorded word for a withdrawal, which the next cycle executes."""

_WAITS_NO_MORE = re.compile(r"no longer pending|already (completing|finished|running)", re.IGNORECASE)
"""Messages of slurm_errno (21.08 to 25.11) for a job that has started or ended."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of a plan about a queued link.

    Attributes:
        done: The changes: ``hold``, ``shorten,release``; empty for none.
        trouble: The problem as text; empty for none.
        unanswered: Whether Slurm did not answer.
    """

    done: str = ""
    trouble: str = ""
    unanswered: bool = False


AWAY = Revision(trouble="Slurm did not answer about another chain", unanswered=True)
"""For a link that was not tried, because Slurm did not answer about another one."""


class _Queued:
    """A queued link during the execution of a plan."""

    def __init__(self, context: CycleContext, chain: Chain, case: Undecided) -> None:
        assert case.queued is not None
        self.context, self.chain, self.present, self.link = context, chain, case.present, case.waiting
        self.held, self.begins_s, self.limit_s = case.queued.held, case.queued.begins_s, case.queued.limit_s

    def update(self, **changes: str) -> None:
        self.context.backend.update(self.link.job, changes)

    def note(self, kind: str, detail: str, **columns: object) -> None:
        event = self.context.event(self.chain.id, self.link.number, kind, f"job {self.link.job}: {detail}")
        self.link = self.context.change_link(self.link, event, **columns)

    def hold_further(self) -> None:
        """Hold the further links by a dependency on the one before, the last one first."""
        row = [link for link in self.context.next_links(self.chain) if link.number >= self.link.number]
        for before, link in reversed(list(pairwise(row))):
            if link.state is LinkState.QUEUED:
                self.context.backend.update(link.job, {"Dependency": f"afterany:{before.job}"})
                detail = f"job {link.job}: it waits for job {before.job}"
                event = self.context.event(self.chain.id, link.number, "held-again", detail)
                self.context.change_link(link, event, state=LinkState.HELD)

    def release_further(self) -> None:
        """Let the further links compete again, in order."""
        for link in self.context.next_links(self.chain):
            if link.number > self.link.number and link.state is LinkState.HELD and link.released_s != MISSING:
                self.context.backend.update(link.job, FREE)
                event = self.context.event(
                    self.chain.id, link.number, "released-again", f"job {link.job}: it competes again"
                )
                self.context.change_link(link, event, state=LinkState.QUEUED)

    def hold(self) -> str:
        if self.held:
            return ""
        self.hold_further()
        at_once = AT_ONCE if self.begins_s != MISSING else {}
        self.update(Dependency=f"afterany:{self.present.job}", **at_once)
        self.held, self.begins_s = True, MISSING
        detail = f"it waits for job {self.present.job} again"
        self.note("held-again", detail, state=LinkState.HELD, begins_s=MISSING)
        return "hold"

    def release(self) -> str:
        if not self.held and self.begins_s == MISSING:
            return ""
        self.update(**FREE, **AT_ONCE)
        self.held, self.begins_s = False, MISSING
        self.note("released-again", "it competes again", state=LinkState.QUEUED, begins_s=MISSING)
        self.release_further()
        return "release"

    def postpone(self, start_s: int) -> str:
        """Postpone the link, at most to the end of the running one; the time is stored first.

        The stored time lets the agent release the link if the running one ends earlier.

        """
        start_s = min(start_s, self.present.limit_ends_s)
        if start_s <= self.context.now_s:
            return self.release()
        if not self.held and start_s == self.begins_s:
            return ""
        self.hold_further()
        self.link = self.context.change_link(self.link, begins_s=start_s)
        self.update(StartTime=begin_time(start_s), **FREE)
        self.held, self.begins_s = False, start_s
        self.note("postponed", f"it may start from {clock_of(start_s)} on", state=LinkState.QUEUED)
        return "postpone"

    def shorten(self, limit_s: int) -> str:
        """Lower its limit to whole minutes, unless the chain needs more.

        Slurm would lower the limit of a running link, too; so a link that competes is held during the change.

        """
        minutes, least_s = limit_s // MINUTE_S, least_link_s(self.chain.spec)
        if not 0 < minutes * MINUTE_S < self.limit_s:
            return ""
        if minutes * MINUTE_S < least_s:
            raise TooShort(
                f"a limit of {format_duration(minutes * MINUTE_S)} is less than the {format_duration(least_s)} that a "
                "link of this chain needs"
            )
        competes = not self.held
        if competes:
            self.hold_further()
            self.update(Dependency=f"afterany:{self.present.job}")
        try:
            self.update(TimeLimit=str(minutes))
        finally:
            if competes:
                self.update(**FREE)
        self.limit_s = minutes * MINUTE_S
        self.note("shortened", f"its limit is {format_duration(self.limit_s)}", limit_s=self.limit_s)
        return "shorten"

    def withdraw(self) -> str:
        """Store the withdrawal for the next cycle.

        Close to the end, and where further links wait after it, the link is held instead.
        """
        settings = self.context.settings
        if (
            self.context.next_links(self.chain)[-1].number > self.link.number
            or self.present.limit_ends_s - self.context.now_s <= settings.settle_s + settings.poll_s
        ):
            return self.hold()
        self.link = self.context.change_link(self.link, withdrawn_s=self.context.now_s)
        return WITHDRAW

    def execute(self, action: Action) -> str:
        """Executes one action; returns the word for its change, empty for none."""
        match action:
            case Hold():
                return self.hold()
            case Release() | Submit():
                return self.release()
            case Postpone(start_s=start_s):
                return self.postpone(start_s)
            case Shorten(limit_s=limit_s):
                return self.shorten(limit_s)
            case Withdraw():
                return self.withdraw()
        return ""


class TooShort(SlurmRefused):
    """A limit below the minimum of the chain."""


def revise_queued_link(
    context: CycleContext, chain: Chain, case: Undecided, plan: Plan, last_trouble: str = ""
) -> Revision:
    """Execute the actions of a plan about a queued link; nothing is done after a withdrawal.

    A refused action does not stop the next one.

    Args:
        last_trouble: The problem of the last attempt; an unchanged one is not logged again.
    """
    queued, done, trouble = _Queued(context, chain, case), list[str](), ""
    for action in _in_order(plan):
        word = type(action).__name__.lower()
        try:
            done.append(queued.execute(action))
        except SlurmUnreachable as error:
            return Revision(_listed(done), f"job {queued.link.job}: {word} had no answer: {error}", unanswered=True)
        except SlurmRefused as error:
            too_late = waits_no_more(error)
            what = f"job {queued.link.job}: {word} was refused: {error}"
            if too_late or what != last_trouble:
                context.change_link(queued.link, comes_too_late(context, queued.link, word, error))
            if too_late:
                break
            trouble = trouble or what
    return Revision(_listed(done), trouble)


def begin_time(start_s: int) -> str:
    """A start time as ``scontrol update`` takes it.

    It has no time zone: over ssh, the cluster may be in another one.
    """
    return f"uts{start_s}"


def release_early(context: CycleContext, chain: Chain) -> None:
    """Release a postponed link at once, where the running one has ended before.

    Raises:
        SlurmUnreachable: No answer; the next cycle tries again.
    """
    if context.of(chain, LinkState.RUNNING):
        return
    for link in context.of(chain, LinkState.HELD, LinkState.QUEUED):
        if link.begins_s > context.now_s and context.job_of(chain, link) is not None:
            try:
                context.backend.update(link.job, AT_ONCE)
            except SlurmRefused as error:
                if not waits_no_more(error):
                    context.trouble(chain, f"job {link.job} cannot be released before its begin time: {error}")
                    continue
            detail = f"job {link.job}: the link before it has ended"
            event = context.event(chain.id, link.number, "released-again", detail)
            context.change_link(link, event, begins_s=MISSING)


def _in_order(plan: Plan) -> Iterator[Action]:
    """The actions of a plan up to a withdrawal: the next link can only follow after it."""
    for action in plan.actions:
        yield action
        if isinstance(action, Withdraw):
            return


def _listed(done: list[str]) -> str:
    return ",".join(word for word in done if word)


def waits_no_more(error: SlurmRefused) -> bool:
    """Whether Slurm refused because the link has started, which is no error."""
    return _WAITS_NO_MORE.search(str(error)) is not None


def comes_too_late(context: CycleContext, link: Link, action: str, error: SlurmRefused) -> EventRecord:
    """The event of a revision that Slurm has refused."""
    kind = "revision-too-late" if waits_no_more(error) else "revision-refused"
    return context.event(link.chain, link.number, kind, f"{action} job {link.job}: {error}")


def finish_withdrawal(context: CycleContext, chain: Chain) -> None:
    """Cancel the link with a stored withdrawal, unless the chain needs it now.

    An old decision, as after a long outage, does not count.

    Raises:
        SlurmUnreachable: No answer; the next cycle tries again.
    """
    for link in context.of(chain, LinkState.HELD, LinkState.QUEUED, LinkState.RUNNING):
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
    detail = f"job {link.job}: another is submitted in its place"
    event = context.event(chain.id, link.number, "withdrawn-by-policy", detail)
    over = {"state": LinkState.ENDED, "outcome": JobState.CANCELLED, "ended_s": context.now_s}
    context.change_link(link, event, cancelled_s=context.now_s, **over)
