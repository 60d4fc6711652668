"""Computed parts of a scheduler's view: amounts at the current time, and GPUs of each job."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NIL, PENDING, GpuState
from mirage.schedule.engine.kernel.gpu_lifecycle import last_boundary, makes_progress

PROGRESS, SAFE, ATTAINED, DONE, COLUMNS = range(5)


@kernel()
def progress_now(job: Any, now_s: float) -> float:
    """Work that a job has done until now."""
    if not makes_progress(job):
        return float(job.progress)
    return float(min(job.progress + job.speed * (now_s - job.since_s), job.target))


@kernel()
def attained_now(job: Any, now_s: float) -> float:
    """GPU-seconds that a job has held until now."""
    if job.status == PENDING:
        return float(job.executed)
    return float(job.executed + job.held * (now_s - job.since_s))


@kernel(forceinline=False)
def write_amounts(state: GpuState, amounts: Any) -> None:
    """Fill the columns of amounts at the current time; the state does not change."""
    clock = state.clock[0]
    now_s = clock.now_s
    for slot in range(clock.n_live):
        job = state.live[slot]
        progress = progress_now(job, now_s)
        amounts[PROGRESS, slot] = progress
        amounts[SAFE, slot] = max(job.safe, last_boundary(job, progress))
        amounts[ATTAINED, slot] = attained_now(job, now_s)
        amounts[DONE, slot] = progress / job.work if job.known_run_s == job.known_run_s else job.known_run_s


@kernel(forceinline=False)
def write_placements(state: GpuState, first: Any, server: Any, gpus: Any) -> int:
    """Write the GPUs of each job in compressed rows; returns the number of locations."""
    n = 0
    for slot in range(state.clock[0].n_live):
        first[slot] = n
        at = state.live[slot].chunk
        while at != NIL:
            server[n] = state.chunks[at].server
            gpus[n] = state.chunks[at].gpus
            n += 1
            at = state.chunks[at].next
    first[state.clock[0].n_live] = n
    return n
