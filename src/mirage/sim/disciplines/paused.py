"""No discipline of its own: the clock stops after every event and somebody outside decides."""

from __future__ import annotations

from mirage.sim.kernel.arrays import DISCIPLINE, Reference
from mirage.sim.kernel.compile import kernel


@kernel(DISCIPLINE)
def paused(situation: Reference) -> int:
    """Ask the policy."""
    return -1
