"""Kernels that Python calls, compiled for fixed argument types."""

from __future__ import annotations

from typing import Any

from numba import float64, int64, void

from mirage.schedule.engine.kernel.arrays import JOBS_TYPE, STATE_TYPE, State
from mirage.schedule.engine.kernel.life.lifecycle import settle
from mirage.schedule.engine.kernel.reference import by_reference
from mirage.schedule.engine.kernel.seen import bring_up, seats_of_all
from mirage.sim.kernel.compile import kernel

_COLUMN = int64[::1]


@kernel(void(STATE_TYPE, float64[:, ::1]))
def bring_up_now(state: State, seen: Any) -> None:
    """Fill the columns of amounts at the current time."""
    bring_up(by_reference(state), seen)


@kernel(int64(STATE_TYPE, _COLUMN, _COLUMN, _COLUMN))
def seats_now(state: State, first: Any, server: Any, gpus: Any) -> int:
    """Write the GPUs of each job in compressed rows; returns the number of locations."""
    return int(seats_of_all(by_reference(state), first, server, gpus))


@kernel(void(JOBS_TYPE, float64))
def settle_now(jobs: Any, now_s: float) -> None:
    """Update the amounts of jobs to a time."""
    for k in range(len(jobs)):
        settle(jobs[k], now_s)
