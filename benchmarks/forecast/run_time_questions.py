"""Jobs of a trace for predictions of run times, and the views to predict from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.policy.view import Ended, Nodes, QueueJobs, View
from mirage.predict.run_times.run_time_observations import Observations, Requests
from trace_timeline import Timeline

SHARES = (0.0, 0.25, 0.5)
"""At which shares of its limit a job is predicted."""


@dataclass(frozen=True)
class Questions:
    """Moments and jobs to predict.

    Attributes:
        row: Shape (n,), the job.
        elapsed: Shape (n,), the share of its limit used by then.
        now_s: Shape (n,), ascending.
    """

    row: np.ndarray
    elapsed: np.ndarray
    now_s: np.ndarray

    def by_moment(self) -> Iterator[np.ndarray]:
        """The questions of each moment."""
        yield from np.split(np.arange(len(self.row)), np.flatnonzero(np.diff(self.now_s)) + 1)


def questions(timeline: Timeline, from_s: int, until_s: int, every: int) -> Questions:
    """Of each ``every``-th job submitted in [from, until)."""
    submit_s = timeline.requests.submit_s
    rows = np.flatnonzero((submit_s >= from_s) & (submit_s < until_s))[::every]
    parts = []
    for share in SHARES:
        chosen = rows if share == 0 else rows[timeline.use[rows] > share]
        limit_s = timeline.requests.limit_s[chosen]
        now_s = submit_s[chosen] if share == 0 else timeline.start_s[chosen] + (share * limit_s).astype(int)
        parts.append((chosen, np.full(len(chosen), share), now_s))
    row, elapsed, now_s = (np.concatenate(column) for column in zip(*parts))
    order = np.argsort(now_s, kind="stable")
    return Questions(row[order], elapsed[order], now_s[order])


def view_of(requests: Requests, elapsed: np.ndarray, past: Observations) -> View:
    """A view in which these jobs are pending after earlier stretches of a known duration."""
    ended, running = past.ended, ~past.ended
    use_s = (past.use * past.requests.limit_s).round().astype(int)
    of = past.requests[ended]
    rows = Ended(
        of.user, of.nodes, of.limit_s, of.submit_s, past.end_s[ended] - use_s[ended], past.end_s[ended],
        name=of.name, account=of.account, cpus=np.full(len(of), -1),
    )  # fmt: skip
    pool = Nodes(True, np.ones((1, 2), int), np.ones((1, 2), int), np.ones((1, 1), bool))
    return View(
        past.now_s, pool, _jobs(requests, elapsed * requests.limit_s, -1),
        _jobs(past.requests[running], np.zeros(running.sum()), past.now_s - use_s[running]),
        _jobs(requests[:0], np.zeros(0), -1), rows,
    )  # fmt: skip


def _jobs(requests: Requests, done_s: np.ndarray, start_s: Any) -> QueueJobs:
    n = len(requests)
    zero = np.zeros(n, dtype=np.int64)
    return QueueJobs(
        np.arange(n), requests.user, zero, zero, requests.nodes, zero - 1, zero - 1, requests.limit_s,
        requests.submit_s, requests.submit_s, zero + start_s, zero, done_s, zero.astype(float),
        name=requests.name, account=requests.account, nice=zero,
    )  # fmt: skip
