"""Computed parts of a scheduler's view: amounts at the current time, and GPUs of each job.

A scheduler knows the share of the work that is done only as well as it knows the run time: it is the share of the
*expected* work. A job that passes its expected work is expected to have twice as much, as often as necessary. Time held
over the share done is therefore the expected run time, and does not reveal the true one.

The first epoch of a job shows how long an epoch takes. From then on the run time of a job with a known number of epochs
is known, and so is the share of its work that is done. Until then the work between two checkpoints, which are usually
ends of epochs, has the error of the run time as well.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NEVER_S, NIL, PENDING, GpuState
from mirage.schedule.engine.kernel.gpu_lifecycle import last_boundary, makes_progress

PROGRESS, SAFE, ATTAINED, DONE, RUN, CHECKPOINT, COLUMNS = range(7)

_PASSED = 1.0 + 1e-9
"""Share of the expected work from which on it counts as passed; rounding may add less."""

_REACHED = 1.0 - 1e-9
"""Share of the first epoch from which on it counts as done; rounding may lack less."""


@kernel()
def progress_now(job: Any, now_s: float) -> float:
    """Work that a job has done until now."""
    if not makes_progress(job):
        return float(job.progress)
    return float(min(job.progress + job.speed * (now_s - job.since_s), job.target))


@kernel()
def doublings(job: Any, progress: float) -> float:
    """The factor of expected work and run time after a progress: a power of two."""
    factor = 1.0
    while progress > job.known_work * factor * _PASSED and job.known_work > 0.0:
        factor *= 2.0
    return factor


@kernel()
def is_measured(job: Any, progress: float) -> bool:
    """Whether the first epoch of a job shows its run time, after a progress."""
    return bool(progress >= job.first_epoch_work * _REACHED)


@kernel()
def expected_left_s(job: Any, progress: float) -> float:
    """Expected remaining run time after a progress, on the requested GPUs."""
    if is_measured(job, progress):
        return float(job.measured_run_s * (1.0 - progress / job.work))
    factor = doublings(job, progress)
    return float(job.known_run_s * factor * (1.0 - progress / (job.known_work * factor)))


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
        amounts[CHECKPOINT, slot] = job.checkpoint_work
        if is_measured(job, progress):
            amounts[RUN, slot] = job.measured_run_s
            amounts[DONE, slot] = progress / job.work
            continue
        if job.first_epoch_work < NEVER_S:
            amounts[CHECKPOINT, slot] *= job.known_work / job.work
        factor = doublings(job, progress)
        amounts[RUN, slot] = job.known_run_s * factor
        known = job.known_run_s == job.known_run_s
        amounts[DONE, slot] = progress / (job.known_work * factor) if known else job.known_run_s


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
