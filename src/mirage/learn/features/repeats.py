"""Repeats: how often a user's job asks for the same as the one before, which is what forecasts live on.

Run times are drawn from what a user's earlier jobs with the same limit used of it, so how wrong a forecast is hangs on
how much users repeat themselves. That differs little from month to month on one cluster, and much between clusters
whose queues are alike otherwise: a correction of forecasts is worth nothing where it differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.learn.hand_overs import Floats32
from mirage.policy.view import View
from mirage.sim.kernel.compile import kernel

REPEATS = ("repeated_limit_share", "repeated_nodes_share")
"""Among jobs that ended and whose user had one that ended before: the shares with that one's limit, and its nodes."""

LEAST_JOBS = 100
"""Of fewer such jobs no share is told; of so many, a half is known to a tenth either way."""


def repeats_of(view: View) -> Floats32:
    """Shape (``REPEATS``,): the shares among the ended jobs of a view; NaN where too few have ended to tell.

    Jobs of unknown users do not count.
    """
    ended = view.ended
    counts = np.zeros(3, dtype=np.int64)
    latest = np.full(int(ended.user.max(initial=-1)) + 1, -1, dtype=np.int64)
    count_repeats(ended.user, ended.limit_s, ended.nodes, latest, counts)
    found = np.full(len(REPEATS), np.nan, dtype=np.float32)
    if counts[0] >= LEAST_JOBS:
        found[:] = counts[1:] / counts[0]
    return found


@kernel()
def count_repeats(user: Any, limit_s: Any, nodes: Any, latest: Any, counts: Any) -> None:
    """Count jobs with one of their user before them, and those of them that ask for its limit and for its nodes.

    Args:
        user: Shape (jobs,), the latest job last; −1 where it is not known.
        limit_s: Shape (jobs,).
        nodes: Shape (jobs,).
        latest: Shape (users,): −1 everywhere; written.
        counts: Shape (3,): the three counts, added to.
    """
    for job in range(len(user)):
        if user[job] < 0:
            continue
        before = latest[user[job]]
        latest[user[job]] = job
        if before >= 0:
            counts[0] += 1
            counts[1] += limit_s[job] == limit_s[before]
            counts[2] += nodes[job] == nodes[before]
