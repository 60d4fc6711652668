"""EASY, taking the events of a second one at a time, in the order of the program pyss.

The discipline is ours, kernel for kernel. What differs is only what it is shown, and when:

1. Within a second, submissions come before ends, ends in the order in which their jobs started.
2. The queue is looked at after every single event, and after a submission only if the new job fits.
3. A job whose limit ends now counts as gone before the first event of the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.kernel.compile import kernel
from mirage.sim.cluster import Cluster
from mirage.sim.disciplines.easy import easy
from mirage.sim.kernel.arrays import NEVER_S, Scratch, State, World, reference
from mirage.sim.kernel.job_lifecycle import admit, finish, has_slot
from mirage.sim.simulation import Simulation
from mirage.sim.workload import Workload

GONE = -1
"""In the place of a slot."""

PROGRESS = np.dtype([("submitted", np.int64), ("ends", np.int64)])
"""How many submissions were taken, and how many ends are still to come."""

END = np.dtype([("at_s", np.int64), ("stamp", np.int64), ("row", np.int64)])


@kernel()
def leave(world: World, state: State, slot_of: Any, row: int) -> None:
    """The job of a row gives its nodes back, unless it has done so."""
    if slot_of[row] != GONE:
        finish(world, state, slot_of[row])
        slot_of[row] = GONE


@kernel()
def next_end(ends: Any, n: int) -> int:
    """Index of the first end; of equal ones that of the job that started first; -1 for none."""
    first = -1
    for k in range(n):
        if first < 0 or (ends[k].at_s, ends[k].stamp) < (ends[first].at_s, ends[first].stamp):
            first = k
    return first


@kernel()
def take_events(
    world: World, state: State, scratch: Scratch, order: Any, progress: Any, slot_of: Any, ends: Any, starts_s: Any
) -> bool:
    """Take events until all are over, or the arrays are too short for the next one.

    Args:
        order: Rows in the order in which they are submitted, shape (n,).
        progress: One record of ``PROGRESS``; where the next call goes on.
        slot_of: Slot of the job of each row, shape (n,).
        ends: Records of ``END``, shape (n,).
        starts_s: Start of the job of each row, written here, shape (n,).

    Returns:
        Whether all are over.
    """
    clock, live, taken = state.clock[0], state.live, progress[0]
    while taken.submitted < len(order) or taken.ends > 0:
        if not has_slot(state) or len(state.log) - clock.n_log <= clock.n_running:
            return False
        end = next_end(ends, taken.ends)
        end_s = ends[end].at_s if end >= 0 else NEVER_S
        row = order[taken.submitted] if taken.submitted < len(order) else GONE
        submits = row != GONE and world.jobs[row].submit_s <= end_s
        clock.now_s = world.jobs[row].submit_s if submits else end_s
        while clock.n_running > 0 and live[state.running[0]].limit_end_s <= clock.now_s:
            leave(world, state, slot_of, live[state.running[0]].id)
        if submits:
            taken.submitted += 1
            slot = admit(world, state, world.jobs[row])
            slot_of[row] = slot
            if live[slot].nodes > state.free[0, 0]:
                continue
        else:
            leave(world, state, slot_of, ends[end].row)
            taken.ends -= 1
            ends[end] = ends[taken.ends]
        before = clock.stamp
        easy(reference(world, state, scratch))
        for k in range(clock.n_running):
            job = live[state.running[k]]
            if job.stamp > before:
                starts_s[job.id] = clock.now_s
                new = ends[taken.ends]
                new.at_s, new.stamp, new.row = job.end_s, job.stamp, job.id
                taken.ends += 1
    return True


def replay_event_by_event(jobs: Workload, nodes: int) -> np.ndarray:
    """Start of every job, shape (n,)."""
    sim = Simulation(Cluster.pool(nodes), jobs, "easy")
    n = len(jobs.jobs)
    starts_s, slot_of = np.full(n, -1), np.full(n, GONE)
    order = np.argsort(jobs.jobs.submit_s, kind="stable")  # equal times by job number
    progress, ends = np.zeros(1, PROGRESS), np.zeros(n, END)
    while not take_events(sim.world, sim.state, sim.scratch, order, progress, slot_of, ends, starts_s):
        sim.grow()
    return starts_s
