"""Priority offsets: the part of a job's priority beyond age, size and partition, by user.

Fair-share is most of it. The priorities of waiting jobs show it for their users. For all others only their use is
known, so their offset follows from that: the less used, the higher, with the slope of the known offsets. Use changes
with time: a forecast lets it go on, and so needs the two parts apart, that of the rank by use and the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.kernel.random import uniform
from mirage.policy.view import ChainView, QueueJobs, View
from mirage.sim.contract.from_view import FairShare, most_cpus, offsets_of, priority_offsets
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

ENOUGH_KNOWN = 4
"""With at least this number of known users the slope is fitted to them; with fewer, that of fair-tree's even ranks."""

MOST_KNOWN = 100
"""Maximum number of users that the line is fitted to."""

FRESH_S = HOUR_S
"""Where fair-share counts, the priority of a running job, computed at its start, is ignored when it is older."""


class PriorityOffsets:
    """Priority offsets by user, from one view.

    Where priorities include neither fair-share nor QOS, and are not recorded ones, users do not differ, and all have
    the median.

    Args:
        view: The queue.
        settings: The composition of priorities.

    Attributes:
        fair_share: The use of all users, and the weight of its rank; None where fair-share does not count.
    """

    def __init__(self, view: View, settings: SlurmSettings) -> None:
        self.view, self.settings = view, settings
        fair = settings.weight_fairshare > 0.0 and settings.priority == "multifactor"
        both = (view.running, view.pending)  # the priority of a waiting job is the current one: it comes last
        user, qos, nice = (np.concatenate([getattr(jobs, name) for jobs in both]) for name in ("user", "qos", "nice"))
        priority: Floats = np.concatenate([jobs.priority for jobs in both])
        value: Floats = np.concatenate([priority_offsets(jobs, view, settings) for jobs in both])
        waits = np.arange(len(user)) >= len(view.running)
        has = priority > 0
        if fair:
            has[: len(view.running)] &= view.now_s - view.running.start_s <= FRESH_S
        self.typical = float(np.median(value[has])) if has.any() else 0.0
        self.known: dict[int, float] = {}
        self.spread: Floats = np.zeros(1)
        self._rank: Ints = np.zeros(1, dtype=np.int64)
        self._line = (0.0, self.typical)
        exact = has & ~leaves_none(nice, priority)
        self._user, self._qos, self._waits = user[exact], qos[exact], waits[exact]
        self._shared: Floats = (value + nice)[exact]
        recorded = settings.recorded_priority is not None
        self._users_differ = settings.weight_fairshare > 0.0 or settings.weight_qos > 0.0 or recorded
        if self._users_differ:
            for part in (has & ~waits, has & waits):
                self.known.update(medians(user[part], value[part]))
        self.fair_share: FairShare | None = None
        if fair:
            used, account = use_by_user(view, settings.half_life_s)
            self._rank = ranks(used, account)
            self._lay_line(settings.weight_fairshare)
            self.fair_share = FairShare(used, account, self._line[0] * len(used))

    def of_users(self, users: Ints) -> Floats:
        """Returns the offsets of jobs of these users, as in the queue where known, shape (jobs,)."""
        found = self._line[1] + self.by_rank(users)
        if self.known:
            of_known: Floats = np.full(max(int(users.max(initial=0)), *self.known) + 1, np.nan)
            of_known[list(self.known)] = list(self.known.values())
            own: Floats = of_known[users]
            np.copyto(found, own, where=~np.isnan(own))
        return found

    def of_waiting(self, jobs: QueueJobs, offsets: Floats) -> Floats:
        """Returns the offsets of waiting jobs, lower where nice leaves less than Slurm shows.

        There the shown priority is only an upper bound: with age the job would soon precede newcomers, but in Slurm it
        does so only after its age outweighs its nice. The offset without nice is that of the user's other jobs, or
        follows from the use.

        Args:
            offsets: Shape (jobs,), from the priorities that Slurm shows.
        """
        hidden = leaves_none(jobs.nice, jobs.priority)
        if not hidden.any():
            return offsets
        users = jobs.user[hidden]
        expected = self._line[1] + self.by_rank(users)
        of_known = medians(self._user, self._shared)
        for place, user in enumerate(users.tolist()):
            expected[place] = of_known.get(user, expected[place])
        lower = offsets.copy()
        lower[hidden] = np.minimum(offsets[hidden], expected - jobs.nice[hidden])
        return lower

    def by_rank(self, users: Ints) -> Floats:
        """Returns the part of users' offsets that follows from present use, shape (jobs,)."""
        part: Floats = self._line[0] * self._rank[np.minimum(users, len(self._rank) - 1)].astype(np.float64)
        return part

    def of_link(self, chain: ChainView, futures: int, seed: int) -> Floats:
        """Returns the offset of the next link of a chain in each future, shape (futures,).

        It is the link's own, where its job is in the queue and has a priority. Otherwise it is that of its request: the
        part shared with the user's other jobs, but neither their nice nor their QOS. It varies where it is uncertain.
        """
        if chain.priority > 0:
            return np.repeat(self._own(chain), futures)
        if (shared := self._shared_with_user(chain)) is not None:
            return np.repeat(shared - chain.nice, futures)
        found = np.repeat(self.of_users(np.array([chain.user])), futures) - chain.nice
        if chain.user not in self.known:
            drawn = uniform(seed, np.arange(futures, dtype=np.uint64), self.view.keys_of(np.array([chain.user])), 5)
            found += self.spread[(drawn * len(self.spread)).astype(np.int64)]
        return found

    def _own(self, chain: ChainView) -> Floats:
        """Returns the offset in the priority of the next link's job, shape (1,)."""
        age_s = 0 if chain.accrues_s == MISSING else max(self.view.now_s - chain.accrues_s, 0)
        limit_s = chain.limit_s if chain.queued is None else chain.queued.limit_s
        row = map(np.atleast_1d, (age_s, chain.partition, chain.nodes, chain.gpus, chain.cpus, limit_s))
        return offsets_of(np.array([chain.priority]), self.view, self.settings, *row)

    def _shared_with_user(self, chain: ChainView) -> float | None:
        """Returns the offset without nice of the user's jobs in the chain's QOS; None if unknown.

        Waiting jobs take precedence over running jobs, which have the priority of their start. Jobs of another QOS
        count where the difference of the two is known, or where QOS does not matter.
        """
        if not self._users_differ:
            return float(np.median(self._shared)) if len(self._shared) else None
        mine = self._user == chain.user
        shared, factor = self._shared, np.array(self.view.qos_factor)
        if chain.qos != MISSING and self.settings.weight_qos > 0.0:
            alike = mine & (self._qos == chain.qos)
            if alike.any() or max(int(self._qos[mine].max(initial=0)), chain.qos) >= len(factor):
                mine = alike
            else:
                shared = shared.copy()
                shared[mine] += self.settings.weight_qos * (factor[chain.qos] - factor[self._qos[mine]])
        mine = mine & self._waits if (mine & self._waits).any() else mine
        return float(np.median(shared[mine])) if mine.any() else None

    def _lay_line(self, weight: float) -> None:
        """Fits a robust line to known offsets by rank (Theil, Sen), and stores its residuals.

        A few known users give no slope of their own, but their level does where ranks are all that it consists of.
        """
        users = np.array(list(self.known)[-MOST_KNOWN:], dtype=np.int64)
        rank, value = self._rank[users].astype(np.float64), np.array([self.known[user] for user in users])
        slope = weight / max(int(self._rank.max()) - 1, 1)  # the highest rank is that of a user without jobs
        if len(users) >= ENOUGH_KNOWN:
            first, second = np.triu_indices(len(users), 1)
            apart = rank[first] != rank[second]
            if apart.any():
                slopes = (value[first] - value[second])[apart] / (rank[first] - rank[second])[apart]
                slope = max(float(np.median(slopes)), 0.0)
        elif len(users) and not self.settings.weight_qos:
            slope = min(max(float(np.median(value / rank)), 0.0), slope)
        base = float(np.median(value - slope * rank)) if len(users) else 0.0
        self._line = slope, base
        if len(users) >= ENOUGH_KNOWN:
            off: Floats = value - base - slope * rank
            self.spread = np.sort(off)


def leaves_none(nice: Ints, priority: Floats) -> NDArray[np.bool_]:
    """Returns for which jobs nice leaves a priority of 1 or less; Slurm reports 1 for all."""
    return (nice > 0) & (priority <= 1.0)


def medians(users: Ints, values: Floats) -> dict[int, float]:
    """Returns the median of every user's values."""
    order = np.lexsort((values, users))
    users, values = users[order], values[order]
    first = np.flatnonzero(np.diff(users, prepend=MISSING))
    last = np.append(first[1:], len(users)) - 1
    middle = (values[(first + last) // 2] + values[(first + last + 1) // 2]) / 2.0
    return dict(zip(users[first].tolist(), middle.tolist()))


def use_by_user(view: View, half_life_s: float) -> tuple[Floats, Ints]:
    """Returns the decayed use and the account of every user.

    Use is CPU-seconds, or node-seconds where nodes are pools, as in ``mirage.sim.disciplines.priority``.

    The account is that of the latest job that has one; users without such a job share an account. A code that no job of
    the view has is alone in its account.

    Returns:
        Two arrays of shape (users + 1,), the second with codes from 0 on; the last entry is for a user without any job.
    """
    jobs, now_s = (view.ended, view.running, view.pending), view.now_s
    user = np.concatenate([each.user for each in jobs])
    count = int(user.max(initial=-1)) + 2
    used = np.zeros(count)
    fade = np.log(2.0) / half_life_s
    of_ended, of_running = charged(view)
    for each, ends_s, each_s in (
        (view.ended, view.ended.end_s, of_ended),
        (view.running, np.full(len(view.running), now_s), of_running),
    ):
        since = np.exp(-fade * (now_s - ends_s)) - np.exp(-fade * (now_s - each.start_s))
        np.add.at(used, each.user, each_s * np.maximum(since, 0.0) / fade)
    account = np.full(count, MISSING)
    for each in jobs:
        has = each.account != MISSING
        account[each.user[has]] = each.account[has]
    unseen = np.ones(count, dtype=bool)
    unseen[user] = unseen[-1] = False
    account[unseen] = account.max() + 1 + np.arange(int(unseen.sum()))
    return used, np.unique(account, return_inverse=True)[1].astype(np.int64)


def charged(view: View) -> tuple[Ints, Ints]:
    """Returns what ended and running jobs are charged for each second.

    These are CPUs, or nodes where nodes are pools. A running job on whole nodes is charged for the most CPUs of a node
    in its partition, and an ended job of unknown CPUs for the most of any node.
    """
    ended, running = view.ended, view.running
    if view.nodes.pools:
        return ended.nodes, running.nodes
    most = most_cpus(view)
    of_node = np.where(running.cpus == MISSING, most[running.partition], running.cpus)
    return ended.nodes * np.where(ended.cpus == MISSING, most.max(initial=1), ended.cpus), running.nodes * of_node


def ranks(used: Floats, account: Ints) -> Ints:
    """Returns the number of users that come after each in fair-tree, itself included.

    Accounts come before users: those of accounts with more use come after, and those of accounts with equal use, such
    as the same one, with as much use or more. A higher rank means a higher priority, see
    ``mirage.sim.disciplines.priority``.

    Args:
        used: Shape (users,).
        account: Shape (users,), codes from 0 on.
    """
    of_account = np.bincount(account, weights=used)[account]
    order = np.lexsort((used, of_account))
    tied = (np.diff(of_account[order], prepend=-1.0) == 0) & (np.diff(used[order], prepend=-1.0) == 0)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = len(order) - np.maximum.accumulate(np.where(tied, 0, np.arange(len(order))))
    return found
