"""The changes of a link that follow from the queue or from accounting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from mirage.agent.chain.tag import Tag, parse_tag
from mirage.agent.model import ChainSpec, EventRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, QueuedJob
from mirage.slurm_words.reasons import in_words, is_usual
from mirage.slurm_words.states import ALIVE

SAME_START_S = 2
"""Slurm reports the start of a running job to the second, and does not change it."""

CLOCKS_DIFFER_S = 30
"""The clock of a node may differ by this much from the controller's."""

RAN = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL})
"""Outcomes of jobs that have run, even for less than a second; a job cancelled while pending has a start time, too."""

ON_HOLD = "JobHeld"
"""Prefix of Slurm's reasons for a hold by a user or an administrator: such a link cannot start at its turn."""

_HELD_BY_SLURM = re.compile(r"requeued[ _]held|JobHoldMaxRequeue", re.IGNORECASE)
"""Reasons in squeue for a job that Slurm, not a person, has put on hold."""


@dataclass(frozen=True, slots=True)
class Change:
    """Columns of a link to set, and events for the chain's log."""

    columns: dict[str, Any] = field(default_factory=dict)
    events: tuple[EventRecord, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns or self.events)


def change_from_queue(link: Link, job: QueuedJob, now_s: int, spec: ChainSpec | None = None) -> Change:
    """The change of a link that follows from its job in the queue.

    Args:
        spec: Specification of its chain: without ``--ready-by-job`` a ready mark after the warm-up does not count.
    """
    columns: dict[str, Any] = {}
    if link.job != job.id:
        columns |= {"job": job.id, "submitted_s": job.submit_s if job.submit_s != MISSING else now_s}
    if job.limit_s != MISSING and job.limit_s != link.limit_s:
        columns["limit_s"] = job.limit_s
    if job.state is JobState.PENDING:
        columns |= _waiting(link, job, now_s)
    elif job.state in ALIVE:
        if job.state is not JobState.UNKNOWN or job.start_s != MISSING:
            columns |= _running(link, job, now_s)
    else:
        columns |= _over(link, job, now_s)
    waits = job.state is JobState.PENDING and (not job.dependency or job.reason.startswith(ON_HOLD))
    reason = job.reason if waits else ""
    if reason == "BeginTime" and link.begins_s > now_s:  # the agent has postponed it
        reason = ""
    if reason != link.reason:
        columns["reason"] = reason
    columns |= _reported(link, parse_tag(job.comment), columns, now_s, spec)
    return Change(columns, _events(link, columns, now_s, f"job {job.id}" + (f": {job.reason}" if job.reason else "")))


def change_from_accounting(link: Link, job: AccountedJob, now_s: int, spec: ChainSpec | None = None) -> Change:
    """The change of a link that only accounting knows; empty while its job counts as alive.

    Args:
        spec: As in ``change_from_queue``.
    """
    if job.state in ALIVE:
        return Change()
    columns: dict[str, Any] = {} if link.job == job.id else {"job": job.id, "submitted_s": job.submit_s}
    if job.limit_s != MISSING:
        columns["limit_s"] = job.limit_s
    columns |= _over(link, job, now_s)
    columns |= _reported(link, parse_tag(job.comment), columns, now_s, spec)
    return Change(columns, _events(link, columns, now_s, f"job {job.id}, by accounting"))


def vanished(link: Link, now_s: int) -> Change:
    """The change of a link that is not in the queue any more: ended at its limit, or now."""
    past_limit = link.started_s != MISSING and link.limit_ends_s <= now_s
    columns = {
        "state": LinkState.ENDED,
        "ended_s": link.limit_ends_s if past_limit else now_s,
        "outcome": JobState.TIMEOUT if past_limit else JobState.UNKNOWN,
    }
    event = EventRecord(link.chain, link.number, now_s, "vanished", f"job {link.job} is not in the queue any more")
    return Change(columns, (event,))


def held_by_slurm(job: QueuedJob) -> bool:
    """Whether Slurm holds a job because it could not launch it."""
    return job.state is JobState.PENDING and _HELD_BY_SLURM.search(job.reason) is not None


def _waiting(link: Link, job: QueuedJob, now_s: int) -> dict[str, Any]:
    if job.dependency:
        columns: dict[str, Any] = {"state": LinkState.HELD}
    else:
        columns = {"state": LinkState.QUEUED}
        if link.released_s == MISSING:
            columns["released_s"] = job.eligible_s if job.eligible_s not in (MISSING, 0) else now_s
        if job.reason == "BeginTime" and MISSING == link.started_s == link.begins_s:  # the user's own --begin
            columns["released_s"] = max(job.eligible_s, now_s)
    if link.state is LinkState.RUNNING:
        columns |= _begun_anew(link, job) | {"started_s": MISSING}
    return {name: value for name, value in columns.items() if getattr(link, name) != value}


def _running(link: Link, job: QueuedJob, now_s: int) -> dict[str, Any]:
    if job.completing and link.state is LinkState.RUNNING:  # it ends or is requeued: the next poll shows which
        return {}
    started_s = job.start_s if job.start_s != MISSING else now_s
    columns: dict[str, Any] = {"state": LinkState.RUNNING, "started_s": started_s, "ends_s": _later_end_s(job)}
    if job.nodelist:
        columns["nodelist"] = job.nodelist
    if link.state is not LinkState.RUNNING and not job.completing:  # it started before the cancellation
        columns["cancelled_s"] = MISSING
    if link.state is LinkState.RUNNING and started_s > link.started_s + SAME_START_S:  # requeued between two polls
        columns |= _begun_anew(link, job)
    if link.released_s == MISSING:
        columns["released_s"] = min(started_s, job.eligible_s) if job.eligible_s > 0 else started_s
    return {name: value for name, value in columns.items() if getattr(link, name) != value}


def _later_end_s(job: QueuedJob) -> int:
    """The end of the limit of a job that was suspended, as in ``Link.ends_s``."""
    if job.state is JobState.SUSPENDED:
        return UNLIMITED_S
    moved = job.limit_s != MISSING and job.end_s > job.start_s + job.limit_s + SAME_START_S
    return job.end_s if moved else MISSING


def _begun_anew(link: Link, job: QueuedJob) -> dict[str, Any]:
    """The columns of a link that has run, was requeued, and is pending or running again."""
    left_s = job.submit_s if job.submit_s > link.started_s else link.started_s  # a requeue is a new submission
    run = (link.started_s, link.ready_s, left_s)
    return {"ready_s": MISSING, "signalled_s": MISSING, "earlier": (*link.earlier, run)}


def _waits_for_mark(spec: ChainSpec) -> bool:
    """Whether a job's ready mark counts at any time."""
    return spec.ready_by_job or bool(spec.ready_command)


def _reported(
    link: Link, tag: Tag | None, columns: dict[str, Any], now_s: int, spec: ChainSpec | None
) -> dict[str, Any]:
    """The columns that follow from the job's own marks in its comment.

    A mark from before the last start belongs to an earlier run: the comment outlives a requeue.
    """
    reported: dict[str, Any] = {}
    if tag is not None and tag.done and not link.finished:
        reported["finished"] = True
    started_s, ready_s = columns.get("started_s", link.started_s), columns.get("ready_s", link.ready_s)
    if tag is not None and ready_s == MISSING != started_s and tag.ready_s >= started_s - CLOCKS_DIFFER_S:
        at_s = min(max(tag.ready_s, started_s), max(now_s, started_s))
        if spec is not None and not _waits_for_mark(spec):
            at_s = min(at_s, started_s + spec.warmup_s)
        reported["ready_s"] = at_s
    return reported


def ignored_mark(link: Link, job: QueuedJob, spec: ChainSpec) -> str:
    """The text for a ready mark that does not count; empty where it counts or is absent.

    Without ``--ready-by-job`` a link is ready after its warm-up; only an earlier mark counts.
    """
    tag = parse_tag(job.comment)
    if _waits_for_mark(spec) or tag is None or link.ready_s == MISSING:
        return ""
    if link.state is not LinkState.RUNNING or tag.ready_s <= link.ready_s:
        return ""
    return f"job {job.id} reported ready, but the chain was submitted without --ready-by-job and does not wait for that"


def _over(link: Link, job: QueuedJob | AccountedJob, now_s: int) -> dict[str, Any]:
    ended_s = job.end_s if job.end_s != MISSING else now_s
    columns: dict[str, Any] = {
        "state": LinkState.ENDED,
        "ended_s": ended_s,
        "outcome": job.state,
        "exit_code": job.exit_code,
    }
    known = link.started_s != MISSING or job.start_s < ended_s or job.state in RAN
    ran = job.start_s != MISSING and known
    if ran:
        columns["started_s"] = job.start_s
        if isinstance(job, QueuedJob) and job.nodelist and job.nodelist != link.nodelist:
            columns["nodelist"] = job.nodelist
        if link.released_s == MISSING:
            columns["released_s"] = min(job.start_s, job.eligible_s) if job.eligible_s > 0 else job.start_s
    return columns


def _events(link: Link, columns: dict[str, Any], now_s: int, detail: str) -> tuple[EventRecord, ...]:
    """Events for the changes of state that concern a user."""
    kinds: list[str] = []
    if "job" in columns and link.state is LinkState.PLANNED:
        kinds.append("found")
    state = columns.get("state", link.state)
    if "earlier" in columns and state is LinkState.RUNNING:
        kinds += ["requeued", "started"]
    if state is not link.state:
        if link.state is LinkState.RUNNING and state in (LinkState.HELD, LinkState.QUEUED):
            kinds.append("requeued")
        elif state is LinkState.RUNNING:
            kinds.append("started")
        elif state is LinkState.ENDED:
            kinds.append("ended")
            outcome = columns.get("outcome", JobState.UNKNOWN)
            detail = f"{detail}, {outcome.name}" + (f" {columns['exit_code']}" if columns.get("exit_code") else "")
    kinds += [kind for kind, name in (("ready", "ready_s"), ("done", "finished")) if columns.get(name, 0) > 0]
    reported = [(kind, detail) for kind in kinds]
    if not is_usual(columns.get("reason", "")):
        reported.append(("waits", in_words(columns["reason"])))
    return tuple(EventRecord(link.chain, link.number, now_s, kind, text) for kind, text in reported)
