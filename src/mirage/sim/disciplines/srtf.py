"""Shortest remaining time first, preemptive: the shortest jobs that fit always run.

It uses true run times, so it serves for comparison and as a test of the plan interface, not as a scheduler. It is no
lower bound where jobs have several nodes: another order can wait less. It writes a plan and leaves checking and
applying to the engine, as every policy that preempts, resizes or lends does. One pool of whole nodes.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import DISCIPLINE, RUNNING, Reference, Scratch, State, dereference
from mirage.sim.kernel.job_lifecycle import pending
from mirage.sim.kernel.plan_actions import PREEMPT, START


@kernel()
def remaining_s(state: State, slot: int) -> float:
    """Run time a job still needs on its requested nodes, including the cost of resuming."""
    job = state.live[slot]
    if job.status == RUNNING:
        return float(job.end_s - state.clock[0].now_s)
    return float(job.run_s - job.done_s + job.resume_s)


@kernel()
def comes_before(state: State, left: Any, a: int, b: int) -> bool:
    """Whether job a precedes job b: less remaining time, then the lower id."""
    if left[a] != left[b]:
        return bool(left[a] < left[b])
    return bool(state.live[a].id < state.live[b].id)


@kernel()
def write(scratch: Scratch, at: int, kind: int, job_id: int) -> None:
    """Write one action without costs into the plan."""
    action = scratch.plan[at]
    action.kind = kind
    action.id = job_id
    action.nodes = 0
    action.speed = 0.0
    action.suspend_s = 0
    action.resume_s = 0


@kernel(DISCIPLINE)
def srtf(situation: Reference) -> int:
    """Rank all jobs by remaining time, fill the machine from the top, and exchange the others."""
    _, state, scratch = dereference(situation)
    clock = state.clock[0]
    n = clock.n_pending + clock.n_running
    ranked, left = scratch.slots, scratch.keys
    for k in range(n):
        slot = pending(state)[k] if k < clock.n_pending else state.running[k - clock.n_pending]
        left[slot] = remaining_s(state, slot)
        at = k
        while at > 0 and comes_before(state, left, slot, ranked[at - 1]):
            ranked[at] = ranked[at - 1]
            at -= 1
        ranked[at] = slot
    room = state.free[0, 0]
    for k in range(clock.n_running):
        room += state.live[state.running[k]].width
    actions = 0
    starts = 0
    for k in range(n):
        slot = ranked[k]
        job = state.live[slot]
        if job.nodes <= room:
            room -= job.nodes
            if job.status != RUNNING:
                scratch.timeline[starts] = slot
                starts += 1
        elif job.status == RUNNING:
            write(scratch, actions, PREEMPT, job.id)
            actions += 1
    for k in range(starts):
        write(scratch, actions, START, state.live[scratch.timeline[k]].id)
        actions += 1
    return actions
