"""Uses of the limit that accounting and the running jobs tell of.

A run time is the job's limit times a *use of the limit* drawn from jobs that ended: the user's own with the same
limit as far as there are any, everybody's with a like limit otherwise; a job that runs already has used up its
elapsed time, so only larger uses are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.forecast.own_history_kernel import fill_latest, fill_levels
from mirage.forecast.run_times import Uses
from mirage.job_state import Floats, Ints
from mirage.policy.view import View

OWN_SAMPLES = 40
"""How many of a user's latest jobs speak for the next one; older habits are forgotten."""

PRIOR_SAMPLES = 30.0
"""How many of a user's own jobs weigh as much as everybody's together."""

LEVELS = 64
"""How many equally likely values stand for a distribution of uses."""

MIDDLES = (np.arange(LEVELS) + 0.5) / LEVELS
"""The probabilities that these values stand at."""

ENOUGH = 64
"""From so many ended jobs on a kind speaks for itself."""

_LIMIT_EDGES_S = np.array([1, 2, 6, 12, 24, 47.9]) * HOUR_S
"""Like limits: between two of these edges."""


def use_of_limit(view: View) -> Floats:
    """Uses of the limit of the jobs that ended, in order of their end, in [0, 1]."""
    ended = view.ended
    return np.clip((ended.end_s - ended.start_s) / np.maximum(ended.limit_s, 1), 0.0, 1.0)


def kind_of(user: Ints, limit_s: Ints) -> Ints:
    """One number for a user and a limit."""
    return user * (2 * UNLIMITED_S) + limit_s


def latest_of(kinds: Ints, kind: Ints, values: Floats, most: int) -> list[Floats]:
    """For each of some kinds the values of the latest of many jobs, ascending.

    Args:
        kind: Shape (jobs,), the latest job last.
        values: Shape (jobs,).
        most: How many of a kind count.
    """
    found, counts = np.empty((len(kinds), most)), np.empty(len(kinds), dtype=np.int64)
    fill_latest(kinds, kind, values, found, counts)
    return [row[:count] for row, count in zip(found, counts.tolist())]


def like_limit(limit_s: Ints) -> Ints:
    """The class of like limits each limit belongs to."""
    return np.searchsorted(_LIMIT_EDGES_S, limit_s, side="right")


def evenly(uses: Floats, weights: Floats | None = None) -> Floats:
    """``LEVELS`` equally likely values that stand for some, weighted or all alike.

    Returns:
        Shape (LEVELS,), ascending.
    """
    if weights is None:
        alike: Floats = np.sort(uses)[_places(len(uses))]
        return alike
    order = np.argsort(uses, kind="stable")
    ascending, mass = uses[order], weights[order]
    share = np.cumsum(mass) / mass.sum()
    levels: Floats = ascending[np.minimum(share.searchsorted(MIDDLES), len(uses) - 1)]
    return levels


@lru_cache(maxsize=8192)
def _places(n: int) -> Ints:
    """Which of n values in order stand for them, where all weigh alike."""
    share = np.arange(1, n + 1) / n
    return np.minimum(share.searchsorted(MIDDLES), n - 1)


def filled_up(uses: Floats, wider: Floats) -> Floats:
    """``LEVELS`` equally likely uses of a kind of job; where few have ended, those of a wider kind count as well.

    A handful of ended jobs does not tell how long others can last: all futures would take the same from them.

    Args:
        uses: Of those that have ended.
        wider: Equally likely uses of the wider kind. They weigh as ``PRIOR_SAMPLES`` jobs, and the less the nearer the
            kind comes to ``ENOUGH`` of its own.
    """
    weight = PRIOR_SAMPLES * max(1.0 - len(uses) / ENOUGH, 0.0)
    if weight == 0.0:
        return evenly(uses)
    weights = np.concatenate([np.ones(len(uses)), np.full(len(wider), weight / len(wider))])
    return evenly(np.concatenate([uses, wider]), weights)


def with_own_history(everybody: Floats, own: Sequence[Floats], running: Sequence[Floats]) -> Floats:
    """What a user's next job will use of its limit, given everybody's uses, the user's own and its running jobs'.

    Everybody's count as ``PRIOR_SAMPLES`` observations, each of the user's own as one. Of a job that runs we only know
    that it will use more than it has: its weight goes to the larger uses, in proportion to theirs (Efron's
    redistribution to the right, which is the Kaplan–Meier estimate). Leaving such jobs out would make a user whose
    long jobs have yet to end look like one of short jobs.

    Args:
        everybody: Shape (cases, n), equally likely uses.
        own: For each case the uses of the user's ended jobs, ascending.
        running: For each case the uses so far of the user's running jobs, ascending.

    Returns:
        Shape (cases, LEVELS), equally likely uses, ascending.
    """
    levels = np.empty((len(everybody), LEVELS))
    uses, mass = np.empty((2, everybody.shape[1] + max(map(len, own), default=0) + 1))
    fill_levels(everybody, *_in_a_row(own), *_in_a_row(running), PRIOR_SAMPLES, MIDDLES, uses, mass, levels)
    return levels


def _in_a_row(groups: Sequence[Floats]) -> tuple[Floats, Ints]:
    """The values of all groups, and where each ends."""
    return np.concatenate([*groups, np.zeros(0)]), np.cumsum([*map(len, groups)], dtype=np.int64)


class UseHistory:
    """What accounting and the running jobs say about uses of the limit, by user and limit and by like limits."""

    def __init__(self, view: View) -> None:
        ended, running = view.ended, view.running
        self._uses, self._kind, self._limit_s = use_of_limit(view), kind_of(ended.user, ended.limit_s), ended.limit_s
        self._running_kind = kind_of(running.user, running.limit_s)
        self._running_used = np.clip((view.now_s - running.start_s) / np.maximum(running.limit_s, 1), 0.0, 1.0)

    def of(self, user: Ints, limit_s: Ints) -> Floats:
        """Equally likely uses of jobs of these users and limits; all 1 where nothing has ever ended.

        Returns:
            Shape (cases, LEVELS), ascending.
        """
        kind = kind_of(user, limit_s)
        own = latest_of(kind, self._kind, self._uses, OWN_SAMPLES)
        running = latest_of(kind, self._running_kind, self._running_used, len(self._running_used))
        return with_own_history(self._everybody(limit_s), own, running)

    def _everybody(self, limit_s: Ints) -> Floats:
        """Shape (cases, LEVELS): equally likely uses of all jobs with a like limit."""
        classes = like_limit(self._limit_s).astype(np.uint8)  # the smaller the numbers, the faster they are sorted
        together, last = self._uses[np.argsort(classes, kind="stable")], np.cumsum(np.bincount(classes, minlength=256))
        asked, row = np.unique(like_limit(limit_s), return_inverse=True)
        return np.stack([self._of_class(together[last[k - 1] if k else 0 : last[k]]) for k in asked])[row]

    def _of_class(self, uses: Floats) -> Floats:
        if len(uses) >= ENOUGH:
            return evenly(uses)
        return filled_up(uses, self._unknown) if len(uses) else self._unknown

    @cached_property
    def _unknown(self) -> Floats:
        """Equally likely uses of a job with a limit that is like no other."""
        return filled_up(self._uses, MIDDLES) if len(self._uses) else np.ones(LEVELS)

    def draw_from(self, user: Ints, limit_s: Ints, elapsed_s: Floats) -> Uses:
        """For jobs of these users and limits that have run so long already, what their use can be."""
        if not len(user):
            return Uses(np.ones(1), np.zeros((0, 2), dtype=np.int64))
        _, first_of, kind = np.unique(kind_of(user, limit_s), return_index=True, return_inverse=True)
        tables = self.of(user[first_of], limit_s[first_of])
        samples = np.append(tables.ravel(), 1.0)
        first = kind * LEVELS
        used = elapsed_s / np.maximum(limit_s, 1)
        gone = (tables[kind] <= used[:, None]).sum(axis=1)
        exhausted = gone == LEVELS  # longer than any before it: it will run to its limit
        stretch = np.stack([np.where(exhausted, len(samples) - 1, first + gone), first + LEVELS], axis=1)
        stretch[exhausted, 1] = len(samples)
        return Uses(samples, np.ascontiguousarray(stretch))


class History:
    """Run times as the view's own history tells them."""

    def uses(self, view: View) -> Uses:
        """What the pending, then the running jobs of a view can use of their limits."""
        pending, running = view.pending, view.running
        return UseHistory(view).draw_from(
            np.concatenate([pending.user, running.user]),
            np.concatenate([pending.limit_s, running.limit_s]),
            np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)]),
        )
