"""Submissions of a trace: the bursts in which users submitted its jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.trace.statistics.marginals import run_within_limit_s
from mirage.trace.table import JobTable
from mirage.trace.workload.workload_model import Floats, burst_class

BURST_BREAK_S = 1800
"""A longer pause of a user ends the burst."""

QUANTILES = 41
"""Points of a fitted quantile function: steps of 2.5 %."""


@dataclass(frozen=True, slots=True)
class UserBursts:
    """The usable jobs of a trace ordered by user, then by class of burst, then by time.

    All arrays have shape (n,). ``user`` is 0 … users-1; ``burst`` is the class of the job's burst; ``first``
    marks a user's first job in a burst of that class, ``opens`` the first job of a burst.
    """

    user: Ints
    submit_s: Ints
    nodes: Ints
    limit_s: Ints
    partition: Ints
    use: Floats
    burst: Ints
    first: NDArray[np.bool_]
    opens: NDArray[np.bool_]

    @classmethod
    def of(cls, table: JobTable) -> UserBursts:
        """Orders the rows; a pause of ``BURST_BREAK_S`` ends a burst."""
        user = np.unique(table.user.codes, return_inverse=True)[1].astype(np.int64)
        order = np.lexsort((table.submit_s, user))
        paused = np.diff(table.submit_s[order], prepend=0) > BURST_BREAK_S
        opens = (np.diff(user[order], prepend=-1) > 0) | paused
        size = np.diff(np.append(np.flatnonzero(opens), len(opens)))
        burst = burst_class(size)[np.cumsum(opens) - 1]

        regrouped = np.lexsort((burst, user[order]))  # stable: bursts stay whole and in order of time
        order, opens, burst = order[regrouped], opens[regrouped], burst[regrouped]
        table, user = table[order], user[order]
        use = run_within_limit_s(table) / table.limit_s
        first = np.diff(user * 3 + burst, prepend=-1) > 0
        partition = table.partition.codes
        return cls(user, table.submit_s, table.nodes, table.limit_s, partition, use, burst, first, opens)

    def follows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Jobs that follow one of the same chain: in the same burst, and in the next."""
        return ~self.opens, self.opens & ~self.first


def quantiles(values: Floats) -> Floats:
    """Quantiles of values, shape (q,); all zero without values."""
    return np.quantile(values, np.linspace(0, 1, QUANTILES)) if len(values) else np.zeros(QUANTILES)


def correlation(a: Floats, b: Floats) -> float:
    """Correlation of centred values, 0 … 0.99; 0 if it is undefined."""
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(np.clip((a @ b) / scale, 0, 0.99)) if scale > 0 else 0.0


def beyond_chance(observed: float, chance: float) -> float:
    """Probability of copying that raises equality from chance to the observed value."""
    return float(np.clip((observed - chance) / (1 - chance), 0, 0.99)) if chance < 1 else 0.0
