"""Bring the links up to what the cluster shows: adopt, follow, give up, and undo what must never be."""

from __future__ import annotations

from collections import Counter

from mirage.agent.cycle.context import Desk
from mirage.agent.cycle.observations import ALIVE, Change, held_by_slurm, seen_in_accounting, seen_in_queue, vanished
from mirage.agent.cycle.submit import settle
from mirage.agent.model import Chain, Link, LinkState
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING
from mirage.slurm.values import QueuedJob

SLACK_S = 60
"""The controller's clock may be so far behind ours."""


class Followers:
    """Follows every open link; remembers since when it has not seen one, and how often it has let one go again."""

    def __init__(self) -> None:
        self.unseen: dict[tuple[int, int], int] = {}
        self.let_go: Counter[tuple[int, int]] = Counter()

    def follow(self, desk: Desk, chain: Chain) -> None:
        """Bring the open links of a chain up to date."""
        for link in list(desk.links.get(chain.id, ())):
            if link.state is LinkState.ENDED or (link.job == MISSING and link.attempted_s == MISSING):
                continue
            jobs = candidates(desk, chain, link)
            change = self._change(desk, chain, link, jobs)
            if change:
                link = desk.change_link(link, *change.events, **change.columns)
            cancel_doubles(desk, link, jobs)
            job = desk.sight.by_id.get(link.job)
            if job is not None and held_by_slurm(job):
                self._let_go(desk, link, job)

    def missing_since_s(self, links: list[Link]) -> int | None:
        """Submission time of the oldest open link not seen last time; None where all were."""
        unseen = [k for k in self.unseen if any(link.chain == k[0] and link.number == k[1] for link in links)]
        if not unseen:
            return None
        times = [link.attempted_s for link in links if (link.chain, link.number) in self.unseen]
        return min(times)

    def _let_go(self, desk: Desk, link: Link, job: QueuedJob) -> None:
        """Release a job that Slurm holds because it could not launch it; replace it where that does not help."""
        key = (link.chain, link.number)
        self.let_go[key] += 1
        why = f"job {job.id}: {job.reason}"
        try:
            if self.let_go[key] > desk.settings.failures:
                raise SlurmRefused(f"released {desk.settings.failures} times in vain")
            desk.backend.release(job.id)
            desk.change_link(link, desk.event(*key, "let-go", why))
        except SlurmRefused as error:
            del self.let_go[key]
            desk.backend.cancel(job.id)
            desk.change_link(link, desk.event(*key, "replaced", f"{why}; {error}"), cancelled_s=desk.now_s)

    def _change(self, desk: Desk, chain: Chain, link: Link, jobs: list[QueuedJob]) -> Change:
        key = (link.chain, link.number)
        job = desk.sight.by_id.get(link.job) if link.job != MISSING else (jobs[0] if jobs else None)
        if job is not None:
            self.unseen.pop(key, None)
            return seen_in_queue(link, job, desk.now_s)
        accounted = desk.sight.accounted.get(link.job) if link.job != MISSING else None
        if link.job == MISSING:
            accounted = desk.sight.accounted_tags.get((chain.name, link.number))
            if accounted is not None and accounted.submit_s < link.attempted_s - SLACK_S:
                accounted = None
        if accounted is not None and accounted.state not in ALIVE:
            self.unseen.pop(key, None)
            return seen_in_accounting(link, accounted, desk.now_s)
        since_s = self.unseen.setdefault(key, desk.now_s)
        if link.job == MISSING:
            settle(desk, chain, link, desk.settings)
        elif accounted is None and desk.sight.looked_up and desk.now_s - since_s >= desk.settings.vanish_s:
            del self.unseen[key]
            return vanished(link, desk.now_s)
        return Change()


def candidates(desk: Desk, chain: Chain, link: Link) -> list[QueuedJob]:
    """Jobs in the queue that carry a link's tag and can be of this attempt; by id."""
    found = desk.sight.tagged.get((chain.name, link.number), [])
    return sorted((job for job in found if job.submit_s >= link.attempted_s - SLACK_S), key=lambda job: job.id)


def cancel_doubles(desk: Desk, link: Link, jobs: list[QueuedJob]) -> None:
    """A link has one job: any other that carries its tag is ended."""
    for job in jobs:
        if job.id != link.job and link.job != MISSING and job.state in ALIVE:
            desk.backend.cancel(job.id)
            event = desk.event(link.chain, link.number, "double-cancelled", f"job {job.id} beside job {link.job}")
            desk.change_link(link, event)
