"""The steps of a plan on a real Slurm: the verbs of a controller, and what undoes them.

A step changes the order of the queue by nice values, lends nodes by reservations that end by themselves, or preempts by
a signal, a requeue and a release of the hold-down. An elastic job gets its new size before this release, or by worker
jobs that are released or held. All of it needs the rights of an operator only.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mirage.control.control_view import INFERENCE, TRAINING, ControlJob, ControlView
from mirage.control.pools_file import Pools
from mirage.control.verbs import LOAN, Command, Verb, command_of, fits_loan, parts
from mirage.control.worker_jobs import undo_of, worker_changes
from mirage.duration import MINUTE_S
from mirage.schedule.scheduler_contract import (
    GpuAction,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuReturn,
    GpuStart,
    Places,
)

CLOSE, PREEMPT, RESIZE, RETURN, LEND = "close", "preempt", "resize", "return", "lend"
RELEASE, START, POSTPONE, END, OTHER = "release", "start", "postpone", "end", "other"
_ORDER = (END, RELEASE, CLOSE, PREEMPT, RESIZE, RETURN, LEND, START, POSTPONE, OTHER)

_LOWEST_NICE = -(2**31) + 3
"""Slurm's lowest nice value."""


@dataclass(frozen=True, slots=True)
class ControlStep:
    """An action of a plan in verbs.

    Attributes:
        kind: ``end``, ``release``, ``close``, ``preempt``, ``resize``, ``return``, ``lend``, ``start``, ``postpone``
            or ``other``.
        subject: The job's id, or the node.
        verbs: What would be executed, in order; empty if nothing is needed.
        undo: What restores the former state.
        reason: The scheduler's reason.
        refused: Why the step would not be executed; empty if it would.
    """

    kind: str
    subject: str
    verbs: tuple[Verb, ...] = ()
    undo: tuple[Verb, ...] = ()
    reason: str = ""
    refused: str = ""

    def commands(self, pools: Pools) -> tuple[Command, ...]:
        """The commands of the verbs."""
        return _commands(self.verbs, pools)

    def undo_commands(self, pools: Pools) -> tuple[Command, ...]:
        """The commands that restore the former state."""
        return _commands(self.undo, pools)

    def line(self, pools: Pools) -> str:
        """The step in one line."""
        commands = "; ".join(map(shlex.join, self.commands(pools))) or "no command needed"
        outcome = f"refused, {self.refused}" if self.refused else commands
        return f"{self.kind} {self.subject}: {outcome} ({self.reason})"


def _commands(verbs: Sequence[Verb], pools: Pools) -> tuple[Command, ...]:
    return tuple(command_of(part, pools) for verb in verbs for part in parts(verb))


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
    first = {action.job: action for action in plan.actions if isinstance(action, GpuStart)}
    nices = new_nices(view.jobs, list(first))
    starts = {number: _start(action, view, nices.get(number)) for number, action in first.items()}
    others = (action for action in plan.actions if not isinstance(action, GpuStart))
    steps = [_step(action, view, pools) for action in others if not _is_without_effect(action, view)]
    begun = {number for number, step in starts.items() if not step.refused}
    waiting = [job for number, job in enumerate(view.jobs) if not job.running and number not in begun]
    steps += [
        ControlStep(RESIZE, str(job.id), (_of_size(job, job.sizes.least),), (_of_size(job, job.gpus),), "waits-small")
        for job in (*waiting, *view.deserted)
        if job.sizes.elastic and job.gpus != job.sizes.least
    ]
    resized = {action.job for action in plan.actions if isinstance(action, GpuResize | GpuPreempt)}
    steps += [
        ControlStep(RESIZE, str(job.id), (verb,), reason="its-workers-have-not-started")
        for number, job in enumerate(view.jobs)
        if job.sizes.of_worker and number not in resized and (job.running or job.gpus == job.sizes.least)
        if (verb := _of_size(job, job.gpus)).workers
    ]
    steps += [
        ControlStep(END, str(job.id), (_of(job, "end"),), reason="its-main-job-has-ended") for job in view.orphans
    ]
    steps += [
        ControlStep(RELEASE, str(job.id), (_of(job, "unhold"),), (), "its-loan-has-ended") for job in view.stranded
    ]
    steps += [_return(node, view, "owner-is-there") for node in view.taken_back]
    steps += _closures(plan, view)
    steps += starts.values()
    steps += [_postpone(view.jobs[number], nice) for number, nice in nices.items() if number not in starts]
    return tuple(sorted(steps, key=lambda step: _ORDER.index(step.kind)))


def _of(job: ControlJob, name: str, node: str = "", nice: int = 0) -> Verb:
    return Verb(name, job.id, job.queued_s, node, nice, task=job.task)


def _of_size(job: ControlJob, gpus: int) -> Verb:
    """The verb of another size: by workers, at once for a waiting job, or by a requeue."""
    name, sizes = "resize" if job.running else "size", job.sizes
    changes = worker_changes(job.workers, max(gpus - sizes.least, 0) // sizes.of_worker) if sizes.of_worker else ()
    return Verb(
        name, job.id, job.queued_s, gpus=gpus, gpu_type=job.gpu_type, per_node=sizes.one_node, workers=changes,
        task=job.task,
    )  # fmt: skip


def _is_without_effect(action: GpuAction, view: ControlView) -> bool:
    """Whether an action needs no command.

    It may change only a batch size, or the servers, or the workers that it needs may be released already.
    """
    if not isinstance(action, GpuResize):
        return False
    job, gpus = view.jobs[action.job], _size_of(action, view)
    return not _of_size(job, gpus).workers if job.sizes.of_worker else gpus == job.gpus


def _size_of(action: GpuStart | GpuResize, view: ControlView) -> int:
    """The number of GPUs that a job has after an action.

    A job with workers changes by whole workers, and starts without them.
    """
    job = view.jobs[action.job]
    gpus, sizes = sum((action.places or {}).values()) or action.gpus or job.gpus, job.sizes
    if not sizes.of_worker or gpus < sizes.least:
        return gpus
    return sizes.least + (gpus - sizes.least) // sizes.of_worker * sizes.of_worker * job.running


_ONE_NODE = "it requests GPUs per node, and its new size would be on several nodes"


def _is_apart(job: ControlJob, action: GpuStart | GpuResize) -> bool:
    """Whether a job that needs all its GPUs on one node would get them on several."""
    return job.sizes.one_node and len(action.places or ()) > 1


def _on_lent(places: Places | None, view: ControlView) -> list[str]:
    """The lent nodes among the servers of a job."""
    return [view.nodes[server] for server in places or () if view.view.servers.home[server] == INFERENCE]


def _resize(action: GpuResize, view: ControlView) -> ControlStep:
    job, gpus, why = view.jobs[action.job], _size_of(action, view), ""
    lent = _on_lent(view.view.held.of(action.job), view) or _on_lent(action.places, view)
    verb, undo = _of_size(job, gpus), _of_size(job, job.gpus)
    if job.sizes.of_worker:  # the job itself goes on
        lent = lent if gpus > job.gpus else []
        undo = replace(undo, workers=tuple(undo_of(change) for change in verb.workers))
    if not job.sizes.least <= gpus <= job.sizes.most:
        why = f"its size is from {job.sizes.least} to {job.sizes.most} GPUs"
    elif lent:
        why = f"a job on a lent node, here {lent[0]}, does not change its size"
    elif _is_apart(job, action):
        why = _ONE_NODE
    if why:
        return ControlStep(RESIZE, str(job.id), reason=action.reason, refused=why)
    return ControlStep(RESIZE, str(job.id), (verb,), (undo,), action.reason)


def _closures(plan: GpuPlan, view: ControlView) -> Iterator[ControlStep]:
    """The closing of loans that jobs wait for.

    Jobs are evicted from the node, or the rest of the loan is too short for the waiting job.
    """
    for job in view.jobs:
        end_s = view.loans.get(job.reservation.removeprefix(LOAN), 0)
        if job.reservation and not job.running and not fits_loan(job.limit_s, view.view.now_s, end_s):
            node = job.reservation.removeprefix(LOAN)
            yield ControlStep(CLOSE, node, (_of(job, "leave"),), (_of(job, "enter", node),), "too-short-for-job")
    held = view.view.held
    evicted = [action.job for action in plan.actions if isinstance(action, GpuPreempt)]
    for node in dict.fromkeys(view.nodes[server] for job in evicted for server in held.of(job)):
        leave, enter = _leave_loan(node, view)
        if leave and node in view.loans:
            yield ControlStep(CLOSE, node, leave, enter, reason="before-evictions")


def _leave_loan(node: str, view: ControlView) -> tuple[tuple[Verb, ...], tuple[Verb, ...]]:
    """The verbs by which waiting jobs leave a loan, and those that undo them."""
    waiting = [job for job in view.jobs if job.reservation == LOAN + node and not job.running]
    return tuple(_of(job, "leave") for job in waiting), tuple(_of(job, "enter", node) for job in waiting)


def _step(action: GpuAction, view: ControlView, pools: Pools) -> ControlStep:
    if isinstance(action, GpuPreempt):
        job = view.jobs[action.job]
        node = job.reservation.removeprefix(LOAN) if job.reservation.startswith(LOAN) else ""
        evict = Verb(
            "evict", job.id, job.queued_s, node, warns=action.how != "kill", workers=worker_changes(job.workers, 0),
            task=job.task,
        )  # fmt: skip
        return ControlStep(PREEMPT, str(job.id), (evict,), reason=action.reason)
    if isinstance(action, GpuLend):
        return _lend(action, view, pools)
    if isinstance(action, GpuResize):
        return _resize(action, view)
    if isinstance(action, GpuReturn):
        return _return(view.nodes[action.server], view, action.reason)
    return ControlStep(
        OTHER,
        type(action).__name__.removeprefix("Gpu").lower(),
        reason=action.reason,
        refused="a controller does not cancel jobs",
    )


def _start(action: GpuStart, view: ControlView, nice: int | None) -> ControlStep:
    job, places = view.jobs[action.job], action.places or {}
    subject, reason = str(job.id), action.reason
    lent, gpus = _on_lent(places, view), _size_of(action, view)
    former = job.reservation.removeprefix(LOAN)
    verbs, undo = [], []
    if gpus != job.gpus and not job.sizes.least <= gpus <= job.sizes.most:
        why = f"its size is from {job.sizes.least} to {job.sizes.most} GPUs"
        return ControlStep(START, subject, reason=reason, refused=why)
    if gpus != job.gpus and _is_apart(job, action):
        return ControlStep(START, subject, reason=reason, refused=_ONE_NODE)
    if lent and len(places) > 1:
        why = f"it would span {', '.join(lent)} and other nodes, but a job runs in one reservation"
        return ControlStep(START, subject, reason=reason, refused=why)
    if lent and lent[0] not in view.loans:
        return ControlStep(START, subject, reason=reason, refused=f"{lent[0]} has no loan")
    if lent and not fits_loan(job.limit_s, view.view.now_s, view.loans[lent[0]]):
        why = f"its time limit is longer than the rest of the loan of {lent[0]}"
        return ControlStep(START, subject, reason=reason, refused=why)
    if gpus != job.gpus:
        verbs.append(_of_size(job, gpus))
        undo.append(_of_size(job, job.gpus))
    if lent and former != lent[0]:
        verbs.append(_of(job, "enter", lent[0]))
    elif former and not lent:
        verbs.append(_of(job, "leave"))
    if (lent and former != lent[0]) or (former and not lent):
        undo.append(_of(job, "enter", former) if former else _of(job, "leave"))
    if nice is not None:
        if nice < _LOWEST_NICE:
            return ControlStep(START, subject, reason=reason, refused=f"Nice={nice} is below Slurm's lowest")
        verbs.append(_of(job, "nice", nice=nice))
        undo.append(_of(job, "nice", nice=job.nice))
    return ControlStep(START, subject, tuple(verbs), tuple(undo), reason)


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
    are_first = set(first)
    wanted = [*first, *(number for number in present if number not in are_first)]
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
    verbs, undo = (_of(job, "nice", nice=nice),), (_of(job, "nice", nice=job.nice),)
    return ControlStep(POSTPONE, str(job.id), verbs, undo, "others-start-first")


def _lend(action: GpuLend, view: ControlView, pools: Pools) -> ControlStep:
    node = view.nodes[action.server]
    if action.pool != TRAINING or view.view.servers.home[action.server] != INFERENCE:
        return ControlStep(LEND, node, reason=action.reason, refused="only nodes of the owner are lent")
    users = tuple(sorted({job.user for job in view.jobs}))
    promise_s = min(float(pools.promise_s), action.until_s - view.view.now_s)
    if not users:
        return ControlStep(LEND, node, reason=action.reason, refused="no job takes part")
    if promise_s < MINUTE_S:
        return ControlStep(LEND, node, reason=action.reason, refused="the loan would end within a minute")
    lend = Verb("lend", node=node, minutes=int(promise_s) // MINUTE_S, users=users)
    return ControlStep(LEND, node, (lend,), (Verb("return", node=node),), action.reason)


def _return(node: str, view: ControlView, reason: str) -> ControlStep:
    if node not in view.loans:
        return ControlStep(RETURN, node, reason=reason)
    leave, enter = _leave_loan(node, view)  # Slurm refuses to delete a reservation that a job names
    return ControlStep(RETURN, node, (*leave, Verb("return", node=node)), enter, reason)
