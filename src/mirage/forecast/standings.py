"""Standings: what jobs yet to be submitted will have in their priority beyond age, size and partition.

Fair-share is most of it. Priorities tell it of users whose jobs wait or run. Of all others only what they have used is
known, so they stand where that puts them: less used, further ahead, as far as those whose standing is known tell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.forecast.run_times import uniform
from mirage.job_state import MISSING, Floats, Ints
from mirage.policy.view import View
from mirage.sim.contract.from_view import standing
from mirage.sim.slurm_conf.settings import SlurmSettings

ENOUGH = 4
"""From so many users on whose standing is known the slope is theirs; below it is that of fair-tree's even ranks."""

MOST_KNOWN = 100
"""Users that the line is laid through at most."""


class Standings:
    """Standings by user, as one view tells them.

    Where priorities weigh neither fair-share nor QOS, and are not those of a record, users do not differ, and all stand
    where the median does.

    Args:
        view: The queue.
        settings: How priorities are made up.
    """

    def __init__(self, view: View, settings: SlurmSettings) -> None:
        told = [(jobs.user, standing(jobs, view, settings), jobs.priority > 0) for jobs in (view.running, view.pending)]
        seen = np.concatenate([value[has] for _, value, has in told])
        self.typical = float(np.median(seen)) if len(seen) else 0.0
        self.known: dict[int, float] = {}
        self.spread: Floats = np.zeros(1)
        self._rank: Ints = np.zeros(1, dtype=np.int64)
        self._line = (0.0, self.typical)
        recorded = settings.recorded_priority is not None
        if settings.weight_fairshare > 0.0 or settings.weight_qos > 0.0 or recorded:
            for user, value, has in told:  # of one who has both, the jobs that wait: their priority is of just now
                self.known.update(medians(user[has], value[has]))
        if settings.weight_fairshare > 0.0 and self.known:
            self._rank = ranks(view, settings.half_life_s)
            self._lay_line(settings.weight_fairshare)

    def of_users(self, users: Ints) -> Floats:
        """Shape (jobs,): the standings of jobs of such users."""
        slope, base = self._line
        rank = self._rank[np.minimum(users, len(self._rank) - 1)].astype(np.float64)
        found: Floats = base + slope * rank
        if self.known:
            of_known: Floats = np.full(max(int(users.max(initial=0)), *self.known) + 1, np.nan)
            of_known[list(self.known)] = list(self.known.values())
            own: Floats = of_known[users]
            np.copyto(found, own, where=~np.isnan(own))
        return found

    def of_user(self, user: int, futures: int, seed: int) -> Floats:
        """Shape (futures,): that of one user's job in every future; it varies where it can only be guessed."""
        found = np.repeat(self.of_users(np.array([user])), futures)
        if user not in self.known:
            drawn = uniform(seed, np.arange(futures, dtype=np.uint64), np.full(futures, user, dtype=np.uint64), 5)
            found += self.spread[(drawn * len(self.spread)).astype(np.int64)]
        return found

    def _lay_line(self, weight: float) -> None:
        """Lay a line through known standings by rank, which outliers do not bend (Theil, Sen), and see what is left."""
        users = np.array(list(self.known)[-MOST_KNOWN:])
        rank, value = self._rank[users].astype(np.float64), np.array([self.known[user] for user in users])
        slope = weight / max(int(self._rank.max()), 1)
        if len(users) >= ENOUGH:
            first, second = np.triu_indices(len(users), 1)
            apart = rank[first] != rank[second]
            if apart.any():
                slopes = (value[first] - value[second])[apart] / (rank[first] - rank[second])[apart]
                slope = max(float(np.median(slopes)), 0.0)
        base = float(np.median(value - slope * rank))
        self._line = slope, base
        if len(users) >= ENOUGH:
            off: Floats = value - base - slope * rank
            self.spread = np.sort(off)


def medians(users: Ints, values: Floats) -> dict[int, float]:
    """The median of every user's values."""
    order = np.lexsort((values, users))
    users, values = users[order], values[order]
    first = np.flatnonzero(np.diff(users, prepend=MISSING))
    last = np.append(first[1:], len(users)) - 1
    middle = (values[(first + last) // 2] + values[(first + last + 1) // 2]) / 2.0
    return dict(zip(users[first].tolist(), middle.tolist()))


def ranks(view: View, half_life_s: float) -> Ints:
    """Shape (users + 1,): how many users have used as much or more, oneself among them; the last is one never seen.

    As fair-tree does: accounts come before users, and what was used fades with the half-life. The account of a user is
    that of the latest job.
    """
    jobs, now_s = (view.ended, view.running, view.pending), view.now_s
    user = np.concatenate([each.user for each in jobs])
    count = int(user.max(initial=-1)) + 1
    used, account = np.zeros(count), np.full(count, MISSING)
    fade = np.log(2.0) / half_life_s
    for each, ends_s in ((view.ended, view.ended.end_s), (view.running, np.full(len(view.running), now_s))):
        since = np.exp(-fade * (now_s - ends_s)) - np.exp(-fade * (now_s - each.start_s))
        np.add.at(used, each.user, each.nodes * np.maximum(since, 0.0) / fade)
    for each in jobs:
        account[each.user] = each.account
    of_account = np.zeros(int(account.max(initial=MISSING)) + 2)  # the last one is of those without
    np.add.at(of_account, account, used)
    seen = np.zeros(count, dtype=bool)
    seen[user] = True
    return _places(of_account[account], used, seen)


def _places(of_account: Floats, used: Floats, seen: NDArray[np.bool_]) -> Ints:
    """The places of users who were seen, from the most used on; all others come last."""
    found = np.full(len(used) + 1, int(seen.sum()), dtype=np.int64)
    rows = np.flatnonzero(seen)
    rows = rows[np.lexsort((-used[rows], -of_account[rows]))]
    last = np.ones(len(rows), dtype=bool)  # of those who have used the same
    last[:-1] = (np.diff(used[rows]) != 0) | (np.diff(of_account[rows]) != 0)
    ends = np.flatnonzero(last)
    found[rows] = ends[np.searchsorted(ends, np.arange(len(rows)))] + 1
    return found
