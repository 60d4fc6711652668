"""The workload model that `mirage trace generate` draws from.

A workload is a sequence of *bursts*: within minutes, one user submits a few jobs that behave alike. Users are grouped
into *habits*, classes of at least a handful of users, so a model holds no individual user's jobs, names or numbers.
Jobs resemble those before them: with a fitted probability a job repeats the shape (nodes, limit,
partition) of its user's previous job, and with another the fraction of the limit it uses. Copying leaves
every marginal as fitted, so the parts can be fitted one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.trace.statistics.marginals import Marginals

Floats = NDArray[np.float64]

LIMIT_EDGES_S = (2 * HOUR_S + 1, 24 * HOUR_S)
"""Limits below the first, between, and from the second on are used differently: tests, work, long runs."""

BURST_EDGES = (4, 12)
"""Numbers of jobs from which a burst has some, and has many."""

DEFAULT_START_S = 1_704_067_200
"""2024-01-01 00:00 UTC, a Monday: the default start of a generated trace."""


@dataclass(frozen=True, slots=True)
class UserClass:
    """Submissions of one class of users.

    Attributes:
        users: Number of users.
        share: Their share of all bursts.
        zipf: Exponent of activity inside the class: its r-th user submits in proportion to ``r ** -zipf``.
        burst_size: Shape (b,), jobs in a burst; ``burst_weight`` their probabilities.
        burst_weight: Shape (b,).
        nodes: Shape (k,), nodes of a job; with ``limit_s`` and ``partition`` one of k shapes.
        limit_s: Shape (k,).
        partition: Shape (k,), index into the model's ``partitions``, -1 for none.
        shape_weight: Shape (3, k), probability of each shape in a burst of each ``burst_class``.
        used_up: Shape (3,), probability of running to the limit, for each class of limits (``limit_class``).
        use: Shape (3, q), quantiles of run / limit of the other jobs, at q evenly spaced levels from 0 to 1.
    """

    users: int
    share: float
    zipf: float
    burst_size: Ints
    burst_weight: Floats
    nodes: Ints
    limit_s: Ints
    partition: Ints
    shape_weight: Floats
    used_up: Floats
    use: Floats


@dataclass(frozen=True, slots=True)
class WorkloadModel:
    """The workload model of a synthetic trace, fitted to a real one by ``fit``.

    Attributes:
        name: What the model imitates.
        nodes: Nodes of the cluster.
        gpus_per_node: GPUs of a node, -1 if unknown.
        cpus_per_node: Processor cores of a node, -1 if unknown.
        load: Offered load: node-seconds run by the jobs submitted in a span, per node and second of the span.
        hour_weight: Shape (168,), rate of bursts by hour of the week from Monday 0:00, mean 1.
        week_sd: Standard deviation of the logarithm of a week's level, beyond chance.
        week_corr: Correlation of that logarithm with the next week's.
        pace: How far work is evened out, 0 … 1. Users observe the queue and hold back: at 0 bursts arrive
            whatever work they bring, at 1 the work of half a day is constant except for counting noise. Without
            it a trace has weeks that occur on no real cluster, and waits several times too long.
        gap_s: Shape (3, q), quantiles of the seconds between the jobs of a burst, for each ``burst_class``.
        return_share: Probability that a burst comes from the user of a recent burst, not from a fresh draw of
            users.
        return_lag: Shape (q,), quantiles of the number of bursts since that recent burst.
        same_gap: Probability that a gap inside a burst resembles the previous gap.
        same_shape: Probability of repeating the shape of the user's previous job (in the burst, in the last
            burst).
        same_use: The same for the fraction of the limit used.
        states: Shape (2, 3), of jobs that end before their limit: shares COMPLETED, FAILED, CANCELLED; row 0
            for jobs that use less than 1 % of their limit.
        accounts: Number of accounts that the users share.
        partitions: Names of the partitions.
        habits: The classes of users.
        fitted_to: The marginals of the trace that the model was fitted to.
    """

    name: str
    nodes: int
    gpus_per_node: int
    cpus_per_node: int
    load: float
    hour_weight: Floats
    week_sd: float
    week_corr: float
    pace: float
    gap_s: Floats
    return_share: float
    return_lag: Floats
    same_gap: float
    same_shape: Floats
    same_use: Floats
    states: Floats
    accounts: int
    partitions: tuple[str, ...]
    habits: tuple[UserClass, ...]
    fitted_to: Marginals


def limit_class(limit_s: Ints) -> Ints:
    """0, 1 or 2: a test, work, or a long run, by ``LIMIT_EDGES_S``. Shape of the argument."""
    return np.searchsorted(LIMIT_EDGES_S, limit_s, side="right").astype(np.int64)


def burst_class(size: Ints) -> Ints:
    """0, 1 or 2: a burst of few, some or many jobs. Shape of the argument."""
    return np.searchsorted(BURST_EDGES, size, side="right").astype(np.int64)
