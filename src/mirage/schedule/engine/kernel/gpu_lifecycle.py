"""The life of a job: admitted, started, paused, running, stopping, ended."""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.event_heap import push_event
from mirage.schedule.engine.kernel.gpu_arrays import (
    BOUNDARY,
    BY_BOUNDARY,
    BY_CANCEL,
    BY_FAILED_SAVE,
    BY_ITSELF,
    BY_KILL,
    BY_RECLAIM,
    BY_RESIZE,
    BY_SAVE,
    ENDED,
    NEVER_S,
    NIL,
    NO_SEGMENT,
    NO_SLOT,
    NOT_ENDED,
    ON_ENDED,
    ON_LEFT,
    ON_PROGRESS,
    ON_SERVERS,
    ON_SUBMITTED,
    PENDING,
    RUNNING,
    SAVE,
    SAVING,
    STARTING,
    STOPPING,
    TICK_S,
    GpuState,
    GpuWorld,
)
from mirage.schedule.engine.kernel.gpu_packing import release_gpus, take_places
from mirage.schedule.engine.kernel.random_costs import drawn_s, in_ticks, save_fails
from mirage.schedule.speeds.speed_law import next_phase, speed

_FUZZ = 1e-6
"""Share of a tick that rounding may have added."""

_AT_BOUNDARY = 1e-9
"""Progress this close to a checkpoint, as a share of the way between two, has reached it."""


@kernel()
def notify(state: GpuState, event: int, job_id: int) -> None:
    """Record an event for the scheduler.

    The news lists only events of jobs, a few rows per job at one time: its size depends on the number of jobs, while
    the number of returned servers and changes of demand is not limited.
    """
    clock = state.clock[0]
    clock.happened |= event
    if event != ON_PROGRESS and event != ON_SERVERS:
        state.news[clock.n_news, 0] = event
        state.news[clock.n_news, 1] = job_id
        clock.n_news += 1


@kernel()
def makes_progress(job: Any) -> bool:
    """Whether a job makes progress now."""
    return bool(job.status == RUNNING or job.status == STOPPING)


@kernel(forceinline=False)
def settle(job: Any, now_s: float) -> None:
    """Update the amounts of a job to the current time."""
    passed_s = now_s - job.since_s
    if passed_s <= 0.0:
        return
    if job.status == PENDING:
        job.queued_s += passed_s
    else:
        amount = job.held * passed_s
        job.executed += amount
        if makes_progress(job):
            job.useful += amount
            advance_progress(job, now_s, amount)
        else:
            job.overhead += amount
    job.since_s = now_s


@kernel()
def advance_progress(job: Any, now_s: float, amount: float) -> None:
    """Advance progress, and the last checkpoint if one was passed."""
    progress = min(job.progress + job.speed * (now_s - job.since_s), job.target)
    job.unsafe += amount
    passed = last_boundary(job, progress)
    if passed > job.safe:
        ago_s = in_ticks((progress - passed) / job.speed)
        job.unsafe = job.held * min(max(ago_s, 0.0), now_s - job.since_s)
        job.safe = passed
    job.progress = progress


@kernel()
def last_boundary(job: Any, progress: float) -> float:
    """Progress at the last periodic checkpoint."""
    if job.checkpoint_work <= 0.0:
        return progress
    if math.isinf(job.checkpoint_work):
        return 0.0
    return float(math.floor(progress / job.checkpoint_work + _AT_BOUNDARY) * job.checkpoint_work)


@kernel()
def next_boundary(job: Any) -> float:
    """Progress at the next checkpoint; the present progress if all work is safe."""
    if job.checkpoint_work <= 0.0 or job.unsafe == 0.0:
        return float(job.progress)
    if math.isinf(job.checkpoint_work):
        return float(job.work)
    return float(last_boundary(job, job.progress) + job.checkpoint_work)


@kernel()
def due_at(state: GpuState, job: Any, due_s: float) -> None:
    """Set the next event of a job."""
    clock = state.clock[0]
    clock.stamp += 1
    job.stamp = clock.stamp
    job.due_s = due_s
    if due_s < NEVER_S:
        push_event(clock, state.heap, due_s, job.id, job.stamp)


@kernel(forceinline=False)
def begin_phase(world: GpuWorld, state: GpuState, job: Any) -> None:
    """Run at the speed of the job's placement until the speed may change.

    The amounts must be up to date.
    """
    clock = state.clock[0]
    job.speed = speed(world.speeds, job.model, job.gpu_type, job.servers, job.held, job.batch, job.progress)
    job.target = min(job.work, next_phase(world.speeds, job.model, job.progress))
    if job.status == STOPPING:
        job.target = min(job.target, next_boundary(job))
    due_s = NEVER_S
    if job.target <= job.progress:
        due_s = clock.now_s
    elif job.speed > 0.0:
        ticks = math.ceil((job.target - job.progress) / job.speed / TICK_S - _FUZZ)
        due_s = clock.now_s + ticks * TICK_S
    due_at(state, job, due_s)
    record_phase(state, job)


@kernel()
def record_phase(state: GpuState, job: Any) -> None:
    """Record that the job has another speed from now on."""
    clock = state.clock[0]
    phase = state.phases[clock.n_phases]
    phase.id = job.id
    phase.segment = job.segment
    phase.start_s = clock.now_s
    phase.speed = job.speed
    phase.progress = job.progress
    phase.batch = job.batch
    clock.n_phases += 1


# -- segments --------------------------------------------------------------------------------------------------------


@kernel(forceinline=False)
def open_segment(state: GpuState, job: Any, pause_s: float) -> None:
    """Begin a segment on the GPUs that the job holds now."""
    clock = state.clock[0]
    job.segment = clock.n_segments
    segment = state.segments[clock.n_segments]
    clock.n_segments += 1
    segment.id = job.id
    segment.start_s = clock.now_s
    segment.end_s = NEVER_S
    segment.gpus = job.held
    segment.gpu_type = job.gpu_type
    segment.first = clock.n_placement_rows
    segment.places = job.servers
    segment.why = NOT_ENDED
    segment.pause_s = pause_s
    segment.progress = job.progress
    at = job.chunk
    while at != NIL:
        placement = state.placement_rows[clock.n_placement_rows]
        placement.server = state.chunks[at].server
        placement.gpus = state.chunks[at].gpus
        clock.n_placement_rows += 1
        at = state.chunks[at].next


@kernel()
def close_segment(state: GpuState, job: Any, why: int) -> None:
    """End the segment of a job, and note whether it made progress that is not lost again."""
    clock = state.clock[0]
    segment = state.segments[job.segment]
    if job.progress > segment.progress or why in (BY_ITSELF, BY_CANCEL):
        clock.without_progress = 0
    else:
        if clock.without_progress == 0:
            clock.without_progress_since_s = clock.now_s
        clock.without_progress += 1
    segment.end_s = clock.now_s
    segment.why = why
    segment.progress_end = job.progress
    job.segment = NO_SEGMENT


# -- from admission to the end ---------------------------------------------------------------------------------------


@kernel(forceinline=False)
def admit(world: GpuWorld, state: GpuState, row: int) -> None:
    """Queue a submitted job."""
    clock = state.clock[0]
    slot = clock.n_live
    clock.n_live += 1
    clock.n_pending += 1
    state.live[slot] = world.jobs[row]
    job = state.live[slot]
    state.slot_of[job.id] = slot
    job.status = PENDING
    job.since_s = clock.now_s
    job.queued_since_s = clock.now_s
    notify(state, ON_SUBMITTED, job.id)


@kernel(forceinline=False)
def start(world: GpuWorld, state: GpuState, job: Any, places: Any, first: int, n: int) -> None:
    """Start a pending job on free GPUs."""
    clock = state.clock[0]
    settle(job, clock.now_s)
    clock.n_pending -= 1
    job.queued_since_s = math.nan
    take_places(world, state, job, places, first, n)
    fresh = math.isnan(job.start_s)
    if fresh:
        job.start_s = clock.now_s
    else:
        job.restarts += 1
    pause(world, state, job, job.first_start_s if fresh else job.restart_s)


@kernel(forceinline=False)
def resize(world: GpuWorld, state: GpuState, job: Any, places: Any, first: int, n: int) -> None:
    """Continue on other GPUs; the previous ones have been given back."""
    job.restarts += 1
    take_places(world, state, job, places, first, n)
    pause(world, state, job, job.rescale_s)


@kernel(forceinline=False)
def pause(world: GpuWorld, state: GpuState, job: Any, expected_s: float) -> None:
    """Hold GPUs without work for a duration drawn by the world; then run."""
    clock = state.clock[0]
    pause_s = drawn_s(world, job, expected_s)
    job.draws += 1
    open_segment(state, job, pause_s)
    if pause_s > 0.0:
        job.status = STARTING
        job.speed = 0.0
        job.paused_until_s = clock.now_s + pause_s
        job.expected_until_s = clock.now_s + expected_s
        due_at(state, job, job.paused_until_s)
    else:
        run(world, state, job)


@kernel(forceinline=False)
def run(world: GpuWorld, state: GpuState, job: Any) -> None:
    """End a pause."""
    job.status = RUNNING
    job.paused_until_s = math.nan
    job.expected_until_s = math.nan
    begin_phase(world, state, job)


@kernel(forceinline=False)
def vacate(state: GpuState, job: Any) -> None:
    """Vacate the GPUs of a job that gets others in the same step; its work is saved."""
    settle(job, state.clock[0].now_s)
    job.safe = job.progress
    job.unsafe = 0.0
    close_segment(state, job, BY_RESIZE)
    release_gpus(state, job)


@kernel(forceinline=False)
def leave(state: GpuState, job: Any, why: int) -> None:
    """Give all GPUs back and queue the job again; amounts must be up to date."""
    clock = state.clock[0]
    if why in (BY_KILL, BY_RECLAIM, BY_FAILED_SAVE):
        job.lost += job.unsafe
        job.useful -= job.unsafe
        job.progress = job.safe
    job.safe = job.progress
    job.unsafe = 0.0
    close_segment(state, job, why)
    release_gpus(state, job)
    job.status = PENDING
    job.speed = 0.0
    job.paused_until_s = math.nan
    job.expected_until_s = math.nan
    job.queued_since_s = clock.now_s
    job.preemptions += 1
    clock.n_pending += 1
    due_at(state, job, NEVER_S)
    notify(state, ON_LEFT, job.id)


@kernel(forceinline=False)
def leave_saved(world: GpuWorld, state: GpuState, job: Any) -> None:
    """Make a job leave after a checkpoint on demand; if that has failed, the work is lost."""
    leave(state, job, BY_FAILED_SAVE if job.unsafe > 0.0 and save_fails(world, job) else BY_SAVE)


@kernel()
def stops_after_s(world: GpuWorld, job: Any, how: int) -> float:
    """Seconds for which a job that must leave now still holds its GPUs.

    A job in a pause has no unsaved work, and leaves at once. The amounts must be up to date.
    """
    if job.status != RUNNING:
        return 0.0
    if how == BOUNDARY:
        return 0.0 if next_boundary(job) <= job.progress else NEVER_S
    if how == SAVE and job.unsafe > 0.0:
        return drawn_s(world, job, job.save_s)
    return 0.0


@kernel(forceinline=False)
def stop(world: GpuWorld, state: GpuState, job: Any, how: int) -> None:
    """Make a job leave; amounts must be up to date."""
    clock = state.clock[0]
    wait_s = stops_after_s(world, job, how)
    job.draws += 1
    if wait_s <= 0.0:
        if how == SAVE:
            leave_saved(world, state, job)
        else:
            leave(state, job, BY_BOUNDARY if how == BOUNDARY else BY_KILL)
        return
    if how == BOUNDARY:
        job.status = STOPPING
        begin_phase(world, state, job)
        return
    job.status = SAVING
    job.speed = 0.0
    job.paused_until_s = clock.now_s + wait_s
    job.expected_until_s = clock.now_s + job.save_s
    due_at(state, job, job.paused_until_s)


@kernel(forceinline=False)
def end(state: GpuState, job: Any, status: int) -> None:
    """Remove a job permanently; amounts must be up to date.

    Afterwards its record in ``live`` belongs to another job.
    """
    clock = state.clock[0]
    if job.status == PENDING:
        clock.n_pending -= 1
    else:
        close_segment(state, job, BY_ITSELF if status == ENDED else BY_CANCEL)
        release_gpus(state, job)
    job.status = status
    job.speed = 0.0
    job.due_s = clock.now_s
    job_id = job.id
    slot = state.slot_of[job_id]
    state.ended[job_id] = job
    clock.n_live -= 1
    if slot != clock.n_live:
        state.live[slot] = state.live[clock.n_live]
        state.slot_of[state.live[slot].id] = slot
    state.slot_of[job_id] = NO_SLOT
    notify(state, ON_ENDED, job_id)


@kernel(forceinline=False)
def process_event(world: GpuWorld, state: GpuState, job: Any) -> None:
    """Process the event of a job that is due now."""
    clock = state.clock[0]
    settle(job, clock.now_s)
    if job.status == STARTING:
        run(world, state, job)
        notify(state, ON_PROGRESS, job.id)
    elif job.status == SAVING:
        leave_saved(world, state, job)
    else:
        reach_target(world, state, job)


@kernel()
def reach_target(world: GpuWorld, state: GpuState, job: Any) -> None:
    """End a phase of constant speed: the job ends, leaves, or continues at another speed."""
    job.progress = job.target
    if job.progress >= job.work:
        end(state, job, ENDED)
        return
    if last_boundary(job, job.progress) >= job.progress:
        job.safe = job.progress
        job.unsafe = 0.0
    if job.status == STOPPING and job.unsafe == 0.0:
        leave(state, job, BY_BOUNDARY)
        return
    begin_phase(world, state, job)
    notify(state, ON_PROGRESS, job.id)
