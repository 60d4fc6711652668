"""95 % intervals: of means and ratios over correlated windows, of means over episodes.

Windows that are hours apart meet nearly the same queue (lag-1 autocorrelation 0.8 on Lonestar6). They are therefore
combined into a few long stretches of time, and the unit of repetition is the stretch, not the window:

- the standard error is a jackknife over stretches (each left out in turn; Miller 1974);
- its quantile is Student's t, with as many degrees of freedom as the stretches that carry the ratio's lower sum
  (Satterthwaite 1946): a gap that lies in one heavy week has few, however many weeks there are;
- costs are skewed, so a mean that has missed the rare bad week is too low: the end towards the long tail is moved
  out by the cubic transformation of Hall (1992). The other end stays where Student has it.

``benchmarks/evaluation/interval_coverage.py`` measures the coverage of such intervals.

Differences of two policies need more than that: ``mirage.study.paired_test``.

Episodes with seeds of their own are independent, so Student's t over them is enough. A percentile bootstrap is not: of
two episodes it spans no more than their two values, which holds half as often as it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, WEEK_S

Members = NDArray[np.bool_]
Interval = tuple[float, float]

LEVEL = 0.95
FEWEST_STRETCHES = 4
"""Fewer give no interval: with three, Student's quantile is 4.3 and their skew cannot be estimated."""

_A_WEEK_OR_SO_S = 6 * DAY_S
_NOTHING = 1e-9
_ANGLES = np.linspace(0.0, math.pi / 2, 4001)


@dataclass(frozen=True, slots=True)
class JackknifeEstimate:
    """A ratio of sums over stretches.

    Attributes:
        error: Its standard error.
        freedom: Degrees of freedom of the error.
        skew: Skewness of the sum.
    """

    ratio: float
    error: float
    freedom: float
    skew: float

    @property
    def interval(self) -> Interval:
        """95 % interval of the ratio."""
        low, high = _ends(student_quantile(self.freedom), self.skew)
        return self.ratio - high * self.error, self.ratio - low * self.error

    @property
    def p_value(self) -> float:
        """Two-sided p-value of a true ratio of zero; below 0.05 where the interval excludes it."""
        if abs(self.ratio) < _NOTHING:
            return 1.0
        if self.error < _NOTHING:
            return 0.0
        errors = self.ratio / self.error
        transformed = errors + self.skew * errors**2 / 3 + self.skew**2 * errors**3 / 27 + self.skew / 6
        tails = (student_tail(math.copysign(1.0, errors) * t, self.freedom) for t in (errors, transformed))
        return min(2 * max(tails), 1.0)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of time of equal length, and the windows in them.

    Their number is 2·√weeks, at least four: with more data there are more of them, and each is longer. A window may
    occur several times, played with several seeds: this makes no stretch more certain, and it counts as one window.

    Attributes:
        length_s: Length of each.
        of_window: Shape (windows,), stretch of each window.
        day_of_window: Shape (windows,), day of each window, from the first.
        count: Number of stretches.
        submitted_s: Shape (windows,), when each window's predecessor was submitted.
    """

    length_s: float
    of_window: Ints
    day_of_window: Ints
    count: int
    submitted_s: Ints

    @classmethod
    def of(cls, submitted_s: Ints) -> Self:
        """Returns stretches over the time that windows cover.

        Args:
            submitted_s: Shape (windows,), when each window's predecessor was submitted; in any order.
        """
        n = len(np.unique(submitted_s))
        if n < 2:
            none = np.zeros_like(submitted_s)
            return cls(0.0, none, none, n, submitted_s)
        first_s, last_s = int(submitted_s.min()), int(submitted_s.max())
        covered_s = max((last_s - first_s) * n / (n - 1), 1.0)  # to the end of the last window
        count = max(FEWEST_STRETCHES, round(2 * math.sqrt(covered_s / WEEK_S)))
        since_s = submitted_s - first_s
        of_window = np.minimum(since_s * count // covered_s, count - 1).astype(np.int64)
        return cls(covered_s / count, of_window, since_s // DAY_S, count, submitted_s)

    @property
    def words(self) -> str:
        """Description of intervals from these stretches."""
        days = self.length_s / DAY_S
        if days < 1:
            return f"none: the windows span less than {FEWEST_STRETCHES} days (several weeks are better)"
        how = f"95 %, from {self.count} stretches of {days:.3g} d (jackknife, Student's t, Hall's correction for skew)"
        return how if self.length_s >= _A_WEEK_OR_SO_S else f"{how}; too narrow: loads last longer than such a stretch"

    def windows(self, members: Members) -> int:
        """Number of distinct windows among the members."""
        return len(np.unique(self.submitted_s[members]))

    def mean(self, values: Floats, members: Members) -> Interval | None:
        """95 % interval of the members' mean; None if they lie in too few stretches.

        If no value is negative, the lower end is at least 0.
        """
        found = self.ratio(values, np.ones_like(values), members)
        return (max(found[0], 0.0), found[1]) if found and values[members].min() >= 0 else found

    def ratio(self, above: Floats, below: Floats, members: Members) -> Interval | None:
        """95 % interval of Σ above / Σ below over the members.

        None if they lie in too few stretches, or if only one stretch has a positive value below.

        Args:
            above: Shape (windows,).
            below: Shape (windows,), non-negative.
            members: Shape (windows,), which windows count.
        """
        found = self.jackknife(above, below, members)
        return None if found is None else found.interval

    def jackknife(self, above: Floats, below: Floats, members: Members) -> JackknifeEstimate | None:
        """Σ above / Σ below over the members with its standard error; None as for ``ratio``."""
        stretch = np.unique(self.of_window[members], return_inverse=True)[1]
        over, under = _sums(above[members], stretch), _sums(below[members], stretch)
        count, total = len(under), under.sum()
        if count < FEWEST_STRETCHES or self.length_s < DAY_S or (total - under).min() <= _NOTHING:
            return None
        ratio = over.sum() / total
        without = (over.sum() - over) / (total - under)
        error = math.sqrt((count - 1) / count * ((without - ratio) ** 2).sum())
        freedom = max(1 / ((under / total) ** 2).sum() - 1, 1.0)
        skew = _skew_of_sum(over - ratio * under) * math.sqrt(count * (count - 1)) / (count - 2)
        day = self.day_of_window[members]
        by_day = _skew_of_sum(_sums(above[members], day) - ratio * _sums(below[members], day))
        return JackknifeEstimate(float(ratio), error, freedom, by_day if abs(by_day) > abs(skew) else skew)

    def gap_closed(self, closed: Floats, gap: Floats, members: Members) -> Interval | None:
        """95 % interval of the gap closed, Σ closed / Σ gap.

        It ends at 1, except where a policy that revises links closes more than the gap of a window.
        """
        found = self.ratio(closed, gap, members)
        if found is None or (closed > gap + _NOTHING)[members].any():
            return found
        return found[0], min(found[1], 1.0)


def _sums(values: Floats, group: Ints) -> Floats:
    return np.bincount(group, weights=values).astype(np.float64)


def _skew_of_sum(parts: Floats) -> float:
    """Skewness of the sum of independent centred parts; 0 if nothing varies."""
    spread = float((parts**2).sum())
    return float((parts**3).sum()) / spread**1.5 if spread > _NOTHING else 0.0


def _ends(quantile: float, skew: float) -> Interval:
    """95 % range of the studentised mean, never within ±quantile (Hall 1992, eq. 4)."""
    if abs(skew) < _NOTHING:
        return -quantile, quantile
    low, high = (3 / skew * (math.cbrt(1 + skew * (y - skew / 6)) - 1) for y in (-quantile, quantile))
    return min(low, -quantile), max(high, quantile)


@lru_cache(maxsize=4096)
def student_quantile(freedom: float) -> float:
    """Two-sided 95 % quantile of Student's t, also for fractional degrees of freedom ≥ 1."""
    return math.sqrt(freedom) * math.tan(float(np.interp(LEVEL, _student_shares(freedom), _ANGLES)))


def student_tail(value: float, freedom: float) -> float:
    """Probability that Student's t is above a value, for any degrees of freedom ≥ 1."""
    inside = float(np.interp(math.atan(abs(value) / math.sqrt(freedom)), _ANGLES, _student_shares(freedom)))
    return (1 - inside) / 2 if value >= 0 else (1 + inside) / 2


@lru_cache(maxsize=64)
def _student_shares(freedom: float) -> Floats:
    """Probabilities that Student's t is within ±√ν·tan θ, for each angle θ.

    The density of θ is proportional to cos^(ν−1) θ.
    """
    density = np.cos(_ANGLES) ** (freedom - 1)
    share: Floats = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    share /= share[-1]
    return share


def interval_of_mean(values: Floats) -> tuple[float, float] | tuple[None, None]:
    """95 % interval of a mean over independent episodes, by Student's t; none for one."""
    if len(values) < 2:
        return None, None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    reach = student_quantile(len(values) - 1) * error
    return mean - reach, mean + reach
