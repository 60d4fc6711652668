"""Making, copying and enlarging the arrays of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import void
from numpy.typing import NDArray

from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records, empty_records, records
from mirage.sim.cluster import LIMITED_PER, Cluster, NodeGroup, Partition, Reservation
from mirage.sim.kernel.arrays import (
    ACTION,
    CAPACITY,
    CHUNK,
    CLOCK,
    COMPLETING,
    END,
    JOB,
    LIMIT,
    NEVER_S,
    NIL,
    NO_JOB,
    SEGMENT,
    STATE_TYPE,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.job_lifecycle import REPLAN
from mirage.sim.kernel.resources.amounts import MEMORY, UNLIMITED_MIB, copy_amounts

SPARE_IDS = 1024
"""Spare ids for injected jobs beyond those of the trace."""

FIRST_SLOTS, FIRST_LOG = 256, 1024
"""Initial capacity for jobs, and for segments beyond one per job; it is doubled as needed."""


def make_world(
    cluster: Cluster,
    jobs: Any,
    settings: Records,
    accounts: Any,
    user_names: Sequence[str] = (),
    account_names: Sequence[str] = (),
) -> World:
    """The fixed arrays of a simulation.

    Args:
        jobs: REQUEST records by submit time.
        settings: The one SETTINGS record.
        accounts: Shape (users,), the account of each user; codes of users are below its length.
        user_names: Names of users by code, from code 1 on, for limits that name some.
        account_names: Names of accounts, likewise.
    """
    bins = cluster.bins()
    if cluster.shared_nodes:
        capacity = np.array([_of_bin(g, cluster.counts_memory) for g, _ in bins], dtype=np.int64)
    else:
        capacity = np.array([(count, 0) for _, count in bins], dtype=np.int64)
    factors = np.array([p.job_factor for p in cluster.partitions], dtype=np.float64)
    qos = np.array([0.0, *cluster.qos_factors.values()], dtype=np.float64)
    return World(
        jobs=jobs,
        capacity=capacity,
        changes=_changes(cluster),
        settings=settings,
        partition_factor=factors / max(factors.max(), 1e-12),
        partition_tier=np.array([p.tier for p in cluster.partitions], dtype=np.int64),
        qos_factor=qos / max(qos.max(), 1e-12),
        displaces=_displaces(cluster),
        user_account=np.ascontiguousarray(accounts, dtype=np.int64),
        limits=_limits(cluster),
        limits_qos=_named([limit.qos for limit in cluster.limits], ["", *cluster.qos_factors]),
        limits_partition=_named([limit.partitions for limit in cluster.limits], [p.name for p in cluster.partitions]),
        limits_user=_named([limit.users for limit in cluster.limits], _filled(user_names, len(accounts))),
        limits_account=_named([limit.accounts for limit in cluster.limits], _filled(account_names, 1)),
        of_node=np.array([cluster.of_node(p) for p in cluster.partitions], dtype=np.int64),
        of_partition=np.array([_of_partition(cluster, p) for p in cluster.partitions], dtype=np.int64),
    )


def _of_bin(group: NodeGroup, memory: bool) -> tuple[int, ...]:
    """Resources of a node that jobs share; its memory only where the cluster counts it."""
    has = UNLIMITED_MIB if group.memory_mib is None else group.memory_mib
    return (group.gpus, group.cpus, has) if memory else (group.gpus, group.cpus)


def _of_partition(cluster: Cluster, partition: Partition) -> tuple[int, int]:
    """GPUs and CPUs of a partition, at least one of each, as they are divisors."""
    groups = cluster.groups_of(partition)
    return max(sum(g.count * g.gpus for g in groups), 1), max(sum(g.count * g.cpus for g in groups), 1)


def _limits(cluster: Cluster) -> Records:
    made = records(LIMIT, len(cluster.limits))
    for row, limit in zip(made, cluster.limits):
        row.per = LIMITED_PER.index(limit.per)
        for name in ("jobs", "nodes", "gpus", "ageing"):
            most = getattr(limit, name)
            row[name] = NEVER_S if most is None else most
    return made


def _named(chosen: list[tuple[str, ...]], names: list[str]) -> NDArray[np.bool_]:
    """Shape (rows, names): which of the names each row chooses; all where it lists none."""
    rows = [[not some or name in some for name in names] for some in map(frozenset, chosen)]
    return np.array(rows, dtype=np.bool_).reshape(len(chosen), len(names))


def _filled(names: Sequence[str], least: int) -> list[str]:
    """Names by code: the empty name at 0, and empty names for codes without a name."""
    return ["", *names, *[""] * (least - 1 - len(names))]


def _displaces(cluster: Cluster) -> NDArray[np.bool_]:
    names = ["", *cluster.qos_factors]
    displaces = np.zeros((len(names), len(names)), dtype=np.bool_)
    for name, others in cluster.qos_preempts.items():
        displaces[names.index(name), [names.index(other) for other in others]] = True
    return displaces


def _changes(cluster: Cluster) -> Any:
    """Rows of CAPACITY.

    Where nodes are bins, the last ones present leave, and those that left last return.
    """
    rows: list[tuple[int, int, int, int]] = []
    there: dict[str, list[int]] = {}
    for b, (group, _) in enumerate(cluster.bins()):
        there.setdefault(group.name, []).append(b)
    away: dict[tuple[str, int | None], list[int]] = {}
    for step in cluster.capacity_steps():
        known_s = NEVER_S if step.reservation is None else _known_s(cluster.reservations[step.reservation])
        if not cluster.shared_nodes:
            rows.append((step.time_s, there[step.group][0], step.nodes, known_s))
            continue
        present, absent = there[step.group], away.setdefault((step.group, step.reservation), [])
        source, target, sign = (present, absent, -1) if step.nodes < 0 else (absent, present, 1)
        moved = [source.pop() for _ in range(abs(step.nodes))]
        target += moved
        present.sort()
        rows += [(step.time_s, b, sign, known_s) for b in sorted(moved)]
    rows += [
        (r.announced_s, there[r.group][0] if there[r.group] else 0, 0, NEVER_S)
        for r in cluster.reservations
        if r.announced_s is not None
    ]
    rows.sort(key=lambda row: row[0])
    made = records(CAPACITY, len(rows))
    foreseen = len(rows)
    for k in reversed(range(len(rows))):
        foreseen = k if rows[k][-1] < NEVER_S else foreseen
        made[k] = (*rows[k], foreseen)
    return made


def _known_s(reservation: Reservation) -> int:
    return -NEVER_S if reservation.announced_s is None else reservation.announced_s


def make_state(
    world: World,
    cluster: Cluster,
    plans: bool,
    now_s: int,
    ids: int,
    accounts: int = 1,
    slots: int = FIRST_SLOTS,
) -> State:
    """A cluster at rest at ``now_s``: nothing submitted yet, every node free.

    Args:
        plans: Whether the discipline uses an availability profile.
        ids: Upper bound of job ids; capacity for ``SPARE_IDS`` more is added.
        accounts: Upper bound of the codes of jobs' accounts.
        slots: Initial capacity for jobs.
    """
    bins, users = len(world.capacity), len(world.user_account)
    completing = _most_chunks(world) if world.settings[0].turnover_s > 0 else 1
    points = 4 * slots + 8 + completing + len(world.changes) if plans else 1
    one_pool = bins == 1 and not cluster.shared_nodes
    clock = np.zeros(1, CLOCK)
    clock[["now_s", "passed_at_s", "priority_at_s"]] = now_s
    clock[["free_slot", "watch", "watch_slot"]] = NO_JOB
    clock["free_chunk"] = NIL
    clock["timer_s"] = NEVER_S
    clock["ended_since"] = REPLAN
    allowed = np.array(
        [[g in cluster.groups_of(p) for g, _ in cluster.bins()] for p in cluster.partitions], dtype=np.bool_
    )
    return State(
        clock=clock,
        live=records(JOB, slots),
        queue=np.zeros(slots, dtype=np.int64),
        running=np.zeros(slots, dtype=np.int64),
        held=np.zeros(slots, dtype=np.int64),
        heap=records(END, 2 * slots),
        chunks=records(CHUNK, _most_chunks(world) if bins > 1 or cluster.shared_nodes else 1),
        free=world.capacity.copy(),
        extra=np.zeros_like(world.capacity),
        allowed=allowed,
        fate=np.zeros(ids + SPARE_IDS, dtype=np.int8),
        log=records(SEGMENT, FIRST_LOG + len(world.jobs)),
        profile_s=np.zeros(points, dtype=np.int64),
        level=np.zeros(points if one_pool else 1, dtype=np.int64),
        profile=np.zeros((1 if one_pool else points, *world.capacity.shape), dtype=np.int64),
        usage=np.zeros(users, dtype=np.float64),
        counted=np.zeros((len(world.limits), max(users, accounts), 4), dtype=np.int64),
        completing=records(COMPLETING, completing),
    )


def _most_chunks(world: World) -> int:
    """Most chunks, or jobs with resources, at once: each holds a node, or a GPU or CPU of one."""
    growth = int(np.maximum(world.changes.nodes, 0).sum()) if world.settings[0].stacked else 0
    return int(world.capacity[:, :MEMORY].sum()) + growth


def make_scratch(world: World, slots: int, rows: int) -> Scratch:
    """Scratch arrays for a state of ``slots`` slots and a discipline that needs ``rows`` rows."""
    shape = world.capacity.shape
    size = max(slots, shape[0], len(world.partition_tier), len(world.user_account) + 1, rows)
    return Scratch(
        low=np.zeros(shape, dtype=np.int64),
        ahead=np.zeros(shape, dtype=np.int64),
        there=np.zeros(shape, dtype=np.int64),
        picked=np.zeros(shape[0], dtype=np.int64),
        slots=np.zeros(size, dtype=np.int64),
        keys=np.zeros(size, dtype=np.float64),
        share=np.zeros(len(world.user_account), dtype=np.float64),
        timeline=np.zeros(size, dtype=np.int64),
        plan=records(ACTION, 2 * slots),
    )


@kernel()
def copy_part(target: Any, source: Any, first: int, n: int) -> None:
    """Copy n rows from row ``first`` on to the beginning."""
    for k in range(n):
        target[k] = source[first + k]


@kernel()
def copy_table(target: Any, source: Any, rows: int) -> None:
    """Copy the first rows of a two-dimensional array."""
    for k in range(rows):
        for column in range(source.shape[1]):
            target[k, column] = source[k, column]


@kernel(void(STATE_TYPE, STATE_TYPE))
def copy_state(target: State, source: State) -> None:
    """Copy all that is in use, except the log, into arrays that are at least as large."""
    clock = source.clock[0]
    copy_part(target.clock, source.clock, 0, 1)
    target.clock[0].n_log = 0
    copy_part(target.live, source.live, 0, clock.slots_used)
    copy_part(target.queue, source.queue, clock.queue_head, clock.n_pending)
    target.clock[0].queue_head = 0
    copy_part(target.running, source.running, 0, clock.n_running)
    copy_part(target.held, source.held, 0, clock.n_held)
    copy_part(target.heap, source.heap, 0, clock.n_heap)
    copy_part(target.chunks, source.chunks, 0, clock.chunks_used)
    bins = len(source.free)
    copy_table(target.free, source.free, bins)
    copy_table(target.extra, source.extra, bins)
    copy_table(target.allowed, source.allowed, len(source.allowed))
    copy_part(target.fate, source.fate, 0, len(source.fate))
    points = clock.n_profile
    copy_part(target.profile_s, source.profile_s, 0, points)
    if len(source.level) > 1:
        copy_part(target.level, source.level, 0, points)
    elif len(source.profile) > 1:
        for k in range(points):
            copy_amounts(target.profile[k], source.profile[k])
    users = len(source.usage)
    copy_part(target.usage, source.usage, 0, users)
    for k in range(len(source.counted)):
        copy_table(target.counted[k], source.counted[k], source.counted.shape[1])
    copy_part(target.completing, source.completing, 0, clock.n_completing)


def empty_log(state: State) -> Records:
    """An empty log for the segments of a branch."""
    return empty_records(SEGMENT, 256 + 2 * int(state.clock["n_running"][0])).view(np.recarray)


def empty_like(state: State) -> State:
    """Arrays of equal sizes with undefined contents, and an empty log."""
    parts: dict[str, Any] = {
        name: empty_records(array.dtype, len(array)).view(type(array)) if array.dtype.names else np.empty_like(array)
        for name, array in zip(State._fields, state)
    }
    return State(**parts | {"log": empty_log(state)})


def with_longer_log(state: State) -> State:
    """The same state with twice the capacity for segments."""
    used = state.clock[0].n_log
    log = empty_records(SEGMENT, 2 * len(state.log) + 2 * int(state.clock[0].n_running)).view(np.recarray)
    log[:used] = state.log[:used]
    return state._replace(log=log)


def enlarged(state: State) -> State:
    """The same state in arrays with capacity for twice as many jobs."""
    parts: dict[str, Any] = state._asdict()
    for name in ("live", "queue", "running", "held", "heap", "profile_s", "level", "profile", "fate"):
        array = parts[name]
        if len(array) == 1:  # not used by this discipline
            continue
        larger = np.zeros((2 * len(array) + 8, *array.shape[1:]), dtype=array.dtype)
        larger[: len(array)] = array
        parts[name] = larger.view(np.recarray) if isinstance(array, np.recarray) else larger
    return State(**parts)
