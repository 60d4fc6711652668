"""Think times: submissions that follow a start or end of the user's jobs; their replay.

A replay submits every job at its recorded time (open loop), even where its user had waited for another job, which the
simulation starts or ends earlier or later. In a closed loop such a job is submitted a think time after that event,
whenever it occurs (Zakay and Feitelson, "Preserving user behavior characteristics in trace-based simulation of parallel
job scheduling", MASCOTS 2014). Think times of up to twenty minutes belong to one session (Zilber, Amit and Talby, "What
is worth learning from parallel workloads?", ICS 2005).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, MINUTE_S
from mirage.sim.kernel.arrays import AFTER_NONE, ANSWERS_END, ANSWERS_START, NO_JOB
from mirage.sim.schedule import Schedule
from mirage.sim.workload import Workload
from mirage.trace.table import JobTable

LONGEST_S = 20 * MINUTE_S
"""A submission later than this after an event is not a reaction to it."""

NOTICED_S = MINUTE_S
"""A job that started sooner than this after its submission was not waited for."""

WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class PrecedingEvents:
    """The event that each job reacts to.

    Attributes:
        job: Shape (n,), row of the user's job whose start or end came last before the submission; ``NO_JOB`` where that
            is longer ago than the longest think time, or there was none.
        kind: Shape (n,), ``ANSWERS_START`` or ``ANSWERS_END``; ``AFTER_NONE`` without an event.
        think_time_s: Shape (n,), seconds from that event to the submission; 0 without an event.
    """

    job: Ints
    kind: Ints
    think_time_s: Ints

    @property
    def share(self) -> float:
        """The share of jobs that react to another job."""
        return float((self.job != NO_JOB).mean()) if len(self.job) else 0.0


def preceding_events(jobs: JobTable, longest_s: int = LONGEST_S) -> PrecedingEvents:
    """Finds jobs submitted soon after another job of their user started or ended.

    A start counts only after a wait.

    Args:
        jobs: Jobs by submission, with users; those without a user, a start or an end have no event.
        longest_s: The longest think time.
    """
    n = len(jobs)
    found = PrecedingEvents(np.full(n, NO_JOB), np.full(n, AFTER_NONE), np.zeros(n, dtype=np.int64))
    for own in _rows_by_user(jobs):
        waited = own[jobs.start_s[own] - jobs.submit_s[own] >= NOTICED_S]
        for kind, others, event_s in ((ANSWERS_START, waited, jobs.start_s), (ANSWERS_END, own, jobs.end_s)):
            if not len(others):
                continue
            ordered = others[np.argsort(event_s[others], kind="stable")]
            last = np.searchsorted(event_s[ordered], jobs.submit_s[own], side="right") - 1
            before = ordered[np.maximum(last, 0)]
            since_s = jobs.submit_s[own] - event_s[before]
            later = (found.job[own] == NO_JOB) | (since_s < found.think_time_s[own])
            chosen = (last >= 0) & (since_s <= longest_s) & (before < own) & later
            found.job[own[chosen]] = before[chosen]
            found.kind[own[chosen]] = kind
            found.think_time_s[own[chosen]] = since_s[chosen]
    return found


def share_by_chance(jobs: JobTable, longest_s: int = LONGEST_S) -> float:
    """Returns the share of jobs that would follow an event if users ignored their jobs.

    Submissions are compared with the same user's starts and ends a week earlier and a week later, at the same time of
    the week; the result is the mean of both.

    Args:
        jobs: See ``preceding_events``.
        longest_s: The longest think time.
    """
    soon = np.zeros((2, len(jobs)), dtype=bool)
    for own in _rows_by_user(jobs):
        waited = own[jobs.start_s[own] - jobs.submit_s[own] >= NOTICED_S]
        events_s = np.sort(np.concatenate([jobs.start_s[waited], jobs.end_s[own]]))
        for k, shift_s in enumerate((-WEEK_S, WEEK_S)):
            last = np.searchsorted(events_s + shift_s, jobs.submit_s[own], side="right") - 1
            since_s = jobs.submit_s[own] - events_s[np.maximum(last, 0)] - shift_s
            soon[k, own] = (last >= 0) & (since_s <= longest_s)
    return float(soon.mean()) if len(jobs) else 0.0


@dataclass(frozen=True, slots=True)
class ThinkTimes:
    """The number and share of jobs that react to another job.

    Attributes:
        jobs: Number of jobs.
        answer: Number of them that were submitted soon after a start or an end of another job of their user.
        share: ``answer`` as a share.
        by_chance: The share that is expected if users ignore their jobs.
        longest_s: Longest think time.
    """

    jobs: int
    answer: int
    share: float
    by_chance: float
    longest_s: int

    @classmethod
    def of(cls, jobs: JobTable, longest_s: int = LONGEST_S) -> ThinkTimes:
        """Counts them with ``preceding_events`` and ``share_by_chance``."""
        found = preceding_events(jobs, longest_s)
        count = int((found.job != NO_JOB).sum())
        return cls(len(jobs), count, found.share, share_by_chance(jobs, longest_s), longest_s)


def closed_loop(jobs: Workload, longest_s: int = LONGEST_S) -> Workload:
    """Returns the workload in which jobs are submitted a think time after their event.

    Jobs with a dependency or a begin time of their own retain it, and are submitted at their recorded time.

    Args:
        jobs: The workload; its table contains the real starts and ends.
        longest_s: The longest think time.
    """
    table, records = jobs.table, jobs.jobs.copy().view(np.recarray)
    found = preceding_events(table, longest_s)
    chosen = (found.job != NO_JOB) & (records.after_kind == AFTER_NONE) & (records.begin_s < 0)
    for row in np.flatnonzero(chosen):  # the simulation learns of it when the preceding job is submitted
        records.submit_s[row] = records.submit_s[found.job[row]]
    records.after[chosen] = found.job[chosen]
    records.after_kind[chosen] = found.kind[chosen]
    records.begin_s[chosen] = found.think_time_s[chosen]
    order = np.argsort(records.submit_s, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    records = records[order].copy().view(np.recarray)
    records.id = np.arange(len(records))
    waits_for = records.after >= 0
    records.after[waits_for] = place[records.after[waits_for]]
    return replace(jobs, jobs=records, table=table[order])


def as_submitted(schedule: Schedule) -> Schedule:
    """Returns the schedule with its closed-loop submissions, from which waits count."""
    submit_s = schedule.table.submit_s.copy()
    segments = schedule.segments[schedule.segments.id < len(submit_s)]
    first = np.unique(segments.id, return_index=True)[1]  # segments are in order of their end: the first one is first
    submit_s[segments.id[first]] = segments.submit_s[first]
    return replace(schedule, table=schedule.table.with_columns(submit_s=submit_s))


def _rows_by_user(jobs: JobTable) -> Iterator[Ints]:
    """Yields the rows of each user's jobs that have started and ended, in order."""
    known = (jobs.user.codes >= 0) & (jobs.submit_s >= 0) & (jobs.start_s >= jobs.submit_s)
    rows = np.flatnonzero(known & (jobs.end_s >= jobs.start_s))
    ordered = rows[np.argsort(jobs.user.codes[rows], kind="stable")]
    yield from np.split(ordered, np.flatnonzero(np.diff(jobs.user.codes[ordered])) + 1)
