"""Aryl's memory between calls, its parameters, and the reasons of its actions."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import PlanBuffer

KEYS, COST, NEXT_INTERVAL, WORK, VALUE, BEST, LOSS, MISSING, ANSWERED_S = range(9)
"""Columns of numbers; the first value of ``NEXT_INTERVAL`` is the time at which the next interval begins.

``MISSING`` has the servers to give back by pool, while these are chosen exactly. ``ANSWERED_S`` has the time at which
they were chosen, and the time for which a call was requested before.
"""

BASE, RECALLED, CHOICE, PREEMPTED, LISTED, HELD, MOST, EXTRA, FIRST, COUNT, MOVED = range(2, 13)
"""Columns of integers after the waiting queue: by job id, by server, or by index in the list of elastic jobs."""

SHORTEST, LENDS, GIVES_BACK, RECLAIMED, SCALED_IN, KNAPSACK, MOVES_HOME, WIDE = range(1, 9)
REASONS = (
    "",
    "shortest-waiting",
    "lends-idle",
    "inference-wants-it",
    "server-reclaimed",
    "flexible-server-reclaimed",
    "extra-workers",
    "own-pool-is-free",
    "shortest-waiting-at-full-width",
)

(
    LOANS, ELASTIC, INTERVAL_S, HEADROOM, WAY, WEIGHS_LOSS, MOST_LOSS_S, LEAST_GAIN_S, EXACT, MOVES, WIDTH_POWER,
    WIDE_STARTS, LEAST_WORK_FIRST, EXTRA_ON_LOANS,
) = range(14)  # fmt: skip
"""Parameters by position."""


@kernel()
def is_elastic(buffer: PlanBuffer, job: Any) -> bool:
    """Whether a job may get extra workers."""
    return bool(buffer.parameters[ELASTIC] > 0.0 and job.max_gpus > job.gpus)
