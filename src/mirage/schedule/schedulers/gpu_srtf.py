"""Shortest remaining time first, preemptive: the jobs with the least remaining time run.

The expected cost of a start or restart is part of the remaining time. Run times are the users' estimates, or the true
ones of jobs without an estimate. SRTF is not a bound if jobs have different numbers of GPUs: another order can have
shorter waits.

Remaining times are in seconds at the usual speed of a job. This is its speed on the GPU type with the most GPUs in the
cluster, whatever GPUs the job holds. The remaining time of a job that runs faster or slower than this decreases faster
or slower than the clock advances.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.current_amounts import expected_left_s, progress_now
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    PENDING,
    SCHEDULER,
    GpuState,
    GpuWorld,
    PlanBuffer,
    dereference,
)
from mirage.schedule.schedulers.exchange import LEAVES, RANKS, exchange
from mirage.schedule.schedulers.job_queue import GONE, NEWCOMER, RETURNED, RUNS, WAITING, enter, precedes, remove
from mirage.schedule.schedulers.preemption import way_number
from mirage.schedule.schedulers.run_time_estimates import estimate_ends, start_cost_s, usual_speed

_REASONS = (
    "",
    "least-left",
    "less-left-than-running",
    "others-have-less-left",
)


@kernel(forceinline=False)
def common_speed(world: GpuWorld) -> float:
    """Speed of one GPU, under the linear law, of the type with the most GPUs in the cluster."""
    speeds = world.speeds.type_speed
    if len(speeds) == 1:
        return float(speeds[0])
    most, found = 0, 1.0
    for gpu_type in range(len(speeds)):
        gpus = 0
        for server in range(len(world.gpus_of)):
            if world.type_of[server] == gpu_type:
                gpus += world.gpus_of[server]
        if gpus > most:
            most, found = gpus, speeds[gpu_type]
    return float(found)


@kernel()
def decrease_with_the_clock(world: GpuWorld) -> bool:
    """Whether remaining times of all running jobs decrease by one second per second."""
    speeds = world.speeds.type_speed
    for gpu_type in range(len(speeds)):
        if speeds[gpu_type] != speeds[0]:
            return False
    return len(world.speeds.rows) == 0


@kernel()
def first_is_overdue(state: GpuState, buffer: PlanBuffer) -> bool:
    """Whether the job that was expected to end first should have ended before now."""
    ids, ends = buffer.ranks[RUNS], buffer.ranks[RUNS + 1]
    return bool(ends[0] < ends[1] and buffer.memory[0][ids[ends[0]]] < state.clock[0].now_s)


@kernel()
def some_are_measured(state: GpuState, buffer: PlanBuffer) -> bool:
    """Whether the epochs of a running job show its run time, now or later."""
    ids, ends = buffer.ranks[RUNS], buffer.ranks[RUNS + 1]
    earliest = NEVER_S
    for k in range(ends[0], ends[1]):
        earliest = min(earliest, state.live[state.slot_of[ids[k]]].first_epoch_work)
    return bool(earliest < NEVER_S)


@kernel(forceinline=False)
def left_s(job: Any, common: float) -> float:
    """Remaining run time of a waiting job at its usual speed, with the cost of its start.

    Args:
        common: From ``common_speed``. The expected run time of a measured model is at its usual speed already.
    """
    stretch = 1.0 / common if job.model < 0 else 1.0
    return float(expected_left_s(job, job.progress) * stretch + start_cost_s(job))


@kernel(forceinline=False)
def refresh_running(world: GpuWorld, state: GpuState, buffer: PlanBuffer, common: float) -> None:
    """Sort jobs that hold GPUs by their present remaining time.

    Keys are updated for jobs with other speeds than the usual one, for those that should have ended, and for those
    whose epochs show their run time.
    """
    now_s, keys = state.clock[0].now_s, buffer.memory[0]
    ids, ends = buffer.ranks[RUNS], buffer.ranks[RUNS + 1]
    for k in range(ends[0], ends[1]):
        job = state.live[state.slot_of[ids[k]]]
        usual = usual_speed(world, job) if job.model >= 0 else job.held * common
        stale = job.speed != usual or keys[job.id] < now_s or job.first_epoch_work < NEVER_S
        if stale and job.known_run_s == job.known_run_s:
            left = expected_left_s(job, progress_now(job, now_s))
            left = left / common if job.model < 0 else left
            pause_s = job.expected_until_s - now_s if job.expected_until_s > now_s else 0.0
            keys[job.id] = now_s + left + pause_s
    for k in range(ends[0] + 1, ends[1]):
        job_id, at = ids[k], k
        while at > ends[0] and precedes(keys, job_id, keys[ids[at - 1]], ids[at - 1]):
            ids[at] = ids[at - 1]
            at -= 1
        ids[at] = job_id


@kernel()
def update_queues(state: GpuState, buffer: PlanBuffer, common: float) -> None:
    """Update the queues from the news."""
    keys = buffer.memory[0]
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE) and not remove(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], keys, job_id):
            remove(buffer.ranks[LEAVES], buffer.ranks[LEAVES + 1], keys, job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], keys, job_id, left_s(state.live[slot], common))


@kernel(SCHEDULER)
def srtf(situation: Any) -> int:
    """Preempt jobs with much remaining time for waiting jobs with less."""
    world, state, buffer = dereference(situation)
    common = common_speed(world)
    update_queues(state, buffer, common)
    changed = first_is_overdue(state, buffer) or some_are_measured(state, buffer)
    if changed or not decrease_with_the_clock(world):
        refresh_running(world, state, buffer, common)
    actions = exchange(world, state, buffer, state.clock[0].now_s, int(buffer.parameters[0]))
    estimate_ends(world, state, buffer, actions)
    return actions


def scheduler(preempt: str = "save") -> CompiledScheduler:
    """Shortest remaining time first.

    Args:
        preempt: save, kill, boundary or cheaper.

    Raises:
        UnknownName: There is no such way to preempt.
    """
    way = float(way_number(preempt))
    return CompiledScheduler("srtf", srtf, _REASONS, knows_run_s=True, ranks=RANKS, parameters=(way,))
