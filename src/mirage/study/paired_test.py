"""Tests of paired differences that also count a rare loss without an example.

Of two policies with equal means, one may be very late in a few windows of a hundred, and the other a little early in
all. A sample without such a window shows a small and certain advantage of the first. So an interval from the sample
alone calls the two different as often as the rare window is missing. Here the end of the interval on the side of the
other policy lies at least where the mean would be with that loss:

- how often: a loss that n independent windows do not show has a probability up to q = 1 − 0.025^(1/n) (Clopper and
  Pearson 1934; about 3.7 / n). Windows that are t days apart count as correlated by e^(−t);
- how large: what the policy could have lost in these windows and in one more, the worst that there can be; each hour of
  it is equally likely to be drawn, as auditors draw units of money (Σ loss² / Σ loss). It is at least what the worst
  window has more than any of these, so that many small losses do not hide that a large one is possible.

The end of the interval from stretches (``mirage.study.intervals``) counts if it is further out: it covers what the
windows do show.

Several differences in one table are corrected together (Benjamini and Hochberg 1995): of those that are called
different, 5 % at most are expected to be equal, and a table of equal policies has one in 5 % of cases at most.

``benchmarks/evaluation/interval_coverage.py`` measures errors and power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S
from mirage.study.intervals import Interval, Members, Stretches

ERROR = 0.05
"""Share of wrong calls: of a single test of equal policies, and of the calls in a table."""

_TAIL = ERROR / 2


@dataclass(frozen=True, slots=True)
class PossibleLoss:
    """What a policy could have lost by bad luck, in the unit of the difference.

    Attributes:
        by_window: Shape (windows,), how much more it could have cost in each window; not negative.
        worst: How much more it could cost in another window, the worst that there can be.
        beyond: How much of that is more than in any of these windows.
    """

    by_window: Floats
    worst: float
    beyond: float

    def drawn(self, members: Members, windows: int) -> float:
        """Size of a loss that the members do not show.

        Args:
            windows: Number of distinct windows among the members.
        """
        losses = self.by_window[members]
        total = windows * float(losses.mean()) + self.worst
        squares = windows * float((losses**2).mean()) + self.worst**2
        return max(squares / total, self.beyond) if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Mean difference of two policies.

    Attributes:
        interval: Its 95 % interval; it excludes zero where the p-value is below 0.05.
        p_value: Two-sided p-value of equal means.
    """

    interval: Interval
    p_value: float


def paired_test(
    difference: Floats, first: PossibleLoss, second: PossibleLoss, members: Members, stretches: Stretches
) -> PairedTest | None:
    """Tests whether two policies differ; None if the members lie in too few stretches.

    Args:
        difference: Shape (windows,), the first policy minus the second.
        first: What the first could have lost: it counts where it seems to be better.
        members: Shape (windows,), which windows count.
    """
    estimate = stretches.jackknife(difference, np.ones_like(difference), members)
    if estimate is None:
        return None
    windows = independent_windows(stretches.submitted_s[members])
    share = 1 - _TAIL ** (1 / windows)
    up, down = (loss.drawn(members, stretches.windows(members)) for loss in (first, second))
    low, high = estimate.interval
    interval = min(low, estimate.ratio - share * down), max(high, estimate.ratio + share * up)
    drawn = up if estimate.ratio < 0 else down
    missed = (1 - abs(estimate.ratio) / drawn) ** windows if drawn > abs(estimate.ratio) else 0.0
    return PairedTest(interval, max(estimate.p_value, min(2 * missed, 1.0)))


def independent_windows(submitted_s: Ints) -> float:
    """Number of independent windows with the same information as windows at these times."""
    times_s, count = np.unique(submitted_s, return_counts=True)
    correlation = np.exp(-np.abs(np.subtract.outer(times_s, times_s)) / DAY_S)
    return float(count.sum() ** 2 / (count @ correlation @ count))


def corrected(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Benjamini and Hochberg 1995).

    Args:
        p_values: Of different comparisons in one table, in any order.
    """
    p = np.array(p_values, dtype=np.float64)
    order = np.argsort(-p, kind="stable")
    times = len(p) / np.arange(len(p), 0, -1)
    found = np.empty_like(p)
    found[order] = np.minimum.accumulate(np.minimum(p[order] * times, 1.0))
    return [float(p) for p in found]
