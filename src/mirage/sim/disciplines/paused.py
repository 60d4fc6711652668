"""The discipline that stops the clock after every event, for an external policy."""

from __future__ import annotations

from mirage.sim.kernel.arrays import DISCIPLINE, Reference
from mirage.sim.kernel.compile import kernel


@kernel(DISCIPLINE)
def paused(situation: Reference) -> int:
    """Stop, so that the policy is called."""
    return -1
