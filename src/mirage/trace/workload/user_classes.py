"""Anonymous classes of users with similar behaviour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints

Floats = NDArray[np.float64]

MIN_USERS = 5
"""Every habit describes at least this number of users, so that none describes a person."""

MAX_HABITS = 24

_SIZE_STEPS = np.unique(np.round(1.35 ** np.arange(40)).astype(np.int64))


def user_traits(user: Ints, nodes: Ints, limit_s: Ints, use: Floats, opens: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Traits of users, by which they are grouped.

    Args:
        user: Shape (n,), the user of each job, 0 … users-1.
        nodes: Shape (n,).
        limit_s: Shape (n,), seconds.
        use: Shape (n,), run / limit.
        opens: Shape (n,), the first job of each burst.

    Returns:
        Traits, shape (users, 4), each with variance 1: mean log nodes, mean log limit, mean use, log jobs per
        burst; and weights, shape (users,): the square root of the user's number of jobs.
    """
    jobs = np.bincount(user)
    bursts = np.bincount(user, weights=opens)
    means = [np.bincount(user, weights=v) / jobs for v in (np.log(nodes), np.log(limit_s), use)]
    traits = np.stack([*means, np.log(jobs / np.maximum(bursts, 1))], axis=1)
    spread = traits.std(axis=0)
    return traits / np.where(spread > 0, spread, 1), np.sqrt(jobs)


def group_users(traits: Floats, weight: Floats) -> Ints:
    """Returns the habit of every user, shape (users,).

    Repeatedly splits the group with most weighted variance in one trait at that trait's weighted
    median, until there are ``MAX_HABITS`` groups or none can be split into two of ``MIN_USERS``.
    """
    groups = [np.arange(len(weight))]
    while len(groups) < MAX_HABITS:
        spread = [_variance(traits[g], weight[g]) if len(g) >= 2 * MIN_USERS else np.zeros(4) for g in groups]
        widest = int(np.argmax([s.max() for s in spread]))
        if spread[widest].max() <= 0:
            break
        group = groups.pop(widest)
        trait = int(np.argmax(spread[widest]))
        group = group[np.argsort(traits[group, trait], kind="stable")]
        heavy = np.cumsum(weight[group])
        cut = int(np.clip(np.searchsorted(heavy, heavy[-1] / 2), MIN_USERS, len(group) - MIN_USERS))
        groups += [group[:cut], group[cut:]]
    habit = np.empty(len(weight), dtype=np.int64)
    for number, group in enumerate(groups):
        habit[group] = number
    return habit


def _variance(traits: Floats, weight: Floats) -> Floats:
    """Weighted sum of squares about the mean, one per trait."""
    mean = weight @ traits / weight.sum()
    return np.asarray(weight @ (traits - mean) ** 2)


def burst_sizes(opens: NDArray[np.bool_]) -> tuple[Ints, Floats]:
    """Sizes of bursts and their probabilities; large sizes are in steps of about a third.

    Args:
        opens: Shape (n,), the first job of each burst, jobs in order of user and time.
    """
    starts = np.flatnonzero(opens)
    size = np.diff(np.append(starts, len(opens)))
    step = np.searchsorted(_SIZE_STEPS, size, side="right")
    bursts = np.bincount(step)
    jobs = np.bincount(step, weights=size)
    some = bursts > 0
    return np.round(jobs[some] / bursts[some]).astype(np.int64), bursts[some] / len(size)


def zipf_exponent(counts: Ints) -> float:
    """Exponent s, 0 … 4, for which shares ``r ** -s`` have the concentration of the counts.

    Concentration is the sum of squared shares.
    """
    target = float(((counts / counts.sum()) ** 2).sum())
    rank = np.arange(1, len(counts) + 1)
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        share = rank**-middle / (rank**-middle).sum()
        low, high = (middle, high) if (share**2).sum() < target else (low, middle)
    return round(low, 3)
