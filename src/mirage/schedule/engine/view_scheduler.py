"""Compiled schedulers as schedulers in plain Python: a view in, a plan out.

A compiled scheduler reads the engine's arrays and has a memory between its calls. ``ViewScheduler`` writes the arrays
from a view, and gives the scheduler an empty memory each time. Its plan depends on the view alone, so that a plan that
was not executed, or only in part, leaves nothing wrong behind: the next view shows what has happened.
"""

from __future__ import annotations

import math

import numpy as np
from numba import int64
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.errors import ContractBroken
from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import records
from mirage.kernel.reference import by_reference
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_world import make_plan_buffer
from mirage.schedule.engine.kernel.gpu_arrays import (
    ALL_GPUS,
    CANCEL,
    CHUNK,
    CLOCK,
    DECISION,
    DEMAND_CHANGE,
    EVENT,
    JOB,
    LEND,
    LOAN,
    NEVER_S,
    NIL,
    NO_LOAN,
    NO_SEGMENT,
    NO_SLOT,
    NOTICE,
    ON_SUBMITTED,
    PHASE,
    PLACE,
    PLAN_BUFFER_TYPE,
    PREEMPT,
    RESIZE,
    RETURN,
    SCHEDULER_TYPE,
    SEGMENT,
    SETTINGS,
    START,
    STATE_TYPE,
    WORLD_TYPE,
    GpuState,
    GpuWorld,
    PlanBuffer,
    situation_of,
)
from mirage.schedule.scheduler_contract import (
    ActiveJobs,
    GpuAction,
    GpuCancel,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuReturn,
    GpuStart,
    GpuView,
    Held,
    How,
    JobStatus,
    Surroundings,
)
from mirage.schedule.speeds.speed_arrays import LINEAR

_HOW: tuple[How, ...] = ("boundary", "save", "kill")
"""Ways to preempt by their numbers in the engine."""

_MOST_ANSWERS = 3
"""Calls of one decision, where the scheduler lets Python choose servers in between."""

_EVERY_EVENT = 31

_COPIED = ("submit_s", "model", "gpus", "min_gpus", "max_gpus", "pool", "types", "status", "batch", "held", "servers",
           "gpu_type", "start_s", "restarts", "preemptions", "queued_since_s", "first_start_s", "restart_s",
           "rescale_s", "save_s")  # fmt: skip


@kernel(int64(WORLD_TYPE, STATE_TYPE, PLAN_BUFFER_TYPE, SCHEDULER_TYPE))
def call_scheduler(world: GpuWorld, state: GpuState, buffer: PlanBuffer, scheduler: object) -> int:
    """Call a compiled scheduler once; returns the number of its actions, or −1."""
    situation = situation_of(by_reference(world), by_reference(state), by_reference(buffer))
    return int(scheduler(situation))  # type: ignore[operator]


class ViewScheduler:
    """A compiled scheduler that decides on views, each time with an empty memory.

    Its waiting jobs are those of the view, in the order of the scheduler. What it wrote down at earlier calls is not
    there: Aryl decides on loans at every call, not once in an interval.

    Args:
        compiled: The scheduler; one that remembers running jobs (srtf, easy, tiresias) does not find them here.
        pool: The pool of the jobs, for views without a job.
        widths: The row of its integer memory that has the number of servers of each job's base: the first of its
            servers that have the requested GPUs together. None for a scheduler without one.
    """

    def __init__(self, compiled: CompiledScheduler, pool: int = -1, widths: int | None = None) -> None:
        self.name, self.compiled, self.pool, self.widths = compiled.name, compiled, pool, widths
        self.called_on, self.round_s = compiled.called_on, compiled.round_s

    def begin(self, surroundings: Surroundings) -> None:
        """Take the facts of the cluster; needed before the first decision."""
        self._surroundings = surroundings

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan for a view; equal views give equal plans.

        Raises:
            ContractBroken: The scheduler gives no answer.
        """
        order = np.argsort(view.jobs.id, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        held = view.held
        world = self._world(view, order)
        state = self._state(view, rank, held)
        gpus = view.servers.gpus
        buffer = make_plan_buffer(self.compiled, len(view.jobs), len(gpus), int(gpus.sum()))
        if self.widths is not None:
            buffer.ranks[self.widths, rank] = _base_widths(view.jobs, held, world.gpus_for_one)
        n = -1
        for _ in range(_MOST_ANSWERS):
            n = call_scheduler(world, state, buffer, self.compiled.function)
            if n >= 0 or self.compiled.answer is None:
                break
            self.compiled.answer(world, state, buffer)
        if n < 0:
            raise ContractBroken(f"{self.name} gives no plan for a view; this is a defect of the scheduler")
        wake_s = float(state.clock[0]["wake_s"])
        actions = tuple(self._action(row, buffer, view.jobs.id[order]) for row in buffer.plan[:n])
        return GpuPlan(actions, wake_s if view.now_s < wake_s < NEVER_S else None)

    # -- arrays from a view --------------------------------------------------------------------------------------

    def _world(self, view: GpuView, order: Ints) -> GpuWorld:
        settings = np.zeros(1, SETTINGS)
        settings["round_s"] = settings["force_after_s"] = NEVER_S
        jobs = records(JOB, len(order) + 1)
        jobs.pool = self.pool  # schedulers read the pool of the first job
        jobs.pool[: len(order)] = view.jobs.pool[order]
        return GpuWorld(
            jobs=jobs,
            gpus_of=_own(view.servers.gpus),
            type_of=_own(view.servers.gpu_type),
            home_of=_own(view.servers.home),
            demand=records(DEMAND_CHANGE, 1)[:0],
            notices=records(NOTICE, 1)[:0],
            gpus_for_one=np.array(self._surroundings.gpus_for_one, np.int64),
            settings=settings,
            speeds=self._surroundings.speeds,
        )

    def _state(self, view: GpuView, rank: Ints, held: Held) -> GpuState:
        n, servers, pools = len(rank), view.servers, len(view.servers.wanted)
        lent = servers.pool != servers.home
        pending = rank[view.jobs.pending]
        news = np.zeros((n + 1, 2), np.int64)
        news[: len(pending), 0], news[: len(pending), 1] = ON_SUBMITTED, np.sort(pending)
        chunks, first = _chunks(held, n)
        live = records(JOB, n + 1)
        _write_jobs(live[:n], view, rank, first, self._type_speed(view.jobs))
        slot_of = np.full(n + 1, NO_SLOT)
        slot_of[rank] = np.arange(n)
        clock = np.zeros(1, CLOCK)
        for name in ("wake_s", "next_return_s", "force_s"):
            clock[name] = NEVER_S
        clock["now_s"], clock["called_at_s"], clock["happened"] = view.now_s, -1.0, _EVERY_EVENT
        clock["n_live"], clock["n_pending"], clock["n_news"] = n, len(pending), len(pending)
        clock["free_chunk"] = NIL
        return GpuState(
            clock=clock,
            live=live,
            slot_of=slot_of,
            ended=records(JOB, 1),
            heap=records(EVENT, 1),
            chunks=chunks,
            free=_own(servers.free),
            pool_of=_own(servers.pool),
            lent_until_s=servers.lent_until_s.astype(np.float64),
            loan_of=np.where(lent, np.arange(len(lent)), NO_LOAN),
            moved_at=np.zeros(len(lent), np.int64),
            wanted=_own(servers.wanted),
            wanted_soon=_own(servers.wanted_soon),
            wanted_from_s=servers.wanted_from_s.astype(np.float64),
            present=np.bincount(servers.home[~lent], minlength=pools).astype(np.int64),
            segments=records(SEGMENT, 1),
            placement_rows=records(PLACE, 1),
            phases=records(PHASE, 1),
            decisions=records(DECISION, 1),
            loans=records(LOAN, 1),
            news=news,
        )

    def _type_speed(self, jobs: ActiveJobs) -> NDArray[np.float64]:
        """Speed of one GPU of the type that each job holds; 0 for jobs that hold none."""
        speeds = np.append(self._surroundings.speeds.type_speed, 0.0)
        found: NDArray[np.float64] = speeds[jobs.gpu_type]
        return found

    # -- actions from rows -------------------------------------------------------------------------------------------

    def _action(self, row: np.void, buffer: PlanBuffer, ids: Ints) -> GpuAction:
        kind, number = int(row["kind"]), int(row["id"])
        reason, estimate_s = self.compiled.reasons[int(row["reason"])], float(row["estimate_s"])
        if kind == LEND:
            return GpuLend(number, int(row["pool"]), float(row["until_s"]), reason)
        if kind == RETURN:
            return GpuReturn(number, reason)
        job = int(ids[number])
        if kind == PREEMPT:
            needed = None if row["needed"] == ALL_GPUS else int(row["needed"])
            return GpuPreempt(job, _HOW[int(row["how"])], needed, reason, estimate_s)
        if kind == CANCEL:
            return GpuCancel(job, reason, estimate_s)
        first, given = int(row["first"]), int(row["places"])
        rows = buffer.places[first : first + given]
        places = dict(zip(rows.server.tolist(), rows.gpus.tolist())) if given else None
        size = {"places": places, "gpus": int(row["gpus"]) or None, "batch": int(row["batch"]) or None}
        if kind == START:
            return GpuStart(job, **size, reason=reason, estimate_s=estimate_s)  # type: ignore[arg-type]
        if kind == RESIZE:
            return GpuResize(job, **size, reason=reason, estimate_s=estimate_s)  # type: ignore[arg-type]
        raise ContractBroken(f"{self.name} writes an action of kind {kind}; this is a defect of the scheduler")


def _own(column: Ints) -> Ints:
    """A copy that kernels may write to, of the type that they are compiled for."""
    return np.array(column, dtype=np.int64)


def _base_widths(jobs: ActiveJobs, held: Held, gpus_for_one: Ints) -> Ints:
    """By job, the number of its first servers that have its requested GPUs together."""
    before = np.cumsum(held.gpus) - held.gpus  # of all jobs together
    counts = np.diff(held.first[: len(jobs) + 1])
    job = np.repeat(np.arange(len(jobs)), counts)
    own = before - before[held.first[job]] if len(job) else before
    is_base = own < (jobs.gpus * gpus_for_one[jobs.gpu_type])[job]
    widths: Ints = np.bincount(job[is_base], minlength=len(jobs))
    return widths


def _chunks(held: Held, n: int) -> tuple[np.recarray, Ints]:
    """The GPUs of all jobs as linked records, and the first record of each job."""
    count = len(held.server)
    chunks = records(CHUNK, count + 1)
    chunks.server[:count], chunks.gpus[:count] = held.server, held.gpus
    chunks.next[:count] = np.arange(1, count + 1)
    sizes = np.diff(held.first[: n + 1])
    chunks.next[held.first[1 : n + 1][sizes > 0] - 1] = NIL
    return chunks, np.where(sizes > 0, held.first[:n], NIL)


def _write_jobs(live: np.recarray, view: GpuView, rank: Ints, first: Ints, type_speed: NDArray[np.float64]) -> None:
    """Fill the records of active jobs.

    The work of a job under the linear law is counted in shares of its expected work. The remaining time is then exactly
    that of the view: neither the true work, nor how often a job has passed its expected run time, is known.
    """
    jobs = view.jobs
    for name in _COPIED:
        live[name] = getattr(jobs, name)
    live.id = rank
    linear = (jobs.model == LINEAR) & np.isfinite(jobs.run_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(jobs.progress > 0, jobs.done / jobs.progress, 1.0 / (jobs.gpus * jobs.run_s))
        work = np.where(jobs.progress > 0, jobs.progress / jobs.done, jobs.gpus * jobs.run_s)
        unsafe_s = (jobs.progress - jobs.safe_progress) / type_speed  # GPU-seconds
    scale = np.where(linear & np.isfinite(share), share, 1.0)
    live.progress = np.where(linear, jobs.done, jobs.progress)
    live.known_work = np.where(linear, 1.0, np.where(np.isfinite(work), work, math.inf))
    live.work = live.target = live.known_work
    live.safe = jobs.safe_progress * scale
    live.checkpoint_work = jobs.checkpoint_work * scale
    running = np.isin(jobs.status, (JobStatus.RUNNING, JobStatus.STOPPING))
    live.speed = np.where(running, jobs.held * type_speed * scale, 0.0)
    live.unsafe = np.where(np.isfinite(unsafe_s), np.maximum(unsafe_s, 0.0), 0.0)
    live.known_run_s = live.measured_run_s = jobs.run_s
    live.first_epoch_work = NEVER_S
    live.since_s = view.now_s
    live.expected_until_s = live.paused_until_s = jobs.paused_until_s
    live.due_s = NEVER_S
    live.executed = jobs.attained_gpu_s
    live.chunk, live.segment = first, NO_SEGMENT
