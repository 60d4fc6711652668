"""Builds a world from a cluster, its jobs, the costs of their lives, and inference demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, quantity
from mirage.kernel.record_arrays import Records, records
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.gpu_arrays import (
    ACTION,
    CHUNK,
    CLOCK,
    DECISION,
    DEMAND_CHANGE,
    EVENT,
    JOB,
    LOAN,
    NEVER_S,
    NIL,
    NO_LOAN,
    NO_SEGMENT,
    NO_SLOT,
    NO_TYPE,
    NOTICE,
    PHASE,
    PLACE,
    SEGMENT,
    SETTINGS,
    TICK_S,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds, runs_on
from mirage.schedule.workload.gpu_jobs import ANY_POOL, GpuJobs, allows_types

KnownRunTimes: TypeAlias = Literal["nothing", "estimate", "run-time"]
"""Run times that schedulers know: none, the users' estimates, or also true run times of jobs without an estimate."""


_ROOM = 64
"""Rows of a log in addition to those by job; the engine enlarges logs."""


@dataclass(frozen=True, slots=True)
class LifeCosts:
    """Expected costs in the life of each job; all shapes (jobs,).

    Attributes:
        first_start_s: Seconds without work at the first start.
        restart_s: The same at a start after a preemption.
        rescale_s: The same at a change of size or location.
        save_s: Seconds to write a checkpoint on demand.
        checkpoint_work: Work between two checkpoints that are written in any case; 0: all work is safe at once;
            infinite: checkpoints are written only on demand.
    """

    first_start_s: Floats
    restart_s: Floats
    rescale_s: Floats
    save_s: Floats
    checkpoint_work: Floats

    @classmethod
    def of(
        cls,
        jobs: GpuJobs,
        *,
        first_start_s: float | Floats | None = None,
        restart_s: float | Floats | None = None,
        rescale_s: float | Floats | None = None,
        save_s: float | Floats | None = None,
        checkpoint_work: float | Floats | None = None,
    ) -> LifeCosts:
        """Costs by name, one for all jobs or one per job.

        By default they are those of the jobs: starts and changes of size cost ``restart_s``.
        """

        def column(given: float | Floats | None, default: Floats) -> Floats:
            cost = default if given is None else given
            return np.array(np.broadcast_to(np.asarray(cost, dtype=np.float64), (len(jobs),)))

        return cls(
            first_start_s=column(first_start_s, jobs.restart_s),
            restart_s=column(restart_s, jobs.restart_s),
            rescale_s=column(rescale_s, jobs.restart_s),
            save_s=column(save_s, jobs.save_s),
            checkpoint_work=column(checkpoint_work, jobs.gpus * jobs.checkpoint_s),
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """Inference demand: from ``time_s`` on, inference takes ``servers`` servers of a pool.

    Attributes:
        announced_s: When the scheduler learns of it; None for without notice.
        announced: The number of servers in the announcement, which may err; None for the true one.
    """

    time_s: float
    pool: int
    servers: int
    announced_s: float | None = None
    announced: int | None = None


def in_whole_ticks(seconds: Floats) -> Floats:
    """Times rounded to the nearest multiples of a tick."""
    rounded: Floats = np.floor(seconds / TICK_S + 0.5) * TICK_S
    return rounded


def make_world(
    cluster: GpuCluster,
    jobs: GpuJobs,
    speeds: Speeds | None,
    costs: LifeCosts,
    demand: Sequence[Demand],
    known: KnownRunTimes,
    seed: int,
    cost_spread: float,
    save_succeeds: float = 1.0,
) -> GpuWorld:
    """The arrays of a world.

    Raises:
        ConfigurationError: A job needs more GPUs than exist of any type on which it runs, or has no speed or run time;
            a demand cannot be met, or jobs could run in the pool from which it takes servers.
    """
    if speeds is None:
        speed_of = cluster.type_speeds()
        speeds = linear_speeds(np.array([speed_of[gpu_type] for gpu_type in cluster.gpu_types]))
    settings = np.zeros(1, SETTINGS)
    settings["seed"], settings["cost_spread"], settings["save_fails"] = seed, cost_spread, 1.0 - save_succeeds
    settings["round_s"] = NEVER_S
    rows = _job_records(cluster, jobs, speeds, costs)
    changes = _demand_records(cluster, jobs, demand)
    rows.known_run_s = _known_run_s(jobs, known)
    rows.known_work = _known_work(jobs, rows.known_run_s)
    rows.first_epoch_work, rows.measured_run_s = _first_epoch_work(jobs, rows.known_run_s), jobs.run_s
    return GpuWorld(
        jobs=rows,
        gpus_of=cluster.gpus_of.copy(),
        type_of=cluster.gpu_type_of.copy(),
        home_of=cluster.pool_of.copy(),
        demand=changes,
        notices=_notices(changes),
        gpus_for_one=cluster.gpus_for_one(),
        settings=settings,
        speeds=speeds,
    )


def most_gpus(cluster: GpuCluster, jobs: GpuJobs, speeds: Speeds) -> Ints:
    """The largest number of GPUs that each job can have, in GPUs that it requests.

    These are all GPUs of one type, among the types on which the job may run and its model runs.
    """
    of_type = np.bincount(cluster.gpu_type_of, cluster.gpus_of).astype(np.int64) // cluster.gpus_for_one()
    most: Ints = np.where(runs_on(speeds, jobs.model) & allows_types(jobs.types, len(of_type)), of_type, 0).max(axis=1)
    return most


def _job_records(cluster: GpuCluster, jobs: GpuJobs, speeds: Speeds, costs: LifeCosts) -> Records:
    unmeasured = np.flatnonzero(jobs.model >= len(speeds.epochs))
    if len(unmeasured):
        raise ConfigurationError(
            f"job {jobs.name[int(unmeasured[0])]!r} has a model without speeds; give the profiles of its workload"
        )
    most = most_gpus(cluster, jobs, speeds)
    for k in np.flatnonzero(jobs.min_gpus > most)[:1].tolist():
        raise ConfigurationError(
            f"job {jobs.name[k]!r} needs {quantity(int(jobs.min_gpus[k]), 'GPU')}, but the cluster has {most[k]} of "
            "one type on which it runs; leave it out, or give a larger cluster"
        )
    rows = records(JOB, len(jobs))
    rows.id = np.arange(len(jobs))
    rows.submit_s = in_whole_ticks(jobs.submit_s)
    for name in ("model", "gpus", "min_gpus", "max_gpus", "pool", "types", "batch", "work"):
        rows[name] = getattr(jobs, name)
    for name in ("first_start_s", "restart_s", "rescale_s", "save_s", "checkpoint_work"):
        rows[name] = getattr(costs, name)
    rows.chunk, rows.segment, rows.gpu_type = NIL, NO_SEGMENT, NO_TYPE
    rows.due_s = NEVER_S
    rows.start_s = rows.queued_since_s = rows.paused_until_s = rows.expected_until_s = np.nan
    rows.target = rows.work
    return rows


def _known_run_s(jobs: GpuJobs, known: KnownRunTimes) -> Floats:
    if known == "nothing":
        return np.full(len(jobs), np.nan)
    known_s = jobs.estimate_s.copy()
    if known == "run-time":
        missing = np.isnan(known_s)
        known_s[missing] = jobs.run_s[missing]
        for k in np.flatnonzero(np.isnan(known_s))[:1]:
            raise ConfigurationError(
                f"the run time of job {jobs.name[k]!r} on the {quantity(int(jobs.gpus[k]), 'GPU')} it requests is "
                "not known, but the scheduler needs run times; leave the job out, or choose another scheduler"
            )
    return known_s


def _known_work(jobs: GpuJobs, known_run_s: Floats) -> Floats:
    """The true work, times expected over true run time where both are known."""
    comparable = np.isfinite(known_run_s) & np.isfinite(jobs.run_s) & (known_run_s > 0) & (jobs.run_s > 0)
    ratio = np.divide(known_run_s, jobs.run_s, out=np.ones(len(jobs)), where=comparable)
    work: Floats = jobs.work * ratio
    return work


def _first_epoch_work(jobs: GpuJobs, known_run_s: Floats) -> Floats:
    """The progress that shows the true run time of jobs with epochs.

    It is infinite for jobs without epochs, and for those with a run time that is known before.
    """
    learns = (jobs.epochs > 0) & np.isfinite(known_run_s) & np.isfinite(jobs.run_s) & (known_run_s != jobs.run_s)
    work: Floats = np.where(learns, jobs.work / np.maximum(jobs.epochs, 1), NEVER_S)
    return work


def _demand_records(cluster: GpuCluster, jobs: GpuJobs, demand: Sequence[Demand]) -> Records:
    rows = records(DEMAND_CHANGE, len(demand))
    for row, change in zip(rows, sorted(demand, key=lambda change: (change.time_s, change.pool))):
        servers = int(np.count_nonzero(cluster.pool_of == change.pool))
        pool = cluster.pools[change.pool] if change.pool < len(cluster.pools) else change.pool
        if not 0 <= change.servers <= servers:
            raise ConfigurationError(
                f"inference takes {change.servers} servers of pool {pool!r} at {change.time_s:g} s, but the pool has "
                f"{servers}; give 0 to {servers}, of one of {', '.join(cluster.pools)}"
            )
        row.time_s, row.pool, row.servers = in_whole_ticks(np.array(change.time_s)), change.pool, change.servers
        announced_s = change.time_s if change.announced_s is None else change.announced_s
        row.announced = change.servers if change.announced is None else change.announced
        if not announced_s <= change.time_s or not 0 <= row.announced <= servers:
            raise ConfigurationError(
                f"demand of pool {pool!r} at {change.time_s:g} s is announced at {announced_s:g} s as {row.announced} "
                f"servers; announce 0 to {servers} servers, and not later than the change"
            )
        row.announced_s = in_whole_ticks(np.array(announced_s))
        _refuse_shared_pool(cluster, jobs, change)
    return rows


def _notices(changes: Records) -> Records:
    """The announcements of changes, in order of time; changes without notice have none."""
    early = np.flatnonzero(changes.announced_s < changes.time_s)
    early = early[np.argsort(changes.announced_s[early], kind="stable")]
    rows = records(NOTICE, len(early))
    rows.time_s, rows.change = changes.announced_s[early], early
    return rows


def _refuse_shared_pool(cluster: GpuCluster, jobs: GpuJobs, change: Demand) -> None:
    """Refuse jobs that could run in a pool from which inference takes servers.

    Only loans are checked against demand.
    """
    in_pool = np.flatnonzero((jobs.pool == ANY_POOL) | (jobs.pool == change.pool))
    if change.servers and len(in_pool):
        raise ConfigurationError(
            f"job {jobs.name[int(in_pool[0])]!r} may run in pool {cluster.pools[change.pool]!r}, from which inference "
            f"takes {change.servers} servers at {change.time_s} s; name another pool for the job (pool=), to which "
            "the scheduler may lend servers"
        )


def make_state(world: GpuWorld, pools: int) -> GpuState:
    """The state of a cluster before anything has happened."""
    n, servers = len(world.jobs), len(world.gpus_of)
    gpus = int(world.gpus_of.sum())
    clock = np.zeros(1, CLOCK)
    for name in ("wake_s", "next_return_s", "force_s"):
        clock[name] = NEVER_S
    clock["free_chunk"] = NIL
    clock["called_at_s"] = -1.0
    ended = records(JOB, n)
    ended[:] = world.jobs
    return GpuState(
        clock=clock,
        live=records(JOB, n + 1),
        slot_of=np.full(n, NO_SLOT),
        ended=ended,
        heap=records(EVENT, 3 * n + _ROOM),
        chunks=records(CHUNK, gpus + 1),
        free=world.gpus_of.copy(),
        pool_of=world.home_of.copy(),
        lent_until_s=np.full(servers, NEVER_S),
        loan_of=np.full(servers, NO_LOAN),
        moved_at=np.zeros(servers, np.int64),
        wanted=np.zeros(pools, np.int64),
        wanted_soon=np.zeros(pools, np.int64),
        wanted_from_s=np.full(pools, NEVER_S),
        present=np.bincount(world.home_of),
        segments=records(SEGMENT, 2 * n + _ROOM),
        placement_rows=records(PLACE, 3 * n + 2 * gpus + _ROOM),
        phases=records(PHASE, 3 * n + _ROOM),
        decisions=records(DECISION, 3 * n + _ROOM),
        loans=records(LOAN, 3 * n + _ROOM),
        news=np.zeros((8 * n + _ROOM, 2), np.int64),
    )


def make_plan_buffer(compiled: CompiledScheduler, jobs: int, servers: int, gpus: int) -> PlanBuffer:
    """The plan buffer of a scheduler, with an empty memory.

    Args:
        compiled: The scheduler.
        jobs: Most jobs at once.
        servers: Number of servers.
        gpus: Number of GPUs of all servers.
    """
    rows = max(jobs, gpus if compiled.table else servers) + 1
    return PlanBuffer(
        plan=records(ACTION, 2 * (jobs + servers) + _ROOM),
        places=records(PLACE, 6 * gpus + 2 * jobs + _ROOM),
        free=np.zeros(servers, np.int64),
        spare=np.zeros(servers, np.int64),
        picked=records(PLACE, servers + 1),
        memory=np.zeros((compiled.memory, rows)),
        ranks=np.zeros((compiled.ranks, rows), np.int64),
        parameters=np.array(compiled.parameters),
        table=np.zeros((min(jobs, gpus) + 1, gpus + 1) if compiled.table else (1, 1), np.int16),
    )
