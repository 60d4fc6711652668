"""Limits of users, inferred from plateaus: a job count that users reach but do not exceed.

No user ran more jobs, and some ran exactly this number while more of their jobs waited. These are Slurm's
``MaxJobsPerUser`` and ``MaxTRESPerUser=node=`` of a QOS, which accounting does not contain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.trace.table import JobTable

FEWEST_USERS = 3
"""A plateau of only one or two users may be their way of working."""

THINS_OUT = 0.5
"""If time shrinks by this factor from count to count, as much time lies beyond a count as at it."""

LONGEST_OVER = 0.02
"""Share of the time at or over the limit that may be over it: operators lift limits for single users."""


@dataclass(frozen=True, slots=True)
class UserLimit:
    """A limit that holds for every user.

    Attributes:
        most: Jobs one user may run at once.
        users: Number of users who reached it while more of their jobs waited.
        hours: Time at the limit, summed over users.
    """

    most: int
    users: int
    hours: float


def user_job_limit(jobs: JobTable) -> UserLimit | None:
    """Returns the number of jobs one user may run at once; None where there is no plateau.

    For users with waiting jobs, the time spent at every count of running jobs is summed. The limit is the highest count
    reached by ``FEWEST_USERS`` users with almost no time beyond it, and with at least ``THINS_OUT`` of the time at the
    count below it: without a limit, about as much time again lies beyond.

    Args:
        jobs: Jobs that ran, by submission, with users.
    """
    spent_s: Counter[int] = Counter()
    users: dict[int, set[int]] = {}
    for user in np.unique(jobs.user.codes[jobs.user.codes >= 0]):
        for count, seconds in _at_counts(jobs[jobs.user.codes == user]).items():
            spent_s[count] += seconds
            users.setdefault(count, set()).add(int(user))
    for most in sorted(spent_s, reverse=True):
        over_s = sum(seconds for count, seconds in spent_s.items() if count > most)
        is_passed = over_s > LONGEST_OVER * (over_s + spent_s[most])
        if most < 2 or len(users[most]) < FEWEST_USERS or is_passed:
            continue
        if spent_s[most] > THINS_OUT * spent_s.get(most - 1, 0):
            return UserLimit(most, len(users[most]), spent_s[most] / HOUR_S)
    return None


def _at_counts(own: JobTable) -> dict[int, int]:
    """Seconds at each number of running jobs while another job of the user waits."""
    times_s = np.unique(np.concatenate([own.submit_s, own.start_s, own.end_s]))
    running = _counts(times_s, own.start_s, own.end_s)
    waiting = _counts(times_s, own.submit_s, own.start_s)
    lasted_s = np.diff(times_s, append=times_s[-1:])
    there = (running > 0) & (waiting > 0)
    found: Counter[int] = Counter()
    for count, seconds in zip(running[there].tolist(), lasted_s[there].tolist()):
        found[count] += seconds
    return dict(found)


def _counts(times_s: Ints, from_s: Ints, until_s: Ints) -> Ints:
    counts: Ints = np.searchsorted(np.sort(from_s), times_s, side="right") - np.searchsorted(
        np.sort(until_s), times_s, side="right"
    )
    return counts
