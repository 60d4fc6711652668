"""Waits by size and time limit: recorded and simulated distributions compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.calibration.fidelity.correlation import spearman
from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.duration import HOUR_S, UNLIMITED_S, format_duration
from mirage.trace.table import JobTable

NODE_EDGES = (1, 4, 16)
LIMIT_EDGES_S = (2 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S)
"""Upper ends of the classes; the last class is open."""

MOST_IN_ONE = 0.9
"""Above this share of the jobs in one class, the classes are uninformative and quartiles replace them."""

UNKNOWN, ALL = "unknown", "all"

QUANTILES = (10, 25, 50, 75, 90)


@dataclass(frozen=True, slots=True)
class JobClasses:
    """Classes of jobs along one axis.

    Attributes:
        names: Names of the classes, small ones first.
        of_job: Shape (n,), class of each job; the last, ``unknown``, where the trace has no value.
    """

    names: tuple[str, ...]
    of_job: Ints

    @classmethod
    def by_nodes(cls, nodes: Ints) -> Self:
        """Classes 1, 2-4, 5-16 and more; quartiles where one has more than 90 % of the jobs."""
        return cls._of(nodes, nodes > 0, NODE_EDGES, _nodes_name)

    @classmethod
    def by_limit(cls, limit_s: Ints) -> Self:
        """Classes up to 2, 12, 24 h and more; quartiles where one has more than 90 % of the jobs."""
        return cls._of(limit_s, limit_s > 0, LIMIT_EDGES_S, _limit_name)

    @classmethod
    def _of(cls, values: Ints, known: NDArray[np.bool_], edges: Sequence[int], name: Any) -> Self:
        edges = _fitting(values[known], edges)
        names = tuple(name(low, high) for low, high in pairwise((0, *edges, None)))
        found = np.searchsorted(edges, values, side="left")
        return cls((*names, UNKNOWN), np.where(known, found, len(names)))


def _fitting(values: Ints, edges: Sequence[int]) -> Sequence[int]:
    """The edges, or the quartiles of the values where nearly all lie between two edges."""
    if not len(values):
        return edges
    share = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1) / len(values)
    if share.max() <= MOST_IN_ONE:
        return edges
    quartiles = np.unique(np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf").astype(np.int64))
    below = quartiles[quartiles < values.max()]
    return tuple(below.tolist()) if len(below) else edges


def _nodes_name(low: int, high: int | None) -> str:
    if high is None:
        return f"> {low}"
    return str(high) if high == low + 1 else f"{low + 1}-{high}"


def _limit_name(low: int, high: int | None) -> str:
    return f"> {_limit_words(low)}" if high is None else f"≤ {_limit_words(high)}"


def _limit_words(seconds: int) -> str:
    if seconds >= UNLIMITED_S:
        return "UNLIMITED"
    return f"{seconds // HOUR_S} h" if seconds % HOUR_S == 0 else format_duration(seconds)


@dataclass(frozen=True, slots=True)
class WaitClass:
    """The waits of one class of jobs.

    Attributes:
        nodes: Range of nodes of its jobs, as text.
        limit: Range of time limits of its jobs, as text.
        jobs: Number of jobs.
        recorded_wait_s: Mean recorded wait.
        simulated_wait_s: Mean simulated wait.
        wasserstein_h: Area between the two distribution functions, hours: the mean distance by which waits must change
            to turn one distribution into the other.
        kolmogorov_smirnov: The largest difference of the two distribution functions.
        rank_correlation: Spearman's, of single jobs; ``None`` for fewer than three jobs or where one side is constant.
        recorded_quantiles_s: Percentiles 10, 25, 50, 75 and 90 of recorded waits.
        simulated_quantiles_s: The same percentiles of simulated waits.
    """

    nodes: str
    limit: str
    jobs: int
    recorded_wait_s: float
    simulated_wait_s: float
    wasserstein_h: float
    kolmogorov_smirnov: float
    rank_correlation: float | None
    recorded_quantiles_s: tuple[float, ...]
    simulated_quantiles_s: tuple[float, ...]

    @classmethod
    def of(cls, nodes: str, limit: str, recorded_s: Ints, simulated_s: Ints) -> Self:
        """Builds a class from the waits of at least one job."""
        return cls(
            nodes,
            limit,
            len(recorded_s),
            float(recorded_s.mean()),
            float(simulated_s.mean()),
            wasserstein(recorded_s, simulated_s) / HOUR_S,
            kolmogorov_smirnov(recorded_s, simulated_s),
            spearman(recorded_s, simulated_s)(np.ones(len(recorded_s))),
            tuple(np.percentile(recorded_s, QUANTILES).tolist()),
            tuple(np.percentile(simulated_s, QUANTILES).tolist()),
        )

    @property
    def name(self) -> str:
        """Name of the class, such as ``1 node, ≤ 2 h``."""
        if self.nodes == ALL == self.limit:
            return "all jobs"
        return f"{self.nodes} node{'' if self.nodes == '1' else 's'}, {self.limit}"


def wait_classes(pair: PairedJobs, whole: JobTable | None = None) -> tuple[WaitClass, ...]:
    """Returns every class that contains jobs, by nodes, then by limit.

    Args:
        pair: The jobs.
        whole: The jobs that define the classes, by default the same: a slice of a trace gets the classes of the whole
            trace.
    """
    n = len(pair)
    whole = pair.jobs if whole is None else whole
    nodes = JobClasses.by_nodes(np.concatenate([pair.jobs.nodes, whole.nodes]))
    limits = JobClasses.by_limit(np.concatenate([pair.jobs.limit_s, whole.limit_s]))
    recorded_s, simulated_s = pair.jobs.wait_s, pair.wait_s
    found = []
    for a, of_nodes in enumerate(nodes.names):
        for b, of_limit in enumerate(limits.names):
            rows = (nodes.of_job[:n] == a) & (limits.of_job[:n] == b)
            if rows.any():
                found.append(WaitClass.of(of_nodes, of_limit, recorded_s[rows], simulated_s[rows]))
    return tuple(found)


def wasserstein(a: Ints, b: Ints) -> float:
    """First Wasserstein distance of two samples: area between their distribution functions.

    The samples have equal size, so it is the mean distance of the sorted values.
    """
    return float(np.abs(np.sort(a) - np.sort(b)).mean())


def kolmogorov_smirnov(a: Ints, b: Ints) -> float:
    """Largest difference of two distribution functions (Kolmogorov 1933, Smirnov 1939)."""
    at = np.unique(np.concatenate([a, b]))
    reached = (np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (a, b))
    return float(np.abs(np.subtract(*reached)).max())
