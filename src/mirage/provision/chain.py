"""Chains, links, and what a hand-over cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError

LIGHT_S, HEAVY_S = 2 * HOUR_S, 12 * HOUR_S
"""Bounds of the load classes on the reactive interruption (Mirage, SC'23)."""

LOADS = ("light", "medium", "heavy")


@dataclass(frozen=True, slots=True)
class Link:
    """One job of a chain, as every link of it is.

    Attributes:
        nodes: Whole nodes.
        limit_s: Time limit; a link runs until it.
    """

    nodes: int = 1
    limit_s: int = 48 * HOUR_S


@dataclass(frozen=True, slots=True)
class Cost:
    """What an hour of interruption and an hour of overlap cost, in any common unit."""

    interruption: float = 1.0
    overlap: float = 1.0

    def __post_init__(self) -> None:
        both = (self.interruption, self.overlap)
        if not all(map(math.isfinite, both)) or min(both) < 0 or sum(both) == 0:
            raise ConfigurationError(
                f"costs must not be negative, infinite nor both zero, got interruption={self.interruption}, "
                f"overlap={self.overlap}; give what an hour of each costs you, e.g. 3 and 1"
            )

    def of(self, x_s: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Cost of hand-overs whose next link started ``x_s`` after (before: negative) the end of the last."""
        hours = np.asarray(x_s, dtype=np.float64) / HOUR_S
        return self.interruption * np.maximum(hours, 0.0) + self.overlap * np.maximum(-hours, 0.0)


def load_class(reactive_x_s: float) -> str:
    """``light``, ``medium`` or ``heavy``, by what a reactive chain would have suffered."""
    if reactive_x_s <= LIGHT_S:
        return "light"
    return "medium" if reactive_x_s <= HEAVY_S else "heavy"
