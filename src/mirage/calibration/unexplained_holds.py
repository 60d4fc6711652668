"""Holds: the part of waits that no mechanism visible in accounting explains.

A waiting job is passed by when a job starts that should have come after it: of another user, submitted later, no
smaller, no shorter, and of no higher priority. The cause (a hold, a dependency, a named node, a reservation for others)
is not in the accounts. Its wait up to the last time that it was passed by is called held.

This is known only afterwards, since it uses the starts that a simulation must predict: it is a bound, not a mechanism.
"""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import MINUTE_S
from mirage.trace.table import JobTable

SHORT_S = 10 * MINUTE_S
"""Shorter waits are ignored."""


def held_until(jobs: JobTable, base_priority: Floats, age_per_s: float | Floats, oldest_s: float) -> Ints:
    """Returns when each job was last passed by, or its submission if it never was; shape (n,).

    Args:
        jobs: Jobs that ran, by submission.
        base_priority: Shape (n,), priority without age.
        age_per_s: Priority gained per second of waiting, for all jobs or for each, shape (n,).
        oldest_s: Age beyond this does not count.
    """
    until_s: Ints = jobs.submit_s.copy()
    order = np.argsort(jobs.start_s, kind="stable")
    starts_s = jobs.start_s[order]
    rate = np.broadcast_to(age_per_s, len(jobs))
    gained = rate * np.minimum(jobs.wait_s, oldest_s) + base_priority
    for row in np.flatnonzero(jobs.wait_s >= SHORT_S):
        low, high = np.searchsorted(starts_s, (jobs.submit_s[row], jobs.start_s[row] - MINUTE_S), side="right")
        others = order[low:high]
        own = base_priority[row] + rate[row] * np.minimum(jobs.start_s[others] - jobs.submit_s[row], oldest_s)
        passes = (
            (jobs.submit_s[others] > jobs.submit_s[row])
            & (jobs.nodes[others] >= jobs.nodes[row])
            & (jobs.limit_s[others] >= jobs.limit_s[row])
            & ((jobs.user.codes[others] != jobs.user.codes[row]) | (jobs.user.codes[others] < 0))
            & (gained[others] <= own)
        )
        if passes.any():
            until_s[row] = jobs.start_s[others[passes]].max()
    return until_s
