"""The steps of a plan on a real Slurm: the commands of an operator, and what undoes them.

A step has only commands that need the rights of an operator. It changes the order of the queue by nice values, lends
nodes by reservations that end by themselves, and preempts by a signal, a requeue and a release of the hold-down.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirage.control.control_view import INFERENCE, LOAN, TRAINING, ControlJob, ControlView
from mirage.control.pools_file import Pools
from mirage.duration import MINUTE_S
from mirage.schedule.scheduler_contract import GpuAction, GpuLend, GpuPlan, GpuPreempt, GpuReturn, GpuStart

CLOSE, PREEMPT, RETURN, LEND = "close", "preempt", "return", "lend"
START, POSTPONE, OTHER = "start", "postpone", "other"
_ORDER = (CLOSE, PREEMPT, RETURN, LEND, START, POSTPONE, OTHER)

Command = tuple[str, ...]

_LOWEST_NICE = -(2**31) + 3
"""Slurm's lowest nice value."""


@dataclass(frozen=True, slots=True)
class ControlStep:
    """An action of a plan as commands.

    Attributes:
        verb: ``close``, ``preempt``, ``return``, ``lend``, ``start``, ``postpone`` or ``other``.
        subject: The job's id, or the node.
        commands: What would be executed, in order; empty if nothing is needed.
        undo: What restores the former state.
        wait_s: Seconds to wait after the first command, for a checkpoint.
        reason: The scheduler's reason.
        refused: Why the step would not be executed; empty if it would.
    """

    verb: str
    subject: str
    commands: tuple[Command, ...] = ()
    undo: tuple[Command, ...] = ()
    wait_s: int = 0
    reason: str = ""
    refused: str = ""

    def line(self) -> str:
        """The step in one line."""
        commands = "; ".join(map(shlex.join, self.commands)) or "no command needed"
        outcome = f"refused, {self.refused}" if self.refused else commands
        return f"{self.verb} {self.subject}: {outcome} ({self.reason})"


def steps_of_plan(plan: GpuPlan, view: ControlView, pools: Pools) -> tuple[ControlStep, ...]:
    """The steps of a plan: evictions first, then loans that end, new loans, and starts.

    Before jobs are evicted from a lent node, its loan is closed: jobs that wait for it leave it, so that none starts
    there in between.

    Slurm starts jobs by priority. The jobs to start exchange their priorities with the jobs that have opted in and come
    before them; these are postponed. So no job overtakes a job that has not opted in, unless another one falls back.

    Args:
        plan: The plan for this view.
        view: The view.
        pools: The settings.
    """
    starts = {action.job: action for action in plan.actions if isinstance(action, GpuStart)}
    nices = new_nices(view.jobs, list(starts))
    steps = [_step(action, view, pools) for action in plan.actions if not isinstance(action, GpuStart)]
    steps += _closures(plan, view)
    steps += [_start(action, view, nices.get(number)) for number, action in starts.items()]
    steps += [_postpone(view.jobs[number], nice) for number, nice in nices.items() if number not in starts]
    return tuple(sorted(steps, key=lambda step: _ORDER.index(step.verb)))


def _closures(plan: GpuPlan, view: ControlView) -> Iterator[ControlStep]:
    """The closing of loans from which jobs are evicted and that other jobs wait for."""
    held = view.view.held
    evicted = [action.job for action in plan.actions if isinstance(action, GpuPreempt)]
    for node in dict.fromkeys(view.nodes[server] for job in evicted for server in held.of(job)):
        leave, enter = _leave_loan(node, view)
        if leave and node in view.loans:
            yield ControlStep(CLOSE, node, leave, enter, reason="before-evictions")


def _leave_loan(node: str, view: ControlView) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """The commands by which waiting jobs leave a loan, and those that undo them."""
    name = LOAN + node
    updates = [
        ("scontrol", "update", f"JobId={job.id}") for job in view.jobs if job.reservation == name and not job.running
    ]
    return (
        tuple((*update, "ReservationName=") for update in updates),
        tuple((*update, f"ReservationName={name}") for update in updates),
    )


def _step(action: GpuAction, view: ControlView, pools: Pools) -> ControlStep:
    if isinstance(action, GpuPreempt):
        return _preempt(action, view.jobs[action.job], pools)
    if isinstance(action, GpuLend):
        return _lend(action, view, pools)
    if isinstance(action, GpuReturn):
        return _return(action, view)
    return ControlStep(
        OTHER,
        type(action).__name__.removeprefix("Gpu").lower(),
        reason=action.reason,
        refused="a controller neither cancels jobs nor changes their size",
    )


def _start(action: GpuStart, view: ControlView, nice: int | None) -> ControlStep:
    job = view.jobs[action.job]
    lent = [view.nodes[server] for server in action.places or {} if view.view.servers.home[server] == INFERENCE]
    subject, changes, former = str(job.id), [], []
    if len(lent) > 1 or (lent and len(action.places or {}) > 1):
        why = f"it would span {', '.join(lent)} and other nodes, but a job runs in one reservation"
        return ControlStep(START, subject, reason=action.reason, refused=why)
    if lent and lent[0] not in view.loans:
        return ControlStep(START, subject, reason=action.reason, refused=f"{lent[0]} has no loan")
    if lent and job.reservation != LOAN + lent[0]:
        changes.append(f"ReservationName={LOAN}{lent[0]}")
        former.append(f"ReservationName={job.reservation}")
    elif job.reservation and not lent:
        changes.append("ReservationName=")
        former.append(f"ReservationName={job.reservation}")
    if nice is not None:
        if nice < _LOWEST_NICE:
            return ControlStep(START, subject, reason=action.reason, refused=f"Nice={nice} is below Slurm's lowest")
        changes.append(f"Nice={nice}")
        former.append(f"Nice={job.nice}")
    if not changes:
        return ControlStep(START, subject, reason=action.reason)
    update = ("scontrol", "update", f"JobId={job.id}")
    return ControlStep(START, subject, ((*update, *changes),), ((*update, *former),), reason=action.reason)


def new_nices(jobs: Sequence[ControlJob], first: Sequence[int]) -> dict[int, int]:
    """The nice values that put pending jobs first, by job; only those that change.

    The priorities of all pending jobs are handed out again, the highest first: to the given jobs in their order, then
    to the others in their present order. Of equal priorities each but the first becomes lower by one.

    Args:
        jobs: All jobs that have opted in.
        first: Numbers of pending jobs.
    """
    pending = [number for number, job in enumerate(jobs) if not job.running]
    present = sorted(pending, key=lambda number: (-jobs[number].priority, number))
    wanted = [*first, *(number for number in present if number not in set(first))]
    found: dict[int, int] = {}
    if wanted == present:
        return found
    before = math.inf
    for number, place in zip(wanted, present):
        job, priority = jobs[number], min(math.floor(jobs[place].priority), before - 1)
        before = priority
        nice = job.nice + math.floor(job.priority) - int(priority)
        if nice != job.nice:
            found[number] = nice
    return found


def _postpone(job: ControlJob, nice: int) -> ControlStep:
    update = ("scontrol", "update", f"JobId={job.id}")
    return ControlStep(
        POSTPONE,
        str(job.id),
        ((*update, f"Nice={nice}"),),
        ((*update, f"Nice={job.nice}"),),
        reason="others-start-first",
    )


def _preempt(action: GpuPreempt, job: ControlJob, pools: Pools) -> ControlStep:
    commands = list(_eviction(action, job, pools))
    wait_s = 0 if action.how == "kill" else pools.grace_s
    return ControlStep(PREEMPT, str(job.id), tuple(commands), wait_s=wait_s, reason=action.reason)


def _eviction(action: GpuPreempt, job: ControlJob, pools: Pools) -> Iterator[Command]:
    if action.how != "kill":
        yield ("scancel", f"--signal={pools.signal}", "--full", "--state=RUNNING", str(job.id))
    yield ("scontrol", "requeue", str(job.id))
    # before the hold-down of a requeued job ends, it must leave the loan: it would start there again
    leaves = ("ReservationName=",) if job.reservation.startswith(LOAN) else ()
    yield ("scontrol", "update", f"JobId={job.id}", *leaves, "StartTime=now")


def _lend(action: GpuLend, view: ControlView, pools: Pools) -> ControlStep:
    node = view.nodes[action.server]
    if action.pool != TRAINING or view.view.servers.home[action.server] != INFERENCE:
        return ControlStep(LEND, node, reason=action.reason, refused="only nodes of the owner are lent")
    users = sorted({job.user for job in view.jobs})
    promise_s = min(float(pools.promise_s), action.until_s - view.view.now_s)
    if not users:
        return ControlStep(LEND, node, reason=action.reason, refused="no job takes part")
    if promise_s < MINUTE_S:
        return ControlStep(LEND, node, reason=action.reason, refused="the loan would end within a minute")
    name = f"ReservationName={LOAN}{node}"
    create = (
        "scontrol", "create", "reservation", name, f"Nodes={node}", "StartTime=now",
        f"Duration={int(promise_s) // MINUTE_S}", f"Users={','.join(users)}", "Flags=OVERLAP",
    )  # fmt: skip
    return ControlStep(LEND, node, (create,), (("scontrol", "delete", name),), reason=action.reason)


def _return(action: GpuReturn, view: ControlView) -> ControlStep:
    node = view.nodes[action.server]
    name = LOAN + node
    if node not in view.loans:
        return ControlStep(RETURN, node, reason=action.reason)
    leave, enter = _leave_loan(node, view)  # Slurm refuses to delete a reservation that a job names
    delete = ("scontrol", "delete", f"ReservationName={name}")
    return ControlStep(RETURN, node, (*leave, delete), enter, reason=action.reason)
