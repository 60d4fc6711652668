"""The compiled scheduler that leaves every decision to the caller."""

from __future__ import annotations

from mirage.schedule.engine.kernel.arrays import SCHEDULER
from mirage.sim.kernel.compile import kernel


@kernel(SCHEDULER)
def unasked(situation: int) -> int:
    """Stop the clock, so that a scheduler outside the compiled code decides."""
    return -1
