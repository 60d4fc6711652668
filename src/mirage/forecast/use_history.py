"""Uses of the limit that accounting and the running jobs tell of.

A run time is the job's limit times a *use of the limit* drawn from jobs that ended: the user's own with the same
limit as far as there are any, everybody's with a like limit otherwise; a job that runs already has used up its
elapsed time, so only larger uses are drawn.
"""

from __future__ import annotations

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
    """``LEVELS`` equally likely values that stand for weighted ones; ascending."""
    order = np.argsort(uses, kind="stable")
    mass = np.ones(len(uses)) if weights is None else weights[order]
    share = np.cumsum(mass) / mass.sum()
    at = np.searchsorted(share, (np.arange(LEVELS) + 0.5) / LEVELS)
    levels: Floats = uses[order][np.minimum(at, len(uses) - 1)]
    return levels


def with_own_history(everybody: Floats, own: Floats, running: Floats) -> Floats:
    """What a user's next job will use of its limit, given everybody's uses, the user's own and its running jobs'.

    Everybody's count as ``PRIOR_SAMPLES`` observations, each of the user's own as one. Of a job that runs we only know
    that it will use more than it has: its weight goes to the larger uses, in proportion to theirs (Efron's
    redistribution to the right, which is the Kaplan–Meier estimate). Leaving such jobs out would make a user whose
    long jobs have yet to end look like one of short jobs.

    Args:
        everybody: ``LEVELS`` equally likely uses.
        own: Uses of the user's ended jobs.
        running: Uses so far of the user's running jobs.
    """
    uses = np.concatenate([everybody, own, [1.0]])
    weights = np.concatenate([np.full(len(everybody), PRIOR_SAMPLES / len(everybody)), np.ones(len(own)), [1e-6]])
    for used in np.sort(running):
        longer = uses > min(used, 0.999999)
        weights[longer] *= 1.0 + 1.0 / weights[longer].sum()
    return evenly(uses, weights)


class UseHistory:
    """What accounting and the running jobs say about uses of the limit, by user and limit and by like limits."""

    def __init__(self, view: View) -> None:
        ended, running = view.ended, view.running
        self._uses, self._user, self._limit_s = use_of_limit(view), ended.user, ended.limit_s
        self._running_user, self._running_limit_s = running.user, running.limit_s
        self._running_used = np.clip((view.now_s - running.start_s) / np.maximum(running.limit_s, 1), 0.0, 1.0)
        classes = like_limit(ended.limit_s)
        self._everybody = {int(k): evenly(self._uses[classes == k]) for k in np.unique(classes)}
        self._unknown = evenly(self._uses if len(self._uses) else np.ones(1))

    def of(self, user: int, limit_s: int) -> Floats:
        """``LEVELS`` equally likely uses of a job of this user and limit; all 1 where nothing has ever ended."""
        everybody = self._everybody.get(int(like_limit(np.array([limit_s]))[0]), self._unknown)
        own = self._uses[(self._user == user) & (self._limit_s == limit_s)][-OWN_SAMPLES:]
        running = self._running_used[(self._running_user == user) & (self._running_limit_s == limit_s)]
        return with_own_history(everybody, own, running)

    def draw_from(self, user: Ints, limit_s: Ints, elapsed_s: Floats) -> Uses:
        """For jobs of these users and limits that have run so long already, what their use can be."""
        kinds, kind = np.unique(np.stack([user, limit_s]), axis=1, return_inverse=True)
        kind = kind.reshape(-1)
        tables = [self.of(int(u), int(limit)) for u, limit in kinds.T]
        samples = np.concatenate([*tables, np.ones(1)])
        first = kind * LEVELS
        used = elapsed_s / np.maximum(limit_s, 1)
        gone = np.array([np.searchsorted(tables[k], u, side="right") for k, u in zip(kind, used)], dtype=np.int64)
        exhausted = gone == LEVELS  # longer than any before it: it will run to its limit
        stretch = np.stack([np.where(exhausted, len(samples) - 1, first + gone), first + LEVELS], axis=1)
        stretch[exhausted, 1] = len(samples)
        return Uses(samples, np.ascontiguousarray(stretch.reshape(-1, 2)))


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
