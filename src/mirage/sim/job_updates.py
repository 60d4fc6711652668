"""User changes to a waiting or running job, as by ``scontrol``; and early ends.

The job is given by its id; its wait conditions, limit and end change at once, and the discipline runs again in the same
second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirage.errors import PlanInfeasible
from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records
from mirage.policy.plan import Action, Cancel, Hold, Plan, Postpone, Release, Shorten, Withdraw
from mirage.policy.view import QueuedLink
from mirage.sim.kernel.allocate import with_longer_log
from mirage.sim.kernel.arrays import AFTER_ANY, AFTER_NONE, ENDED, HELD, NEVER_S, NIL, NO_JOB, RUNNING, State, World
from mirage.sim.kernel.event_loop import wake_now
from mirage.sim.kernel.job_lifecycle import (
    FREED,
    REPLAN,
    hold,
    insert_running,
    met,
    pending,
    remove_running,
    requeue_held,
    set_end,
    unqueue,
    wake_held,
)
from mirage.sim.kernel.plan_actions import find_slot
from mirage.sim.workload import misfits

if TYPE_CHECKING:
    from mirage.sim.simulation import Simulation


def wait_for(
    sim: Simulation, job_id: int, *, begin_s: int = MISSING, after: int = NO_JOB, after_kind: int = AFTER_ANY
) -> None:
    """Replace what a waiting job waits for; with no condition, it competes from now on.

    Where a held job keeps its age (``SlurmSettings.retains_age``), age counts from the first time that a job
    competed, whatever it waits for later; else from the last time. A job that already competes and has nothing to wait
    for keeps its place and its age.

    Args:
        begin_s: Earliest start; ``NEVER_S`` to hold it until it is released.
        after: Id of a job to wait for.
        after_kind: ``AFTER_START``, ``AFTER_ANY`` or ``AFTER_OK``.

    Raises:
        PlanInfeasible: It is not waiting.
    """
    waiting_job(sim, job_id)
    after_kind = AFTER_NONE if after == NO_JOB else after_kind
    age_survives_hold = sim.settings.retains_age(sim.cluster.limits)
    change_wait(sim.state, job_id, begin_s, after, after_kind, age_survives_hold)
    wake_now(sim.state)


def change_limit(sim: Simulation, job_id: int, limit_s: int) -> None:
    """Give a job another time limit.

    A job that has already run for longer ends at the next check of limits.

    Raises:
        PlanInfeasible: It neither waits nor runs, or the limit is below 1 s or not allowed by its partition.
    """
    job = _present(sim, job_id)
    if limit_s < 1:
        raise PlanInfeasible(f"job {job_id}: a time limit of {limit_s} s is too short; give at least 1 s")
    changed = job.copy()
    changed.limit_s = limit_s
    _fits(sim, changed)
    new_limit(sim.world, sim.state, job_id, limit_s)
    wake_now(sim.state)


def change_partition(sim: Simulation, job_id: int, partition: int) -> None:
    """Move a waiting job to another partition.

    Raises:
        PlanInfeasible: It is not waiting, or can never run there.
    """
    job = waiting_job(sim, job_id)
    if not 0 <= partition < len(sim.cluster.partitions):
        raise PlanInfeasible(f"there is no partition {partition}; there are {len(sim.cluster.partitions)}")
    changed = job.copy()
    changed["partition"] = partition
    _fits(sim, changed)
    job["partition"][:] = partition
    sim.state.clock[0].ended_since |= FREED | REPLAN
    wake_now(sim.state)


def relabel(sim: Simulation, job_id: int, name: str, account: str) -> None:
    """Give an injected job another name and account, for future views.

    Raises:
        PlanInfeasible: It neither waits nor runs.
    """
    _present(sim, job_id)
    sim.labels = sim.labels.labelled(job_id, name, account)


def end_at(sim: Simulation, job_id: int, time_s: int, *, failed: bool = False) -> None:
    """Let a running job end by itself at a time, unless its limit comes first.

    Args:
        failed: Whether it then counts as failed for jobs that depend on its success.

    Raises:
        PlanInfeasible: It does not run.
    """
    if not new_end(sim.world, sim.state, job_id, time_s, failed):
        raise PlanInfeasible(f"job {job_id} is not running")
    wake_now(sim.state)


def requeue(sim: Simulation, job_id: int, begin_s: int) -> None:
    """Requeue a running job; it starts over, and its work is lost.

    Args:
        begin_s: Time before which it does not compete; ``NEVER_S`` to hold it until it is released.

    Raises:
        PlanInfeasible: It does not run.
    """
    if sim.state.clock[0].n_log == len(sim.state.log):
        sim.state = with_longer_log(sim.state)
    if not requeued(sim.world, sim.state, job_id, begin_s):
        raise PlanInfeasible(f"job {job_id} is not running")
    wake_now(sim.state)


def waiting_job(sim: Simulation, job_id: int) -> Records:
    """A waiting or held job, as records of one row: a view of the state.

    Raises:
        PlanInfeasible: It is not waiting.
    """
    job = _present(sim, job_id)
    if job.status[0] >= RUNNING:
        raise PlanInfeasible(f"job {job_id} is not waiting")
    return job


def queued_link(sim: Simulation, job_id: int) -> QueuedLink:
    """A waiting job, as the queued link of a chain.

    Raises:
        PlanInfeasible: It is not waiting.
    """
    job = waiting_job(sim, job_id)[0]
    never = job.eligible_s >= NEVER_S
    held = job.status == HELD
    return QueuedLink(
        job=job_id,
        submitted_s=int(job.submit_s),
        accrues_s=MISSING if never else int(job.eligible_s),
        limit_s=int(job.limit_s),
        held=bool(held and job.begin_s >= NEVER_S),
        begins_s=int(job.begin_s) if held and job.begin_s < NEVER_S else MISSING,
    )


def revise_queued_link(sim: Simulation, job_id: int, action: Action) -> None:
    """Apply a policy's revision to a waiting job, as ``scontrol`` and ``scancel`` would.

    Raises:
        PlanInfeasible: It is not waiting, or cannot have that limit, or the action is no revision.
    """
    waiting_job(sim, job_id)
    match action:
        case Hold():
            wait_for(sim, job_id, begin_s=NEVER_S)
        case Postpone(start_s=start_s):
            wait_for(sim, job_id, begin_s=start_s)
        case Release():
            wait_for(sim, job_id)
        case Shorten(limit_s=limit_s):
            change_limit(sim, job_id, limit_s)
        case Withdraw():
            sim.apply(Plan((Cancel(job=job_id),)))
        case _:
            raise PlanInfeasible(f"{type(action).__name__} is not a revision of a queued link")


@kernel()
def change_wait(state: State, job_id: int, begin_s: int, after: int, after_kind: int, age_survives_hold: bool) -> None:
    """As ``wait_for``, for a job that waits."""
    clock = state.clock[0]
    at = find_slot(state.held, clock.n_held, state.live, job_id)
    queued = at == NIL
    if queued:
        at = find_slot(pending(state), clock.n_pending, state.live, job_id)
    slot = pending(state)[at] if queued else state.held[at]
    job = state.live[slot]
    job.begin_s = begin_s
    job.after = after
    job.after_kind = after_kind
    if queued and (begin_s > clock.now_s or (after_kind != AFTER_NONE and not met(state, job))):
        unqueue(state, at)
        hold(state, slot)
        if not age_survives_hold:
            job.eligible_s = NEVER_S
    clock.ended_since |= FREED | REPLAN
    wake_held(state)


@kernel()
def new_limit(world: World, state: State, job_id: int, limit_s: int) -> None:
    """As ``change_limit``, for a job that waits or runs."""
    clock = state.clock[0]
    clock.ended_since |= FREED | REPLAN
    at = find_slot(state.running, clock.n_running, state.live, job_id)
    if at != NIL:
        slot = state.running[at]
        job = state.live[slot]
        remove_running(state, slot)
        job.limit_s = max(limit_s, clock.now_s - job.start_s)
        job.limit_end_s = job.start_s + job.limit_s
        insert_running(state, slot)
        if job.status == RUNNING:
            set_end(world, state, slot)
        return
    at = find_slot(state.held, clock.n_held, state.live, job_id)
    if at != NIL:
        state.live[state.held[at]].limit_s = limit_s
        return
    at = find_slot(pending(state), clock.n_pending, state.live, job_id)
    state.live[pending(state)[at]].limit_s = limit_s


@kernel()
def new_end(world: World, state: State, job_id: int, time_s: int, failed: bool) -> bool:
    """As ``end_at``; False when it does not run."""
    at = find_slot(state.running, state.clock[0].n_running, state.live, job_id)
    if at == NIL or state.live[state.running[at]].status != RUNNING:
        return False
    slot = state.running[at]
    job = state.live[slot]
    works_s = max(time_s, state.clock[0].now_s) - job.start_s - job.resume_s
    job.run_s = int(job.done_s + max(works_s, 0) * job.speed)
    job.failed = 1 if failed else 0
    set_end(world, state, slot)
    return True


@kernel()
def requeued(world: World, state: State, job_id: int, begin_s: int) -> bool:
    """As ``requeue``; False when it does not run."""
    at = find_slot(state.running, state.clock[0].n_running, state.live, job_id)
    if at == NIL:
        return False
    requeue_held(world, state, state.running[at], begin_s)
    wake_held(state)
    return True


def _place(sim: Simulation, job_id: int) -> int:
    """The slot of a job that waits or runs; -1 for none."""
    live, used = sim.state.live, sim.state.clock[0].slots_used
    here = (live.id[:used] == job_id) & (live.status[:used] != ENDED)
    return int(here.argmax()) if here.any() else NIL


def _present(sim: Simulation, job_id: int) -> Records:
    """A job that waits or runs, as records of one row: a view of the state."""
    slot = _place(sim, job_id)
    if slot == NO_JOB:
        raise PlanInfeasible(f"job {job_id} neither waits nor runs")
    return sim.state.live[slot : slot + 1]


def _fits(sim: Simulation, changed: Any) -> None:
    for reason in misfits(changed, sim.cluster).values():
        raise PlanInfeasible(f"job {int(changed.id[0])} could never run: {reason}")
