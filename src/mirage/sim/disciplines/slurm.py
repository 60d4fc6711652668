"""Slurm's two scheduling loops and its multifactor priority (slurm.conf(5), sched_config).

The main loop runs when something was submitted or ended: jobs in priority order, and a partition is closed by its first
job that does not fit, even by preemption. The backfill loop runs every ``bf_interval``: the first
``bf_max_job_test`` jobs are planned in priority order by their limits, each as early as possible without delaying
one before it; those that can start now do. Begin and end of a reservation are rounded down to multiples of
``bf_resolution``, it lasts one of these at least, and none is made beyond ``bf_window`` (measured on 22.05.8). Where
nodes are counted, a reservation begins when the job does: the nodes that Slurm reserves earlier are mostly in use.

Where nodes are reserved (``Cluster.reservations``), both loops start a job only if enough nodes are left to it until
its limit.

A pass has no effect except started jobs, so it ends with the last job that could still start now, and a pass is
skipped if nothing ended, arrived, started or changed its priority since the last one (``every_pass`` runs it, without
effect unless a job is planned beyond ``bf_window``).
"""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import remove_at
from mirage.sim.disciplines.accrual import give_age
from mirage.sim.disciplines.priority import compute_priorities
from mirage.sim.disciplines.qos_preemption import displace_for, may_displace
from mirage.sim.kernel.arrays import (
    DISCIPLINE,
    NEVER_S,
    NIL,
    Reference,
    Scratch,
    State,
    World,
    dereference,
)
from mirage.sim.kernel.job_lifecycle import call_at, fits, pending, start_on_picked
from mirage.sim.kernel.profile import earliest, last_that_fits, last_to_start, occupies_s, rebuild, reserve
from mirage.sim.kernel.resources.job_limits import permitted
from mirage.sim.kernel.resources.node_changes import count_nodes, next_known, reserved_away


@kernel()
def main_loop(world: World, state: State, scratch: Scratch, depth: int) -> None:
    """Start jobs in priority order; a partition is closed by its first job that does not fit.

    A job stopped only by reservations is skipped (``ESLURM_RESERVATION_BUSY`` in Slurm's slurmctld/job_scheduler.c).
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    partitions = state.allowed.shape[0]
    closed = scratch.timeline
    for p in range(partitions):
        closed[p] = 0
    n = clock.n_pending
    open_partitions = partitions
    reserves = next_known(world, state, clock.changed_capacity) < len(world.changes)
    if reserves:
        count_nodes(world, state, scratch)
    remaining = k = 0
    while k < min(n, depth) and open_partitions > 0:
        slot = queue[k]
        job = live[slot]
        starts = False
        away = reserves and reserved_away(world, state, scratch, job)
        if closed[job.partition] == 0 and permitted(world, state, job) and not away:
            starts = fits(world, state, scratch, job)
            if not starts and may_displace(world, job) and displace_for(world, state, scratch, job):
                starts = fits(world, state, scratch, job)
            if not starts:
                closed[job.partition] = 1
                open_partitions -= 1
        if starts:
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
        else:
            queue[remaining] = slot
            remaining += 1
        k += 1
    if remaining < k:
        for rest in range(k, n):
            queue[remaining + rest - k] = queue[rest]
        clock.n_pending = n - (k - remaining)


@kernel()
def backfill_loop(world: World, state: State, scratch: Scratch) -> None:
    """Plan the queue on the availability profile; start what can start now."""
    clock, live, queue = state.clock[0], state.live, pending(state)
    setting = world.settings[0]
    n = clock.n_pending
    last = last_that_fits(world, state, 0, min(n, setting.max_job_test) - 1)
    if last < 0:
        return
    rebuild(world, state, setting.consecutive == 1 and setting.stacked == 0)
    now = clock.now_s
    step = setting.bf_resolution_s
    k = 0
    while k <= last:
        slot = queue[k]
        job = live[slot]
        at = NIL
        if permitted(world, state, job):
            at = earliest(world, state, scratch, job)
        begins_s = NEVER_S if at == NIL else state.profile_s[at]
        if begins_s <= now + setting.bf_window_s:
            from_s, to_s = begins_s, begins_s + occupies_s(world, job)
            if begins_s > now:
                rounded_s = begins_s // step * step
                to_s = max(to_s // step * step, rounded_s + step)
                from_s = begins_s if setting.stacked == 1 else max(rounded_s, now)
            reserve(world, state, scratch, job, at, from_s, to_s)
        if begins_s <= now:
            remove_at(queue, k, n)
            n -= 1
            last -= 1
            start_on_picked(world, state, scratch, slot, job.nodes, 1.0)
        else:
            k += 1
        last = last_to_start(world, state, scratch, k, last)
    clock.n_pending = n


@kernel(DISCIPLINE)
def slurm(situation: Reference) -> int:
    """Both loops, each when it is due."""
    world, state, scratch = dereference(situation)
    clock = state.clock[0]
    setting = world.settings[0]
    now = clock.now_s
    if clock.ended_since != 0 or clock.arrived_since != 0:
        clock.dirty = 1
    give_age(world, state, scratch)
    if clock.n_pending > 0:
        if compute_priorities(world, state, scratch):
            clock.dirty = 1
        if clock.dirty == 1:
            main_loop(world, state, scratch, setting.default_queue_depth)
        since_s = now - setting.epoch_s
        if since_s % setting.bf_interval_s == 0 and (clock.dirty == 1 or setting.every_pass == 1):
            waiting = clock.n_pending
            backfill_loop(world, state, scratch)
            clock.dirty = 1 if clock.n_pending < waiting else 0  # the next pass sees started jobs with exact times
            clock.passed_at_s = now
        hopeless = clock.n_running == 0 and clock.dirty == 0  # all is free and no job starts: time will not help
        if clock.n_pending > 0 and not hopeless:
            call_at(state, now + setting.calc_period_s - since_s % setting.calc_period_s)
            if clock.dirty == 1 or setting.every_pass == 1:
                call_at(state, now + setting.bf_interval_s - since_s % setting.bf_interval_s)
        give_age(world, state, scratch)  # to jobs that get the places of those that have started
    clock.ended_since = 0
    clock.arrived_since = 0
    return 0
