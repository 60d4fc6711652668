"""The books of a simulation, added up from scratch at one instant."""

from __future__ import annotations

import numpy as np

from mirage.sim.kernel.arrays import (
    AFTER_ANY,
    AFTER_NONE,
    AFTER_OK,
    AFTER_START,
    CANCELLED,
    ENDED,
    HELD,
    NEVER_S,
    NIL,
    PENDING,
    RUNNING,
    SUSPENDING,
    WHOLE_NODE,
)
from mirage.sim.kernel.resources.job_limits import GPUS, JOBS, NODES
from mirage.sim.simulation import Simulation


def audit(sim: Simulation) -> None:
    """Assert that nothing is lost, held twice or miscounted."""
    _audit_slots(sim)
    _audit_resources(sim)
    _audit_running(sim)


def queue_of(sim: Simulation) -> np.ndarray:
    clock = sim.state.clock[0]
    return sim.state.queue[clock.queue_head : clock.queue_head + clock.n_pending]


def running_of(sim: Simulation) -> np.ndarray:
    return sim.state.running[: sim.state.clock[0].n_running]


def _chain(first: int, following: np.ndarray) -> list[int]:
    links: list[int] = []
    while first != NIL:
        links.append(int(first))
        assert len(links) <= len(following), "a list runs in a circle"
        first = following[first]
    return links


def _audit_slots(sim: Simulation) -> None:
    state, clock = sim.state, sim.state.clock[0]
    queue, running, held = queue_of(sim), running_of(sim), state.held[: clock.n_held]
    spare = _chain(clock.free_slot, state.live.chunk)
    everybody = [*queue, *running, *held, *spare]
    assert sorted(everybody) == list(range(clock.slots_used)), "a slot is lost or in two places"
    assert set(state.live.status[queue]) <= {PENDING}
    assert set(state.live.status[running]) <= {RUNNING, SUSPENDING}
    assert set(state.live.status[held]) <= {HELD}
    present = np.array([*queue, *running, *held], dtype=np.int64)
    ids = state.live.id[present]
    assert len(set(ids)) == len(ids), "a job is in two places"
    np.testing.assert_array_equal(state.fate[ids], state.live.status[present])


def _audit_resources(sim: Simulation) -> None:
    state, clock, world = sim.state, sim.state.clock[0], sim.world
    stacked = world.settings[0].stacked == 1
    capacity = world.capacity.copy()
    for change in world.changes[: clock.changed_capacity]:
        if stacked:
            capacity[change.bin, 0] += change.nodes
        else:
            capacity[change.bin] += change.nodes * world.capacity[change.bin]
    in_use = np.zeros_like(capacity)
    running, left = state.live[running_of(sim)], state.completing[: clock.n_completing]
    assert (np.diff(left["until_s"]) >= 0).all(), "nodes between two jobs are out of order"
    assert (left["until_s"] > clock.now_s).all(), "nodes whose turnover is over are not free"
    holders = [np.concatenate([running[name], left[name]]) for name in ("chunk", "width")]
    one_pool = stacked and len(capacity) == 1
    if one_pool:
        in_use[0, 0] = holders[1].sum()
    following = state.chunks["next"]
    chunks = _chain(clock.free_chunk, following)
    for first, width in () if one_pool else zip(*holders):
        own = _chain(first, following)
        held = state.chunks[own]
        assert held["count"].sum() == width
        assert (held["count"] > 0).all()
        kinds = ("gpus", "cpus", "memory")[: in_use.shape[1]]
        np.add.at(in_use, held["bin"], np.stack([held["count"] * held[kind] for kind in kinds], axis=1))
        chunks += own
    if not one_pool:
        assert sorted(chunks) == list(range(clock.chunks_used)), "a chunk is lost or held twice"
    np.testing.assert_array_equal(state.free + in_use, capacity)
    always_known = (world.changes.announced_s == -NEVER_S).all()  # nobody runs into that, but for the turnover
    if always_known and (world.settings[0].turnover_s == 0 or not len(world.changes)):
        assert (state.free >= 0).all(), "more is held than there is"
    _audit_limits(sim, running)


def _audit_limits(sim: Simulation, running: np.ndarray) -> None:
    """Each limit counts what runs, and none is exceeded."""
    partitions, qos = sim.cluster.partitions, ["", *sim.cluster.qos_factors]
    for limit, of_limit in zip(sim.cluster.limits, sim.state.counted, strict=True):
        counted = of_limit[:, [JOBS, NODES, GPUS]]
        mine = np.zeros_like(counted)
        for job in running:
            partition = partitions[job["partition"]]
            if (limit.qos and qos[job["qos"]] not in limit.qos) or (
                limit.partitions and partition.name not in limit.partitions
            ):
                continue
            of_node = max(group.gpus for group in sim.cluster.groups_of(partition))
            gpus = of_node if job["gpus"] == WHOLE_NODE else job["gpus"]
            holder = {"user": job["user"], "account": job["account"], "all": 0}[limit.per]
            mine[holder] += (1, job["width"], job["width"] * gpus)
        np.testing.assert_array_equal(counted, mine)
        for column, most in enumerate((limit.jobs, limit.nodes, limit.gpus)):
            assert most is None or mine[:, column].max(initial=0) <= most, "somebody is over a limit"


def _audit_running(sim: Simulation) -> None:
    state, clock = sim.state, sim.state.clock[0]
    running = running_of(sim)
    live = state.live[running]
    assert (np.diff(live.limit_end_s) >= 0).all(), "running jobs are out of order"
    assert (live.end_s <= live.limit_end_s).all(), "a job would run past its limit"
    assert (live.limit_end_s == live.start_s + live.limit_s).all() or sim.policy is not None
    assert (live.start_s >= np.maximum(live.submit_s, live.begin_s)).all(), "a job runs before its time"
    assert (live.end_s >= clock.now_s).all()
    heap = state.heap[: clock.n_heap]
    alive = heap[state.live.stamp[heap.slot] == heap.stamp]
    assert sorted(zip(alive.slot, alive.due)) == sorted(zip(running, live.end_s))
    for job in live[live.after_kind != AFTER_NONE]:
        fate = state.fate[job.after]
        assert job.after_kind != AFTER_START or fate >= RUNNING or sim.policy is not None  # preempted since
        assert job.after_kind != AFTER_ANY or fate in (ENDED, CANCELLED)
        assert job.after_kind != AFTER_OK or fate == ENDED
