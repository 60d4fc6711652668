"""EASY with the events of a second taken one at a time, in the order of the program pyss, to compare with its results.

The discipline is ours, kernel for kernel. What differs is only what it is shown, and when:

1. Within a second, submissions come before ends, ends in the order in which their jobs started.
2. The queue is looked at after every single event, and after a submission only if the new job fits.
3. A job whose limit ends now counts as gone before the first event of the second.
"""

from __future__ import annotations

import heapq

import numpy as np

from mirage.sim.cluster import Cluster
from mirage.sim.disciplines.easy import easy
from mirage.sim.jobs import Workload
from mirage.sim.kernel.arrays import Scratch, State, World
from mirage.sim.kernel.compile import kernel
from mirage.sim.kernel.lifecycle import admit, finish, has_slot
from mirage.sim.kernel.reference import reference
from mirage.sim.simulation import Simulation

SUBMIT, END = 0, 1


@kernel()
def look(world: World, state: State, scratch: Scratch) -> int:
    return easy(reference(world, state, scratch))


def replay_event_by_event(jobs: Workload, nodes: int) -> np.ndarray:
    """Start of every job, shape (n,)."""
    sim = Simulation(Cluster.pool(nodes), jobs, "easy")
    starts_s = np.full(len(jobs.jobs), -1)
    events = [(int(at_s), SUBMIT, row) for row, at_s in enumerate(jobs.jobs.submit_s)]  # equal times by job number
    seat: dict[int, int] = {}
    stamped: dict[int, int] = {}

    def leave(row: int) -> None:
        if row in seat:
            finish(sim.world, sim.state, seat.pop(row))

    while events:
        now_s, kind, order = heapq.heappop(events)
        while not has_slot(sim.state) or len(sim.state.log) - sim.state.clock[0].n_log <= sim.state.clock[0].n_running:
            sim.grow()
        state, clock = sim.state, sim.state.clock[0]
        clock.now_s = now_s
        while clock.n_running and state.live[state.running[0]].limit_end_s <= now_s:
            leave(int(state.live[state.running[0]].id))
        if kind == SUBMIT:
            slot = admit(sim.world, state, sim.world.jobs[order])
            seat[order] = int(slot)
            if state.live[slot].nodes > state.free[0, 0]:
                continue
        else:
            leave(stamped.pop(order))
        before = clock.stamp
        look(sim.world, state, sim.scratch)
        running = state.running[: clock.n_running]
        for slot in running[state.live.stamp[running] > before]:
            job = state.live[slot]
            starts_s[job.id] = now_s
            stamped[int(job.stamp)] = int(job.id)
            heapq.heappush(events, (int(job.end_s), END, int(job.stamp)))
    return starts_s
