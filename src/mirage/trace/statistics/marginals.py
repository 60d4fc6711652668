"""Marginals of two traces, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.trace.table import JobTable

Floats = NDArray[np.float64]

WEEK_H = 168
SIZE_EDGES = (1, 2, 4, 8, 16)
"""Upper ends of the size classes; the last class is open."""
LIMIT_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
USE_LEVELS = (0.25, 0.5, 0.75)
USED_UP = 0.99
"""A limit counts as used up from this fraction on."""

_EPOCH_HOUR_OF_WEEK = 3 * 24  # 1970-01-01 was a Thursday


def hour_of_week(time_s: Ints) -> Ints:
    """Hour of the week, 0 = Monday 0:00, on the clock of the trace."""
    return (time_s // HOUR_S + _EPOCH_HOUR_OF_WEEK) % WEEK_H


def run_within_limit_s(table: JobTable) -> Ints:
    """Seconds run, at most the limit if there is one; -1 if unknown. Shape (n,)."""
    return np.where(table.limit_s > 0, np.minimum(table.run_s, table.limit_s), table.run_s)


@dataclass(frozen=True, slots=True)
class Marginals:
    """Marginal statistics of one trace.

    Attributes:
        jobs_per_day: Jobs submitted per day.
        mean_nodes: Mean nodes of a job.
        busy_nodes: Node-seconds run per second of the span of submissions.
        size_share: Shape (6,), share of jobs by nodes: 1, 2, 3-4, 5-8, 9-16, more.
        limit_h: Shape (5,), quantiles 10, 25, 50, 75, 90 % of the limit, hours.
        use: Shape (3,), quartiles of run / limit.
        used_up_share: Share of jobs that run at least 99 % of their limit.
        instant_share: Share of jobs that run less than 1 % of their limit.
        dispersion: Variance over mean of the submissions in an hour; 1 for a Poisson process.
        top_user_share: Share of jobs of the ten most active users.
        hour_rate: Shape (168,), submissions by hour of the week, mean 1.
    """

    jobs_per_day: float
    mean_nodes: float
    busy_nodes: float
    size_share: Floats
    limit_h: Floats
    use: Floats
    used_up_share: float
    instant_share: float
    dispersion: float
    top_user_share: float
    hour_rate: Floats

    @classmethod
    def of(cls, table: JobTable) -> Self:
        """Returns the marginals of the jobs with known submission, nodes, limit and run time.

        Raises:
            ConfigurationError: There is no such job.
        """
        run_s = run_within_limit_s(table)
        rows = (table.submit_s >= 0) & (table.nodes > 0) & (table.limit_s > 0) & (run_s >= 0)
        if not rows.any():
            raise ConfigurationError(
                f"none of {len(table)} jobs has submission, nodes, limit and run time; nothing to describe"
            )
        run_s, submit_s, nodes = run_s[rows], table.submit_s[rows], table.nodes[rows]
        use = run_s / table.limit_s[rows]
        span_s = max(int(np.ptp(submit_s)), HOUR_S)
        hourly = np.bincount(submit_s // HOUR_S - submit_s.min() // HOUR_S)
        by_user = np.sort(np.unique(table.user.codes[rows], return_counts=True)[1])
        by_size = np.bincount(np.searchsorted(SIZE_EDGES, nodes), minlength=len(SIZE_EDGES) + 1)
        return cls(
            jobs_per_day=len(nodes) / (span_s / DAY_S),
            mean_nodes=float(nodes.mean()),
            busy_nodes=float(run_s @ nodes) / span_s,
            size_share=by_size / len(nodes),
            limit_h=np.quantile(table.limit_s[rows] / HOUR_S, LIMIT_LEVELS),
            use=np.quantile(use, USE_LEVELS),
            used_up_share=float((use >= USED_UP).mean()),
            instant_share=float((use < 1 - USED_UP).mean()),
            dispersion=float(hourly.var() / hourly.mean()),
            top_user_share=float(by_user[-10:].sum() / len(nodes)),
            hour_rate=rate_by_hour(submit_s),
        )


def rate_by_hour(submit_s: Ints) -> Floats:
    """Rate of events by hour of the week, mean 1, shape (168,).

    A cell is pulled towards the mean by one week of average submissions, so that a short trace has no empty hours.
    """
    hours = np.arange(submit_s.min() // HOUR_S, submit_s.max() // HOUR_S + 1)
    weeks_with_hour = np.bincount(hour_of_week(hours * HOUR_S), minlength=WEEK_H)
    counts = np.bincount(hour_of_week(submit_s), minlength=WEEK_H)
    rate = (counts + len(submit_s) / len(hours)) / (weeks_with_hour + 1)
    return np.asarray(rate / rate.mean(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class MarginalComparison:
    """One marginal of a real and of a synthetic trace.

    Attributes:
        marginal: Its name.
        real: Its value in the real trace.
        synthetic: Its value in the synthetic trace.
        factor: Values are alike up to this ratio.
        apart: They are also alike up to this difference.
        share: Whether the values are shares, which are compared by their difference.
    """

    marginal: str
    real: float
    synthetic: float
    factor: float = 1.25
    apart: float = 0.0
    share: bool = False

    @property
    def good(self) -> bool:
        """Whether the two values are alike."""
        low, high = sorted((self.real, self.synthetic))
        return high - low <= self.apart or (not self.share and low > 0 and high <= self.factor * low)

    @property
    def verdict(self) -> str:
        """``good``, or ``off`` and by how much."""
        if self.good:
            return "good"
        if self.share:
            points = 100 * (self.synthetic - self.real)
            return f"off: {abs(points):.0f} points {'more' if points > 0 else 'less'}"
        if self.real <= 0 or self.synthetic <= 0:
            return f"off: {self.synthetic:.3g} instead of {self.real:.3g}"
        ratio = self.synthetic / self.real
        if ratio >= 2:
            return f"off: {ratio:.1f} times as much"
        return f"off: {abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'}".replace("%", " %")


BUSY_FACTOR = 1.15
BURSTINESS_FACTOR = 1.5
SHARE_APART = 0.05
USE_APART = 0.1
CORRELATED = 0.5
"""The weekly pattern counts as the trace's own from this correlation on."""


def compare(real: JobTable | Marginals, synthetic: JobTable | Marginals) -> tuple[MarginalComparison, ...]:
    """Compares two traces, one row per marginal.

    The row ``hour-of-week correlation`` holds 1 and the correlation of the two weekly profiles.

    Raises:
        ConfigurationError: A trace has no job with the needed values.
    """
    a, b = (t if isinstance(t, Marginals) else Marginals.of(t) for t in (real, synthetic))
    sizes = ("1", "2", "3-4", "5-8", "9-16", "over 16")
    correlation = np.corrcoef(a.hour_rate, b.hour_rate)[0, 1] if np.ptp(b.hour_rate) > 0 else 0.0

    def row(name: str, pair: tuple[float, float], factor: float = 1.25) -> MarginalComparison:
        return MarginalComparison(name, *pair, factor=factor)

    def share(name: str, pair: tuple[float, float], apart: float = SHARE_APART) -> MarginalComparison:
        return MarginalComparison(name, *pair, apart=apart, share=True)

    return (
        row("jobs a day", (a.jobs_per_day, b.jobs_per_day)),
        row("mean nodes of a job", (a.mean_nodes, b.mean_nodes)),
        row("busy nodes", (a.busy_nodes, b.busy_nodes), BUSY_FACTOR),
        *(share(f"share of {s} nodes", pair) for s, pair in zip(sizes, _pairs(a.size_share, b.size_share))),
        *(row(f"limit h, {q:.0%}", pair) for q, pair in zip(LIMIT_LEVELS, _pairs(a.limit_h, b.limit_h))),
        *(share(f"use of limit, {q:.0%}", pair, USE_APART) for q, pair in zip(USE_LEVELS, _pairs(a.use, b.use))),
        share("share using up the limit", (a.used_up_share, b.used_up_share)),
        share("share ending at once", (a.instant_share, b.instant_share)),
        row("burstiness (var/mean an hour)", (a.dispersion, b.dispersion), BURSTINESS_FACTOR),
        share("share of top 10 users", (a.top_user_share, b.top_user_share), 2 * SHARE_APART),
        share("hour-of-week correlation", (1.0, float(correlation)), 1 - CORRELATED),
    )


def _pairs(a: Floats, b: Floats) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(a, b)]
