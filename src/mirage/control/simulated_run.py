"""A recorded run again in the simulator: the same jobs, nodes, services and scheduler.

What the run needs is taken from Slurm's own times: the work of a job is the time that it ran, without the grace of each
eviction and the declared cost of each restart; the demand of the owner is the nodes of its jobs from submission to end.

The simulated controller acts as the real one. It carries out a whole plan at each poll. Between two polls, Slurm starts
jobs on the nodes of the borrower. On lent nodes jobs start only at a poll, because each must first enter the loan.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from mirage.array_types import Floats
from mirage.control.control_view import INFERENCE, POOL_NAMES, TICK_S, TRAINING
from mirage.control.run_record import JobRow, RunSettings
from mirage.control.verbs import fits_loan
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import (
    Event,
    GpuAction,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuReturn,
    GpuStart,
    GpuView,
    Surroundings,
)
from mirage.schedule.schedulers.view_schedulers import REMEMBERING, ViewDecider
from mirage.schedule.workload.gpu_jobs import GpuJobs

HOLD_DOWN_S = 2.0
"""From the moment in which a requeued job has left its nodes to its earliest start, as the executor releases it."""

_POLL_TICKS = 4
"""Calls of the scheduler within these ticks after a poll belong to it: it uses at once what it lends."""


@dataclass(slots=True)
class RunJob:
    """A job of a recorded run; times are in seconds since 1970.

    Attributes:
        attempts: Start and end of each attempt, by its number of restarts; the end is ``MISSING`` while it runs.
        end_s: Its end; ``MISSING`` if it has not ended.
    """

    id: int
    first_s: int
    nodes: int
    gpus: int
    limit_s: int
    owner: bool
    attempts: dict[int, tuple[int, int]] = field(default_factory=dict)
    end_s: int = MISSING

    def ran_s(self, until_s: int) -> list[int]:
        """The length of each attempt; one that has not ended lasts until a time."""
        return [(until_s if end_s == MISSING else end_s) - start_s for start_s, end_s in self.attempts.values()]


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """Metrics of a run, real or simulated; over the jobs that took part and ended.

    Attributes:
        mean_wait_s: Mean total time in the queue.
        mean_jct_s: Mean time from the first submission to the end.
        makespan_s: From the first submission to the last end.
        preemptions: Starts after the first one.
        loans: Loans that were begun.
        lent_node_h: Node-hours lent until the last end.
    """

    jobs: int
    mean_wait_s: float
    mean_jct_s: float
    makespan_s: float
    preemptions: int
    loans: int
    lent_node_h: float


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run, and what the simulator makes of it.

    Attributes:
        left_out: Number of jobs that never ran, or had not ended; the latter run in the simulator, too.
    """

    scheduler: str
    real: RunMetrics
    simulated: RunMetrics
    left_out: int


def simulate_run(settings: RunSettings, rows: Sequence[JobRow], from_scratch: bool = False) -> SimulatedRun:
    """Simulate a recorded run.

    Args:
        settings: Its settings.
        rows: Its rows, in order of time.
        from_scratch: Whether evicted jobs repeat all their work; otherwise they save on the signal.

    Raises:
        ConfigurationError: No job of the run has ended, or the scheduler cannot decide here.
    """
    if settings.scheduler in REMEMBERING:
        raise ConfigurationError(f"a run of {settings.scheduler} is not simulated: it needs the models of the jobs")
    last_s = max((row.time_s for row in rows), default=settings.first_s)
    jobs = run_jobs(rows)
    played = [job for job in jobs if not job.owner and sum(job.ran_s(last_s)) > 0]
    ended = [job for job in played if job.end_s != MISSING]
    if not ended:
        raise ConfigurationError("no job of this run has ended; record a longer run")
    leave_s = _leave_s(settings, played)
    base_s = _base_s(settings, min(job.first_s for job in played))
    workload = GpuJobs.linear(
        [job.first_s - base_s for job in played],
        [job.gpus for job in played],
        [_work_s(job, settings, leave_s, last_s, from_scratch) for job in played],
        estimate_s=[float(job.limit_s) if job.limit_s > 0 else np.nan for job in played],
        restart_s=settings.restart_s,
        save_s=leave_s,
        pool=TRAINING,
        name=tuple(str(k) for k in range(len(played))),
    )
    simulation = GpuSimulation(
        _cluster(settings),
        workload,
        SimulatedController(settings, [job.nodes for job in played]),
        costs=LifeCosts.of(workload, first_start_s=0.0),
        demand=list(_demand([job for job in jobs if job.owner], settings, base_s, last_s)),
        known="run-time",
        force_after_s=math.inf,
        save_succeeds=0.0 if from_scratch else 1.0,
    )
    numbers = [k for k, name in enumerate(workload.name) if played[int(name)].end_s != MISSING]
    simulated = _simulated_metrics(simulation.run(), numbers)
    real = _real_metrics(ended, rows)
    return SimulatedRun(settings.scheduler, real, simulated, sum(not job.owner for job in jobs) - len(ended))


def run_jobs(rows: Sequence[JobRow]) -> list[RunJob]:
    """The jobs of a run, from its rows in order of time.

    An attempt that ended by a requeue has ended when Slurm queued the job again.
    """
    found: dict[tuple[int, int], RunJob] = {}
    for row in rows:
        if row.id == 0:
            continue
        job = found.setdefault(
            (row.id, row.first_s), RunJob(row.id, row.first_s, row.nodes, row.gpus, row.limit_s, row.owner)
        )
        for number, (start_s, end_s) in job.attempts.items():
            if number < row.restarts and end_s == MISSING:
                job.attempts[number] = (start_s, max(row.submit_s, start_s))
        if row.start_s != MISSING:
            job.attempts[row.restarts] = (row.start_s, row.end_s)
        job.end_s = row.end_s
    return list(found.values())


class _FreeGpus:
    """The free GPUs of a node over time, as the time limits promise them."""

    def __init__(self) -> None:
        self._changes: dict[float, int] = {}

    @property
    def now(self) -> int:
        """The free GPUs at the beginning."""
        return self._changes[min(self._changes)]

    def change(self, time_s: float, gpus: int) -> None:
        """More free GPUs from a time on."""
        self._changes[time_s] = self._changes.get(time_s, 0) + gpus

    def use(self, start_s: float, run_s: float, gpus: int) -> None:
        """Fewer free GPUs for a time."""
        self.change(start_s, -gpus)
        self.change(start_s + run_s, gpus)

    def earliest_s(self, run_s: float, gpus: int) -> float:
        """The first time from which a number of GPUs is free for a duration; infinity for never."""
        free, since_s = 0, math.inf
        for time_s in sorted(self._changes):
            if time_s >= since_s + run_s:
                break
            free += self._changes[time_s]
            since_s = math.inf if free < gpus else min(since_s, time_s)
        return since_s


FIFO = "fifo"


class SimulatedController:
    """A controller in simulated time, with the scheduler of a run.

    Args:
        settings: The settings of the run; simulated time begins at a multiple of its poll before the first snapshot.
        nodes: The nodes that each job requests. Slurm starts it on no more, but a scheduler may spread its GPUs.
    """

    called_on = Event.SUBMITTED | Event.ENDED | Event.LEFT | Event.SERVERS

    def __init__(self, settings: RunSettings, nodes: Sequence[int]) -> None:
        self.name, self.round_s, self.settings = settings.scheduler, float(settings.poll_s), settings
        self._nodes = nodes
        self._decider = ViewDecider(self.name, TRAINING)
        self._started_s: dict[int, float] = {}  # job → start of its present attempt
        self._evictions: deque[tuple[float, int]] = deque()

    def begin(self, surroundings: Surroundings) -> None:
        """Take the facts of the cluster."""
        self._surroundings = surroundings

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan of the scheduler, as far as a controller and Slurm carry it out now."""
        save_s = np.full(len(view.jobs), float(self.settings.grace_s))
        view = replace(view, jobs=replace(view.jobs, save_s=save_s, start_s=self._starts_s(view)))
        if not self.settings.progress:
            view = self._without_progress(view)
        plan = self._decider.decide(view, self._surroundings)
        if not len(view.jobs):  # nothing is lent if no job takes part
            return GpuPlan(tuple(action for action in plan.actions if isinstance(action, GpuReturn)))
        is_poll = view.now_s % self.round_s < _POLL_TICKS * TICK_S
        fitting = self._on_requested_nodes(plan.actions, view)
        actions = tuple(self._promised(action, view) for action in fitting if self._is_done(action, view, is_poll))
        if self.settings.backfills:
            actions += tuple(self._backfilled(actions, view))
        for action in actions:
            if isinstance(action, GpuStart):
                self._started_s[action.job] = view.now_s
        is_soon = plan.wake_s is not None and plan.wake_s - view.now_s < 1.0
        return GpuPlan(actions, plan.wake_s if is_poll and is_soon else self._held_down_until_s(view))

    def _starts_s(self, view: GpuView) -> Floats:
        """The start of the present attempt of jobs that run, as Slurm reports it."""
        started = [self._started_s.get(job, math.nan) for job in view.jobs.id.tolist()]
        starts_s: Floats = np.where(view.jobs.held > 0, np.array(started, np.float64), view.jobs.start_s)
        return starts_s

    def _held_down_until_s(self, view: GpuView) -> float | None:
        """When Slurm can start the next requeued job; None if it can start all of them now."""
        ends_s = view.jobs.queued_since_s[view.jobs.pending & (view.jobs.preemptions > 0)] + HOLD_DOWN_S
        return min(ends_s[ends_s > view.now_s].tolist(), default=None)

    def _on_requested_nodes(self, actions: Sequence[GpuAction], view: GpuView) -> Iterator[GpuAction]:
        """The actions, with starts as Slurm makes them: on one node for a job that requests one.

        A scheduler may spread GPUs over several nodes. Slurm then takes the fullest node that has enough free ones; if
        there is none the job waits, and under FIFO those behind it, too.
        """
        free, blocked = view.servers.free.copy(), False
        for action in actions:
            if isinstance(action, GpuStart) and action.places:
                places = dict(action.places)
                if len(places) > self._nodes[action.job] == 1:
                    gpus = sum(places.values())
                    room = np.flatnonzero((view.servers.pool == TRAINING) & (free >= gpus))
                    if blocked or not len(room):
                        blocked |= self.name == FIFO
                        continue
                    places = {int(room[np.argmin(free[room])]): gpus}
                elif blocked:
                    continue
                for server, gpus in places.items():
                    free[server] -= gpus
                action = replace(action, places=places)
            yield action

    def _backfilled(self, actions: Sequence[GpuAction], view: GpuView) -> Iterator[GpuStart]:
        """The starts that Slurm adds on nodes of the borrower, which the scheduler has left free.

        A waiting job starts if it delays no earlier one, as far as the time limits tell. Jobs of several nodes are left
        to the scheduler.
        """
        started = {action.job: action.places or {} for action in actions if isinstance(action, GpuStart)}
        free = {int(server): _FreeGpus() for server in np.flatnonzero(view.servers.home == TRAINING)}
        limits_s = dict(zip(view.jobs.id.tolist(), view.jobs.run_s.tolist(), strict=True))
        for server, gpus in free.items():
            gpus.change(view.now_s, int(view.servers.free[server]))
        for k in np.flatnonzero(view.jobs.held).tolist():
            job = int(view.jobs.id[k])
            for server, count in view.held.of(k).items():
                if server in free:
                    free[server].change(max(self._started_s[job] + limits_s[job], view.now_s + 1.0), count)
        for job, places in started.items():
            for server, count in places.items():
                if server in free:
                    free[server].use(view.now_s, limits_s[job], count)
        order = np.lexsort((view.jobs.id, view.jobs.submit_s))
        for k in order[view.jobs.pending[order]].tolist():
            job, count = int(view.jobs.id[k]), int(view.jobs.gpus[k])
            requeued_s = view.now_s - float(view.jobs.queued_since_s[k])
            if job in started or self._nodes[job] != 1 or (view.jobs.preemptions[k] and requeued_s < HOLD_DOWN_S):
                continue
            starts_s = {server: gpus.earliest_s(limits_s[job], count) for server, gpus in free.items()}
            server = min(starts_s, key=lambda one: (starts_s[one], free[one].now))
            if starts_s[server] == math.inf:
                continue
            free[server].use(starts_s[server], limits_s[job], count)
            if starts_s[server] == view.now_s:
                yield GpuStart(job, {server: count}, reason="backfill")

    def _without_progress(self, view: GpuView) -> GpuView:
        """The view with the progress that the controller derives from limits and starts."""
        jobs = view.jobs
        ran_s = np.array([view.now_s - self._started_s.get(job, view.now_s) for job in jobs.id.tolist()], np.float64)
        done = np.where(jobs.held > 0, np.minimum(ran_s / jobs.run_s, 1.0), 0.0)
        derived = replace(
            jobs, done=done, progress=done * jobs.gpus * jobs.run_s, safe_progress=np.zeros(len(jobs)),
            first_start_s=jobs.restart_s,
        )  # fmt: skip
        return replace(view, jobs=derived)

    def _promised(self, action: GpuAction, view: GpuView) -> GpuAction:
        if not isinstance(action, GpuLend):
            return action
        return replace(action, until_s=min(action.until_s, view.now_s + self.settings.promise_s))

    def _is_done(self, action: GpuAction, view: GpuView, is_poll: bool) -> bool:
        """Whether an action is carried out; one of a poll, or a start by Slurm between two polls."""
        if isinstance(action, GpuPreempt):
            return is_poll and self._is_within_budget(action.job, view.now_s)
        if not isinstance(action, GpuStart):
            return is_poll
        lent = [server for server in action.places or {} if view.servers.home[server] == INFERENCE]
        if not lent:
            return True
        run_s = float(view.jobs.run_s[view.jobs.id == action.job][0])
        ends_s = float(view.servers.lent_until_s[lent].min())
        return is_poll and len(action.places or {}) == 1 and fits_loan(math.ceil(run_s), view.now_s, math.floor(ends_s))

    def _is_within_budget(self, job: int, now_s: float) -> bool:
        """Whether the budgets of evictions allow one more, which is then counted."""
        while self._evictions and self._evictions[0][0] <= now_s - HOUR_S:
            self._evictions.popleft()
        of_job = sum(other == job for _, other in self._evictions)
        if len(self._evictions) >= self.settings.evictions_per_hour or of_job >= self.settings.evictions_per_job_hour:
            return False
        self._evictions.append((now_s, job))
        return True


def _base_s(settings: RunSettings, first_s: int) -> int:
    """Where simulated time begins: before the first job, polls before the first snapshot."""
    polls = 1 + max(0, -(-(settings.first_s - first_s) // settings.poll_s))
    return settings.first_s - polls * settings.poll_s


def _leave_s(settings: RunSettings, jobs: Sequence[RunJob]) -> float:
    """The median time from a poll that evicts a job until the job has left its nodes.

    Without progress files it is at least the grace; a job that ignores SIGTERM leaves ``KillWait`` later. With them, it
    is the grace if a poll is shorter than that: the evicting poll is then not known.
    """
    if settings.progress and settings.poll_s <= settings.grace_s:
        return float(settings.grace_s)
    least_s = 0 if settings.progress else settings.grace_s
    ends_s = [end_s for job in jobs for _, end_s in list(job.attempts.values())[:-1] if end_s != MISSING]
    since_s = [(end_s - least_s - settings.first_s) % settings.poll_s + least_s for end_s in ends_s]
    return float(np.median(since_s)) if since_s else float(settings.grace_s)


def _work_s(job: RunJob, settings: RunSettings, leave_s: float, last_s: int, from_scratch: bool) -> float:
    ran_s = job.ran_s(last_s)
    if job.end_s == MISSING:
        return float(max(job.limit_s, sum(ran_s)))
    if from_scratch:
        return float(max(ran_s[-1] - settings.restart_s * (len(ran_s) > 1), 1))
    return float(max(sum(ran_s) - (len(ran_s) - 1) * (leave_s + settings.restart_s), 1))


def _cluster(settings: RunSettings) -> GpuCluster:
    return GpuCluster(
        tuple(
            ServerGroup(node.name, node.gpu_type, 1, node.gpus, POOL_NAMES[INFERENCE if node.owner else TRAINING],
                        node.speed)
            for node in settings.nodes if node.gpus
        )
    )  # fmt: skip


def _demand(jobs: Sequence[RunJob], settings: RunSettings, base_s: int, last_s: int) -> Iterator[Demand]:
    """The nodes of the owner's jobs that have been submitted and have not ended."""
    most = sum(node.owner and node.gpus > 0 for node in settings.nodes)
    changes: dict[int, int] = {}
    for job in jobs:
        end_s = job.end_s if job.end_s != MISSING else last_s
        changes[job.first_s] = changes.get(job.first_s, 0) + job.nodes
        changes[end_s] = changes.get(end_s, 0) - job.nodes
    wanted = 0
    for time_s in sorted(changes) if most else ():
        wanted += changes[time_s]
        yield Demand(float(max(time_s - base_s, 0)), INFERENCE, min(wanted, most))


def _simulated_metrics(log: GpuLog, numbers: Sequence[int]) -> RunMetrics:
    rows = log.rows[np.array(numbers, np.int64)]
    last_s = float(rows.due_s.max())
    begun = log.loans[log.loans.start_s < last_s]
    return RunMetrics(
        jobs=len(rows),
        mean_wait_s=float(rows.queued_s.mean()),
        mean_jct_s=float((rows.due_s - rows.submit_s).mean()),
        makespan_s=last_s - float(rows.submit_s.min()),
        preemptions=int(rows.preemptions.sum()),
        loans=len(begun),
        lent_node_h=float((np.minimum(begun.end_s, last_s) - begun.start_s).clip(0).sum()) / HOUR_S,
    )


def _real_metrics(jobs: Sequence[RunJob], rows: Sequence[JobRow]) -> RunMetrics:
    last_s = max(job.end_s for job in jobs)
    jct_s = np.array([job.end_s - job.first_s for job in jobs], np.float64)
    ran_s = np.array([sum(job.ran_s(last_s)) for job in jobs], np.float64)
    snapshots = [row for row in rows if row.id == 0 and row.time_s <= last_s]
    lent: set[str] = set()
    loans, lent_s = 0, 0
    for row, following_s in zip(snapshots, [*(row.time_s for row in snapshots[1:]), last_s]):
        loans += len(set(row.lent) - lent)
        lent = set(row.lent)
        lent_s += len(lent) * (following_s - row.time_s)
    return RunMetrics(
        jobs=len(jobs),
        mean_wait_s=float((jct_s - ran_s).mean()),
        mean_jct_s=float(jct_s.mean()),
        makespan_s=float(last_s - min(job.first_s for job in jobs)),
        preemptions=sum(len(job.attempts) - 1 for job in jobs),
        loans=loans,
        lent_node_h=lent_s / HOUR_S,
    )


METRICS = tuple(metric.name for metric in fields(RunMetrics))


def compared(runs: Sequence[SimulatedRun]) -> list[dict[str, float | str | None]]:
    """One row for each metric, over runs of the same workload.

    ``real`` and ``simulated`` are means; ``difference`` is simulated over real, less one; ``spread`` is the largest
    less the smallest real value, over their mean. Those that are not defined are None.
    """
    rows: list[dict[str, float | str | None]] = []
    for name in METRICS:
        real = [float(getattr(run.real, name)) for run in runs]
        simulated = [float(getattr(run.simulated, name)) for run in runs]
        mean, other = sum(real) / len(real), sum(simulated) / len(simulated)
        rows.append({
            "metric": name,
            "real": mean,
            "simulated": other,
            "difference": other / mean - 1.0 if mean else None,
            "spread": (max(real) - min(real)) / mean if mean and len(real) > 1 else None,
        })  # fmt: skip
    return rows
