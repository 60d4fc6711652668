"""The view of a GPU scheduler, made from a snapshot of Slurm.

Servers are the nodes of the two pools on which the scheduler may decide: all nodes of the borrower, lent nodes of the
owner, and idle ones of the owner, which it may lend. A node of the owner with a job of its own is not in the view.
Jobs are those that take part. All other jobs only hold GPUs. A job and its worker jobs are one job of the view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.control.job_sizes import NO_SIZES, JobSizes, job_sizes, present_gpus
from mirage.control.model_profiles import job_model
from mirage.control.pools_file import BORROWER, OWNER, Pools
from mirage.control.progress_files import JobProgress
from mirage.control.verbs import HETEROGENEOUS, LOAN, TASKS_UNKNOWN, is_of_controller, lost_loan
from mirage.control.worker_jobs import is_orphan, main_job_of, running, unfinished_ids, workers_by_main
from mirage.duration import DAY_S, MINUTE_S, UNLIMITED_S
from mirage.errors import SlurmUnreachable, first_of
from mirage.job_state import JobState
from mirage.schedule.scheduler_contract import (
    UNKNOWN,
    ActiveJobs,
    GpuView,
    Held,
    JobStatus,
    Servers,
    Surroundings,
)
from mirage.schedule.schedulers.view_schedulers import ELASTIC_SCHEDULERS, REMEMBERING
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.speeds.speed_arrays import LINEAR, linear_speeds, runs_on
from mirage.slurm.gpu_snapshot import GpuSnapshot, gpus_by_node
from mirage.slurm.records import QueuedJob
from mirage.slurm.slurm_view import is_blocked, tasks
from mirage.slurm.text.gpu_nodes import GpuNode
from mirage.slurm.text.gpu_queue import GpuQueueJob
from mirage.slurm_words.hostlist import expand_hosts

POOL_NAMES = (BORROWER, OWNER)
TRAINING, INFERENCE = 0, 1
"""Numbers of the two pools in a view."""

TICK_S = 2.0**-10
"""The shortest time between two decisions, as in the simulator."""

NO_LIMIT_S = 365.0 * DAY_S
"""Expected run time of a job without a time limit."""

ProgressOf = Callable[[QueuedJob], JobProgress | None]
ProfilesOf = Callable[[Sequence[GpuNode]], Profiles | None]


@dataclass(frozen=True, slots=True)
class ControlJob:
    """A job of a view: what a command about it needs.

    Attributes:
        id: Its id in Slurm. Slurm may use it again after a crash: only with ``submit_s`` is it unique.
        submit_s: Its first submission, also after a requeue.
        queued_s: Its last submission.
        limit_s: Its time limit; ``MISSING`` for none.
        gpus: The GPUs that it has, or requests while it waits; with those of its workers that run.
        gpu_type: The GPU type that it requests; empty for any.
        sizes: The numbers of GPUs that it may have.
        task: How commands name it if it is of an array; empty for other jobs.
        workers: Its worker jobs.
    """

    id: int
    user: str
    account: str
    submit_s: int
    queued_s: int
    restarts: int
    priority: float
    nice: int
    limit_s: int
    reservation: str
    running: bool
    gpus: int = 0
    gpu_type: str = ""
    sizes: JobSizes = NO_SIZES
    task: str = ""
    workers: tuple[GpuQueueJob, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlView:
    """A view, and the names of its rows.

    Attributes:
        jobs: By number of the view.
        nodes: Names of the servers, by number.
        loans: Nodes with an active loan, and the end of each in seconds since 1970.
        taken_back: Nodes with a loan on which jobs of the owner run, and none that takes part; not in the view.
        stranded: Jobs that take part, and that Slurm holds because their loan has ended; not in the view.
        deserted: Jobs that wait outside of the view with more than their smallest size: with workers that run, or
            requeued with a size with which they cannot start.
        orphans: Worker jobs that take part, and whose main job has ended; not in the view.
        left_out: Jobs of the borrower's partition that are not in the view, by reason.
        rigid: Jobs of the view that declare a size range but have one size, by reason.
    """

    view: GpuView
    surroundings: Surroundings
    jobs: tuple[ControlJob, ...]
    nodes: tuple[str, ...]
    loans: Mapping[str, int]
    taken_back: tuple[str, ...]
    stranded: tuple[ControlJob, ...]
    deserted: tuple[ControlJob, ...]
    orphans: tuple[ControlJob, ...]
    left_out: Mapping[str, int]
    rigid: Mapping[str, int]

    @property
    def keys(self) -> tuple[tuple[int, int], ...]:
        """What identifies each job in all views: its id and its first submission."""
        return tuple((job.id, job.submit_s) for job in self.jobs)


class FirstSubmissions:
    """The first submission of every job: Slurm replaces the submit time at a requeue.

    A job is the same one if its submit time is, or if it was requeued since. An id with another submit time and no
    requeue was given to another job after a crash of slurmctld. While a requeued job completes, Slurm counts the
    restart already, but the submit time is still the former one (22.05.8).
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int, int]] = {}  # id → first submission, last one, restarts before that

    def update(self, jobs: Iterable[GpuQueueJob]) -> None:
        """Take the jobs of a snapshot; jobs that are not in it are forgotten."""
        known, self._known = self._known, {}
        for one in jobs:
            first_s, last_s, restarts = known.get(one.job.id, (one.job.submit_s, one.job.submit_s, one.restarts))
            if one.job.submit_s != last_s:
                first_s = first_s if one.restarts > restarts else one.job.submit_s
                restarts = one.restarts
            self._known[one.job.id] = (first_s, one.job.submit_s, restarts)

    def of(self, job: QueuedJob) -> int:
        """The first known submission of a job of the last snapshot."""
        return self._known[job.id][0]


class _Row(NamedTuple):
    """A job of the view."""

    one: GpuQueueJob
    submit_s: int
    places: Mapping[int, int]
    sizes: JobSizes
    progress: JobProgress | None = None
    model: int = LINEAR
    batch: int = 0
    workers: tuple[GpuQueueJob, ...] = ()

    @property
    def gpus(self) -> int:
        """The GPUs that it has or requests, with those of its workers that run."""
        return present_gpus(self.one, self.workers)


def control_view(
    snapshot: GpuSnapshot,
    pools: Pools,
    first: FirstSubmissions,
    progress_of: ProgressOf | None = None,
    profiles_of: ProfilesOf = lambda _: None,
) -> ControlView:
    """The view of the pools in a snapshot.

    Args:
        snapshot: The cluster.
        pools: The settings.
        first: The first submissions; updated.
        progress_of: What is known of the progress of a job.
        profiles_of: The measured speeds on some nodes, if there are any.

    Raises:
        SlurmUnreachable: A node of the pools is not reported, or slurmctld does not know its state, as after a restart;
            or no node has GPUs.
        ConfigurationError: There are no profiles for these nodes.
    """
    nodes = _nodes_of(snapshot, pools)
    first.update(snapshot.jobs)
    loans = {
        loan.name.removeprefix(LOAN): loan.end_s
        for loan in snapshot.reservations
        if loan.active and loan.name.startswith(LOAN) and loan.nodes == (loan.name.removeprefix(LOAN),)
        if loan.name.removeprefix(LOAN) in pools.owner_nodes and loan.end_s > snapshot.time_s
    }
    left_out: Counter[str] = Counter()
    candidates = [one for one in snapshot.jobs if _is_borrower(one.job, pools, left_out)]
    busy = _busy_nodes(snapshot, {one.job.id for one in candidates})
    borrowed = {host for one in candidates for host in _hosts(one.job)}
    taken_back = tuple(name for name in loans if name in busy and name not in borrowed)
    servers = [
        nodes[name]
        for name in pools.nodes
        if name not in pools.owner_nodes
        or (name in loans and name not in taken_back)
        or name in borrowed
        or (nodes[name].usable and nodes[name].used == 0 and name not in busy)
    ]
    of_pools = [nodes[name] for name in pools.nodes]
    types = tuple(dict.fromkeys(node.gpu_type for node in of_pools))
    profiles = profiles_of(of_pools) if pools.scheduler in REMEMBERING else None
    workers = workers_by_main(candidates)
    rows = _rows(candidates, servers, types, snapshot.time_s, left_out, first, pools, workers)
    known = [row._replace(progress=progress_of(row.one.job) if progress_of is not None else None) for row in rows]
    rows = [_with_model(row, profiles) for row in known]
    columns = _servers(servers, types, rows, pools, loans, borrowed, snapshot)
    surroundings = Surroundings(
        gpu_types=types,
        pools=POOL_NAMES,
        servers=tuple(node.name for node in servers),
        models=profiles.models if profiles else (),
        speeds=profiles.speeds
        if profiles
        else linear_speeds(np.array([pools.gpu_speeds.get(gpu_type, 1.0) for gpu_type in types])),
        jobs=len(rows),
        gpus_for_one=(1,) * len(types),
    )
    held = _held(rows)
    view = GpuView(
        float(snapshot.time_s),
        _jobs(rows, columns, types, surroundings, snapshot.time_s, pools),
        columns,
        (),
        lambda: held,
    )
    jobs = tuple(map(_control_job, rows))
    shown = {row.one.job.id for row in rows}
    outside = [_row_outside(one, first, pools, workers) for one in candidates if one.job.id not in shown]
    waiting = [row for row in outside if row.one.job.state is JobState.PENDING]
    stranded = [row for row in waiting if lost_loan(row.one.job.reason, pools.owner_nodes)]
    deserted = [row for row in waiting if _is_too_large(row, pools, snapshot.time_s)]
    unfinished = unfinished_ids(snapshot.jobs)
    orphans = [row for row in outside if is_orphan(row.one, unfinished)]
    rigid = Counter(row.sizes.rigid_why for row in rows if row.sizes.rigid_why)
    return ControlView(
        view, surroundings, jobs, surroundings.servers, loans, taken_back,
        tuple(map(_control_job, stranded)), tuple(map(_control_job, deserted)), tuple(map(_control_job, orphans)),
        left_out, rigid,
    )  # fmt: skip


def _row_outside(
    one: GpuQueueJob, first: FirstSubmissions, pools: Pools, workers: Mapping[int, tuple[GpuQueueJob, ...]]
) -> _Row:
    """A job that takes part and is not in the view."""
    its_own = workers.get(one.job.id, ())
    return _Row(one, first.of(one.job), {}, job_sizes(one, pools, its_own), workers=its_own)


def _is_too_large(row: _Row, pools: Pools, now_s: int) -> bool:
    """Whether a job that waits outside of the view must get its smallest size.

    A job that was requeued for a larger size may not start with it, for example because of a limit of its user. One
    that Slurm still delays, or has not tried to start since, may start.
    """
    one, job = row.one, row.one.job
    if row.sizes.of_worker:
        return bool(running(row.workers))
    was_tried = one.restarts > 0 and job.eligible_s <= now_s and job.reason != "BeginTime"
    is_changed = pools.scheduler in ELASTIC_SCHEDULERS and not _is_reserved(one)
    return was_tried and is_changed and row.gpus > row.sizes.least


def _is_reserved(one: GpuQueueJob) -> bool:
    """Whether a job names a reservation that is no loan."""
    return bool(one.reservation) and not one.reservation.startswith(LOAN)


def view_with_loans(view: ControlView, until_s: Mapping[int, float], promise_s: int) -> ControlView:
    """A view a moment later, with new loans.

    Args:
        view: The view.
        until_s: Number of each server that is lent, and the latest end of its loan in seconds since 1970.
        promise_s: The longest duration of a loan.
    """
    now_s, servers = view.view.now_s, view.view.servers
    pool, lent_until_s, loans = servers.pool.copy(), servers.lent_until_s.copy(), dict(view.loans)
    for server, latest_s in until_s.items():
        minutes = int(min(float(promise_s), latest_s - now_s)) // MINUTE_S
        if minutes >= 1 and servers.home[server] == INFERENCE:
            pool[server], lent_until_s[server] = TRAINING, now_s + minutes * MINUTE_S
            loans[view.nodes[server]] = int(now_s) + minutes * MINUTE_S
    lent = replace(servers, pool=pool, lent_until_s=lent_until_s)
    return replace(view, view=replace(view.view, now_s=now_s + TICK_S, servers=lent), loans=loans)


def view_after_evictions(view: ControlView, evicted: Sequence[int]) -> ControlView:
    """A view a moment later, when some jobs have left their GPUs and wait again.

    Args:
        view: The view.
        evicted: Numbers of running jobs; all their work is saved.
    """
    jobs, servers, held = view.view.jobs, view.view.servers, view.view.held
    left = np.isin(jobs.id, evicted)
    rows = np.repeat(left, np.diff(held.first))
    free = servers.free.copy()
    np.add.at(free, held.server[rows], held.gpus[rows])
    counts = np.where(left, 0, np.diff(held.first))
    remaining = Held(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), held.server[~rows], held.gpus[~rows])
    zero = {name: np.where(left, 0, getattr(jobs, name)) for name in ("held", "servers")}
    waiting = replace(
        jobs,
        status=np.where(left, int(JobStatus.PENDING), jobs.status),
        gpu_type=np.where(left, -1, jobs.gpu_type),
        safe_progress=np.where(left, jobs.progress, jobs.safe_progress),
        queued_since_s=np.where(left, view.view.now_s, jobs.queued_since_s),
        preemptions=jobs.preemptions + left,
        **zero,
    )
    later = GpuView(view.view.now_s + TICK_S, waiting, replace(servers, free=free), (), lambda: remaining)
    return replace(view, view=later)


def _nodes_of(snapshot: GpuSnapshot, pools: Pools) -> dict[str, GpuNode]:
    nodes = {node.name: node for node in snapshot.nodes}
    absent = [name for name in pools.nodes if name not in nodes]
    if absent:
        raise SlurmUnreachable(f"sinfo does not report {first_of(absent)} of {pools.path}; nothing is decided")
    silent = [name for name in pools.nodes if "unknown" in nodes[name].state]
    if silent:
        raise SlurmUnreachable(f"slurmctld does not know the state of {first_of(silent)} yet; nothing is decided")
    if not any(nodes[name].gpus for name in pools.nodes):
        raise SlurmUnreachable(f"no node of {pools.path} has a GPU in sinfo; nothing is decided")
    return nodes


def _is_borrower(job: QueuedJob, pools: Pools, left_out: Counter[str]) -> bool:
    """Whether a job is one of the view, as far as its row shows; counts why it is not."""
    if pools.borrower_partition not in job.partition.split(","):
        return False
    if job.state not in (JobState.PENDING, JobState.RUNNING):
        return False
    if not pools.takes_part(job):
        left_out["has not opted in"] += 1
        return False
    return True


def _hosts(job: QueuedJob) -> list[str]:
    try:
        return expand_hosts(job.nodelist) if job.state is not JobState.PENDING else []
    except ValueError:
        return []


def _busy_nodes(snapshot: GpuSnapshot, borrowers: set[int]) -> set[str]:
    """Nodes with a job of the owner, or of others."""
    return {host for one in snapshot.jobs if one.job.id not in borrowers for host in _running_hosts(one.job)}


def _running_hosts(job: QueuedJob) -> list[str]:
    return _hosts(job) if job.state in (JobState.RUNNING, JobState.SUSPENDED) else []


# -- jobs --------------------------------------------------------------------------------------------------------------


def _rows(
    candidates: Sequence[GpuQueueJob],
    servers: Sequence[GpuNode],
    types: Sequence[str],
    now_s: int,
    left_out: Counter[str],
    first: FirstSubmissions,
    pools: Pools,
    all_workers: Mapping[int, tuple[GpuQueueJob, ...]],
) -> list[_Row]:
    """The jobs of the view in the order of their first submission."""
    number = {node.name: k for k, node in enumerate(servers)}
    of_type = {gpu_type: sum(node.gpus for node in servers if node.gpu_type == gpu_type) for gpu_type in types}
    of_type[""] = max(of_type.values(), default=0)
    rows = []
    for one in candidates:
        if main := main_job_of(one.job):
            if not one.job.completing and one not in all_workers.get(main, ()):
                left_out["is a worker without a main job that takes part"] += 1
            continue
        workers = tuple(worker for worker in all_workers.get(one.job.id, ()) if set(_hosts(worker.job)) <= set(number))
        sizes = job_sizes(one, pools, workers)
        if sizes.one_node:
            widest = max((node.gpus for node in servers if one.gpu_type in ("", node.gpu_type)), default=0)
            sizes = sizes._replace(most=max(sizes.least, min(sizes.most, widest)))
        if pools.scheduler not in ELASTIC_SCHEDULERS:
            sizes = JobSizes(present_gpus(one, workers), present_gpus(one, workers))
        why = _why_left_out(one, number, types, of_type.get(one.gpu_type, 0) >= sizes.least, now_s)
        if why:
            left_out[why] += 1
            continue
        held = Counter(gpus_by_node(one.job) if one.job.state is not JobState.PENDING else {})
        for worker in running(workers) if held else ():
            held.update(gpus_by_node(worker.job))
        places = {number[host]: gpus for host, gpus in held.items() if gpus}
        rows.append(_Row(one, first.of(one.job), places, sizes, workers=workers))
    return sorted(rows, key=lambda row: (row.submit_s, row.one.job.id))


def _why_left_out(one: GpuQueueJob, number: Mapping[str, int], types: Sequence[str], fits: bool, now_s: int) -> str:
    """Why a job that has opted in is not in the view; empty if it is."""
    job = one.job
    if one.heterogeneous:
        return HETEROGENEOUS
    if one.tasks_unknown:
        return TASKS_UNKNOWN
    if one.gpus_unknown:
        return "requests GPUs per socket: their number is not known"
    if job.gpus < 1:
        return "has no GPU"
    if one.gpu_type and one.gpu_type not in types:
        return "needs a GPU type that the pools do not have"
    if job.state is JobState.PENDING:
        # free GPUs that it could use are behind the fence or in a loan, or its own loan has ended
        if is_blocked(replace(job, reason="") if job.reason == "Reservation" else job, now_s):
            return "does not compete: held, or waits for a time, a job or a limit"
        if _is_reserved(one):
            return "names a reservation of its own"
        if one.required_nodes:
            return "requires nodes by name"
        return "" if fits else "needs more GPUs than the view has of one type"
    if job.completing:
        return "is completing"
    hosts = _hosts(job)
    return "" if hosts and all(host in number for host in hosts) else "runs outside of the pools"


def _jobs(
    rows: Sequence[_Row],
    servers: Servers,
    types: Sequence[str],
    surroundings: Surroundings,
    now_s: int,
    pools: Pools,
) -> ActiveJobs:
    jobs = [row.one.job for row in rows]
    running = np.array([job.state is JobState.RUNNING for job in jobs], np.bool_)
    gpus, held = _ints(row.sizes.least for row in rows), _ints(row.gpus for row in rows)
    run_s = _floats(_run_s(job) for job in jobs)
    start_s = np.where(running, _floats(job.start_s for job in jobs), UNKNOWN)
    ran_s = np.where(running, np.maximum(now_s - start_s, 0.0), 0.0)
    gpu_type = _ints(int(servers.gpu_type[next(iter(row.places))]) if row.places else -1 for row in rows)
    done, saved = np.minimum(ran_s * held / (run_s * gpus), 1.0), np.zeros(len(rows))
    for k, row in enumerate(rows):
        if row.progress is not None:
            done[k], saved[k] = row.progress.done, row.progress.saved
    speeds, model = surroundings.speeds, _ints(row.model for row in rows)
    work, measured = gpus * run_s, model != LINEAR
    work[measured] = speeds.epoch_end[model[measured], speeds.epochs[model[measured]] - 1]
    nothing = np.full(len(rows), UNKNOWN)
    restarts = _ints(row.one.restarts for row in rows)
    restart_s, save_s = np.full(len(rows), float(pools.restart_s)), np.full(len(rows), float(pools.save_s))
    return ActiveJobs(
        id=np.arange(len(rows)),
        submit_s=_floats(row.submit_s for row in rows),
        model=model,
        gpus=gpus,
        min_gpus=gpus,
        max_gpus=_ints(row.sizes.most for row in rows),
        pool=np.full(len(rows), TRAINING),
        types=_ints(1 << types.index(row.one.gpu_type) if row.one.gpu_type else -1 for row in rows),
        status=np.where(running, int(JobStatus.RUNNING), int(JobStatus.PENDING)),
        run_s=run_s,
        done=done,
        progress=done * work,
        safe_progress=np.minimum(saved, done) * work,
        attained_gpu_s=_floats(held * ran_s),
        held=np.where(running, held, 0),
        servers=_ints(len(row.places) for row in rows),
        gpu_type=gpu_type,
        batch=_ints(row.batch for row in rows),
        start_s=start_s,
        paused_until_s=nothing,
        restarts=restarts,
        preemptions=restarts,
        queued_since_s=np.where(running, UNKNOWN, _floats(job.submit_s for job in jobs)),
        checkpoint_work=np.full(len(rows), np.inf),
        first_start_s=restart_s,
        restart_s=restart_s,
        rescale_s=restart_s,
        save_s=save_s,
    )


def _with_model(row: _Row, profiles: Profiles | None) -> _Row:
    """The row with its model; without one, the job has its present size."""
    if profiles is None:
        return row
    name, batch = job_model(row.one.job, row.progress)
    model = profiles.models.index(name) if name in profiles.models else LINEAR
    if model != LINEAR and runs_on(profiles.speeds, np.array([model])).any():
        least, most = int(profiles.speeds.init_batch[model]), int(profiles.speeds.max_batch[model])
        return row._replace(model=model, batch=min(max(batch, least), most) if batch else most)
    if not row.sizes.elastic:
        return row
    present = row.gpus
    why = "its model is not in the profiles" if name else "it names no model"
    return row._replace(sizes=JobSizes(present, present, why))


def _run_s(job: QueuedJob) -> float:
    return float(job.limit_s) if 0 < job.limit_s < UNLIMITED_S else NO_LIMIT_S


def _held(rows: Sequence[_Row]) -> Held:
    counts = [len(row.places) for row in rows]
    return Held(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        _ints(server for row in rows for server in row.places),
        _ints(gpus for row in rows for gpus in row.places.values()),
    )


def _control_job(row: _Row) -> ControlJob:
    job = row.one.job
    return ControlJob(
        job.id, job.user, job.account, row.submit_s, job.submit_s, row.one.restarts, job.priority, job.nice,
        job.limit_s, row.one.reservation, job.state is JobState.RUNNING, row.gpus, row.one.gpu_type, row.sizes,
        row.one.task, row.workers,
    )  # fmt: skip


# -- servers -----------------------------------------------------------------------------------------------------------


def _servers(
    servers: Sequence[GpuNode],
    types: Sequence[str],
    rows: Sequence[_Row],
    pools: Pools,
    loans: Mapping[str, int],
    borrowed: set[str],
    snapshot: GpuSnapshot,
) -> Servers:
    in_view = np.zeros(len(servers), np.int64)
    for row in rows:
        for server, count in row.places.items():
            in_view[server] += count
    gpus = _ints(node.gpus for node in servers)
    used = np.maximum(_ints(node.used for node in servers), in_view)
    closed = _reserved_nodes(snapshot, rows) - set(pools.owner_nodes)
    open_now = np.array(
        [node.usable and not node.state.startswith("alloc") and node.name not in closed for node in servers], np.bool_
    )
    home = _ints(INFERENCE if node.name in pools.owner_nodes else TRAINING for node in servers)
    lent = np.array([node.name in loans or node.name in borrowed for node in servers], np.bool_) & (home == INFERENCE)
    until_s = _floats(loans.get(node.name, snapshot.time_s) for node in servers)
    wanted = np.array([0, min(_wanted_nodes(snapshot, pools), int(np.count_nonzero(home == INFERENCE)))])
    return Servers(
        gpu_type=_ints(types.index(node.gpu_type) for node in servers),
        gpus=gpus,
        free=np.where(open_now, np.maximum(gpus - used, 0), 0),
        pool=np.where(lent, TRAINING, home),
        home=home,
        lent_until_s=np.where(lent, until_s, np.inf),
        wanted=wanted,
        wanted_soon=wanted.copy(),
        wanted_from_s=np.full(len(POOL_NAMES), np.inf),
    )


def _reserved_nodes(snapshot: GpuSnapshot, rows: Sequence[_Row]) -> set[str]:
    """Nodes that others have reserved, now or before an elastic job that starts now would end."""
    longest_s = max((_run_s(row.one.job) for row in rows if row.sizes.elastic), default=0.0)
    return {
        node
        for one in snapshot.reservations
        if not one.partial and not is_of_controller(one.name)
        if one.active or one.start_s < snapshot.time_s + longest_s
        for node in one.nodes
    }


def _wanted_nodes(snapshot: GpuSnapshot, pools: Pools) -> int:
    """Nodes that the pending jobs of the owner request, each task of an array its own."""
    wait = (
        one.job
        for one in snapshot.jobs
        if set(one.job.partition.split(",")) & set(pools.owner_partitions)
        if one.job.state is JobState.PENDING and not is_blocked(one.job, snapshot.time_s)
    )
    return sum(job.nodes for job in tasks(wait))


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)
