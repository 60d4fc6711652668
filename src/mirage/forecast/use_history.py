"""Uses of the limit, from accounting and the running jobs.

A run time is the job's limit times a *use of the limit* drawn from jobs that ended: the user's own with the same
limit where there are any, otherwise all jobs with a similar limit. A running job has already used up its elapsed time,
so only larger uses are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.forecast.own_history_kernel import fill_latest, fill_levels
from mirage.forecast.run_times import Uses
from mirage.policy.view import View

OWN_SAMPLES = 40
"""Number of a user's latest jobs that predict the next one; older jobs are ignored."""

PRIOR_SAMPLES = 30.0
"""Number of a user's own jobs that weigh as much as all users' jobs together."""

LEVELS = 64
"""Number of equally likely values that represent a distribution of uses."""

MIDDLES = (np.arange(LEVELS) + 0.5) / LEVELS
"""The probabilities of these values."""

ENOUGH = 64
"""From this number of ended jobs on, a kind is not extended by a wider one."""

_LIMIT_EDGES_S = np.array([1, 2, 6, 12, 24, 47.9]) * HOUR_S
"""Similar limits lie between two of these edges."""


def use_of_limit(view: View) -> Floats:
    """Returns the uses of the limit of ended jobs, in order of their end, in [0, 1]."""
    ended = view.ended
    return np.clip((ended.end_s - ended.start_s) / np.maximum(ended.limit_s, 1), 0.0, 1.0)


def kind_of(user: Ints, limit_s: Ints) -> Ints:
    """Returns one number for a user and a limit."""
    return user * (2 * UNLIMITED_S) + limit_s


def latest_of(kinds: Ints, kind: Ints, values: Floats, most: int) -> list[Floats]:
    """Returns the values of the latest jobs of each kind, ascending.

    Args:
        kind: Shape (jobs,), the latest job last.
        values: Shape (jobs,).
        most: Maximum number of jobs per kind.
    """
    found, counts = np.empty((len(kinds), most)), np.empty(len(kinds), dtype=np.int64)
    fill_latest(kinds, kind, values, found, counts)
    return [row[:count] for row, count in zip(found, counts.tolist())]


def like_limit(limit_s: Ints) -> Ints:
    """Returns the class of similar limits that each limit belongs to."""
    return np.searchsorted(_LIMIT_EDGES_S, limit_s, side="right")


def evenly(uses: Floats, weights: Floats | None = None) -> Floats:
    """Returns ``LEVELS`` equally likely values that represent some, optionally weighted.

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
    """Returns which of n sorted values of equal weight represent them."""
    share = np.arange(1, n + 1) / n
    return np.minimum(share.searchsorted(MIDDLES), n - 1)


def filled_up(uses: Floats, wider: Floats) -> Floats:
    """Returns ``LEVELS`` equally likely uses of a kind, with a wider kind where few ended.

    A handful of ended jobs does not show how long others can last: all futures would draw the same from them.

    Args:
        uses: Uses of the jobs of the kind that have ended.
        wider: Equally likely uses of the wider kind. They weigh as ``PRIOR_SAMPLES`` jobs, and less as the kind
            approaches ``ENOUGH`` of its own.
    """
    weight = PRIOR_SAMPLES * max(1.0 - len(uses) / ENOUGH, 0.0)
    if weight == 0.0:
        return evenly(uses)
    weights = np.concatenate([np.ones(len(uses)), np.full(len(wider), weight / len(wider))])
    return evenly(np.concatenate([uses, wider]), weights)


def with_own_history(everybody: Floats, own: Sequence[Floats], running: Sequence[Floats]) -> Floats:
    """Predicts the use of a user's next job from all jobs', the own and the running ones.

    All jobs' uses count as ``PRIOR_SAMPLES`` observations, each of the user's own as one. Of a running job we only know
    that it will use more than it has: its weight moves to the larger uses, in proportion to theirs (Efron's
    redistribution to the right, which is the Kaplan–Meier estimate). The job that has run longest is the first, so that
    its weight counts for those that have run for less. Without such jobs, a user with long jobs that have not ended yet
    would look like one with short jobs.

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
    """Returns the values of all groups, and the end of each."""
    return np.concatenate([*groups, np.zeros(0)]), np.cumsum([*map(len, groups)], dtype=np.int64)


class UseHistory:
    """Uses of the limit by user and limit, and by similar limits, from a view's history."""

    def __init__(self, view: View) -> None:
        ended, running = view.ended, view.running
        self._uses, self._kind, self._limit_s = use_of_limit(view), kind_of(ended.user, ended.limit_s), ended.limit_s
        self._running_kind = kind_of(running.user, running.limit_s)
        self._running_used = np.clip((view.now_s - running.start_s) / np.maximum(running.limit_s, 1), 0.0, 1.0)

    def of(self, user: Ints, limit_s: Ints) -> Floats:
        """Returns equally likely uses of jobs of these users and limits; all 1 if none has ended.

        Returns:
            Shape (cases, LEVELS), ascending.
        """
        kind = kind_of(user, limit_s)
        own = latest_of(kind, self._kind, self._uses, OWN_SAMPLES)
        running = latest_of(kind, self._running_kind, self._running_used, len(self._running_used))
        return with_own_history(self._everybody(limit_s), own, running)

    def _everybody(self, limit_s: Ints) -> Floats:
        """Returns equally likely uses of all jobs with a similar limit, shape (cases, LEVELS)."""
        classes = like_limit(self._limit_s).astype(np.uint8)  # smaller integers are sorted faster
        together, last = self._uses[np.argsort(classes, kind="stable")], np.cumsum(np.bincount(classes, minlength=256))
        wanted, row = np.unique(like_limit(limit_s), return_inverse=True)
        return np.stack([self._of_class(together[last[k - 1] if k else 0 : last[k]]) for k in wanted])[row]

    def _of_class(self, uses: Floats) -> Floats:
        if len(uses) >= ENOUGH:
            return evenly(uses)
        return filled_up(uses, self._unknown) if len(uses) else self._unknown

    @cached_property
    def _unknown(self) -> Floats:
        """Equally likely uses of a job without ended jobs of a similar limit."""
        return filled_up(self._uses, MIDDLES) if len(self._uses) else np.ones(LEVELS)

    def draw_from(self, user: Ints, limit_s: Ints, elapsed_s: Floats) -> Uses:
        """Returns possible uses for jobs of these users and limits with these elapsed times."""
        if not len(user):
            return Uses(np.ones(1), np.zeros((0, 2), dtype=np.int64))
        _, first_of, kind = np.unique(kind_of(user, limit_s), return_index=True, return_inverse=True)
        tables = self.of(user[first_of], limit_s[first_of])
        samples = np.append(tables.ravel(), 1.0)
        first = kind * LEVELS
        used = elapsed_s / np.maximum(limit_s, 1)
        gone = (tables[kind] <= used[:, None]).sum(axis=1)
        exhausted = gone == LEVELS  # longer than any earlier job: it will run to its limit
        stretch = np.stack([np.where(exhausted, len(samples) - 1, first + gone), first + LEVELS], axis=1)
        stretch[exhausted, 1] = len(samples)
        return Uses(samples, np.ascontiguousarray(stretch))


class HistoryRunTimes:
    """Run times from the view's own history."""

    def uses(self, view: View) -> Uses:
        """Returns the possible uses of the limits of a view's pending, then running jobs."""
        pending, running = view.pending, view.running
        return UseHistory(view).draw_from(
            np.concatenate([pending.user, running.user]),
            np.concatenate([pending.limit_s, running.limit_s]),
            np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)]),
        )
