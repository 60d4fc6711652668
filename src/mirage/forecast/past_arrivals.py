"""Future arrivals: whole days of the recent past, drawn with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import typeof

from mirage.array_types import Ints
from mirage.duration import DAY_S
from mirage.kernel.record_arrays import Records, record_type, records
from mirage.policy.view import View
from mirage.sim.kernel.arrays import NO_JOB, WHOLE_NODE

PAST_DAYS = 14
"""Length of the past from which arrival days are drawn."""

_INTEGERS = ("submit_s", "run_s", "limit_s", "nodes", "gpus", "cpus", "user", "partition")
ARRIVAL = record_type([*((name, np.int64) for name in _INTEGERS), ("priority_offset", np.float64)])
"""Known fields of a job that may arrive again: a subset of the fields of JOB."""

ARRIVALS_TYPE = typeof(records(ARRIVAL, 1))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs submitted in the last days, which serve as models of future arrivals.

    Attributes:
        jobs: ARRIVAL records by submit time.
        again: Shape (jobs,): for a waiting or running job, its row among the pending, then the running jobs of the
            view; ``NO_JOB`` for one that has ended.
        days: Number of whole past days that are known; 0 when the past is too short to draw from.
    """

    jobs: Records
    again: Ints
    days: int


def past_arrivals(view: View) -> Arrivals:
    """Returns the jobs submitted in the last ``PAST_DAYS``."""
    since_s = view.now_s - PAST_DAYS * DAY_S
    groups = (view.ended, view.pending, view.running)
    late = [np.flatnonzero(jobs.submit_s >= since_s) for jobs in groups]

    def together(name: str) -> Ints:
        return np.concatenate([getattr(jobs, name)[rows] for jobs, rows in zip(groups, late)])

    submit_s = together("submit_s")
    order = np.argsort(submit_s, kind="stable")
    found = records(ARRIVAL, len(order))
    columns = found.view(np.ndarray)  # attributes of records cost many times as much
    columns["submit_s"] = submit_s[order]
    for name in ("limit_s", "nodes", "user"):
        columns[name] = together(name)[order]
    ended = len(late[0])
    again = np.concatenate([np.full(ended, NO_JOB), late[1], len(view.pending) + late[2]])[order]
    has_ended = again == NO_JOB
    past, present = np.flatnonzero(has_ended), np.flatnonzero(~has_ended)
    columns["run_s"][past] = (view.ended.end_s - view.ended.start_s)[late[0]][order[past]]
    columns["gpus"] = WHOLE_NODE
    for name in ("gpus", "cpus", "partition"):
        columns[name][present] = np.concatenate([getattr(jobs, name) for jobs in groups[1:]])[again[present]]
    return Arrivals(found, np.ascontiguousarray(again, dtype=np.int64), _whole_days(view, columns["submit_s"]))


def _whole_days(view: View, submit_s: Ints) -> int:
    """Returns the number of whole past days with known submissions, up to ``PAST_DAYS``.

    A view contains only the latest ended jobs: before the first of them only jobs that still wait or run are known.
    After it, a day without submissions is known to be one. Where none has ended, those are the only data.
    """
    if not len(submit_s):
        return 0
    since_s = view.ended.end_s.min() if len(view.ended) else submit_s[0]
    return min(int(view.now_s - since_s) // DAY_S, PAST_DAYS)
