"""The discipline that stops the clock after every event, for an external policy."""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import DISCIPLINE, Reference


@kernel(DISCIPLINE)
def paused(situation: Reference) -> int:
    """Stop, so that the policy is called."""
    return -1
