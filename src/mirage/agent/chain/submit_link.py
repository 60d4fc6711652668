"""The submission of one link: the stored intention, sbatch, and its stored answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.agent.chain.submission import link_submission
from mirage.agent.model import Chain, EventRecord, Link, LinkState
from mirage.agent.store.protocol import Store
from mirage.errors import RequestNotSent, SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.backend import Backend
from mirage.slurm.records import Submission


@dataclass(frozen=True, slots=True)
class Attempt:
    """A submission with a stored intention.

    Attributes:
        held: Whether the link waits for the end of the one before it.
    """

    link: Link
    submission: Submission
    held: bool


def submit_link(store: Store, backend: Backend, chain: Chain, link: Link, previous: Link | None, now_s: int) -> int:
    """Submit a planned link; returns its job, or ``MISSING`` where it was tried already.

    Args:
        previous: The link it follows; where that one runs, the new one is held until its end.

    Raises:
        SlurmRefused: sbatch refused; the link is as before.
        RequestNotSent: sbatch did not reach Slurm; the link is as before.
        SlurmUnreachable: No answer; the link must be searched.
    """
    attempt = begin_attempt(store, chain, link, previous, now_s)
    if attempt is None:
        return MISSING
    try:
        job = backend.submit(attempt.submission)
    except (SlurmRefused, RequestNotSent):
        attempt_refused(store, attempt)
        raise
    attempt_accepted(store, attempt, job, now_s)
    return job


def begin_attempt(
    store: Store, chain: Chain, link: Link, previous: Link | None, now_s: int, folder: Path | None = None
) -> Attempt | None:
    """Store that a link is about to be submitted; None where another process has done so.

    Args:
        folder: The agent's folder now; None for that of the chain's submission.

    Raises:
        ScriptGone: The copy of the script is missing; the link is as before.
    """
    held = previous is not None and _may_run(chain, previous)
    known = store.identity().identity
    job = previous.job if previous is not None else MISSING
    submission = link_submission(chain, known, link.number, job, held, folder)
    return Attempt(link, submission, held) if store.attempt(chain.id, link.number, now_s) else None


def _may_run(chain: Chain, previous: Link) -> bool:
    """Whether a link may still run.

    In a chain that never holds two, a link that has only vanished may.
    """
    vanished = previous.state is LinkState.ENDED and previous.outcome is JobState.UNKNOWN
    return previous.state is LinkState.RUNNING or (chain.spec.never_two and vanished)


def attempt_refused(store: Store, attempt: Attempt) -> None:
    """Store that sbatch refused: the link is as before."""
    store.change_link(attempt.link.chain, attempt.link.number, attempted_s=MISSING)


def attempt_accepted(store: Store, attempt: Attempt, job: int, now_s: int) -> None:
    """Store the job that sbatch has made."""
    link, state = attempt.link, LinkState.HELD if attempt.held else LinkState.QUEUED
    columns: dict[str, Any] = {"job": job, "submitted_s": now_s, "state": state}
    if not attempt.held:
        columns["released_s"] = now_s
    event = EventRecord(link.chain, link.number, now_s, "submitted", f"job {job}" + (", held" if attempt.held else ""))
    store.change_link(link.chain, link.number, event, **columns)
