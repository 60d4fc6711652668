"""Uses of the limit that accounting and the running jobs tell of.

A run time is the job's limit times a *use of the limit* drawn from jobs that ended: the user's own with the same
limit as far as there are any, everybody's with a like limit otherwise; a job that runs already has used up its
elapsed time, so only larger uses are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.duration import HOUR_S
from mirage.forecast.run_times import Uses
from mirage.job_state import Floats, Ints
from mirage.policy.view import View

OWN_SAMPLES = 40
"""How many of a user's latest jobs speak for the next one; older habits are forgotten."""

PRIOR_SAMPLES = 30.0
"""How many of a user's own jobs weigh as much as everybody's together."""

LEVELS = 64
"""How many equally likely values stand for a distribution of uses."""

ENOUGH = 64
"""From so many ended jobs on a kind speaks for itself."""

_LIMIT_EDGES_S = np.array([1, 2, 6, 12, 24, 47.9]) * HOUR_S
"""Like limits: between two of these edges."""


def use_of_limit(view: View) -> Floats:
    """Uses of the limit of the jobs that ended, in order of their end, in [0, 1]."""
    ended = view.ended
    return np.clip((ended.end_s - ended.start_s) / np.maximum(ended.limit_s, 1), 0.0, 1.0)


def like_limit(limit_s: Ints) -> Ints:
    """The class of like limits each limit belongs to."""
    return np.searchsorted(_LIMIT_EDGES_S, limit_s, side="right")


def evenly(uses: Floats, weights: Floats | None = None) -> Floats:
    """``LEVELS`` equally likely values that stand for weighted ones.

    Args:
        uses: Shape (…, n).
        weights: The same shape; None where all weigh the same.

    Returns:
        Shape (…, LEVELS), ascending.
    """
    order = np.argsort(uses, axis=-1, kind="stable")
    mass = np.ones(uses.shape) if weights is None else np.take_along_axis(weights, order, axis=-1)
    return _levels(np.take_along_axis(uses, order, axis=-1), mass)


def _levels(ascending: Floats, mass: Floats) -> Floats:
    share = np.cumsum(mass, axis=-1) / mass.sum(axis=-1, keepdims=True)
    middles = (np.arange(LEVELS) + 0.5) / LEVELS
    rows = share.reshape(-1, share.shape[-1])
    at = np.array([np.searchsorted(row, middles) for row in rows]).reshape(*share.shape[:-1], LEVELS)
    levels: Floats = np.take_along_axis(ascending, np.minimum(at, ascending.shape[-1] - 1), axis=-1)
    return levels


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
        own: For each case the uses of the user's ended jobs.
        running: For each case the uses so far of the user's running jobs.

    Returns:
        Shape (cases, LEVELS), equally likely uses, ascending.
    """
    cases, n = everybody.shape
    last = n + max(map(len, own), default=0)
    uses, mass = np.ones((cases, last + 1)), np.zeros((cases, last + 1))
    uses[:, :n], mass[:, :n], mass[:, last] = everybody, PRIOR_SAMPLES / n, 1e-6
    for case, its in enumerate(own):
        uses[case, n : n + len(its)], mass[case, n : n + len(its)] = its, 1.0
    order = np.argsort(uses, axis=1, kind="stable")
    uses, mass = np.take_along_axis(uses, order, axis=1), np.take_along_axis(mass, order, axis=1)
    for case, its in enumerate(running):
        for used in np.sort(its):
            longer = mass[case, np.searchsorted(uses[case], min(used, 0.999999), side="right") :]
            longer *= 1.0 + 1.0 / longer.sum()
    return _levels(uses, mass)


class UseHistory:
    """What accounting and the running jobs say about uses of the limit, by user and limit and by like limits."""

    def __init__(self, view: View) -> None:
        ended, running = view.ended, view.running
        self._uses, self._user, self._limit_s = use_of_limit(view), ended.user, ended.limit_s
        self._running_user, self._running_limit_s = running.user, running.limit_s
        self._running_used = np.clip((view.now_s - running.start_s) / np.maximum(running.limit_s, 1), 0.0, 1.0)
        classes = like_limit(ended.limit_s)
        anything = (np.arange(LEVELS) + 0.5) / LEVELS
        self._unknown = filled_up(self._uses, anything) if len(self._uses) else np.ones(LEVELS)
        self._everybody = {int(k): filled_up(self._uses[classes == k], self._unknown) for k in np.unique(classes)}

    def of(self, user: Ints, limit_s: Ints) -> Floats:
        """Equally likely uses of jobs of these users and limits; all 1 where nothing has ever ended.

        Returns:
            Shape (cases, LEVELS), ascending.
        """
        everybody = np.stack([self._everybody.get(int(k), self._unknown) for k in like_limit(limit_s)])
        own = [
            self._uses[(self._user == u) & (self._limit_s == limit)][-OWN_SAMPLES:] for u, limit in zip(user, limit_s)
        ]
        running = [
            self._running_used[(self._running_user == u) & (self._running_limit_s == limit)]
            for u, limit in zip(user, limit_s)
        ]
        return with_own_history(everybody, own, running)

    def draw_from(self, user: Ints, limit_s: Ints, elapsed_s: Floats) -> Uses:
        """For jobs of these users and limits that have run so long already, what their use can be."""
        if not len(user):
            return Uses(np.ones(1), np.zeros((0, 2), dtype=np.int64))
        kinds, kind = np.unique(np.stack([user, limit_s]), axis=1, return_inverse=True)
        kind = kind.reshape(-1)
        tables = self.of(*kinds)
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
