"""What may happen: run times of the jobs we see, and jobs that may yet come.

A run time is the job's limit times a *use of the limit* drawn from jobs that ended: the user's own with the same limit as
far as there are any, everybody's with a like limit otherwise; a job that runs already has used up its elapsed time, so
only larger uses are drawn. Arrivals are whole days of the recent past, drawn with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.duration import DAY_S, HOUR_S
from mirage.policy.view import View
from mirage.sim.layout import JOB, NOBODY, WHOLE_NODE, Records, records
from mirage.trace.table import Ints

Floats = NDArray[np.float64]

OWN_SAMPLES = 40
"""How many of a user's latest jobs speak for the next one; older habits are forgotten."""

PRIOR_SAMPLES = 3.0
"""How many of a user's own jobs weigh as much as everybody's together."""

PAST_DAYS = 14
"""How far back the days that arrivals are drawn from lie."""

_LIMIT_EDGES_S = np.array([1, 2, 6, 12, 24, 47.9]) * HOUR_S
"""Like limits: between two of these edges."""


@dataclass(frozen=True, slots=True)
class Uses:
    """For each job, where to draw its use of the limit from.

    Attributes:
        samples: Flat array of uses in (0, 1], sorted within each stretch.
        stretch: Shape (n, 4): own first and last+1, everybody's first and last+1; already cut to what is possible.
        own: Shape (n,): probability to draw from the user's own.
    """

    samples: Floats
    stretch: Ints
    own: Floats


def use_of_limit(view: View) -> Floats:
    """Uses of the limit of the jobs that ended, in order of their end, in [0, 1]."""
    ended = view.ended
    return np.clip((ended.end_s - ended.start_s) / np.maximum(ended.limit_s, 1), 0.0, 1.0)


def like_limit(limit_s: Ints) -> Ints:
    """The class of like limits each limit belongs to."""
    return np.searchsorted(_LIMIT_EDGES_S, limit_s, side="right")


class UseHistory:
    """Uses of the limit in the past, sorted and filed by user and limit and by class of like limits."""

    def __init__(self, view: View) -> None:
        uses = use_of_limit(view)
        self._flat: list[Floats] = []
        self._length = 0
        self._own: dict[tuple[int, int], tuple[int, int]] = {}
        self._like: dict[int, tuple[int, int]] = {}
        keys = np.stack([view.ended.user, view.ended.limit_s], axis=1) if len(uses) else np.zeros((0, 2), np.int64)
        order = np.lexsort((np.arange(len(uses)), keys[:, 1], keys[:, 0]))
        starts = np.flatnonzero(np.r_[True, np.any(np.diff(keys[order], axis=0) != 0, axis=1)]) if len(uses) else []
        for first, last in zip(starts, [*starts[1:], len(uses)]):
            rows = order[first:last][-OWN_SAMPLES:]
            self._own[int(keys[rows[0], 0]), int(keys[rows[0], 1])] = self._file(np.sort(uses[rows]))
        classes = like_limit(view.ended.limit_s)
        for k in np.unique(classes):
            self._like[int(k)] = self._file(np.sort(uses[classes == k]))
        self._all = self._file(np.sort(uses) if len(uses) else np.ones(1))

    def _file(self, sorted_uses: Floats) -> tuple[int, int]:
        at = self._length
        self._flat.append(sorted_uses)
        self._length += len(sorted_uses)
        return at, self._length

    def draw_from(self, user: Ints, limit_s: Ints, elapsed_s: Floats) -> Uses:
        """For jobs of these users and limits that have run so long already, what their use can be."""
        samples = np.concatenate(self._flat)
        n = len(user)
        stretch, own = np.zeros((n, 4), dtype=np.int64), np.zeros(n)
        classes = like_limit(limit_s)
        for k in range(n):
            used = elapsed_s[k] / max(limit_s[k], 1)
            mine = self._own.get((int(user[k]), int(limit_s[k])), (0, 0))
            first, last = self._like.get(int(classes[k]), self._all)
            mine_from = mine[0] + int(np.searchsorted(samples[mine[0] : mine[1]], used, side="right"))
            like_from = first + int(np.searchsorted(samples[first:last], used, side="right"))
            left_of_all = (last - like_from) / max(last - first, 1)
            left_of_mine = mine[1] - mine_from
            stretch[k] = mine_from, mine[1], like_from, last
            weight = left_of_mine + PRIOR_SAMPLES * left_of_all
            own[k] = left_of_mine / weight if weight > 0 else 0.0
        return Uses(samples, stretch, own)


def past_arrivals(view: View, ids_from: int) -> Records:
    """Jobs submitted in the last days, by submit time, as JOB records; those still to end run until their limit."""
    parts = []
    ended, since_s = view.ended, view.now_s - PAST_DAYS * DAY_S
    late = ended.submit_s >= since_s
    made = records(JOB, int(late.sum()))
    made.submit_s, made.limit_s = ended.submit_s[late], ended.limit_s[late]
    made.nodes, made.user = ended.nodes[late], ended.user[late]
    made.run_s = (ended.end_s - ended.start_s)[late]
    made.gpus = WHOLE_NODE
    parts.append(made)
    for jobs in (view.running, view.pending):
        late = jobs.submit_s >= since_s
        made = records(JOB, int(late.sum()))
        for name in ("submit_s", "limit_s", "nodes", "user", "gpus", "cpus", "partition"):
            made[name] = getattr(jobs, name)[late]
        made.run_s = made.limit_s
        parts.append(made)
    together = np.concatenate(parts).view(np.recarray)
    together.after, together.begin_s = NOBODY, NOBODY
    together = together[np.argsort(together.submit_s, kind="stable")]
    together.id = ids_from + np.arange(len(together))
    return together


def days_to_draw(view: View, arrivals: Records) -> int:
    """How many whole days back arrivals are known; 0 when the past is too short to draw from."""
    if len(arrivals) == 0:
        return 0
    return int(min((view.now_s - arrivals.submit_s[0]) // DAY_S, PAST_DAYS))
