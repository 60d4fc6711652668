"""The submission of links, each exactly once.

The intention is stored first (``attempted_s``), then sbatch runs, then its answer is stored. If either is lost in
between, the tag in the job's comment decides: a link with an intention and no answer is searched in the queue and in
accounting, and only submitted again when both have had time to show it and do not.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial

from mirage.agent.chain.submission import Attempt, attempt_accepted, attempt_refused, begin_attempt
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import clock_of, refused
from mirage.agent.model import Chain, Link, LinkState
from mirage.daemon_threads import answer_in_thread, answer_of
from mirage.errors import RequestNotSent, ScriptGone, SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.slurm.backend import Backend

log = logging.getLogger("mirage.agent")


@dataclass
class Submissions:
    """The submissions that are under way.

    A working directory on a file system that hangs must not delay other chains: sbatch runs in a thread. The cycle
    waits for it for a moment; otherwise a later cycle stores its answer.

    Attributes:
        patience_s: Time that a cycle waits for an sbatch; if infinite, sbatch runs in the cycle itself.
    """

    patience_s: float = math.inf
    under_way: dict[int, tuple[Attempt, Future[int]]] = field(default_factory=dict)

    def submit_planned(self, context: CycleContext, chain: Chain) -> None:
        """Submit the planned link of a chain, unless it was tried before or the chain must wait."""
        if chain.id in self.under_way:
            self._finish(context, chain)
            return
        for link in context.of(chain, LinkState.PLANNED):
            if link.attempted_s != MISSING:
                if chain.trouble:
                    context.trouble(chain, chain.trouble)
                continue
            if context.now_s < chain.next_try_s:
                context.trouble(chain, chain.trouble)
                continue
            if _is_submitted_elsewhere(context, chain, link):
                continue
            previous = previous_of(context, link)
            if (proven_s := proof_s(context, chain, previous)) > context.now_s:
                why = f"{chain.failures} links in a row failed soon after their start"
                context.trouble(chain, f"{why}; the next is submitted after {clock_of(proven_s)}, if this one runs on")
                context.change_chain(chain, next_try_s=proven_s)
                continue
            try:
                attempt = begin_attempt(context.store, chain, link, previous, context.now_s, context.folder)
            except ScriptGone as error:  # at every poll: as soon as it is back, the link is submitted
                context.trouble(chain, str(error))
                continue
            refresh(context, link)
            if attempt is not None:
                self.under_way[chain.id] = (attempt, self._start(context.backend, attempt))
                self._finish(context, chain)

    def forget(self, chains: Collection[int]) -> None:
        """Forget the submissions of chains that do not exist any more."""
        self.under_way = {chain: one for chain, one in self.under_way.items() if chain in chains}

    def wait(self, patience_s: float) -> bool:
        """Wait some real seconds for the submissions under way; whether there was one."""
        under_way = [future for _, future in self.under_way.values()]
        wait(under_way, patience_s)
        return bool(under_way)

    def _start(self, backend: Backend, attempt: Attempt) -> Future[int]:
        work = partial(backend.submit, attempt.submission)
        if math.isinf(self.patience_s):
            return answer_of(work)
        future = answer_in_thread(work, "sbatch")
        wait([future], self.patience_s)
        return future

    def _finish(self, context: CycleContext, chain: Chain) -> None:
        """Store the answer of sbatch, if there is one."""
        attempt, future = self.under_way[chain.id]
        if not future.done():
            since = clock_of(attempt_s) if (attempt_s := _attempted_s(context, attempt)) != MISSING else "long ago"
            context.trouble(chain, f"sbatch has not answered since {since}; is its working directory reachable?")
            return
        del self.under_way[chain.id]
        try:
            job = future.result()
        except SlurmRefused as error:
            attempt_refused(context.store, attempt)
            refused(context, chain, attempt.link, error)
        except RequestNotSent:
            attempt_refused(context.store, attempt)
            raise
        except SlurmUnreachable as error:
            log.warning("unanswered", extra={"chain": chain.name, "link": attempt.link.number, "detail": str(error)})
            raise
        else:
            if _attempted_s(context, attempt) != MISSING:  # else its tag was found meanwhile
                attempt_accepted(context.store, attempt, job, context.now_s)
            if chain.refusals:
                context.change_chain(chain, refusals=0, next_try_s=0)
        refresh(context, attempt.link)


def _is_submitted_elsewhere(context: CycleContext, chain: Chain, link: Link) -> bool:
    """Whether Slurm has this link, though the store never tried it, or a later one.

    The store was copied or restored, and another agent has continued the chain.
    """
    tagged = context.snapshot.own.tagged
    later = {number: jobs[0] for (key, number), jobs in tagged.items() if key == chain.key and number >= link.number}
    if job := later.get(link.number) or context.snapshot.accounted_tags.get((chain.key, link.number)):
        detail = f"job {job.id} has its tag: an agent with a copy of this store has submitted it"
        event = context.event(chain.id, link.number, "submitted-elsewhere", detail)
        context.change_link(link, event, attempted_s=job.submit_s)  # the next cycle finds it
        return True
    if later:
        context.trouble(
            chain,
            f"job {later[max(later)].id} is link {max(later)} of this chain, and the store ends with link "
            f"{link.number - 1}: another agent uses a newer copy of this store; stop this agent",
        )
    return bool(later)


def proof_s(context: CycleContext, chain: Chain, previous: Link | None) -> int:
    """The time from which the running link is no early failure; 0 where it need not wait.

    A link that waits for the end of a failing one starts at once. So the last link before the brake on failures is not
    followed until it has run for long enough: a storm of restarts ends with it.
    """
    if not 0 < chain.failures >= context.settings.failures - 1 or previous is None:
        return 0
    if previous.state is not LinkState.RUNNING:
        return 0
    return previous.started_s + context.settings.early_end_s(previous.limit_s) + 1


def _attempted_s(context: CycleContext, attempt: Attempt) -> int:
    """The time of a link's attempt without a job; ``MISSING`` where it has one."""
    rows = context.of(context.chains[attempt.link.chain], LinkState.PLANNED)
    return next((link.attempted_s for link in rows if link.number == attempt.link.number), MISSING)


def previous_of(context: CycleContext, link: Link) -> Link | None:
    """The link to follow: one that waits, else the last running one, else the last."""
    before = [known for known in context.links[link.chain] if known.number < link.number]
    if (waiting := context.next_links(context.chains[link.chain])) and waiting[0].number < link.number:
        return next(known for known in reversed(waiting) if known.number < link.number)
    ran = [known for known in before if known.started_s != MISSING]
    running = [known for known in ran if known.state is LinkState.RUNNING]
    followed = running or ran
    return followed[-1] if followed else None


def refresh(context: CycleContext, link: Link) -> None:
    """Read a link again after it was changed in the store."""
    row = context.links[link.chain]
    for fresh in context.store.links(link.chain, open=True):
        for k, known in enumerate(row):
            if known.number == fresh.number:
                row[k] = fresh
