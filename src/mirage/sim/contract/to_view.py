"""The simulator's side of the contract: a view of its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.job_state import MISSING
from mirage.policy.view import MOST_PENDING, Chain, Ended, Jobs, Nodes, View
from mirage.sim.contract.job_labels import JobLabels, label
from mirage.sim.kernel.arrays import NEVER_S, RUNNING, SUSPENDING, WHOLE_NODE, State, World
from mirage.sim.kernel.compile import kernel

TEN_MINUTES_S = 600
"""The pass of ``mirage-2023``."""

WITHIN_LIMITS, OVER_JOBS, OVER_NODES = range(3)
"""Whether the limits of a job's user let it start: yes; too many jobs; too many nodes."""


_COUNTS = (
    "id", "user", "partition", "qos", "nodes", "gpus", "cpus", "limit_s", "submit_s", "eligible_s", "start_s", "width",
    "name", "account",
)  # fmt: skip
_FRACTIONS = ("done_s", "priority")


def observe(
    world: World, state: State, ended: Ended, labels: JobLabels, chain: Chain | None = None, phase_s: int = 0
) -> View:
    """What a policy may know of a simulation now, which stays what it was.

    Args:
        ended: The jobs that ended last.
        labels: Names and accounts of the jobs.
        chain: The chain to decide about.
        phase_s: As in ``View``.
    """
    clock = state.clock[0]
    now_s = int(clock.now_s)
    waiting = state.queue[clock.queue_head : clock.queue_head + clock.n_pending]
    held = state.held[: clock.n_held]
    blocked = limits_reached(world, state, waiting) != WITHIN_LIMITS
    if blocked.any():
        waiting, held = waiting[~blocked], np.concatenate([waiting[blocked], held])
    if chain is not None:
        waiting = waiting[:MOST_PENDING]
    return View(
        now_s=now_s,
        nodes=Nodes(
            pools=bool(world.settings[0].stacked),
            capacity=_frozen(capacity_now(world, state)),
            free=_frozen(np.maximum(state.free, 0)),
            allowed=_frozen(state.allowed.copy()),
        ),
        pending=jobs_of(world, state, labels, waiting),
        running=jobs_of(world, state, labels, state.running[: clock.n_running]),
        held=jobs_of(world, state, labels, held, held=True),
        ended=ended,
        chain=chain,
        phase_s=phase_s,
    )


def capacity_now(world: World, state: State) -> Any:
    """Capacity of every bin, without the nodes that are gone or leave as soon as they fall free."""
    capacity = world.capacity.copy()
    for change in world.changes[: state.clock[0].changed_capacity]:
        if world.settings[0].stacked:
            capacity[change.bin, 0] += change.nodes
        else:
            capacity[change.bin] += change.nodes * world.capacity[change.bin]
    return capacity


def limits_reached(world: World, state: State, slots: Any) -> Any:
    """Which limit of its user keeps each of some waiting jobs from starting now, whatever is free."""
    setting, live = world.settings[0], state.live
    reached = np.zeros(len(slots), dtype=np.int64)
    if min(setting.user_max_jobs, setting.user_max_nodes) >= NEVER_S:
        return reached
    users = live.user[slots]
    reached[state.user_nodes[users] + live.nodes[slots] > setting.user_max_nodes] = OVER_NODES
    reached[state.user_jobs[users] >= setting.user_max_jobs] = OVER_JOBS
    return reached


def jobs_of(world: World, state: State, labels: JobLabels, slots: Any, held: bool = False) -> Jobs:
    """The jobs in some slots as a struct of arrays.

    Args:
        held: Whether they do not compete.
    """
    counts = np.empty((len(_COUNTS), len(slots)), dtype=np.int64)
    fractions = np.empty((len(_FRACTIONS), len(slots)), dtype=np.float64)
    if len(slots):
        whole, now_s = bool(world.settings[0].stacked), int(state.clock[0].now_s)
        fill(state.live, slots, now_s, whole, held, labels.book.codes, labels.injected, counts, fractions)
    columns = zip((*_COUNTS, *_FRACTIONS), (*_frozen(counts), *_frozen(fractions)))
    return Jobs(**dict(columns))


@kernel()
def fill(
    live: Any, slots: Any, now_s: int, whole: bool, held: bool, codes: Any, injected: Any, counts: Any, fractions: Any
) -> None:
    """Write the jobs in some slots into columns, in the order of ``_COUNTS`` and ``_FRACTIONS``."""
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
        counts[9, k] = MISSING if held else job.eligible_s
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
