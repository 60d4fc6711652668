"""Converts the state of a simulation to a view."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.policy.view import MOST_PENDING, ChainView, Ended, Nodes, QueueJobs, View
from mirage.sim.contract.job_labels import JobLabels, label
from mirage.sim.kernel.arrays import CLOCK, HELD, NEVER_S, NIL, RUNNING, SUSPENDING, WHOLE_NODE, State, World
from mirage.sim.kernel.resources.amounts import MEMORY
from mirage.sim.kernel.resources.job_limits import exceeded

TEN_MINUTES_S = 600
"""The period of the pass of ``mirage-2023``."""


_COUNTS, _FRACTIONS = 14, 2
"""Numbers of the integer and of the float columns of ``QueueJobs``: work done and priority, after twelve others."""


def _values_of(dtype: Any, *names: str) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """A getter of some values of a record converted to a tuple; faster than its attributes."""
    return itemgetter(*map(dtype.names.index, names))


_present = _values_of(CLOCK, "now_s", "queue_head", "n_pending", "n_running", "n_held", "changed_capacity")


def observe(
    world: World,
    state: State,
    ended: Ended,
    labels: JobLabels,
    chain: ChainView | None = None,
    phase_s: int = 0,
    tiers: tuple[int, ...] = (),
) -> View:
    """The view of a simulation now; later steps do not change it.

    Args:
        ended: The jobs that ended last.
        labels: Names and accounts of the jobs.
        chain: The chain to decide about.
        phase_s: As in ``View``.
        tiers: As in ``View``.
    """
    now_s, head, n_pending, n_running, n_held, _ = _present(state.clock.item())
    waiting, held = state.queue[head : head + n_pending], state.held[:n_held]
    if n_held:
        held = held[state.live.status[held] == HELD]  # the others are not submitted yet
    if len(world.limits):
        blocked = limits_reached(world, state, waiting) != NIL
        waiting, held = waiting[~blocked], np.concatenate([waiting[blocked], held])
    if chain is not None:
        waiting = waiting[:MOST_PENDING]
    pools = bool(world.settings["stacked"][0])
    return View(
        now_s=now_s,
        nodes=Nodes(
            pools=pools,
            capacity=_frozen(np.ascontiguousarray(capacity_now(world, state)[:, :MEMORY])),
            free=_frozen(np.maximum(state.free[:, :MEMORY], 0)),
            allowed=_frozen(state.allowed.copy()),
        ),
        pending=_jobs(state, labels, waiting, now_s, pools),
        running=_jobs(state, labels, state.running[:n_running], now_s, pools),
        held=_jobs(state, labels, held, now_s, pools, held=True),
        ended=ended,
        chain=chain,
        phase_s=phase_s,
        tiers=tiers,
    )


def capacity_now(world: World, state: State) -> Any:
    """Capacity of every bin, without nodes that are gone or leave when they become free."""
    capacity = world.capacity.copy()
    *_, changed = _present(state.clock.item())
    if not changed:
        return capacity
    for change in world.changes[:changed]:
        if world.settings[0].stacked:
            capacity[change.bin, 0] += change.nodes
        else:
            capacity[change.bin] += change.nodes * world.capacity[change.bin]
    return capacity


def limits_reached(world: World, state: State, slots: Any) -> Any:
    """Which limit stops each waiting job from starting now, as returned by ``exceeded``.

    Free nodes do not matter.
    """
    reached = np.full(len(slots), NIL, dtype=np.int64)
    if len(world.limits):
        fill_reached(world, state, slots, reached)
    return reached


@kernel()
def fill_reached(world: World, state: State, slots: Any, reached: Any) -> None:
    """Write which limit each of some jobs would exceed."""
    for k in range(len(slots)):
        job = state.live[slots[k]]
        reached[k] = exceeded(world, state, job, 1, job.nodes)


def _jobs(state: State, labels: JobLabels, slots: Any, now_s: int, whole: bool, held: bool = False) -> QueueJobs:
    """The jobs in some slots as a struct of arrays.

    Args:
        whole: Whether all jobs take whole nodes.
        held: Whether they are held and do not compete.
    """
    if not len(slots):
        return _NO_JOBS
    counts = np.empty((_COUNTS, len(slots)), dtype=np.int64)
    fractions = np.empty((_FRACTIONS, len(slots)), dtype=np.float64)
    fill(state.live, slots, now_s, whole, held, labels.book.codes, labels.injected, counts, fractions)
    return _columns(counts, fractions)


def _columns(counts: Any, fractions: Any) -> QueueJobs:
    whole = (*_frozen(counts), _frozen(np.zeros(counts.shape[1], dtype=np.int64)))  # the last is nice
    return QueueJobs(*whole[:12], *_frozen(fractions), *whole[12:])


@kernel()
def fill(
    live: Any, slots: Any, now_s: int, whole: bool, held: bool, codes: Any, injected: Any, counts: Any, fractions: Any
) -> None:
    """Write the jobs in some slots into columns, in the order of ``QueueJobs``."""
    for k in range(len(slots)):
        job = live[slots[k]]
        runs = job.status == RUNNING or job.status == SUSPENDING
        counts[0, k] = job.id
        counts[1, k] = job.user
        counts[2, k] = job.partition
        counts[3, k] = job.qos
        counts[4, k] = job.nodes
        counts[5, k] = WHOLE_NODE if whole or job.gpus == WHOLE_NODE else job.gpus
        counts[6, k] = WHOLE_NODE if whole or job.gpus == WHOLE_NODE else job.cpus
        counts[7, k] = job.limit_s
        counts[8, k] = job.submit_s
        since_s = job.eligible_s
        if since_s >= NEVER_S:  # a limit on jobs that gain age excludes it, or has excluded it
            since_s = MISSING if held else job.start_s if runs else now_s
        counts[9, k] = since_s
        counts[10, k] = job.start_s if runs else MISSING
        counts[11, k] = job.width if runs else 0
        counts[12, k] = label(codes, injected, 0, job.id)
        counts[13, k] = label(codes, injected, 1, job.id)
        fractions[0, k] = job.done_s
        if job.status == RUNNING:
            fractions[0, k] += max(now_s - job.start_s - job.resume_s, 0) * job.speed
        fractions[1, k] = job.priority if job.priority > 1.0 and not held else 0.0


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


_NO_JOBS = _columns(np.zeros((_COUNTS, 0), dtype=np.int64), np.zeros((_FRACTIONS, 0)))
