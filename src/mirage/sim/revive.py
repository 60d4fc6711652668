"""A simulation that goes on from a view: what a cluster, real or simulated, will do next if we are told its future.

The view says who runs, who waits and for how long at most; true run times and future arrivals are the caller's to
assume.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.policy.view import Jobs, View
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.compile import kernel
from mirage.sim.disciplines import DisciplineSpec
from mirage.sim.layout import (
    JOB,
    N_PENDING,
    NOBODY,
    NOW,
    PENDING,
    PRIORITY_AT,
    RUNNING,
    Records,
    Scratch,
    State,
    World,
    records,
)
from mirage.sim.lifecycle import admit, insert_running, push_end
from mirage.sim.memory import FIRST_SLOTS, enlarged, make_scratch, make_state, make_world
from mirage.sim.resources import pick, take
from mirage.sim.settings import SlurmSettings


def cluster_of(view: View) -> Cluster:
    """The machine a view shows, as far as placing jobs goes."""
    rows = range(len(view.nodes.capacity))
    if view.nodes.pools:
        groups = [NodeGroup(f"pool{b}", int(view.nodes.capacity[b, 0])) for b in rows]
    else:
        groups = [NodeGroup(f"node{b}", 1, *map(int, view.nodes.capacity[b])) for b in rows]
    partitions = [
        Partition(f"partition{p}", tuple(groups[b].name for b in rows if allowed[b]))
        for p, allowed in enumerate(view.nodes.allowed)
    ]
    return Cluster(tuple(groups), tuple(partitions), shared_nodes=not view.nodes.pools)


def job_records(jobs: Jobs, first_id: int) -> Records:
    """JOB records of a view's jobs, ids counted from ``first_id``; each assumed to run until its limit."""
    made = records(JOB, len(jobs))
    made.id = np.arange(first_id, first_id + len(jobs))
    for name in ("user", "partition", "nodes", "gpus", "cpus", "limit_s", "submit_s"):
        made[name] = getattr(jobs, name)
    made.run_s = jobs.limit_s
    made.qos = 0
    made.after = NOBODY
    made.begin_s = NOBODY
    made.done_s = 0.0
    return made


def revive(
    view: View, spec: DisciplineSpec, settings: SlurmSettings, arrivals: int, pass_phase_s: int
) -> tuple[World, State, Scratch]:
    """Arrays of a simulation that stands where the view does.

    Slots are dense: the pending jobs in queue order, then the running ones, so that a caller can give each its run
    time. Nodes of running jobs are chosen anew where jobs share nodes: a view does not say who sits where.

    Args:
        arrivals: Room in ``world.jobs`` for jobs yet to be submitted; all at ``NEVER_S`` to begin with.
        pass_phase_s: Seconds since the scheduler's periodic pass.
    """
    cluster = cluster_of(view)
    pending, running = view.pending, view.running
    n = len(pending) + len(running)
    users = int(max([0, *pending.user, *running.user, *view.ended.user])) + 2
    future = records(JOB, arrivals)
    world = make_world(cluster, future, settings, users, np.zeros(users), view.now_s - pass_phase_s)
    state = make_state(world, cluster, spec, view.now_s, n + arrivals)
    slots = FIRST_SLOTS
    while slots < n + arrivals + 8:
        state = enlarged(state)
        slots = len(state.live)
    scratch = make_scratch(world, slots)
    _seat(world, state, scratch, job_records(pending, 0), np.ascontiguousarray(pending.eligible_s))
    _run(world, state, scratch, job_records(running, len(pending)), np.ascontiguousarray(running.start_s))
    state.clock[PRIORITY_AT] = view.now_s
    return world, state, scratch


@kernel()
def _seat(world: World, state: State, scratch: Scratch, jobs: Any, eligible_s: Any) -> None:
    """Queue the pending jobs in the order given."""
    for k in range(len(jobs)):
        slot = admit(world, state, jobs[k])
        if state.live[slot].status == PENDING:
            state.live[slot].eligible_s = eligible_s[k]


@kernel()
def _run(world: World, state: State, scratch: Scratch, jobs: Any, start_s: Any) -> None:
    """Put the running jobs on nodes, each with its own start in the past."""
    clock = state.clock
    waiting = clock[N_PENDING]
    for k in range(len(jobs)):
        slot = admit(world, state, jobs[k])
        clock[N_PENDING] = waiting
        job = state.live[slot]
        if not pick(world, state, scratch, state.free, job, job.nodes):
            continue
        take(world, state, scratch, slot)
        job.status = RUNNING
        job.width = job.nodes
        job.start_s = start_s[k]
        job.first_start_s = start_s[k]
        job.limit_end_s = max(start_s[k] + job.limit_s, clock[NOW] + 1)
        job.end_s = job.limit_end_s
        insert_running(state, slot)
        push_end(state, slot, job.end_s)
        state.user_jobs[job.user] += 1
        state.user_nodes[job.user] += job.nodes
