"""Jobs that may yet come: whole days of the recent past, drawn with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.duration import DAY_S
from mirage.job_state import Ints
from mirage.policy.view import View
from mirage.sim.kernel.arrays import JOB, NOBODY, WHOLE_NODE, Records, records

PAST_DAYS = 14
"""How far back the days that arrivals are drawn from lie."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs submitted in the last days: models of those to come.

    Attributes:
        jobs: JOB records by submit time.
        again: Shape (jobs,): for one that waits or runs now its row among the pending, then the running jobs of the
            view; ``NOBODY`` for one that has ended.
        days: How many whole days back they are known; 0 when the past is too short to draw from.
    """

    jobs: Records
    again: Ints
    days: int


def past_arrivals(view: View) -> Arrivals:
    """What was submitted in the last ``PAST_DAYS``."""
    ended, since_s = view.ended, view.now_s - PAST_DAYS * DAY_S
    late = ended.submit_s >= since_s
    made = records(JOB, int(late.sum()))
    made.submit_s, made.limit_s = ended.submit_s[late], ended.limit_s[late]
    made.nodes, made.user = ended.nodes[late], ended.user[late]
    made.run_s = (ended.end_s - ended.start_s)[late]
    made.gpus = WHOLE_NODE
    parts, again, row = [made], [np.full(len(made), NOBODY)], 0
    for jobs in (view.pending, view.running):
        late = jobs.submit_s >= since_s
        made = records(JOB, int(late.sum()))
        for name in ("submit_s", "limit_s", "nodes", "user", "gpus", "cpus", "partition"):
            made[name] = getattr(jobs, name)[late]
        parts.append(made)
        again.append(row + np.flatnonzero(late))
        row += len(jobs)
    together: Records = np.concatenate(parts).view(np.recarray)
    together.after, together.begin_s = NOBODY, NOBODY
    order = np.argsort(together.submit_s, kind="stable")
    together = together[order]
    days = int(min((view.now_s - together.submit_s[0]) // DAY_S, PAST_DAYS)) if len(together) else 0
    return Arrivals(together, np.ascontiguousarray(np.concatenate(again)[order], dtype=np.int64), days)
