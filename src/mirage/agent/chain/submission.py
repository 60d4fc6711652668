"""The submission of one link: options, stored intention, sbatch, and stored answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage.agent.chain.tag import GRACE, Tag, written_before
from mirage.agent.model import Chain, ChainSpec, EventRecord, Link, LinkState
from mirage.agent.store.chain_file import folder_of_scripts
from mirage.agent.store.protocol import Store
from mirage.duration import MINUTE_S
from mirage.errors import RequestNotSent, SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.backend import Backend
from mirage.slurm.records import Submission
from mirage.slurm.sbatch_options import from_environment
from mirage.slurm.text.batch_script import directives

CHAIN, LINK, PREVIOUS_JOB, TAG = "MIRAGE_CHAIN", "MIRAGE_LINK", "MIRAGE_PREVIOUS_JOB", "MIRAGE_TAG"
READY_AFTER = "MIRAGE_READY_AFTER"
"""Seconds after a job's start from which on its ready mark does not count; not set where it always counts."""

HOME = "MIRAGE_HOME"

FIRST_LINK_ONLY = ("dependency", "begin", "deadline")
"""Options that a user means for the beginning of the chain, not for each of its links.

In a script they are taken out of the copy that the later links run: sbatch has no value for ``--deadline`` that would
mean none.
"""

_NOTHING = frozenset({"none", "nil"})


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
        previous: The link it follows; where that one runs or is held, the new one is held until its end.

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
    """Store that a link is about to be submitted.

    None where another process has done so, or has edited the chain since it was read.

    Args:
        folder: The agent's folder now; None for that of the chain's submission.

    Raises:
        ScriptGone: The copy of the script is missing; the link is as before.
    """
    held = previous is not None and _holds_next(chain, previous, now_s)
    known = store.identity().identity
    job = previous.job if previous is not None else MISSING
    submission = link_submission(chain, known, link.number, job, held, folder, limit_s=link.limit_s)
    return Attempt(link, submission, held) if store.attempt(chain.id, link.number, now_s, chain.edits) else None


def _holds_next(chain: Chain, previous: Link, now_s: int) -> bool:
    """Whether the next link must wait for the end of a link: it may run, or is held.

    In a chain that never holds two, a link that has only vanished may run.
    """
    vanished = previous.state is LinkState.ENDED and previous.outcome is JobState.UNKNOWN
    postponed = previous.state is LinkState.QUEUED and previous.begins_s > now_s
    return previous.state in (LinkState.RUNNING, LinkState.HELD) or postponed or (chain.spec.never_two and vanished)


def link_submission(
    chain: Chain,
    store: str,
    number: int,
    previous_job: int,
    hold: bool,
    folder: Path | None = None,
    limit_s: int = MISSING,
) -> Submission:
    """The submission of a link.

    Args:
        store: Identity of the chain's store.
        previous_job: ``MISSING`` for the first link.
        hold: Whether it waits for the end of the previous one.
        folder: The agent's folder now; None for that of the chain's submission.
        limit_s: Its time limit in place of the one of the options; ``MISSING`` for that.

    Raises:
        ScriptGone: The copy of the script is missing.
    """
    spec, submission = chain.spec, chain.spec.submission
    options = dict(submission.options)
    tag = Tag(chain.name, number, store, chain.key)
    own = {CHAIN: chain.name, LINK: str(number), TAG: str(tag)}
    if spec.ready_by_job:
        own[GRACE] = str(spec.grace_s)
    elif not spec.ready_command:
        own[READY_AFTER] = str(spec.warmup_s)
    if number > 1:
        for name in (*FIRST_LINK_ONLY, "verbose"):
            options.pop(name, None)
    script = script_of(chain, number, folder)
    if spec.folder and Path(submission.environment.get(HOME, "")) == Path(spec.folder):
        own[HOME] = str(script.parents[len(Path(_copy(spec, number)).parts) - 1])
    if excluded := excluded_nodes(chain):
        options["exclude"] = excluded
    if previous_job != MISSING:
        own[PREVIOUS_JOB] = str(previous_job)
    if limit_s != MISSING:
        options["time"] = str(limit_s // MINUTE_S)
    if hold:
        options["dependency"] = f"afterany:{previous_job}"
    if spec.slurm_warning_s:
        options["signal"] = f"{'' if spec.to_steps else 'B:'}{spec.signal}@{spec.slurm_warning_s}"
    options["comment"] = written_before(options.get("comment"), tag)
    exported = {name: value for name, value in own.items() if name != HOME}
    options |= _export(options.get("export") or submission.environment.get("SBATCH_EXPORT", ""), exported)
    return replace(submission, script=str(script), options=options, environment={**submission.environment, **own})


def effective_options(submission: Submission, script: bytes) -> dict[str, str | None]:
    """The options of a job: of its script, its environment and its command line.

    Raises:
        ConfigurationError: The script has a line that sbatch would refuse.
    """
    return {**directives(script), **from_environment(submission.environment), **submission.options}


def excluded_nodes(chain: Chain) -> str:
    """The nodes that the next links of a chain avoid: the user's, and those of failures."""
    return ",".join(filter(None, (chain.spec.submission.options.get("exclude"), chain.excluded)))


def script_of(chain: Chain, number: int, folder: Path | None = None) -> Path:
    """The script of a link.

    Args:
        folder: The agent's folder now; None for that of the chain's submission.

    Raises:
        ScriptGone: The copy of the script is missing.
    """
    script = _copy(chain.spec, number)
    return folder_of_scripts(chain, script, folder) / script if chain.spec.folder else Path(script)


def _copy(spec: ChainSpec, number: int) -> str:
    """The stored path of a link's script."""
    return (spec.later_script if number > 1 else "") or spec.submission.script


def _export(wanted: str, own: dict[str, str]) -> dict[str, str | None]:
    """The ``--export`` option that passes our variables to the job with the user's.

    A list of names loads the user's environment on the node as NONE does; ``--get-user-env`` in addition would make the
    job lose the limits of the submitting shell (22.05).
    """
    if not wanted or wanted.upper() == "ALL":
        return {}
    return {"export": ",".join(own if wanted.lower() in _NOTHING else [wanted, *own])}


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
