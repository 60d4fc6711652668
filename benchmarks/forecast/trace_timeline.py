"""Observations of run times at any time of a trace, as a view would show them then."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S
from mirage.job_state import MISSING
from mirage.policy.view import MOST_ENDED
from mirage.predict.run_times.run_time_observations import Observations, Requests, share_of_limit
from mirage.slurm_words.job_names import fold_name
from mirage.trace.table import JobTable, Labels

LONGEST_LIMIT_S = 366 * DAY_S
"""A longer limit counts as none: no use can be a share of it."""


class Timeline:
    """The jobs of a trace that ran under a limit, by submit time.

    Attributes:
        requests: Their requests.
        start_s: Their start times.
        end_s: Their end times.
        use: Shares of their limits that they used, in (0, 1].
    """

    def __init__(self, table: JobTable) -> None:
        limited = (table.limit_s > 0) & (table.limit_s <= LONGEST_LIMIT_S)
        table = table[limited & (table.start_s >= 0) & (table.run_s >= 0)].sorted_by_submit()
        self.requests = requests_of(table)
        self.start_s, self.end_s = table.start_s, table.start_s + table.run_s
        self.use = share_of_limit(table.run_s, table.limit_s)
        self._by_end = np.argsort(self.end_s, kind="stable")
        self._ends = self.end_s[self._by_end]
        self._by_start = np.argsort(self.start_s, kind="stable")
        self._starts = self.start_s[self._by_start]

    def at(self, now_s: int, most: int = MOST_ENDED) -> Observations:
        """Known observations at a given time: the latest ended jobs, and the running ones."""
        last = int(np.searchsorted(self._ends, now_s, side="right"))
        ended = self._by_end[max(last - most, 0) : last]
        begun = self._by_start[: int(np.searchsorted(self._starts, now_s))]
        running = begun[self.end_s[begun] > now_s]
        so_far = share_of_limit(now_s - self.start_s[running], self.requests.limit_s[running])
        of = self.requests
        return Observations.of(of[ended], self.use[ended], self.end_s[ended], of[running], so_far, now_s)


def requests_of(table: JobTable) -> Requests:
    """Returns the requests of the jobs of a trace; names are folded."""
    return Requests(
        table.user.codes,
        folded(table.name),
        table.account.codes,
        table.limit_s,
        table.nodes,
        table.submit_s,
    )


def folded(names: Labels) -> Ints:
    """Codes of job names without their run counters; ``MISSING`` without a name."""
    stems = [fold_name(name) for name in names.names]
    index = {name: k for k, name in enumerate(dict.fromkeys(stems))}
    of_code = np.array([index[name] for name in stems] + [MISSING], dtype=np.int64)
    return of_code[names.codes]
