"""Run times from history: uses of similar limits by all users, refined by related jobs.

Related jobs are those of the same user, limit and name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.forecast.run_times import Uses
from mirage.job_state import MISSING, Floats, Ints
from mirage.policy.view import View
from mirage.predict.run_times.back_off import GroupLevel, distributions
from mirage.predict.run_times.run_time_observations import Observations, Requests, observed, share_of_limit, unfinished

NAMED_HISTORY = (
    GroupLevel((), prior=0.0),
    GroupLevel(("like_limit",), prior=10.0),
    GroupLevel(("user",), prior=20.0, memory=30.0),
    GroupLevel(("user", "limit_s"), prior=10.0, memory=30.0),
    GroupLevel(("user", "name", "limit_s"), prior=5.0, memory=10.0),
)
"""Groups of jobs, from wide to narrow; chosen on Lonestar6, November to January."""

WITHOUT_USERS = (
    GroupLevel((), prior=0.0),
    GroupLevel(("like_limit",), prior=10.0),
    GroupLevel(("limit_s",), prior=10.0, memory=40.0),
    GroupLevel(("limit_s", "nodes"), prior=10.0, memory=40.0),
)
"""Groups of jobs where users are unknown; chosen on Theta, February to June."""


class NamedHistory:
    """Run times from a view: from jobs that ended, and the elapsed times of running jobs.

    It learns only from the view, so it needs no fitting and works on an unknown cluster.

    Args:
        levels: Groups of jobs, from the widest to the narrowest, where users are known.
    """

    def __init__(self, levels: Sequence[GroupLevel] = NAMED_HISTORY) -> None:
        self.levels = tuple(levels)

    def uses(self, view: View) -> Uses:
        """Uses of the limit of a view's jobs: pending ones in queue order, then running ones."""
        requests, elapsed_s = unfinished(view)
        elapsed = np.where(elapsed_s > 0, share_of_limit(elapsed_s, requests.limit_s), 0.0)
        table, row = self.table(requests, elapsed, observed(view))
        first = row.reshape(-1).astype(np.int64) * table.shape[1]
        return Uses(table.ravel(), np.stack([first, first + table.shape[1]], axis=1))

    def table(self, requests: Requests, elapsed: Floats, past: Observations) -> tuple[Floats, Ints]:
        """Equally likely uses of requested jobs, given the use of their limit up to now.

        Args:
            elapsed: Shape (n,), share of the limit; 0 for a job that has not started.

        Returns:
            A table with one row of ascending uses per distinct case, and the row of each job.
        """
        levels = self.levels if (requests.user != MISSING).any() else WITHOUT_USERS
        return distributions(past, requests, levels).levels(elapsed)
