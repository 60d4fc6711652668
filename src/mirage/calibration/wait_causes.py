"""Causes of waits: what each job waited for, and how much of it accounts do not explain.

They are computed from a history, recorded or simulated, without a simulation. Nodes are idle where fewer are in use
than exist; the head of the queue is the job of the highest priority among those that no limit stops. It is due when, by
the limits of the running jobs, enough nodes will be idle for it: that is what a scheduler promises (Mu'alem and
Feitelson, 2001). An overdue head waits for something that accounts do not contain: a hold, a dependency, nodes by name,
unavailable nodes. So do the jobs that could start together with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.calibration.fidelity.moving_average import FEWEST_JOBS, WINDOW_S
from mirage.calibration.inferred.capacity import STEP_S, Capacity, levels, ran
from mirage.duration import DAY_S, HOUR_S
from mirage.trace.table import JobTable

NODES, LIMIT, ORDER, UNEXPLAINED = "nodes", "limit", "order", "unexplained"
CAUSES = (NODES, LIMIT, ORDER, UNEXPLAINED)
"""Causes: nodes (fewer are idle than the job needs), the limit of its user, a job of higher priority for which idle
nodes are reserved, or no visible cause."""

Priorities = Callable[[Ints, int], Floats]
"""Returns the priorities of some rows of a table at an instant."""


@dataclass(frozen=True, slots=True)
class WaitCauses:
    """Causes of the waits of a history's jobs.

    Attributes:
        jobs: The jobs, by submission.
        hours: Shape (n, 4), hours that each waited for each of ``CAUSES``; waits shorter than a step do not count.
    """

    jobs: JobTable
    hours: Floats

    def shares(self, from_s: int, until_s: int) -> dict[str, float]:
        """Returns each cause's share of the waits of jobs that ran and were submitted in a span."""
        of_all = self.hours[self._counts(from_s, until_s)].sum(axis=0)
        total = of_all.sum()
        return {cause: float(hours / total) if total > 0 else 0.0 for cause, hours in zip(CAUSES, of_all)}

    def unexplained_moving_average(self, from_s: int, until_s: int) -> float | None:
        """Returns the unexplained share as a mean over windows of two weeks, a day apart.

        This is the error of the moving average in a simulation that starts jobs as soon as everything visible allows
        it, and is right otherwise. None where no window has enough jobs.
        """
        counts = self._counts(from_s, until_s)
        submit_s, hours, wait_h = (
            self.jobs.submit_s,
            self.hours[:, CAUSES.index(UNEXPLAINED)],
            self.jobs.wait_s / HOUR_S,
        )
        found = []
        for begin_s in range(from_s, until_s - WINDOW_S + 1, DAY_S):
            within = counts & (submit_s >= begin_s) & (submit_s < begin_s + WINDOW_S)
            if within.sum() >= FEWEST_JOBS and wait_h[within].sum() > 0:
                found.append(hours[within].sum() / wait_h[within].sum())
        return float(np.mean(found)) if found else None

    def _counts(self, from_s: int, until_s: int) -> NDArray[np.bool_]:
        return ran(self.jobs) & (self.jobs.submit_s >= from_s) & (self.jobs.submit_s < until_s)


def wait_causes(jobs: JobTable, capacity: Capacity, priorities: Priorities, user_jobs: int | None) -> WaitCauses:
    """Returns the causes of each job's wait, sampled every ten minutes.

    Args:
        jobs: Jobs that were in the queue, by submission.
        capacity: Nodes over time.
        priorities: The order of the queue.
        user_jobs: Jobs that one user may run at once; None for any number.
    """
    first_s = int(jobs.submit_s[0])
    times_s = np.arange(first_s // STEP_S * STEP_S, int(jobs.submit_s[-1]) + 1, STEP_S)
    there = capacity.nodes[np.maximum(np.searchsorted(capacity.times_s, times_s, side="right") - 1, 0)]
    idle = there - levels(times_s, jobs.start_s, jobs.end_s, jobs.nodes)
    limit_ends_s = np.where(jobs.limit_s > 0, jobs.start_s + jobs.limit_s, jobs.end_s)
    hours = np.zeros((len(jobs), len(CAUSES)))
    due_s = np.full(len(jobs), np.iinfo(np.int64).max)
    for now_s, free, rows, others in zip(times_s.tolist(), idle.tolist(), *_queue_at(times_s, jobs)):
        if not len(rows):
            continue
        cause = np.full(len(rows), CAUSES.index(ORDER))
        cause[jobs.nodes[rows] > free] = CAUSES.index(NODES)
        stopped = _at_limit(jobs, rows, others, user_jobs)
        cause[stopped] = CAUSES.index(LIMIT)
        if not stopped.all():
            queue = np.flatnonzero(~stopped)
            head = rows[queue[np.argmax(priorities(rows[queue], now_s))]]
            promised_s = _enough_idle_s(now_s, free, int(jobs.nodes[head]), limit_ends_s[others], jobs.nodes[others])
            due_s[head] = min(due_s[head], promised_s)
            if now_s > due_s[head] + STEP_S:
                unexplained = ~stopped & ((jobs.nodes[rows] <= free) | (rows == head))
                cause[unexplained] = CAUSES.index(UNEXPLAINED)
        hours[rows, cause] += STEP_S / HOUR_S
    return WaitCauses(jobs, hours)


def _queue_at(times_s: Ints, jobs: JobTable) -> tuple[Iterator[Ints], Iterator[Ints]]:
    """Yields the waiting and the running rows at every instant, day by day to save memory."""
    days = range(0, len(times_s), DAY_S // STEP_S)
    spans = [times_s[first : first + days.step] for first in days]
    waiting = (_rows_at(span, jobs.submit_s, jobs.start_s) for span in spans)
    running = (_rows_at(span, jobs.start_s, jobs.end_s) for span in spans)
    return chain.from_iterable(waiting), chain.from_iterable(running)


def _rows_at(times_s: Ints, from_s: Ints, until_s: Ints) -> list[Ints]:
    """Returns for every instant the rows with a half-open interval that contains it."""
    first, end = np.searchsorted(times_s, from_s), np.searchsorted(times_s, until_s)
    lasts = np.maximum(end - first, 0)
    rows = np.repeat(np.arange(len(from_s)), lasts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lasts) - lasts, lasts) + np.repeat(first, lasts)
    order = np.argsort(place, kind="stable")
    return np.split(rows[order], np.searchsorted(place[order], np.arange(1, len(times_s))))


def _at_limit(jobs: JobTable, rows: Ints, running: Ints, most: int | None) -> NDArray[np.bool_]:
    """Returns which rows belong to a user at the limit of running jobs."""
    user = jobs.user.codes
    if most is None:
        return np.zeros(len(rows), dtype=bool)
    runs = np.bincount(user[running][user[running] >= 0], minlength=int(user.max(initial=0)) + 1)
    stopped: NDArray[np.bool_] = (user[rows] >= 0) & (runs[user[rows]] >= most)
    return stopped


def _enough_idle_s(now_s: int, idle: int, nodes: int, ends_s: Ints, freed: Ints) -> int:
    """Returns when ``nodes`` nodes will be idle by limits of running jobs; else a far time."""
    if nodes <= idle:
        return now_s
    order = np.argsort(ends_s, kind="stable")
    at = int(np.searchsorted(idle + np.cumsum(freed[order]), nodes))
    return max(int(ends_s[order[at]]), now_s) if at < len(order) else int(np.iinfo(np.int64).max) // 2
