"""Correlation of single jobs' waits, with bootstrap intervals over whole weeks or days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, WEEK_S

FEWEST_BLOCKS = 8
RESAMPLES = 500
LEVELS = (2.5, 97.5)

Statistic = Callable[[Floats], float | None]
"""Computes a figure of a sample from the number of times that each job occurs in it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval.

    Attributes:
        value: The figure; ``None`` where it is not defined, such as a correlation with a constant.
        interval: Percentiles 2.5 and 97.5 of the bootstrap; ``None`` where there are too few blocks to resample.
    """

    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of time that are resampled as a whole.

    Jobs of one day meet the same queue and are not independent.

    Attributes:
        unit: ``week`` where at least 8 weeks contain jobs, else ``day``; empty where fewer than 8 days do.
        of_job: Shape (n,), the block of each job.
        count: Number of blocks that contain jobs.
    """

    unit: str
    of_job: Ints
    count: int

    @classmethod
    def of(cls, submit_s: Ints) -> Self:
        """Returns whole weeks or days of submissions, from midnight (UTC) before the first."""
        since_s = submit_s - (int(submit_s.min()) // DAY_S * DAY_S if len(submit_s) else 0)
        for unit, length_s in (("week", WEEK_S), ("day", DAY_S)):
            held, of_job = np.unique(since_s // length_s, return_inverse=True)
            if len(held) >= FEWEST_BLOCKS:
                return cls(unit, of_job.astype(np.int64), len(held))
        return cls("", np.zeros(len(submit_s), dtype=np.int64), 0)

    def estimate(self, statistic: Statistic, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
        """Returns a figure of all jobs, with an interval from resampled blocks (Künsch 1989).

        With few blocks, percentile intervals are too narrow: with a dozen weeks, they cover somewhat less than 95 %.
        """
        value = statistic(np.ones(len(self.of_job)))
        if value is None or not self.unit or resamples <= 0:
            return Estimate(value, None)
        random = np.random.default_rng(seed)
        draws = random.multinomial(self.count, np.full(self.count, 1 / self.count), size=resamples)
        found = [statistic(draw[self.of_job].astype(np.float64)) for draw in draws]
        defined = [one for one in found if one is not None]
        if not defined:
            return Estimate(value, None)
        low, high = np.percentile(defined, LEVELS).tolist()
        return Estimate(value, (low, high))


class Ranked:
    """Values with ranks that any resample reuses without sorting again."""

    def __init__(self, values: Ints) -> None:
        self._place = np.unique(values, return_inverse=True)[1]

    def ranks(self, often: Floats) -> Floats:
        """Returns the mean rank of each value in a resample, ties alike; shape (n,)."""
        held = np.bincount(self._place, weights=often)
        ranks: Floats = (np.cumsum(held) - held / 2)[self._place]
        return ranks


def spearman(a: Ints, b: Ints) -> Statistic:
    """Spearman's rank correlation: Pearson's of the ranks, mean ranks for ties (1904)."""
    of_a, of_b = Ranked(a), Ranked(b)
    return lambda often: correlation(of_a.ranks(often), of_b.ranks(often), often)


def pearson(a: Ints, b: Ints) -> Statistic:
    """Pearson's correlation."""
    return lambda often: correlation(a.astype(np.float64), b.astype(np.float64), often)


def ratio_of_means(a: Ints, b: Ints) -> Statistic:
    """Mean of ``a`` over mean of ``b``; not defined where the latter is 0."""

    def ratio(often: Floats) -> float | None:
        below = float((often * b).sum())
        return float((often * a).sum()) / below if below > 0 else None

    return ratio


def correlation(a: Floats, b: Floats, often: Floats | None = None) -> float | None:
    """Pearson's correlation of values that occur ``often`` times.

    ``None`` for fewer than three, or where one of them is constant. It uses sums instead of products of vectors: a
    matrix library would start threads for each of the thousand small products of a bootstrap.
    """
    often = np.ones(len(a)) if often is None else often
    total = float(often.sum())
    if total < 3:
        return None
    da, db = a - (often * a).sum() / total, b - (often * b).sum() / total
    spread_a, spread_b = float((often * da * da).sum()), float((often * db * db).sum())
    if spread_a <= total * _rounding(a) or spread_b <= total * _rounding(b):
        return None
    return float(np.clip((often * da * db).sum() / np.sqrt(spread_a * spread_b), -1.0, 1.0))


def _rounding(values: Floats) -> float:
    """Variance that rounding errors give to equal values."""
    return 1e-24 * float(np.abs(values).max()) ** 2
