"""Jobs with tags of a store, in the queue and in accounting, and their links."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirage.agent.chain.tag import Tag, parse_tag, tag_in_line
from mirage.agent.model import Link, LinkState
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.backend import Backend
from mirage.slurm.records import AccountedJob, QueuedJob
from mirage.slurm_words.states import ALIVE


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job and its tag."""

    tag: Tag
    job: QueuedJob | AccountedJob

    @property
    def number(self) -> int:
        """Slurm's id."""
        return self.job.id

    @property
    def is_alive(self) -> bool:
        """Whether it is pending or runs."""
        return self.job.state in ALIVE


def found_jobs(slurm: Backend, user: str, store: str, since_s: int) -> dict[str, list[FoundJob]]:
    """A user's jobs with tags of a store, by the key of their chain.

    The queue takes precedence over accounting.

    Args:
        store: Identity of the store.
        since_s: Time from which accounting is read.

    Raises:
        SlurmUnreachable: No answer.
    """
    found: dict[int, FoundJob] = {}
    try:
        accounted = slurm.accounting(since_s)
    except SlurmRefused:  # a site without accounting for users
        accounted = ()
    for ended in accounted:
        tag = parse_tag(ended.comment) or (tag_in_line(ended.submit_line) if ended.submit_line else None)
        if tag is not None and tag.store == store and ended.user == user:
            found[ended.id] = FoundJob(tag, ended)
    for job in slurm.observe().jobs:
        tag = parse_tag(job.comment)
        if tag is not None and tag.store == store and job.user == user:
            found[job.id] = FoundJob(tag, job)
    by_chain: dict[str, list[FoundJob]] = {}
    for one in sorted(found.values(), key=lambda one: one.number):
        by_chain.setdefault(one.tag.key, []).append(one)
    return by_chain


def link_from(link: Link, found: FoundJob, now_s: int) -> Link:
    """A link from its job; the agent's next poll completes it."""
    job, tag = found.job, found.tag
    submitted_s = job.submit_s if job.submit_s != MISSING else now_s
    begun_s = job.eligible_s if job.eligible_s > 0 else submitted_s
    known = replace(
        link, job=job.id, attempted_s=submitted_s, submitted_s=submitted_s, limit_s=job.limit_s, ready_s=tag.ready_s,
        finished=tag.done,
    )  # fmt: skip
    if job.state is JobState.PENDING:
        if isinstance(job, QueuedJob) and job.dependency:
            return replace(known, state=LinkState.HELD)
        return replace(known, state=LinkState.QUEUED, released_s=begun_s)
    started_s = job.start_s if job.start_s != MISSING else begun_s
    released_s = min(begun_s, started_s)
    if found.is_alive:
        return replace(known, state=LinkState.RUNNING, released_s=released_s, started_s=started_s)
    ended_s = job.end_s if job.end_s != MISSING else now_s
    over = replace(known, state=LinkState.ENDED, ended_s=ended_s, outcome=job.state, exit_code=job.exit_code)
    ran = job.start_s != MISSING and job.start_s < ended_s
    return replace(over, started_s=job.start_s, released_s=released_s) if ran else over
