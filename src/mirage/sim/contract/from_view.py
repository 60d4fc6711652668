"""A simulation that continues from a view of a real or simulated cluster.

The view shows the running and waiting jobs and their limits; the caller assumes true run times and future arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.duration import MINUTE_S
from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records, records
from mirage.policy.view import QueueJobs, View
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.disciplines.discipline_registry import DisciplineSpec
from mirage.sim.kernel.allocate import FIRST_SLOTS, make_scratch, make_state, make_world
from mirage.sim.kernel.arrays import NO_JOB, PENDING, REQUEST, RUNNING, Scratch, State, World
from mirage.sim.kernel.job_lifecycle import admit, insert_running, push_end
from mirage.sim.kernel.resources.holding import take
from mirage.sim.kernel.resources.job_limits import count_held
from mirage.sim.kernel.resources.node_selection import pick
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings


@dataclass(frozen=True)
class FairShare:
    """Use by user, for a simulation in which fair-share counts.

    Attributes:
        used: Shape (users,), decayed CPU-seconds at the time of the view; node-seconds where nodes are pools.
        account: Shape (users,), codes from 0 on.
        weight: Priority of the highest rank.
    """

    used: NDArray[np.float64]
    account: NDArray[np.int64]
    weight: float


def cluster_of(view: View) -> Cluster:
    """The machine in a view, as far as placing jobs goes."""
    rows = rows_in_use(view)
    if view.nodes.pools:
        groups = {b: NodeGroup(f"pool{b}", int(view.nodes.capacity[b, 0])) for b in rows}
    else:
        groups = {b: NodeGroup(f"node{b}", 1, *map(int, view.nodes.capacity[b])) for b in rows}
    partitions = [
        Partition(f"partition{p}", tuple(groups[b].name for b in rows if allowed[b]), tier=tier)
        for p, (allowed, tier) in enumerate(zip(view.nodes.allowed, view.tiers or repeat(1)))
    ]
    return Cluster(tuple(groups.values()), tuple(partitions), shared_nodes=not view.nodes.pools)


def rows_in_use(view: View) -> list[int]:
    """The rows of a view's nodes with capacity: the bins of the revived simulation."""
    return [int(b) for b in np.flatnonzero(view.nodes.capacity.any(axis=1))]


def job_records(jobs: QueueJobs, first_id: int) -> Records:
    """REQUEST records of a view's jobs, assumed to run until their limits.

    Their ids count from ``first_id``.
    """
    made = records(REQUEST, len(jobs))
    columns = made.view(np.ndarray)  # attributes of records are many times slower
    columns["id"] = np.arange(first_id, first_id + len(jobs))
    for name in ("user", "partition", "nodes", "gpus", "cpus", "limit_s", "submit_s"):
        columns[name] = getattr(jobs, name)
    columns["run_s"] = jobs.limit_s
    columns["after"], columns["begin_s"] = NO_JOB, MISSING
    return made


def priority_offsets(jobs: QueueJobs, view: View, settings: SlurmSettings) -> NDArray[np.float64]:
    """What each priority contains besides age, size and partition: fair-share, QOS, nice.

    A view shows priorities, not the accounting data they depend on; the remainder is assumed constant. WFP's score has
    no remainder. 0 where the priority is unknown.
    """
    computed_s = np.where(jobs.start_s >= 0, jobs.start_s, view.now_s)
    age_s = computed_s - jobs.eligible_s
    columns = (jobs.partition, jobs.nodes, jobs.gpus, jobs.cpus, jobs.limit_s)
    return offsets_of(jobs.priority, view, settings, age_s, *columns)


def offsets_of(
    priority: Any,
    view: View,
    settings: SlurmSettings,
    age_s: Any,
    partition: Any,
    nodes: Any,
    gpus: Any,
    cpus: Any,
    limit_s: Any,
) -> NDArray[np.float64]:
    """Priorities minus their factors of age, size and partition.

    Args:
        priority: Shape (jobs,), as the scheduler computed it; 0 where it is unknown.
        age_s: Age of each job then.
        partition: Code of the partition.
        nodes: Nodes of a job.
        gpus: Per node; −1 where a job takes whole nodes.
        cpus: Per node.
        limit_s: Time limit of each job.
    """
    if settings.priority == "wfp":
        return np.zeros(len(priority))
    age = np.clip(age_s / settings.max_age_s, 0.0, 1.0)
    size = nodes / view.nodes.total
    if not view.nodes.pools:
        counted = nodes * np.where(gpus < 0, most_cpus(view)[partition], cpus)
        of_cpus = counted / max(view.nodes.capacity[:, 1].sum(), 1)
        size = np.maximum(size, of_cpus) if settings.size_over_time else (size + of_cpus) / 2
    if settings.size_over_time:
        size = size / np.maximum(np.ceil(limit_s / MINUTE_S), 1)
    if settings.favor_small:
        size = 1.0 - size
    model = settings.weight_age * age + settings.weight_size * size + settings.weight_partition
    return np.where(priority > 0, priority - model, 0.0)


def most_cpus(view: View) -> NDArray[np.int64]:
    """The most CPUs of a node, shape (partitions,), where jobs share nodes."""
    return np.array([view.nodes.capacity[allowed, 1].max(initial=0) for allowed in view.nodes.allowed], dtype=np.int64)


def revive(
    view: View,
    spec: DisciplineSpec,
    settings: SlurmSettings,
    arrivals: int,
    pass_phase_s: int,
    limits: tuple[Limit, ...] = (),
    fair_share: FairShare | None = None,
) -> tuple[World, State, Scratch]:
    """Arrays of a simulation in the state of a view.

    Slots are dense: the pending jobs in queue order, then the running ones, so that a caller can set each run time.
    Nodes of running jobs are chosen again where jobs share nodes: a view does not contain the placement.

    Args:
        arrivals: Capacity of ``world.jobs`` for jobs yet to be submitted; all initially at ``NEVER_S``.
        pass_phase_s: Seconds since the scheduler's periodic pass.
        limits: What may run at once.
        fair_share: Use by user, which goes on and decays; codes of users are below its length. With None, all of a
            priority besides age, size and partition is constant.
    """
    cluster = replace(cluster_of(view), limits=limits)
    pending, running = view.pending, view.running
    n = len(pending) + len(running)
    if fair_share is None:
        users = int(max(user.max(initial=0) for user in (pending.user, running.user, view.ended.user))) + 2
        fair_share = FairShare(np.zeros(users), np.zeros(users, dtype=np.int64), 0.0)
    future = records(REQUEST, arrivals)
    turnover_s = 0 if spec.minutes else settings.turnover_s
    fixed = replace(
        settings, turnover_s=turnover_s, weight_fairshare=fair_share.weight, weight_gpus=0.0, weight_cpus=0.0
    )
    world = make_world(cluster, future, fixed.record(cluster, view.now_s - pass_phase_s), fair_share.account)
    slots = max(FIRST_SLOTS, n + arrivals + 8)
    state = make_state(world, cluster, spec.plans, view.now_s, n + arrivals, slots=slots)
    state.usage[:] = fair_share.used
    state.allowed[:] = view.nodes.allowed[:, rows_in_use(view)]  # a partition may have lost all its nodes
    scratch = make_scratch(world, slots, spec.scratch_rows)
    waiting = job_records(pending, 0)
    waiting.priority_offset = priority_offsets(pending, view, settings)
    _put_on_nodes(world, state, scratch, waiting, np.ascontiguousarray(pending.eligible_s))
    _run(world, state, scratch, job_records(running, len(pending)), np.ascontiguousarray(running.start_s))
    state.clock[0].priority_at_s = view.now_s
    return world, state, scratch


@kernel()
def _put_on_nodes(world: World, state: State, scratch: Scratch, jobs: Any, eligible_s: Any) -> None:
    """Queue the pending jobs in the order given."""
    for k in range(len(jobs)):
        slot = admit(world, state, jobs[k])
        if state.live[slot].status == PENDING:
            state.live[slot].eligible_s = eligible_s[k]


@kernel()
def _run(world: World, state: State, scratch: Scratch, jobs: Any, start_s: Any) -> None:
    """Place the running jobs on nodes, each with its own start in the past."""
    clock = state.clock[0]
    waiting = clock.n_pending
    for k in range(len(jobs)):
        slot = admit(world, state, jobs[k])
        clock.n_pending = waiting
        job = state.live[slot]
        if not pick(world, state, scratch, state.free, job, job.nodes):
            continue
        take(world, state, scratch, slot)
        job.status = RUNNING
        job.width = job.nodes
        job.start_s = start_s[k]
        job.first_start_s = start_s[k]
        job.limit_end_s = max(start_s[k] + job.limit_s, clock.now_s + 1)
        job.end_s = job.limit_end_s
        insert_running(state, slot)
        push_end(state, slot, job.end_s)
        count_held(world, state, job, 1, job.nodes)
