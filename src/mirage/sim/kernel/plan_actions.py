"""Actions of a plan, checked and then applied; a real cluster takes the same ones.

An action that cannot be applied leaves the state unchanged and stores the reason in the clock; the caller raises a
``PlanInfeasible`` with names. The actions before it in the plan remain applied, as on a cluster.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import (
    BY_CANCEL,
    BY_RESIZE,
    CANCELLED,
    NIL,
    RUNNING,
    SUSPENDING,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.job_lifecycle import (
    FREED,
    REPLAN,
    bank_work,
    call_at,
    charge,
    free_slot,
    leave_nodes,
    pending,
    push_end,
    set_end,
    start_on_picked,
    suspended,
    unqueue,
    wake_held,
)
from mirage.sim.kernel.resources.holding import give, take
from mirage.sim.kernel.resources.job_limits import count_held, exceeded
from mirage.sim.kernel.resources.node_selection import pick, room

START, PREEMPT, RESIZE, CANCEL, MOVE, WAKE = range(6)
"""Kinds of action. A suspended job is pending: resuming is starting it again. MOVE adds a bin to a partition or removes
it; running jobs continue. WAKE requests a call at ``id`` seconds even if nothing happens."""

(
    NO_FAULT,
    NO_SUCH_JOB,
    NOT_PENDING,
    NOT_RUNNING,
    NO_ROOM,
    OVER_LIMIT,
    BAD_VALUE,
    NO_SUCH_NODE,
) = range(8)


@kernel()
def find_slot(slots: Any, n: int, live: Any, job_id: int) -> int:
    """Index in ``slots[:n]`` of the job with this id; ``NIL`` for none."""
    for k in range(n):
        if live[slots[k]].id == job_id:
            return k
    return NIL


@kernel()
def refuse(state: State, fault: int, job_id: int, value: int) -> bool:
    """Store why an action cannot be applied; returns False for the caller to return."""
    state.clock[0].fault = fault
    state.clock[0].fault_id = job_id
    state.clock[0].fault_value = value
    return False


@kernel()
def apply_start(world: World, state: State, scratch: Scratch, action: Any) -> bool:
    """Start (or resume) a pending job on ``action.nodes`` nodes, 0 for the requested number."""
    at = find_slot(pending(state), state.clock[0].n_pending, state.live, action.id)
    if at == NIL:
        known = 0 <= action.id < len(state.fate)
        return refuse(state, NOT_PENDING if known else NO_SUCH_JOB, action.id, 0)
    slot = pending(state)[at]
    job = state.live[slot]
    nodes = job.nodes if action.nodes == 0 else action.nodes
    if nodes < 1:
        return refuse(state, BAD_VALUE, action.id, nodes)
    over = exceeded(world, state, job, 1, nodes)
    if over != NIL:
        return refuse(state, OVER_LIMIT, action.id, over)
    if not pick(world, state, scratch, state.free, job, nodes):
        return refuse(state, NO_ROOM, action.id, nodes - room(world, state, state.free, job))
    unqueue(state, at)
    speed = action.speed if action.speed > 0 else nodes / job.nodes
    start_on_picked(world, state, scratch, slot, nodes, speed)
    return True


@kernel()
def apply_preempt(world: World, state: State, action: Any) -> bool:
    """Suspend a running job: it holds nodes ``suspend_s`` longer and then loses ``resume_s``."""
    at = find_slot(state.running, state.clock[0].n_running, state.live, action.id)
    if at == NIL:
        return refuse(state, NOT_RUNNING, action.id, 0)
    slot = state.running[at]
    job = state.live[slot]
    if job.status != RUNNING:
        return refuse(state, NOT_RUNNING, action.id, 0)
    if action.suspend_s < 0 or action.resume_s < 0:
        return refuse(state, BAD_VALUE, action.id, min(action.suspend_s, action.resume_s))
    bank_work(state, job)
    job.next_resume_s = action.resume_s
    if action.suspend_s == 0:
        suspended(world, state, slot)
        return True
    job.status = SUSPENDING
    state.fate[job.id] = SUSPENDING
    job.end_s = min(state.clock[0].now_s + action.suspend_s, job.limit_end_s)
    push_end(state, slot, job.end_s)
    return True


@kernel()
def apply_resize(world: World, state: State, scratch: Scratch, action: Any) -> bool:
    """Give a running job more nodes or fewer; its speed is ``action.speed``, 0 for linear."""
    at = find_slot(state.running, state.clock[0].n_running, state.live, action.id)
    if at == NIL:
        return refuse(state, NOT_RUNNING, action.id, 0)
    slot = state.running[at]
    job = state.live[slot]
    change = action.nodes - job.width
    if job.status != RUNNING:
        return refuse(state, NOT_RUNNING, action.id, 0)
    if action.nodes < 1 or action.resume_s < 0:
        return refuse(state, BAD_VALUE, action.id, min(action.nodes, action.resume_s))
    over = exceeded(world, state, job, 0, change) if change > 0 else NIL
    if over != NIL:
        return refuse(state, OVER_LIMIT, action.id, over)
    if change > 0 and not pick(world, state, scratch, state.free, job, change):
        return refuse(state, NO_ROOM, action.id, change - room(world, state, state.free, job))
    bank_work(state, job)
    lost_s = max(job.start_s + job.resume_s - state.clock[0].now_s, 0) + action.resume_s
    charge(world, state, job, BY_RESIZE)
    if change > 0:
        take(world, state, scratch, slot)
    else:
        give(world, state, slot, -change)
    count_held(world, state, job, 0, change)
    job.width = action.nodes
    job.speed = action.speed if action.speed > 0 else action.nodes / job.nodes
    job.start_s = state.clock[0].now_s
    job.resume_s = lost_s
    set_end(world, state, slot)
    return True


@kernel()
def apply_cancel(world: World, state: State, action: Any) -> bool:
    """Cancel a job in any state; a running one frees its nodes at once."""
    clock, live = state.clock[0], state.live
    at = find_slot(pending(state), clock.n_pending, live, action.id)
    if at != NIL:
        slot = pending(state)[at]
        unqueue(state, at)
    else:
        at = find_slot(state.running, clock.n_running, live, action.id)
        if at != NIL:
            slot = state.running[at]
            leave_nodes(world, state, slot, BY_CANCEL, world.settings[0].turnover_s)
        else:
            at = find_slot(state.held, clock.n_held, live, action.id)
            if at == NIL:
                return refuse(state, NO_SUCH_JOB, action.id, 0)
            slot = state.held[at]
            for k in range(at, clock.n_held - 1):
                state.held[k] = state.held[k + 1]
            clock.n_held -= 1
    state.fate[action.id] = CANCELLED
    free_slot(state, slot)
    if clock.n_held > 0:
        wake_held(state)
    return True


@kernel()
def apply_move(state: State, action: Any) -> bool:
    """Add bin ``action.bin`` to a partition (``nodes`` 1) or remove it (0)."""
    partitions, bins = state.allowed.shape
    if not (0 <= action.bin < bins and 0 <= action.partition < partitions):
        return refuse(state, NO_SUCH_NODE, action.partition, action.bin)
    state.allowed[action.partition, action.bin] = action.nodes == 1
    return True


@kernel()
def apply_plan(world: World, state: State, scratch: Scratch, n: int) -> bool:
    """Apply the first n actions of ``scratch.plan``; False at the first that fails.

    The clock then holds the fault.
    """
    state.clock[0].fault = NO_FAULT
    state.clock[0].ended_since |= FREED | REPLAN  # no earlier plan expected what follows
    for k in range(n):
        action = scratch.plan[k]
        if action.kind == START:
            done = apply_start(world, state, scratch, action)
        elif action.kind == PREEMPT:
            done = apply_preempt(world, state, action)
        elif action.kind == RESIZE:
            done = apply_resize(world, state, scratch, action)
        elif action.kind == CANCEL:
            done = apply_cancel(world, state, action)
        elif action.kind == MOVE:
            done = apply_move(state, action)
        elif action.kind == WAKE:
            call_at(state, max(action.id, state.clock[0].now_s + 1))
            done = True
        else:
            done = refuse(state, BAD_VALUE, action.id, action.kind)
        if not done:
            return False
    return True
