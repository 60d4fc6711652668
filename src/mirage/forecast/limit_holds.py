"""Jobs held only by a limit: a forecast that knows the limits lets them compete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.policy.view import View
from mirage.sim.cluster import Limit


def foreseen(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Returns the limits that a forecast can model.

    These are limits on jobs and nodes, of every user or of all together, regardless of QOS. A view identifies
    users, accounts, QOS and partitions by numbers, without the names that limits use.
    """
    return tuple(
        limit
        for limit in limits
        if limit.per in ("user", "all")
        and limit.gpus is None
        and not (limit.qos or limit.partitions or limit.of_association)
    )


def with_limited(view: View, limits: Sequence[Limit]) -> View:
    """Returns the view with jobs held by a limit appended to the pending ones.

    Held jobs of a user who is below the limits are held for another reason, and stay held.

    Args:
        view: The queue.
        limits: Limits from ``foreseen``.
    """
    held = view.held
    if not len(held) or not limits:
        return view
    limited = np.zeros(len(held), dtype=bool)
    for limit in limits:
        limited |= _is_over(limit, view)
    if not limited.any():
        return view
    aged_s = np.where(held.eligible_s >= 0, held.eligible_s, held.submit_s)
    waiting = replace(held[limited], eligible_s=aged_s[limited])
    return replace(view, pending=view.pending.before(waiting), held=held[~limited])


def _is_over(limit: Limit, view: View) -> NDArray[np.bool_]:
    """Returns which held jobs would exceed a limit if they were started now."""
    running, held = view.running, view.held
    per_user = 1 if limit.per == "user" else 0  # of all together: as if they were one user
    runner, waiter = running.user * per_user, held.user * per_user
    most = int(max(runner.max(initial=0), waiter.max(initial=0))) + 1
    count = np.bincount(runner, minlength=most)[waiter]
    nodes = np.bincount(runner, weights=running.width, minlength=most)[waiter]
    over: NDArray[np.bool_] = np.zeros(len(held), dtype=bool)
    if limit.jobs is not None:
        over |= count + 1 > limit.jobs
    if limit.nodes is not None:
        over |= nodes + held.nodes > limit.nodes
    return over
