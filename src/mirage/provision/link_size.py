"""Links of a chain, and the load classes of hand-overs."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.duration import HOUR_S
from mirage.whole_numbers import make_whole

LIGHT_S, HEAVY_S = 2 * HOUR_S, 12 * HOUR_S
"""Bounds of the load classes on the reactive interruption (Mirage, SC'23)."""

LIGHT = "light"
LOADS = (LIGHT, "medium", "heavy")


@dataclass(frozen=True, slots=True)
class LinkSize:
    """One job of a chain; all links of a chain are alike.

    Attributes:
        nodes: Whole nodes.
        limit_s: Time limit; a link runs until it.
    """

    nodes: int = 1
    limit_s: int = 48 * HOUR_S

    def __post_init__(self) -> None:
        make_whole(self, "nodes", "limit_s")


def load_class(reactive_s: float) -> str:
    """Returns ``light``, ``medium`` or ``heavy``, by the interruption of a reactive chain."""
    if reactive_s <= LIGHT_S:
        return LIGHT
    return "medium" if reactive_s <= HEAVY_S else "heavy"


def longest_wait_s(load: str, limit_s: int) -> int:
    """Returns the longest wait to expect: a link's limit, or less in a load class.

    Args:
        load: A load class; anything else for windows of all classes.
    """
    return min(limit_s, {LIGHT: LIGHT_S, "medium": HEAVY_S}.get(load, limit_s))
