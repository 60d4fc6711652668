"""Queue of the last 24 hours, rebuilt from one view: the queue columns of ``mirage-2023``.

A policy has one view, of now. The times of its jobs show which were pending and which were running at any earlier
moment, as far as squeue and sacct report:

- jobs cancelled before they started are missing from accounting of started jobs, and so from their past wait;
- a view has the last ``MOST_ENDED`` ended jobs, and the first ``MOST_PENDING`` pending ones;
- a job that is held now is not counted, and one that was held in the past counts as pending since its submission;
- a job that was preempted or requeued shows its last run only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, void
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import MINUTE_S
from mirage.kernel.compile import kernel
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS, Floats32
from mirage.policy.view import View

SNAPSHOT_S = 10 * MINUTE_S
"""Time between two snapshots."""

_NEVER = np.iinfo(np.int64).max


def queue_history(view: View, snapshots: int = HISTORY) -> Floats32:
    """Shape (snapshots, ``QUEUE_COLUMNS``): the queue every ten minutes up to now.

    Rows are oldest first. Columns are:

    0 pending jobs; 1 nodes they request; 2–6, 7–11, 12–16 minimum, quartiles and maximum of their limit (min), wait (s)
    and run (always 0); 17 running jobs; 18 nodes they hold; 19–23, 24–28, 29–33 the same of their limit (min), past
    wait (s) and run so far (s). An event in the very second of a snapshot has not happened yet, as in the views of a
    simulation.

    Args:
        snapshots: Number of snapshots; the last ones do not depend on it.
    """
    at_s = view.now_s - SNAPSHOT_S * np.arange(snapshots - 1, -1, -1)
    jobs = _Jobs.of(view, int(at_s[0]))
    found = np.zeros((snapshots, QUEUE_COLUMNS), dtype=np.float32)
    begun, started, ended = (np.searchsorted(at_s, time_s, side="right") for time_s in jobs[:3])
    waits = _Present(begun, started, snapshots)
    found[:, 0], found[:, 1] = waits.count, waits.total(jobs.nodes)
    found[:, 2:7] = waits.spread(jobs.limit_s) / 60.0
    found[:, 7:12] = waits.spread(-jobs.submit_s, at_s)
    runs = _Present(started, ended, snapshots)
    found[:, 17], found[:, 18] = runs.count, runs.total(jobs.nodes)
    found[:, 19:24] = runs.spread(jobs.limit_s) / 60.0
    found[:, 24:29] = runs.spread(jobs.start_s - jobs.submit_s)
    found[:, 29:34] = runs.spread(-jobs.start_s, at_s)
    return found


class _Jobs(NamedTuple):
    """Jobs of a view, and the times at which each was in the queue.

    Attributes:
        submit_s: Shape (n,), as all attributes.
        start_s: ``_NEVER`` where it has not started.
        end_s: ``_NEVER`` where it has not ended.
    """

    submit_s: Ints
    start_s: Ints
    end_s: Ints
    limit_s: Ints
    nodes: Ints

    @classmethod
    def of(cls, view: View, since_s: int) -> _Jobs:
        """Jobs in the queue since a moment; events of this second count as a second earlier."""
        pending, running, ended, before_s = view.pending, view.running, view.ended, view.now_s - 1
        late = slice(int(np.searchsorted(ended.end_s, since_s)), None)
        waits, runs = np.full(len(pending), _NEVER), np.full(len(running), _NEVER)
        return cls(
            np.concatenate([np.minimum(pending.submit_s, before_s), running.submit_s, ended.submit_s[late]]),
            np.concatenate([waits, np.minimum(running.start_s, before_s), ended.start_s[late]]),
            np.concatenate([waits, runs, np.minimum(ended.end_s[late], before_s)]),
            np.concatenate([pending.limit_s, running.limit_s, ended.limit_s[late]]),
            np.concatenate([pending.nodes, running.width, ended.nodes[late]]),
        )  # fmt: skip


class _Present:
    """Presence of jobs in snapshots.

    Args:
        first: Shape (jobs,): first snapshot with each job.
        last: Shape (jobs,): the snapshot after its last; it may come before the first.
        snapshots: Number of snapshots.

    Attributes:
        count: Shape (snapshots,): number of jobs present.
    """

    def __init__(self, first: Ints, last: Ints, snapshots: int) -> None:
        self._present = np.flatnonzero(last > first)
        self._first, self._counts = first[self._present], (last - first)[self._present]
        self._snapshots = snapshots
        self.count = self._sum(np.ones(len(self._present)))
        self._room = np.empty(len(self._present), dtype=np.int64)

    def total(self, values: Ints) -> NDArray[np.float64]:
        """Shape (snapshots,): the sum over the jobs present."""
        return self._sum(values[self._present].astype(np.float64))

    def _sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Adds each job's value at its first snapshot, and subtracts it after its last."""
        n = self._snapshots + 1
        steps = np.bincount(self._first, values, n) - np.bincount(self._first + self._counts, values, n)
        summed: NDArray[np.float64] = np.cumsum(steps)[:-1]
        return summed

    def spread(self, values: Ints, plus: Ints | int = 0) -> NDArray[np.float64]:
        """Shape (snapshots, 5): minimum, quartiles and maximum over jobs present, or 0.

        Args:
            values: Shape (jobs,).
            plus: Shape (snapshots,): added to all values of a snapshot.
        """
        found = np.zeros((self._snapshots, 5))
        some = self.count > 0
        if not some.any():
            return found
        own = values[self._present]
        fill_spread(own, np.argsort(own), self._first, self._counts, self._room, found)
        if isinstance(plus, np.ndarray):
            found[some] += plus[some, None]
        return found


@kernel(void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], float64[:, ::1]))
def fill_spread(values: Any, order: Any, first: Any, counts: Any, ascending: Any, found: Any) -> None:
    """Writes minimum, quartiles and maximum of the values present in each snapshot, if any.

    Args:
        values: Shape (jobs,).
        order: Shape (jobs,): the jobs by value.
        first: Shape (jobs,): the first snapshot with each job.
        counts: Shape (jobs,): number of snapshots with it.
        ascending: Shape (jobs,): work space.
        found: Shape (snapshots, 5), written.
    """
    for snapshot in range(len(found)):
        n = 0
        for k in range(len(order)):
            job = order[k]
            if 0 <= snapshot - first[job] < counts[job]:
                ascending[n] = values[job]
                n += 1
        for quarter in range(5 if n > 0 else 0):
            position = (n - 1.0) * (quarter / 4.0)
            low = int(position)
            below, above = ascending[low], ascending[math.ceil(position)]
            found[snapshot, quarter] = below + (above - below) * (position - low)
