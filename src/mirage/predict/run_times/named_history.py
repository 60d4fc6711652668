"""Run times from history: uses of similar limits by all users, refined by related jobs.

Related jobs are those of the same user, limit and name. Distributions of small groups are completed by wider groups
(hierarchical back-off). A distribution is stored as hazards over bins of the use of the limit. The hazards of a group
combine those of the wider group, which count as a number of jobs at risk in every bin, with its own observations: ended
jobs as deaths, running ones as survivors up to now. This is the posterior mean under Hjort's beta process (Annals of
Statistics 18, 1990) with a constant concentration; without a wider group it is the Kaplan-Meier estimate. Because the
wider group has the same weight in every bin, it also informs about a job that has outlived most of its own group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.forecast.run_times import Uses
from mirage.forecast.use_history import LEVELS, like_limit
from mirage.job_state import MISSING
from mirage.policy.view import View
from mirage.predict.run_times.run_time_observations import Observations, Requests, observed, share_of_limit, unfinished

BINS = 160
"""Bins of the use of the limit; each holds about the same number of ended jobs."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """A grouping of jobs, finer than the level before it.

    Attributes:
        by: What jobs of a group have in common: columns of ``Requests``, or ``like_limit``.
        prior: Number of jobs at risk that the wider group counts as, in every bin.
        memory: A job's weight halves each time this number of its group has ended after it; infinite: no decay.
    """

    by: tuple[str, ...]
    prior: float
    memory: float = np.inf


@dataclass(frozen=True, slots=True)
class Distributions:
    """Distributions of the use of the limit, one row per kind of jobs.

    Attributes:
        kind: Shape (n,), each job's row.
        edges: Shape (bins − 1,): bin k holds uses in (edges[k−1], edges[k]].
        values: Shape (bins,): the use that represents each bin, ascending; the last is 1.
        below: Shape (kinds, bins): probability of this bin or a lower one.
    """

    kind: Ints
    edges: Floats
    values: Floats
    below: Floats

    def levels(self, elapsed: Floats) -> tuple[Floats, Ints]:
        """Returns ``LEVELS`` equally likely uses, given the use reached already.

        Args:
            elapsed: Shape (n,), share of the limit used up to now; 0 for a job that has not started.

        Returns:
            A table with one row of ascending uses per distinct case, and the row of each job.
        """
        bins = len(self.values)
        reached = np.where(elapsed > 0, np.searchsorted(self.edges, elapsed), -1)
        cases, row = np.unique(self.kind * (bins + 1) + reached + 1, return_inverse=True)
        kind, since = cases // (bins + 1), cases % (bins + 1) - 1
        gone = np.where(since >= 0, self.below[kind, since], 0.0)[:, None]
        wanted = gone + (np.arange(LEVELS) + 0.5) / LEVELS * (1.0 - gone)
        shifted = (self.below + 2.0 * np.arange(len(self.below))[:, None]).ravel()  # rows after one another, ascending
        at = np.searchsorted(shifted, wanted + 2.0 * kind[:, None]) - bins * kind[:, None]
        at = np.clip(at, np.minimum(since + 1, bins - 1)[:, None], bins - 1)
        return self.values[at], row


def distributions(past: Observations, requests: Requests, levels: Sequence[GroupLevel]) -> Distributions:
    """Predicts the use of the limit of requested jobs from past observations.

    Args:
        levels: From the widest group to the narrowest.
    """
    edges, values, bins = binned(past)
    known = _grouping(past.requests, requests)
    hazards = np.full((1, len(values)), _TINY)
    row = np.zeros(len(requests), dtype=np.int64)
    for level in levels:
        of_past, of_requests = known(level.by)
        groups, own = np.unique(of_requests, return_inverse=True)
        deaths, at_risk = counts(past, bins, _places(groups, of_past), (len(groups), len(values)), level.memory)
        pairs, row = np.unique(row * len(groups) + own.reshape(-1), return_inverse=True)
        wider, own = np.divmod(pairs, max(len(groups), 1))
        hazards, row = posterior(hazards[wider], level.prior, deaths[own], at_risk[own]), row.reshape(-1)
    below = np.asarray(1.0 - np.cumprod(1.0 - hazards, axis=1), dtype=np.float64)
    return Distributions(row, edges, values, below)


def _places(groups: Ints, of_past: Ints) -> Ints:
    """Index of each past job's group among the requested groups; ``MISSING`` if absent."""
    if not len(groups):
        return np.full(len(of_past), MISSING)
    place = np.minimum(np.searchsorted(groups, of_past), len(groups) - 1)
    return np.where((groups[place] == of_past) & (of_past != MISSING), place, MISSING)


def binned(past: Observations) -> tuple[Floats, Floats, Ints]:
    """Edges of the bins, the use that represents each, and the bin of every observation."""
    uses = past.use[past.ended]
    inner = np.unique(np.quantile(uses, np.linspace(0, 1, BINS + 1)[1:-1])) if len(uses) else np.array([0.5])
    edges = np.unique(np.append(inner[inner < 0.999], [0.999]))
    bins = np.searchsorted(edges, past.use)
    many = np.bincount(bins[past.ended], minlength=len(edges) + 1)
    total = np.bincount(bins[past.ended], past.use[past.ended], len(edges) + 1)
    middle = (np.append(0.0, edges) + np.append(edges, 1.0)) / 2
    values = np.where(many > 0, total / np.maximum(many, 1), middle)
    values[-1] = 1.0
    return edges, values, bins


def counts(past: Observations, bins: Ints, group: Ints, shape: tuple[int, int], memory: float) -> tuple[Floats, Floats]:
    """Weighted deaths of each group in each bin, and jobs at risk there.

    A running job is at risk only in the bins below its own.

    Args:
        bins: Each past job's bin.
        group: Each past job's group, ``MISSING`` if it is in none.
        shape: Number of groups and of bins.
        memory: See ``GroupLevel``.
    """
    kin = group != MISSING
    ended, cell = past.ended[kin], group[kin] * shape[1] + bins[kin]
    weight = _recency(group[kin], ended, memory)
    size = shape[0] * shape[1]
    deaths: Floats = np.bincount(cell[ended], weight[ended], size).astype(np.float64).reshape(shape)
    censored = np.bincount(cell[~ended], minlength=size).reshape(shape)
    at_risk: Floats = np.cumsum((deaths + censored)[:, ::-1], axis=1)[:, ::-1] - censored
    return deaths, at_risk


def posterior(hazards: Floats, prior: float, deaths: Floats, at_risk: Floats) -> Floats:
    """Hazards of groups, given those of wider groups and own observations; 1 in the last bin."""
    own: Floats = (prior * hazards + deaths) / np.maximum(prior + at_risk, _TINY)
    own[:, -1] = 1.0
    return own


def _grouping(past: Requests, requests: Requests) -> Callable[[tuple[str, ...]], tuple[Ints, Ints]]:
    """Returns a function from column names to group numbers of past and requested jobs."""
    codes: dict[str, Ints] = {}

    def column(name: str) -> Ints:
        if name not in codes:
            if name == "like_limit":
                both = np.concatenate([past.limit_s, requests.limit_s])
                codes[name] = like_limit(both)
            else:
                both = np.concatenate([getattr(past, name), getattr(requests, name)])
                codes[name] = np.unique(both, return_inverse=True)[1].reshape(-1)
        return codes[name]

    def groups(by: tuple[str, ...]) -> tuple[Ints, Ints]:
        together = np.zeros(len(past) + len(requests), dtype=np.int64)
        unknown = np.zeros(len(together), dtype=np.bool_)
        for name in by:
            together = together * (int(column(name).max(initial=0)) + 1) + column(name)
            if name != "like_limit":
                unknown |= np.concatenate([getattr(past, name), getattr(requests, name)]) == MISSING
        together[unknown] = MISSING  # jobs with an unknown value form no group
        return together[: len(past)], together[len(past) :]

    return groups


def _recency(group: Ints, ended: NDArray[np.bool_], memory: float) -> Floats:
    """Weights by the number of later ends in the same group; running jobs count fully."""
    weight = np.ones(len(group))
    if np.isinf(memory):
        return weight
    rows = np.flatnonzero(ended)[::-1]  # the latest first
    order = np.argsort(group[rows], kind="stable")
    sorted_group = group[rows][order]
    starts = np.flatnonzero(np.diff(sorted_group, prepend=-1))
    since = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    weight[rows[order]] = 0.5 ** (since / memory)
    return weight


NAMED_HISTORY = (
    GroupLevel((), prior=0.0),
    GroupLevel(("like_limit",), prior=10.0),
    GroupLevel(("user",), prior=20.0, memory=30.0),
    GroupLevel(("user", "limit_s"), prior=10.0, memory=30.0),
    GroupLevel(("user", "name", "limit_s"), prior=5.0, memory=10.0),
)
"""Groups of jobs, from wide to narrow; chosen on Lonestar6, November to January."""

WITHOUT_USERS = (
    GroupLevel((), prior=0.0),
    GroupLevel(("like_limit",), prior=10.0),
    GroupLevel(("limit_s",), prior=10.0, memory=40.0),
    GroupLevel(("limit_s", "nodes"), prior=10.0, memory=40.0),
)
"""Groups of jobs where users are unknown; chosen on Theta, February to June."""


class NamedHistory:
    """Run times from a view: from jobs that ended, and the elapsed times of running jobs.

    It learns only from the view, so it needs no fitting and works on an unknown cluster.

    Args:
        levels: Groups of jobs, from the widest to the narrowest, where users are known.
    """

    def __init__(self, levels: Sequence[GroupLevel] = NAMED_HISTORY) -> None:
        self.levels = tuple(levels)

    def uses(self, view: View) -> Uses:
        """Uses of the limit of a view's jobs: pending ones in queue order, then running ones."""
        requests, elapsed_s = unfinished(view)
        elapsed = np.where(elapsed_s > 0, share_of_limit(elapsed_s, requests.limit_s), 0.0)
        table, row = self.table(requests, elapsed, observed(view))
        first = row.reshape(-1).astype(np.int64) * table.shape[1]
        return Uses(table.ravel(), np.stack([first, first + table.shape[1]], axis=1))

    def table(self, requests: Requests, elapsed: Floats, past: Observations) -> tuple[Floats, Ints]:
        """Equally likely uses of requested jobs, given the use of their limit up to now.

        Args:
            elapsed: Shape (n,), share of the limit; 0 for a job that has not started.

        Returns:
            A table with one row of ascending uses per distinct case, and the row of each job.
        """
        levels = self.levels if (requests.user != MISSING).any() else WITHOUT_USERS
        return distributions(past, requests, levels).levels(elapsed)
