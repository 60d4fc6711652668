"""Which lent servers to give back: the ones with the least *server preemption cost*.

After Aryl (arXiv 2202.07896). (A) Empty servers first, then servers with flexible workers only, which scale in without
a preemption. Then, until enough are chosen, the server with the least Σ 1/nⱼ over the jobs j with base workers on it,
nⱼ being the number of servers of job j; its jobs are preempted, and their share on their other servers becomes 0. (H)
Ties go to the server with the lowest number.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NEVER_S, NIL, NO_SERVER, PENDING, SAVING, STOPPING, GpuState

AVAILABLE, CHOSEN = 1, 2
"""State of a server in a reclaim: it may be chosen, or it is; 0 for all others."""


@kernel(forceinline=False)
def choose_servers(
    state: GpuState,
    gpus_of: Any,
    servers: int,
    choice: Any,
    cost: Any,
    base_places: Any,
    preempted: Any,
    loss: Any,
    whole: bool,
) -> int:
    """Choose servers to give back; returns the number chosen.

    Args:
        state: The cluster.
        gpus_of: GPUs of each server.
        servers: Number of servers to give back.
        choice: ``AVAILABLE`` for the servers to choose from; those chosen become ``CHOSEN``.
        cost: Scratch, by server.
        base_places: Number of locations of each job with base workers; they are its first.
        preempted: By job id; 1 for jobs that must leave the chosen servers. Must be 0 for active jobs.
        loss: By job id: what a preemption of the job costs, in place of 1.
        whole: Whether a job's loss is divided by no more than the servers that are still to be chosen. Otherwise the
            rest of a large job counts as if its other servers were needed, too.
    """
    n = 0
    for server in range(len(gpus_of)):
        if n < servers and choice[server] == AVAILABLE and state.free[server] == gpus_of[server]:
            choice[server] = CHOSEN
            n += 1
    while n < servers:
        server_costs(state, cost, base_places, preempted, loss, servers - n if whole else len(gpus_of))
        best, least = NO_SERVER, NEVER_S
        for server in range(len(gpus_of)):
            if choice[server] == AVAILABLE and cost[server] < least:
                best, least = server, cost[server]
        if best == NO_SERVER:
            break
        choice[best] = CHOSEN
        n += 1
        preempt_jobs(state, best, base_places, preempted)
    return n


@kernel(forceinline=False)
def server_costs(state: GpuState, cost: Any, base_places: Any, preempted: Any, loss: Any, most: int) -> None:
    """Write the server preemption cost of every server.

    Jobs that are leaving already cost nothing. A loss is divided by at most ``most`` servers.
    """
    for server in range(len(state.free)):
        cost[server] = 0.0
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        if job.status in (PENDING, STOPPING, SAVING) or preempted[job.id] == 1:
            continue
        at, k = job.chunk, 0
        while at != NIL and k < base_places[job.id]:
            cost[state.chunks[at].server] += loss[job.id] / min(base_places[job.id], most)
            at = state.chunks[at].next
            k += 1


@kernel(forceinline=False)
def preempt_jobs(state: GpuState, server: int, base_places: Any, preempted: Any) -> None:
    """Mark the jobs with base workers on a server as preempted."""
    for slot in range(state.clock[0].n_live):
        job = state.live[slot]
        if job.status in (PENDING, STOPPING, SAVING):
            continue
        at, k = job.chunk, 0
        while at != NIL and k < base_places[job.id]:
            if state.chunks[at].server == server:
                preempted[job.id] = 1
            at = state.chunks[at].next
            k += 1
