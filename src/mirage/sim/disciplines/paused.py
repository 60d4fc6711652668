"""No discipline of its own: the clock stops after every event and somebody outside decides."""

from __future__ import annotations

from mirage.sim.compile import kernel
from mirage.sim.layout import DISCIPLINE, Reference


@kernel(DISCIPLINE)
def paused(situation: Reference) -> int:
    """Ask the policy."""
    return -1
