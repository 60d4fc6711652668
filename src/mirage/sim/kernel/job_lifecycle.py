"""The life of a job: admitted, queued, started, stopped."""

from __future__ import annotations

import math
from typing import Any

from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.kernel.heap import push
from mirage.kernel.sorted_array import insert_at, remove_at
from mirage.sim.kernel.arrays import (
    AFTER_NONE,
    AFTER_OK,
    AFTER_START,
    ANSWERS_END,
    ANSWERS_START,
    BY_ITSELF,
    BY_LIMIT,
    BY_PREEMPTION,
    CANCELLED,
    ENDED,
    FUTURE,
    HELD,
    NEVER_S,
    NIL,
    NO_JOB,
    PENDING,
    RUNNING,
    SUSPENDING,
    WHOLE_NODE,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.resources.holding import charged, give, give_later, take
from mirage.sim.kernel.resources.job_limits import count_held, permitted
from mirage.sim.kernel.resources.node_changes import least_free, reserved_within
from mirage.sim.kernel.resources.node_selection import most_nodes, pick

FREED, REPLAN = 1, 2
"""Bits of ``clock.ended_since``: something became free; it did so earlier than any plan expected."""

UNRANKED = -1.0
"""The priority of a job that the scheduler has not ranked since it was queued."""

MOST_CPUS = 2**15 - 1
"""The most CPUs of a node that a segment can show."""

ROUNDING_S = 1e-6
"""Most that work at a speed without an exact binary value can fall short of the run time."""


@kernel()
def push_end(state: State, slot: int, end_s: int) -> None:
    """Enter the true end of a segment into the heap; earlier entries of the slot become stale."""
    clock, heap = state.clock[0], state.heap
    clock.stamp += 1
    state.live[slot].stamp = clock.stamp
    if clock.n_heap == len(heap):
        clock.n_heap = purge_heap(state)
    end = heap[push(clock, heap, end_s, None)]
    end.slot, end.stamp = slot, clock.stamp


@kernel()
def purge_heap(state: State) -> int:
    """Drop stale entries from a full heap; returns the number of remaining ones.

    An array sorted by end is a heap.
    """
    clock, heap = state.clock[0], state.heap
    valid = 0
    for k in range(clock.n_heap):
        if state.live[heap[k].slot].stamp == heap[k].stamp:
            end_s, slot, stamp = heap[k].due, heap[k].slot, heap[k].stamp
            at = valid
            while at > 0 and heap[at - 1].due > end_s:
                heap[at] = heap[at - 1]
                at -= 1
            heap[at].due = end_s
            heap[at].slot = slot
            heap[at].stamp = stamp
            valid += 1
    return valid


@kernel()
def has_slot(state: State) -> bool:
    """Whether one more job can be admitted."""
    return bool(state.clock[0].free_slot != NO_JOB or state.clock[0].slots_used < len(state.live))


@kernel()
def admit(world: World, state: State, request: Any) -> int:
    """Submit a job now: it is queued, or held until it is eligible. Returns its slot."""
    clock = state.clock[0]
    slot = clock.free_slot
    if slot == NO_JOB:
        slot = clock.slots_used
        clock.slots_used += 1
    else:
        clock.free_slot = state.live[slot].chunk
    job = state.live[slot]
    set_request(job, request)
    clock.sequence += 1
    job.order = float(clock.sequence)
    if answers(job):
        job.status = FUTURE
        state.held[clock.n_held] = slot
        clock.n_held += 1
        call_at(state, clock.now_s)  # its condition may already hold
    elif job.begin_s > clock.now_s or (job.after_kind != AFTER_NONE and not met(state, job)):
        hold(state, slot)
    else:
        enqueue(state, slot)
    return int(slot)


@kernel()
def set_request(job: Any, request: Any) -> None:
    """Make a JOB record that of a job just submitted."""
    job.id = request.id
    job.submit_s = request.submit_s
    job.begin_s = request.begin_s
    job.run_s = request.run_s
    job.limit_s = request.limit_s
    job.nodes = request.nodes
    job.priority_offset = request.priority_offset
    job.gpus = request.gpus
    job.cpus = request.cpus
    job.memory = request.memory
    job.user = request.user
    job.account = request.account
    job.after = request.after
    job.partition = request.partition
    job.qos = request.qos
    job.after_kind = request.after_kind
    job.failed = request.failed
    job.eligible_s = NEVER_S
    job.status = FUTURE
    job.priority = 0.0
    job.planned_s = 0
    job.first_start_s = MISSING
    job.start_s = 0
    job.end_s = 0
    job.limit_end_s = 0
    job.done_s = 0.0
    job.resume_s = 0
    job.next_resume_s = 0
    job.width = 0
    job.speed = 1.0
    job.chunk = NIL
    job.stamp = NIL


@kernel()
def answers(job: Any) -> bool:
    """Whether a job is yet to be submitted, when another job has started or ended."""
    return bool(job.after_kind == ANSWERS_END or job.after_kind == ANSWERS_START)


@kernel()
def met(state: State, job: Any) -> bool:
    """Whether the dependency of a job is fulfilled."""
    fate = state.fate[job.after]
    if job.after_kind == AFTER_START or job.after_kind == ANSWERS_START:
        return bool(fate >= RUNNING)
    if job.after_kind == AFTER_OK:
        return bool(fate == ENDED)
    return bool(fate >= ENDED)


@kernel()
def wake_held(state: State) -> None:
    """Queue the held jobs that have become eligible, in the order of admission.

    A held job gains no place in the queue; it gains age only if it was eligible before it was held. The submission time
    of a job that follows another job becomes known here.
    """
    clock = state.clock[0]
    still_held = 0
    for k in range(clock.n_held):
        slot = state.held[k]
        job = state.live[slot]
        if answers(job) and met(state, job):
            job.begin_s += clock.now_s
            job.submit_s = job.begin_s
            job.after_kind = AFTER_NONE
        due = job.begin_s <= clock.now_s and not answers(job)
        if due and (job.after_kind == AFTER_NONE or met(state, job)):
            clock.sequence += 1
            job.order = float(clock.sequence)
            enqueue(state, slot)
        else:
            state.held[still_held] = slot
            still_held += 1
    clock.n_held = still_held


@kernel(inline="always")
def pending(state: State) -> Any:
    """The queue, head first: slots of pending jobs, then spare ones after ``clock.n_pending``."""
    return state.queue[state.clock[0].queue_head :]


@kernel()
def enqueue(state: State, slot: int) -> None:
    """Insert an eligible job into the queue, at its place in the order.

    Its age counts from the first time that it is eligible, whatever it waits for later, as in Slurm (AccrueTime;
    measured on 22.05).
    """
    clock, live = state.clock[0], state.live
    job = live[slot]
    job.status = PENDING
    job.eligible_s = min(job.eligible_s, clock.now_s)
    job.planned_s = NEVER_S
    job.priority = UNRANKED
    state.fate[job.id] = PENDING
    n = clock.n_pending
    if clock.queue_head + n == len(state.queue):
        for k in range(n):
            state.queue[k] = state.queue[clock.queue_head + k]
        clock.queue_head = 0
    queue = pending(state)
    at = n
    while at > 0 and live[queue[at - 1]].order > job.order:
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = slot
    clock.n_pending = n + 1
    clock.arrived_since += 1
    if at < clock.known:
        clock.ended_since |= REPLAN


@kernel()
def unqueue(state: State, at: int) -> None:
    """Remove the job at index ``at`` from the queue."""
    clock = state.clock[0]
    n = clock.n_pending - 1
    if at == 0:
        clock.queue_head += 1
    else:
        remove_at(pending(state), at, n + 1)
    clock.n_pending = n
    if at < clock.known:
        clock.known -= 1


@kernel()
def fits(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job can start now, and run to its limit in spite of reservations.

    If so, ``scratch.picked`` holds its nodes until the next call.
    """
    if not permitted(world, state, job):
        return False
    free = state.free
    if reserved_within(world, state, job.limit_s):
        if job.nodes > most_nodes(world, free):
            return False
        least_free(world, state, scratch, scratch.keys[:0], job.limit_s)
        free = scratch.low
    return pick(world, state, scratch, free, job, job.nodes)


@kernel()
def start(world: World, state: State, scratch: Scratch, at: int) -> bool:
    """Start the job at place ``at`` of the queue if it fits, on nodes picked for it.

    Returns whether it did.
    """
    slot = pending(state)[at]
    job = state.live[slot]
    if not fits(world, state, scratch, job):
        return False
    unqueue(state, at)
    start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
    return True


@kernel()
def start_on_picked(world: World, state: State, scratch: Scratch, slot: int, width: int, speed: float) -> None:
    """Start a job, already out of the queue, on the nodes in ``scratch.picked``.

    They must have been picked for it.

    Args:
        width: Nodes it gets; the requested number unless it is elastic.
        speed: Run time it does per second on them; 1 on the requested number.
    """
    clock, live = state.clock[0], state.live
    job = live[slot]
    now = clock.now_s
    take(world, state, scratch, slot)
    job.status = RUNNING
    job.start_s = now
    job.width = width
    job.speed = speed
    if job.first_start_s == MISSING:
        job.first_start_s = now
    job.limit_end_s = now + job.limit_s
    set_end(world, state, slot)
    state.fate[job.id] = RUNNING
    count_held(world, state, job, 1, width)
    insert_running(state, slot)
    if clock.n_held > 0:  # an after: dependency may be met; the queue must not change under the discipline
        call_at(state, now)


@kernel()
def call_at(state: State, time_s: int) -> None:
    """Have the discipline called at a time even if nothing happens then."""
    state.clock[0].timer_s = min(state.clock[0].timer_s, time_s)


@kernel()
def set_end(world: World, state: State, slot: int) -> None:
    """Compute the end of the present segment: by its work, or by its limit.

    Limits are enforced at the first check after them. Slurm checks every ``PERIODIC_TIMEOUT`` (30 s) which jobs are
    over their limits: a job overruns by less than that. Plans use the limit itself.
    """
    clock, setting = state.clock[0], world.settings[0]
    job = state.live[slot]
    left_s = math.ceil(max(job.run_s - job.done_s, 0.0) / job.speed - ROUNDING_S)
    enforced_s = job.limit_end_s
    if setting.limit_check_s > 1:
        enforced_s += (setting.epoch_s - job.limit_end_s) % setting.limit_check_s
    job.end_s = max(min(job.start_s + job.resume_s + left_s, enforced_s), clock.now_s)
    push_end(state, slot, job.end_s)


@kernel()
def insert_running(state: State, slot: int) -> None:
    """Insert a job into the running ones, which are sorted by the end of their limit."""
    clock, running, live = state.clock[0], state.running, state.live
    n = clock.n_running
    until = live[slot].limit_end_s
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if live[running[middle]].limit_end_s <= until:
            low = middle + 1
        else:
            high = middle
    insert_at(running, low, n, slot)
    clock.n_running = n + 1


@kernel()
def remove_running(state: State, slot: int) -> None:
    """Remove a job from the running ones."""
    clock, running, live = state.clock[0], state.running, state.live
    until = live[slot].limit_end_s
    low, high = 0, clock.n_running
    while low < high:
        middle = (low + high) >> 1
        if live[running[middle]].limit_end_s < until:
            low = middle + 1
        else:
            high = middle
    while running[low] != slot:
        low += 1
    remove_at(running, low, clock.n_running)
    clock.n_running -= 1


@kernel()
def leave_nodes(world: World, state: State, slot: int, why: int, turnover_s: int) -> None:
    """Remove a running job from its nodes, free after ``turnover_s``, and log the segment."""
    clock = state.clock[0]
    job = state.live[slot]
    now = clock.now_s
    remove_running(state, slot)
    charge(world, state, job, why)
    if turnover_s > 0:
        give_later(state, slot, clock.now_s + turnover_s)
    else:
        give(world, state, slot, job.width)
    count_held(world, state, job, -1, -job.width)
    clock.ended_since |= FREED if now >= job.limit_end_s else FREED | REPLAN
    job.stamp = NIL


@kernel()
def charge(world: World, state: State, job: Any, why: int) -> None:
    """Log the segment of a job that ends now, and charge its user; it still holds its nodes."""
    each_s = charged(world, state, job)
    state.usage[job.user] += each_s * float(state.clock[0].now_s - max(state.clock[0].priority_at_s, job.start_s))
    segment = state.log[state.clock[0].n_log]
    segment.id = job.id
    segment.start_s = job.start_s
    segment.end_s = state.clock[0].now_s
    segment.width = job.width
    segment.why = why
    segment.cpus = WHOLE_NODE if world.settings[0].stacked == 1 else min(-(-each_s // max(job.width, 1)), MOST_CPUS)
    segment.user = job.user
    segment.submit_s = job.submit_s
    segment.limit_s = job.limit_s
    state.clock[0].n_log += 1


@kernel()
def free_slot(state: State, slot: int) -> None:
    """Release the slot of a job that is gone."""
    state.live[slot].chunk = state.clock[0].free_slot
    state.live[slot].status = ENDED
    state.clock[0].free_slot = slot
    if state.clock[0].watch_slot == slot:  # the next job in this slot must not be taken for the watched one
        state.clock[0].watch_slot = NO_JOB


@kernel()
def finish(world: World, state: State, slot: int) -> None:
    """End a segment: the job is done, at its limit, or finally suspended."""
    job = state.live[slot]
    if job.status == SUSPENDING:
        suspended(world, state, slot)
        return
    bank_work(state, job)
    by_limit = (job.run_s - job.done_s) / job.speed > 2 * ROUNDING_S
    leave_nodes(world, state, slot, BY_LIMIT if by_limit else BY_ITSELF, world.settings[0].turnover_s)
    state.fate[job.id] = CANCELLED if by_limit or job.failed == 1 else ENDED
    free_slot(state, slot)
    if state.clock[0].n_held > 0:
        wake_held(state)


@kernel()
def bank_work(state: State, job: Any) -> None:
    """Credit a running job with its work since it started or was resized."""
    worked_s = max(state.clock[0].now_s - job.start_s - job.resume_s, 0)
    job.done_s = min(job.done_s + worked_s * job.speed, float(job.run_s))


@kernel()
def suspended(world: World, state: State, slot: int) -> None:
    """Queue a preempted job that has left its nodes again, at its old place in the order."""
    job = state.live[slot]
    leave_nodes(world, state, slot, BY_PREEMPTION, 0)  # the cost of the suspension includes the turnover
    job.resume_s = job.next_resume_s
    job.width = 0
    job.eligible_s = NEVER_S  # age starts again
    enqueue(state, slot)


@kernel()
def hold(state: State, slot: int) -> None:
    """Add a job that is in no list to the held ones, without a change of its age."""
    clock, job = state.clock[0], state.live[slot]
    job.status = HELD
    state.held[clock.n_held] = slot
    clock.n_held += 1
    state.fate[job.id] = HELD


@kernel()
def requeue_held(world: World, state: State, slot: int, begin_s: int) -> None:
    """Requeue a running job as held until ``begin_s``; its work is lost."""
    leave_nodes(world, state, slot, BY_PREEMPTION, world.settings[0].turnover_s)
    job = state.live[slot]
    job.submit_s = state.clock[0].now_s
    job.begin_s = begin_s
    job.after, job.after_kind = NO_JOB, AFTER_NONE
    job.done_s, job.resume_s, job.width = 0.0, 0, 0
    job.eligible_s = NEVER_S  # age starts again
    hold(state, slot)
