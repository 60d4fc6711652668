"""Aryl's memory between calls, its parameters, and the reasons of its actions."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import PlanBuffer

KEYS, COST, NEXT_INTERVAL, WORK, VALUE, BEST, LOSS = range(7)
"""Columns of numbers; the first value of ``NEXT_INTERVAL`` is the time at which the next interval begins."""

BASE, RECALLED, CHOICE, PREEMPTED, LISTED, HELD, MOST, EXTRA, FIRST, COUNT = range(2, 12)
"""Columns of integers after the waiting queue: by job id, by server, or by index in the list of elastic jobs."""

SHORTEST, LENDS, GIVES_BACK, RECLAIMED, SCALED_IN, KNAPSACK = range(1, 7)
REASONS = (
    "",
    "shortest-waiting",
    "lends-idle",
    "inference-wants-it",
    "server-reclaimed",
    "flexible-server-reclaimed",
    "extra-workers",
)

LOANS, ELASTIC, INTERVAL_S, HEADROOM, WAY, WEIGHS_LOSS, MOST_LOSS_S, LEAST_GAIN_S = range(8)
"""Parameters by position."""


@kernel()
def is_elastic(buffer: PlanBuffer, job: Any) -> bool:
    """Whether a job may get extra workers."""
    return bool(buffer.parameters[ELASTIC] > 0.0 and job.max_gpus > job.gpus)
