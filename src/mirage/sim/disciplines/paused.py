"""No discipline of its own: the clock stops after every event and somebody outside decides."""

from __future__ import annotations

from mirage.sim.compile import kernel
from mirage.sim.layout import DISCIPLINE, Scratch, State, World


@kernel(DISCIPLINE)
def paused(world: World, state: State, scratch: Scratch) -> int:
    """Ask the policy."""
    return -1
