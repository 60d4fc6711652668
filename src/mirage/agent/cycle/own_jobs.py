"""The jobs of a store's chains among all jobs of a cluster.

A job is ours if its user is ours and its tag belongs to our store. Where a site has replaced the comment, the tag is
lost; then user and job number must match. But the same number may be given again, by a Slurm that has lost its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mirage.agent.chain.submission import effective_options, script_of
from mirage.agent.chain.tag import Tag, parse_tag, tag_in_line
from mirage.agent.model import Chain, Link
from mirage.errors import ConfigurationError, ScriptGone
from mirage.job_state import MISSING
from mirage.slurm.records import AccountedJob, QueuedJob

LATER_S = 60
"""A job submitted later by this time than the answer of sbatch about a link is not the one of that answer."""

Key = tuple[str, int]
"""Key of a chain, and number of a link."""


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """Jobs in the queue that may be ours.

    Attributes:
        by_id: Jobs of our user without a tag of another chain.
        tagged: Jobs with a tag of our store, by link; more than one per link where something went wrong.
    """

    by_id: dict[int, QueuedJob] = field(default_factory=dict)
    tagged: dict[Key, list[QueuedJob]] = field(default_factory=dict)


def own_jobs(jobs: Iterable[QueuedJob], user: str, store: str) -> OwnJobs:
    """The jobs of a user that belong to a store.

    Args:
        store: Identity of the store.
    """
    own = OwnJobs()
    for job in jobs:
        if job.user != user:
            continue
        tag = parse_tag(job.comment)
        if tag is None:
            own.by_id[job.id] = job
        elif tag.store == store:
            own.by_id[job.id] = job
            own.tagged.setdefault((tag.key, tag.link), []).append(job)
    return own


def is_of_link(job: QueuedJob | AccountedJob, chain: Chain, link: Link) -> bool:
    """Whether a job with the number of a link's job can be its job.

    No other link may claim it. A job without a tag that was submitted later than the link is another one, unless it has
    the name of the chain's jobs: a requeued link looks like this where the site has replaced its comment.
    """
    tag = tag_of(job) if isinstance(job, AccountedJob) else parse_tag(job.comment)
    if tag is not None:
        return (tag.key, tag.link) == (chain.key, link.number)
    is_later = MISSING not in (job.submit_s, link.submitted_s) and job.submit_s > link.submitted_s + LATER_S
    return not is_later or is_named_like_links(job.name, chain, link)


def is_named_like_links(name: str, chain: Chain, link: Link) -> bool:
    """Whether a job has the name of a link's job, or that name is not known."""
    try:
        script = script_of(chain, link.number)
        return name == (effective_options(chain.spec.submission, script.read_bytes()).get("job-name") or script.name)
    except (ScriptGone, ConfigurationError, OSError):
        return True  # the name is not known


def tag_of(job: AccountedJob) -> Tag | None:
    """The tag of a job in accounting, from the comment or the command line; None for none."""
    return parse_tag(job.comment) or (tag_in_line(job.submit_line) if job.submit_line else None)
