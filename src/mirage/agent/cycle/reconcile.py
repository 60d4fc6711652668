"""Reconciliation of the links in the store with the jobs of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.observations import (
    Change,
    change_from_accounting,
    change_from_queue,
    held_by_slurm,
    ignored_mark,
    vanished,
)
from mirage.agent.cycle.own_jobs import is_named_like_links, is_of_link
from mirage.agent.cycle.retries import settle
from mirage.agent.model import Chain, Link, LinkState
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, QueuedJob
from mirage.slurm_words.states import ALIVE

SLACK_S = 300
"""The controller's clock may differ from ours by this much: beyond it, munge refuses everyone."""


class Reconciler:
    """The reconciler updates open links, and stores the missing and the released ones."""

    def __init__(self) -> None:
        self.missing: dict[tuple[int, int], int] = {}
        self.releases: Counter[tuple[int, int]] = Counter()
        self.ignored: set[tuple[int, int]] = set()

    def follow(self, context: CycleContext, chain: Chain, submitting: Collection[int] = ()) -> None:
        """Update the open links of a chain.

        Args:
            submitting: Chains with an sbatch under way, which may still create a job.
        """
        for link in list(context.links.get(chain.id, ())):
            if link.state is LinkState.ENDED or (link.job == MISSING and link.attempted_s == MISSING):
                continue
            jobs = candidates(context, chain, link)
            change = self._change(context, chain, link, jobs, submitting)
            if change:
                before, link = link.state, context.change_link(link, *change.events, **change.columns)
                left = before is LinkState.HELD and link.state in (LinkState.QUEUED, LinkState.RUNNING)
                if left and _another_runs(context, chain, link):
                    detail = f"job {link.job}: its dependency is cleared, and this agent has no record of doing it"
                    context.change_link(link, context.event(chain.id, link.number, "released-elsewhere", detail))
            cancel_doubles(context, chain, link, jobs)
            job = context.job_of(chain, link)
            if job is not None and held_by_slurm(job):
                self._release_held(context, chain, link, job)
            if job is not None and (mark := ignored_mark(link, job, chain.spec)):
                self._note_ignored(context, link, mark)

    def missing_since_s(self, links: list[Link]) -> int | None:
        """Submission time of the oldest open link missing in the last poll; None where none was."""
        missing = [k for k in self.missing if any(link.chain == k[0] and link.number == k[1] for link in links)]
        if not missing:
            return None
        times = [link.attempted_s for link in links if (link.chain, link.number) in self.missing]
        return min(times)

    def _note_ignored(self, context: CycleContext, link: Link, mark: str) -> None:
        """Log once, across restarts of the agent, that a link's ready mark does not count."""
        key = (link.chain, link.number)
        if key in self.ignored:
            return
        self.ignored.add(key)
        event = context.event(*key, "ready-ignored", mark)
        if not any((known.link, known.kind) == (link.number, event.kind) for known in context.store.events(link.chain)):
            context.change_link(link, event)

    def _release_held(self, context: CycleContext, chain: Chain, link: Link, job: QueuedJob) -> None:
        """Release a job that Slurm could not launch and holds; cancel it after some attempts."""
        key = (link.chain, link.number)
        self.releases[key] += 1
        why = f"job {job.id}: {job.reason}"
        try:
            if self.releases[key] > context.settings.failures:
                raise SlurmRefused(f"released {context.settings.failures} times without success")
            context.backend.release(job.id)
            context.change_link(link, context.event(*key, "released-again", why))
        except SlurmRefused as error:
            if context.cancel(chain, job.id, why):
                del self.releases[key]
                replaced = context.event(*key, "replaced", f"{why}; {error}")
                context.change_link(link, replaced, cancelled_s=context.now_s)

    def _change(
        self, context: CycleContext, chain: Chain, link: Link, jobs: list[QueuedJob], submitting: Collection[int]
    ) -> Change:
        key = (link.chain, link.number)
        job = context.job_of(chain, link) if link.job != MISSING else (jobs[0] if jobs else None)
        if job is not None:
            self.missing.pop(key, None)
            return change_from_queue(link, job, context.now_s, chain.spec)
        accounted = context.snapshot.accounted.get(link.job) if link.job != MISSING else None
        if accounted is not None and not is_of_link(accounted, chain, link):
            accounted = None
        if link.job == MISSING:
            accounted = context.snapshot.accounted_tags.get((chain.key, link.number))
            if accounted is not None and accounted.submit_s < link.attempted_s - SLACK_S:
                accounted = None
        if accounted is not None and accounted.state not in ALIVE:
            self.missing.pop(key, None)
            return change_from_accounting(link, accounted, context.now_s, chain.spec)
        since_s = self.missing.setdefault(key, context.now_s)
        if link.job == MISSING:
            missing_s = context.now_s - since_s
            if chain.id not in submitting and settle(context, chain, link, context.settings, missing_s):
                del self.missing[key]  # without a submission nothing is missing
        elif context.now_s - since_s >= _missing_limit_s(context, accounted):
            del self.missing[key]
            return vanished(link, context.now_s)
        return Change()


def _another_runs(context: CycleContext, chain: Chain, link: Link) -> bool:
    """Whether another link of the chain runs: then this link's dependency cannot be met."""
    jobs = [
        context.job_of(chain, other) for other in context.of(chain, LinkState.RUNNING) if other.number != link.number
    ]
    return any(job is not None and job.state is JobState.RUNNING and not job.completing for job in jobs)


def _missing_limit_s(context: CycleContext, accounted: AccountedJob | None) -> int:
    """The time after which a job missing from the queue counts as ended."""
    unknown_to_all = context.snapshot.has_accounting and accounted is None
    return context.settings.vanish_s if unknown_to_all else context.settings.runaway_s


def candidates(context: CycleContext, chain: Chain, link: Link) -> list[QueuedJob]:
    """Jobs in the queue with a link's tag that can be of this attempt; by id."""
    found = context.snapshot.own.tagged.get((chain.key, link.number), [])
    return sorted((job for job in found if job.submit_s >= link.attempted_s - SLACK_S), key=lambda job: job.id)


def cancel_doubles(context: CycleContext, chain: Chain, link: Link, jobs: list[QueuedJob]) -> None:
    """Cancel each of our jobs with a link's tag and name, except the link's own."""
    for job in jobs:
        if (
            job.id != link.job
            and link.job != MISSING
            and job.state in ALIVE
            and is_named_like_links(job.name, chain, link)
        ):
            what = f"job {job.id} in addition to job {link.job}"
            if context.cancel(chain, job.id, what):
                context.change_link(link, context.event(link.chain, link.number, "double-cancelled", what))
