"""Repeats: how often a user's job repeats the request of the one before.

Forecasts depend on it: run times are drawn from the share of the limit that a user's earlier jobs with the same limit
used. So the error of a forecast depends on how much users repeat their requests. That differs little from month to
month on one cluster, and much between clusters with queues that are alike otherwise: a correction of forecasts is worth
nothing where it differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.kernel.compile import kernel
from mirage.learn.hand_overs import Floats32
from mirage.policy.view import View

REPEATS = ("repeated_limit_share", "repeated_nodes_share")
"""Among ended jobs with an earlier ended job of their user: the shares with that one's limit, and with its nodes."""

LEAST_JOBS = 100
"""Fewer such jobs give no share; with this number, a share of a half is known to ±0.1."""


def repeats_of(view: View) -> Floats32:
    """Shape (``REPEATS``,): shares among a view's ended jobs; NaN where too few have ended.

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
    """Counts jobs after another of their user, and those that repeat its limit and its nodes.

    Args:
        user: Shape (jobs,), the latest job last; −1 where unknown.
        limit_s: Shape (jobs,).
        nodes: Shape (jobs,).
        latest: Shape (users,): −1 everywhere; overwritten.
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
