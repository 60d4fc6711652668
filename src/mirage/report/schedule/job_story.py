"""History of one job: when it got which GPUs, and the reasons of its scheduler."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, quantity, shown
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.kernel.gpu_arrays import (
    APPLIED,
    BY_BOUNDARY,
    BY_CANCEL,
    BY_FAILED_SAVE,
    BY_ITSELF,
    BY_KILL,
    BY_RECLAIM,
    BY_RESIZE,
    BY_SAVE,
    CANCEL,
    CANCELLED,
    PREEMPT,
    RESIZE,
    START,
)
from mirage.schedule.engine.plan_rows import REFUSAL_REASONS
from mirage.schedule.workload.gpu_workload import GpuWorkload

_DECIDED = {START: "start", RESIZE: "resize", PREEMPT: "preempt", CANCEL: "cancel"}
_ENDED = {
    BY_ITSELF: "done",
    BY_BOUNDARY: "left at a checkpoint",
    BY_SAVE: "saved and left",
    BY_KILL: "killed",
    BY_RESIZE: "resized",
    BY_CANCEL: "cancelled",
    BY_RECLAIM: "killed, as its server had to be returned",
    BY_FAILED_SAVE: "left without its work, as the save failed",
}


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of a job, its place, and its reason.

    Attributes:
        estimate_s: When the scheduler expects the job to end; None without an estimate.
    """

    time_s: float
    what: str
    where: str = ""
    why: str = ""
    estimate_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobStory:
    """The history of one job.

    Attributes:
        name: Name of the job.
        summary: Its measures, as text.
        moments: Its events, in order of time.
    """

    name: str
    summary: str
    moments: tuple[JobEvent, ...]


def job_number(workload: GpuLog | GpuWorkload, name_or_number: str) -> int:
    """Returns the job of a name, or of a number in the workload.

    Raises:
        ConfigurationError: There is no such job.
    """
    if name_or_number in workload.jobs.name:
        return workload.jobs.name.index(name_or_number)
    if name_or_number.isdecimal() and int(name_or_number) < len(workload.jobs):
        return int(name_or_number)
    names = workload.jobs.name
    near = difflib.get_close_matches(name_or_number, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(
        f"the workload has no job {shown(name_or_number)}.{hint} Its {quantity(len(names), 'job')} are numbered from "
        f"0; the first is {names[0]}"
    )


def story_of(log: GpuLog, job: int) -> JobStory:
    """Returns the history of a job."""
    row = log.rows[job]
    request = f"{int(row.gpus)} GPU{'s' if row.gpus > 1 else ''} requested"
    model = f", {log.jobs.models[int(row.model)]}" if row.model >= 0 else ""
    jct_h, queued_h = (row.due_s - row.submit_s) / HOUR_S, row.queued_s / HOUR_S
    end = "cancelled" if row.status == CANCELLED else "done"
    summary = (
        f"{request}{model}, {end} after {jct_h:.2f} h, {queued_h:.2f} h of them in the queue; "
        f"{row.executed / HOUR_S:.2f} GPU-h: {row.useful / HOUR_S:.2f} useful, {row.lost / HOUR_S:.2f} lost, "
        f"{row.overhead / HOUR_S:.2f} overhead"
    )
    moments = [JobEvent(float(row.submit_s), "submit"), *_decisions(log, job), *_segments(log, job)]
    return JobStory(log.jobs.name[job], summary, tuple(sorted(moments, key=lambda moment: moment.time_s)))


def _decisions(log: GpuLog, job: int) -> list[JobEvent]:
    """Returns decisions without a stretch: refused ones, and preemptions and cancellations."""
    of_job = log.decisions[(log.decisions.id == job) & np.isin(log.decisions.kind, list(_DECIDED))]
    found = []
    for decision in of_job:
        what, why = _DECIDED[int(decision.kind)], log.reasons[int(decision.reason)]
        if decision.refused != APPLIED:
            wanted = f"; reason: {why}" if why else ""
            found.append(
                JobEvent(
                    float(decision.time_s), f"{what} refused", why=f"{REFUSAL_REASONS[int(decision.refused)]}{wanted}"
                )
            )
        elif decision.kind in (PREEMPT, CANCEL):
            found.append(JobEvent(float(decision.time_s), what, why=why))
    return found


def _segments(log: GpuLog, job: int) -> list[JobEvent]:
    names = log.cluster.server_names
    found = []
    for k in np.flatnonzero(log.segments.id == job).tolist():
        segment = log.segments[k]
        where = " ".join(f"{names[server]}:{gpus}" for server, gpus in sorted(log.places(k).items()))
        why, estimate_s = _why(log, job, float(segment.start_s))
        found.append(JobEvent(float(segment.start_s), "gets", where, why, estimate_s))
        if np.isfinite(segment.end_s):
            found.append(JobEvent(float(segment.end_s), _ENDED[int(segment.why)], where))
    return found


def _why(log: GpuLog, job: int, start_s: float) -> tuple[str, float | None]:
    """Returns the reason of a start or a change of size, and the expected end of the job."""
    decisions = log.decisions
    here = (decisions.id == job) & (decisions.time_s == start_s) & np.isin(decisions.kind, [START, RESIZE])
    given = decisions[here & (decisions.refused == APPLIED)]
    if len(given) == 0:
        return "", None
    estimate_s = float(given[-1].estimate_s)
    return log.reasons[int(given[-1].reason)], estimate_s if np.isfinite(estimate_s) else None
