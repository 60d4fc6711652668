"""Evictions and resizes that have begun.

The journal of a dead controller shows those that it has not completed.

Slurm delays the start of a requeued job by the life of a credential (120 s by default). This hold-down begins when the
job has left its nodes: an earlier release has no effect. A release in the same second is too early, too: of 50 such
jobs 31 failed, because a node refuses all credentials from before the end of the last attempt (22.05.8).

A job has left its nodes when slurmd finds that its processes have ended. For this, slurmd pauses for 0.02, 0.05, 0.1
and 0.5 s, and then for a second each time (``_pause_for_job_completion``, 22.05.8). The queries follow these steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage.control.pools_file import Pools
from mirage.control.progress_files import JobProgress, has_saved
from mirage.control.verbs import LEASE_MINUTES, Verb, verb_from_json
from mirage.duration import HOUR_S, MINUTE_S
from mirage.slurm.records import QueuedJob

EVICT, RESIZE = "evict", "resize"
"""The verbs that stop a running job."""

_CHECKS_S = (0.1, 0.25, 0.75, 0.9)
"""When Slurm is queried about a requeued job: shortly after slurmd finds, with its pauses, that a job has ended."""

LONGEST_S = 15 * MINUTE_S
"""Nothing is done for a job that was requeued longer ago: a hold-down has ended, or a user has set a time since."""


@dataclass(slots=True)
class Leaving:
    """A running job with the signal.

    Attributes:
        due_s: When it is requeued, even if it has not saved; in seconds since 1970.
        verb: Its eviction or resize.
        since_s: When it got the signal.
        job: The job at the signal; None if a former process has sent it.
        restarts: Its number of restarts.
        before: Its progress at the signal; None if it is not known.
        read_s: When its progress file is read again.
    """

    due_s: float
    verb: Verb
    since_s: float = 0.0
    job: QueuedJob | None = None
    restarts: int = 0
    before: JobProgress | None = None
    read_s: float = 0.0

    def has_saved(self, progress_of: Callable[[QueuedJob], JobProgress | None], now_s: float) -> bool:
        """Whether the progress file shows a save since the signal; False between readings.

        A file is read after each tenth of the time since the signal, and after a second at most: this adds a tenth to
        the time that a save takes.

        Args:
            progress_of: What is known of the progress of a job.
            now_s: The present time, in seconds since 1970.
        """
        if self.job is None or not self.verb.warns or now_s < self.read_s:
            return False
        self.read_s = now_s + min((now_s - self.since_s) / 10, 1.0)
        return has_saved(self.before, progress_of(self.job))


@dataclass(slots=True)
class Requeued:
    """A job that was requeued, and has not been released.

    Attributes:
        verb: Its eviction or resize.
        since_s: When it was requeued, in seconds since 1970.
        check_s: When Slurm is queried about it again.
    """

    verb: Verb
    since_s: float
    check_s: float

    def wait(self, now_s: float) -> None:
        """Set the time of the next query; after a minute they come every ten seconds."""
        waited_s = now_s - self.since_s + 0.01  # times of today are exact to a fraction of a microsecond only
        if waited_s >= MINUTE_S:
            self.check_s = now_s + 10.0
            return
        each_second_s = math.floor(waited_s + 1 - _CHECKS_S[-2]) + _CHECKS_S[-2]
        self.check_s = self.since_s + next((check_s for check_s in _CHECKS_S if check_s > waited_s), each_second_s)


def why_over_budget(kind: str, job: int, stops: deque[tuple[float, int]], pools: Pools, now_s: float) -> str:
    """Why another eviction or resize of a job is beyond the limits; empty if it is not.

    Args:
        kind: ``evict`` or ``resize``.
        job: The job.
        stops: Time in seconds since 1970 and job of those so far; those of more than an hour ago are removed.
        pools: The settings.
        now_s: The present time, in seconds since 1970.
    """
    what, in_hour, of_job_hour = {
        EVICT: ("evictions", pools.evictions_per_hour, pools.evictions_per_job_hour),
        RESIZE: ("resizes", pools.resizes_per_hour, pools.resizes_per_job_hour),
    }[kind]
    while stops and stops[0][0] <= now_s - HOUR_S:
        stops.popleft()
    of_job = sum(other == job for _, other in stops)
    if of_job >= of_job_hour:
        return f"{of_job} {what} of the job in an hour"
    return f"{len(stops)} {what} in an hour" if len(stops) >= in_hour else ""


def kind_of(verb: Verb) -> str:
    """The verb of a plan that a part of an eviction or a resize belongs to."""
    return RESIZE if verb.gpus else EVICT


def stops_in(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, int]]]:
    """Time in seconds since 1970 and job of the evictions and of the resizes of a journal.

    A job with the signal counts even if it leaves by itself: it was made to. A resize by worker jobs is a row itself.
    """
    found: dict[str, list[tuple[float, int]]] = {EVICT: [], RESIZE: []}
    for row in rows:
        verb = verb_from_json(row["verb"])
        if verb.name in ("signal", RESIZE) or (verb.name == "requeue" and not verb.warns):
            found[kind_of(verb)].append((row["time_s"], verb.job))
    return found


def requeued_jobs(rows: Sequence[Mapping[str, Any]], now_s: float) -> dict[int, Requeued]:
    """Jobs that were requeued not long ago and perhaps not released, by id.

    A row of the journal is older than its act. So a release counts as done only if other rows follow.

    Args:
        rows: The journal.
        now_s: The present time, in seconds since 1970.
    """
    found: dict[int, Requeued] = {}
    for number, row in enumerate(rows):
        verb = verb_from_json(row["verb"])
        if verb.name == "requeue" and now_s - row["time_s"] <= LONGEST_S:
            found[verb.job] = Requeued(verb, row["time_s"], row["time_s"])
        elif verb.name == "release" and number < len(rows) - 1:
            found.pop(verb.job, None)
    return found


def warned_jobs(rows: Sequence[Mapping[str, Any]], now_s: float, grace_s: int) -> dict[int, tuple[float, Verb]]:
    """When jobs are requeued that have the signal, by id, with their eviction or resize.

    One that a lease and a grace ago did not go on is over: the job has worked since.

    Args:
        rows: The journal.
        now_s: The present time, in seconds since 1970.
        grace_s: Time from the signal to the requeue.
    """
    found: dict[int, tuple[float, Verb]] = {}
    for row in rows:
        verb, due_s = verb_from_json(row["verb"]), row["time_s"] + grace_s
        if verb.name == "signal" and now_s <= due_s + LEASE_MINUTES * MINUTE_S:
            found[verb.job] = (due_s, replace(verb, name=kind_of(verb)))
        elif verb.name == "requeue":
            found.pop(verb.job, None)
    return found
