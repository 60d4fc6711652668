"""The tag in a job's comment, which identifies the job of a link.

    mirage:CHAIN:NUMBER:STORE.KEY[ ready@TIME][ done][ | the user's own comment]

``STORE`` and ``KEY`` are random letters of the store and of the chain: equal names of two users, or of two stores of
one user, are different chains. Everybody can read a comment, so a job is ours only where its user is, too.

A job reports that it is ready, or that the work is done, by adding a mark to its own comment: slurmctld carries the
message, so no shared file system and no open port are needed. ``ready`` carries its time: a job that is requeued
retains its comment, and has to report again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirage.agent.store.identity import LETTERS
from mirage.errors import ConfigurationError, shown
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.slurm.records import QueuedJob

GRACE = "MIRAGE_GRACE"
"""Variable of a job: seconds from the signal to the previous job until that job is cancelled."""

PREFIX = "mirage:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_IDENTITY = rf"mirage:({NAME.pattern}):(\d{{1,9}}):([{LETTERS}]{{1,32}})\.([{LETTERS}]{{1,32}})"
_TAG = re.compile(rf"{_IDENTITY}(?: ready@(\d{{1,12}}))?( done)?(?: \| (.*))?", re.DOTALL)
_IN_LINE = re.compile(rf"--comment[= ]'?\"?{_IDENTITY}")


@dataclass(frozen=True, slots=True)
class Tag:
    """The chain and the link of a job, and the job's own marks.

    Attributes:
        store: Identity of the store in which the chain is.
        key: Identity of the chain in its store.
        ready_s: Time at which it reported ready; ``MISSING`` while it has not.
    """

    chain: str
    link: int
    store: str
    key: str
    ready_s: int = MISSING
    done: bool = False
    rest: str = ""

    def __str__(self) -> str:
        words = (f" ready@{self.ready_s}" if self.ready_s != MISSING else "") + " done" * self.done
        text = f"{PREFIX}{self.chain}:{self.link}:{self.store}.{self.key}{words}"
        return text + (f" | {self.rest}" if self.rest else "")

    def with_marks(self, *, ready_s: int = MISSING, done: bool = False) -> Tag:
        """The tag with more marks added; the last ready mark counts."""
        return replace(self, ready_s=ready_s if ready_s != MISSING else self.ready_s, done=self.done or done)


def written_before(comment: str | None, tag: Tag) -> str:
    """The value of ``--comment``: the tag of a link, before the user's own comment."""
    return str(replace(tag, rest=comment or ""))


def parse_tag(comment: str) -> Tag | None:
    """The tag in a comment, or None where there is none."""
    if not comment.startswith(PREFIX):  # nearly every job of a large queue
        return None
    found = _TAG.fullmatch(comment)
    if found is None:
        return None
    chain, number, store, key, ready, done, rest = found.groups()
    return Tag(chain, int(number), store, key, int(ready) if ready else MISSING, bool(done), rest or "")


def tag_of_this_job(own: QueuedJob | None, inherited: Tag | None, jobs: Iterable[QueuedJob]) -> Tag:
    """The tag of the job in which this runs.

    It is in the job's comment. Where the site has replaced that, it is in the environment; but a job that a link
    submits inherits the environment, and is no link.

    Args:
        own: The job as the queue shows it; None where it does not.
        inherited: The tag in the environment.
        jobs: The jobs in the queue.

    Raises:
        ConfigurationError: The job is no link.
    """
    tag = parse_tag(own.comment) if own is not None else None
    if tag is not None:
        return tag
    if inherited is None:
        raise ConfigurationError(
            "this is not a job of a chain: neither MIRAGE_TAG nor the comment of the job SLURM_JOB_ID shows one; "
            "submit it with `mirage submit`, or `mirage adopt` it"
        )
    if own is not None and (link := _job_with(inherited, own.user, jobs)) is not None:
        raise ConfigurationError(
            f"job {own.id} is no job of chain {inherited.chain}: link {inherited.link} is job {link.id}, and job "
            f"{own.id} has only inherited its environment (MIRAGE_TAG); run this in the script of the chain"
        )
    return inherited


def _job_with(tag: Tag, user: str, jobs: Iterable[QueuedJob]) -> QueuedJob | None:
    """The user's job with a tag, whatever its marks."""
    wanted = (tag.store, tag.key, tag.link)
    for job in jobs:
        found = parse_tag(job.comment) if job.user == user else None
        if found is not None and (found.store, found.key, found.link) == wanted:
            return job
    return None


def tag_in_line(submit_line: str) -> Tag | None:
    """The tag in the command line of an ``sbatch``, which accounting stores."""
    found = _IN_LINE.search(submit_line)
    return Tag(found[1], int(found[2]), found[3], found[4]) if found else None


def chain_name(text: str) -> str:
    """The text, if it is a valid name of a chain.

    Raises:
        ConfigurationError: It is not.
    """
    if not NAME.fullmatch(text):
        raise ConfigurationError(
            f"{shown(text)} cannot name a chain: begin with a letter or digit (A-Z, a-z, 0-9); up to 62 of these, "
            "dots, dashes and underscores may follow"
        )
    return text
