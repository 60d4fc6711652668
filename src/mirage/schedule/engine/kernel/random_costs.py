"""Costs of a start, restart, change of size or save, and saves that fail: drawn by job.

A draw depends on the seed, the job and the number of its earlier draws, and on nothing else in the cluster: two
schedulers get the same costs as long as they treat a job in the same way.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.random import normal
from mirage.schedule.engine.kernel.gpu_arrays import TICK_S, GpuWorld


@kernel()
def in_ticks(seconds: float) -> float:
    """The nearest multiple of a tick; infinite times stay infinite."""
    if math.isinf(seconds):
        return seconds
    return float(math.floor(seconds / TICK_S + 0.5) * TICK_S)


@kernel(forceinline=False)
def drawn_s(world: GpuWorld, job: Any, expected_s: float) -> float:
    """Draw a cost from a log-normal distribution around the expected cost, in ticks."""
    spread = world.settings[0].cost_spread
    if spread <= 0.0 or expected_s <= 0.0:
        return in_ticks(expected_s)
    variance = math.log(1.0 + spread * spread)
    factor = math.exp(math.sqrt(variance) * normal(world.settings[0].seed, job.id, job.draws) - 0.5 * variance)
    return in_ticks(expected_s * factor)


_SAVES = 0x5A7E
"""Offset of the seed for saves, so that a save's failure does not depend on its duration."""


@kernel(forceinline=False)
def save_fails(world: GpuWorld, job: Any) -> bool:
    """Draw whether a checkpoint on demand fails."""
    chance = world.settings[0].save_fails
    if chance <= 0.0:
        return False
    drawn = normal(world.settings[0].seed + _SAVES, job.id, job.draws)
    return bool(0.5 * math.erfc(-drawn / math.sqrt(2.0)) < chance)
