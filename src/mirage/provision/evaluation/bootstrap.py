"""Block bootstrap: 95 % intervals from windows that resemble their neighbours.

Whole weeks are drawn again, not single windows.

Windows that lie hours apart meet nearly the same queue (lag-1 autocorrelation 0.8 on Lonestar6), so that an interval
from single windows would be several times too narrow. A block bootstrap (Künsch 1989) keeps neighbours together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints

Floats = NDArray[np.float64]

RESAMPLES = 2_000
FEWEST_BLOCKS = 3
"""An interval from fewer blocks would say more about the blocks than about the world."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which windows belong together, and how often each block came up in each resample.

    Attributes:
        unit: ``week`` (ISO, from Monday) or ``day``, UTC.
        of_window: Shape (windows,), block of each window.
        drawn: Shape (resamples, blocks), how often.
    """

    unit: str
    of_window: Ints
    drawn: Floats

    @classmethod
    def of(cls, submitted_s: Ints, seed: int, resamples: int = RESAMPLES) -> Self:
        """Blocks of ISO weeks of submission; of days where the windows span fewer than three weeks.

        Args:
            submitted_s: Shape (windows,), when each window's predecessor was submitted.
            seed: Of the draws.
            resamples: How many draws.
        """
        dates = [datetime.fromtimestamp(instant, UTC) for instant in submitted_s.tolist()]
        unit, names = "week", [date.strftime("%G-%V") for date in dates]
        if len(set(names)) < FEWEST_BLOCKS:
            unit, names = "day", [date.strftime("%Y-%m-%d") for date in dates]
        of_window = np.unique(names, return_inverse=True)[1].astype(np.int64)
        n = int(of_window.max(initial=-1)) + 1
        random = np.random.default_rng(np.random.SeedSequence([seed, 0xB007]))
        drawn = random.multinomial(n, np.full(n, 1 / n), size=resamples) if n else np.zeros((resamples, 0))
        return cls(unit, of_window, drawn.astype(np.float64))

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return int(self.drawn.shape[1])

    def totals(self, values: Floats, members: NDArray[np.bool_]) -> Floats:
        """Shape (resamples,), the sum of the members' values in each resample."""
        sums = np.bincount(self.of_window[members], weights=values[members], minlength=self.count)
        totals: Floats = self.drawn @ sums
        return totals

    def enough(self, members: NDArray[np.bool_]) -> bool:
        """Whether the members lie in enough blocks for an interval."""
        return len(np.unique(self.of_window[members])) >= FEWEST_BLOCKS

    def mean(self, values: Floats, members: NDArray[np.bool_]) -> Interval | None:
        """95 % interval of the members' mean; None where they lie in too few blocks."""
        return self.ratio(values, np.ones_like(values), members)

    def ratio(self, above: Floats, below: Floats, members: NDArray[np.bool_]) -> Interval | None:
        """95 % interval of Σ above / Σ below over the members; None where they lie in too few blocks.

        Resamples in which the lower sum is 0 have no ratio and are left out.
        """
        if not self.enough(members):
            return None
        over, under = self.totals(above, members), self.totals(below, members)
        usable = np.abs(under) > 1e-9
        if not usable.any():
            return None
        low, high = np.percentile(over[usable] / under[usable], (2.5, 97.5)).tolist()
        return low, high
