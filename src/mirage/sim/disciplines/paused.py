"""The discipline that stops the clock after every event, for a policy outside to decide."""

from __future__ import annotations

from mirage.sim.kernel.arrays import DISCIPLINE, Reference
from mirage.sim.kernel.compile import kernel


@kernel(DISCIPLINE)
def paused(situation: Reference) -> int:
    """Ask the policy."""
    return -1
