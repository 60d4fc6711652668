"""Kernels that Python calls, compiled for fixed argument types."""

from __future__ import annotations

from typing import Any

from numba import float64, int64, void

from mirage.kernel.compile import kernel
from mirage.kernel.reference import by_reference
from mirage.schedule.engine.kernel.current_amounts import write_amounts, write_placements
from mirage.schedule.engine.kernel.gpu_arrays import JOBS_TYPE, SCHEDULER, STATE_TYPE, GpuState
from mirage.schedule.engine.kernel.gpu_lifecycle import settle

_COLUMN = int64[::1]


@kernel(void(STATE_TYPE, float64[:, ::1]))
def amounts_now(state: GpuState, amounts: Any) -> None:
    """Fill the columns of amounts at the current time."""
    write_amounts(by_reference(state), amounts)


@kernel(int64(STATE_TYPE, _COLUMN, _COLUMN, _COLUMN))
def placements_now(state: GpuState, first: Any, server: Any, gpus: Any) -> int:
    """Write the GPUs of each job in compressed rows; returns the number of locations."""
    return int(write_placements(by_reference(state), first, server, gpus))


@kernel(void(JOBS_TYPE, float64))
def settle_now(jobs: Any, now_s: float) -> None:
    """Update the amounts of jobs to a time."""
    for k in range(len(jobs)):
        settle(jobs[k], now_s)


@kernel(SCHEDULER)
def external_scheduler(situation: int) -> int:
    """Stop the clock, so that a scheduler outside the compiled code decides."""
    return -1
