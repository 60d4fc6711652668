"""The cost of a hand-over: what an hour of interruption and an hour of overlap cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Cost:
    """What an hour of interruption and an hour of overlap cost, in any common unit.

    Raises:
        ConfigurationError: One is negative or not finite, or both are zero.
    """

    interruption: float = 1.0
    overlap: float = 1.0

    def __post_init__(self) -> None:
        both = (self.interruption, self.overlap)
        if not all(math.isfinite(cost) and cost >= 0 for cost in both) or sum(both) == 0:
            raise ConfigurationError(
                f"costs must not be negative, infinite or both zero, got interruption={self.interruption}, "
                f"overlap={self.overlap}; give what an hour of each costs you, e.g. 3 and 1"
            )

    @property
    def ratio(self) -> float | None:
        """Cost of an hour of interruption, in hours of overlap; None if overlap is free."""
        return self.interruption / self.overlap if self.overlap else None

    def of(self, gap_s: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Cost of hand-overs with a gap of ``gap_s``.

        A gap is the start of the next link minus the end of the last; negative for an overlap.
        """
        gaps_s = np.asarray(gap_s, dtype=np.float64)
        return self.total(np.maximum(gaps_s, 0.0), np.maximum(-gaps_s, 0.0))

    def total(
        self, interruption_s: NDArray[np.float64] | float, overlap_s: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        """Cost of interruptions and overlaps.

        A hand-over can have both: the next link starts before the end of the last, and is ready after it.
        """
        interruption_h = np.asarray(interruption_s, dtype=np.float64) / HOUR_S
        return self.interruption * interruption_h + self.overlap * (np.asarray(overlap_s, dtype=np.float64) / HOUR_S)
