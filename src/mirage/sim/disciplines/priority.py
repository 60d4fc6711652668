"""Priorities of waiting jobs: Slurm's multifactor sum, or WFP.

Slurm's is Σ weight × factor, each factor in 0 … 1 (slurm.conf(5), priority_multifactor). WFP multiplies: the score of a
job grows with a power of its wait over its time limit, times its nodes (Tang, Lan, Desai and Buettner, "Fault-aware,
utility-based job scheduling on Blue Gene/P systems", Cluster 2009). Cobalt orders jobs by it.

Age counts from when the job became eligible, up to ``PriorityMaxAge``. Fair-share follows the fair-tree algorithm with
one equal share for every account and, in it, for every user: accounts are ranked by least usage, then users within
them, and the factor is the rank. Accounts of equal usage are ranked as one, so all users of accounts without usage have
the factor 1 (measured on 22.05.8). Usage is CPU-seconds, or node-seconds where nodes are pools, halved every
``PriorityDecayHalfLife``.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.duration import HOUR_S, MINUTE_S
from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import (
    WHOLE_NODE,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.job_lifecycle import UNRANKED, pending
from mirage.sim.kernel.resources.holding import charged
from mirage.sim.kernel.resources.job_limits import counted_gpus

UNKNOWN = -1.0
"""A factor not computed yet."""


@kernel()
def decay_usage(world: World, state: State) -> None:
    """Add what running jobs have used since the last computation, then decay all usage."""
    clock, live, usage = state.clock[0], state.live, state.usage
    now, before = clock.now_s, clock.priority_at_s
    for k in range(clock.n_running):
        job = live[state.running[k]]
        usage[job.user] += charged(world, state, job) * float(now - max(before, job.start_s))
    fade = 0.5 ** ((now - before) / world.settings[0].half_life_s)
    for user in range(len(usage)):
        usage[user] *= fade
    clock.priority_at_s = now


@kernel()
def fair_share(world: World, state: State, scratch: Scratch, user: int) -> float:
    """The fair-tree factor of a user, computed on first use.

    Most users have nothing queued.
    """
    if scratch.share[user] == UNKNOWN:
        scratch.share[user] = share_after(world, state, scratch, user)
    return float(scratch.share[user])


@kernel()
def share_after(world: World, state: State, scratch: Scratch, user: int) -> float:
    """The share of all users that come after a user in the ranking, or are tied with it."""
    usage, account = state.usage, world.user_account
    users = len(usage)
    mine = scratch.keys[account[user]]
    after = 0
    for other in range(users):
        theirs = scratch.keys[account[other]]
        if theirs > mine or (theirs == mine and usage[other] >= usage[user]):
            after += 1
    return after / users


@kernel()
def sum_by_account(world: World, state: State, scratch: Scratch) -> None:
    """Sum usage by account into ``scratch.keys``, and mark all users' factors as unknown."""
    for user in range(len(state.usage)):
        scratch.keys[world.user_account[user]] = 0.0
        scratch.share[user] = UNKNOWN
    for user in range(len(state.usage)):
        scratch.keys[world.user_account[user]] += state.usage[user]


@kernel()
def compute_priorities(world: World, state: State, scratch: Scratch) -> bool:
    """Compute the priority of pending jobs, and sort the queue by partition tier and priority.

    Within a period of ``PriorityCalcPeriod`` only new jobs are computed, as in Slurm: the others keep their priorities.

    Returns:
        Whether the whole queue was recomputed and its order has changed.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    setting = world.settings[0]
    now = clock.now_s
    period_s, epoch_s = setting.calc_period_s, setting.epoch_s
    due = (now - epoch_s) // period_s > (clock.priority_at_s - epoch_s) // period_s
    if due:
        decay_usage(world, state)
    elif clock.arrived_since == 0:
        return False
    wfp = setting.wfp == 1
    fair = setting.weight_fairshare > 0.0
    if fair:
        sum_by_account(world, state, scratch)
    moved = False
    for k in range(0 if due else unranked_last(state, scratch), clock.n_pending):
        slot = queue[k]
        job = live[slot]
        if wfp:
            job.priority = wfp_score(world, job, now) + job.priority_offset
            moved |= insert_by_priority(world, state, k, slot)
            continue
        age = min(max(now - job.eligible_s, 0) / setting.max_age_s, 1.0)
        priority = (
            setting.weight_age * age
            + setting.weight_size * size_factor(world, job)
            + setting.weight_partition * world.partition_factor[job.partition]
            + setting.weight_qos * world.qos_factor[job.qos]
            + job.priority_offset
        )
        if setting.weight_gpus > 0.0 or setting.weight_cpus > 0.0:
            whole = world.of_partition[job.partition]
            priority += setting.weight_gpus * counted_gpus(world, job, job.nodes) / whole[0]
            priority += setting.weight_cpus * counted_cpus(world, job) / whole[1]
        if fair:
            priority += setting.weight_fairshare * fair_share(world, state, scratch, job.user)
        job.priority = float(int(priority))  # Slurm's priorities are whole numbers
        moved |= insert_by_priority(world, state, k, slot)
    return due and moved


@kernel()
def wfp_score(world: World, job: Any, now: int) -> float:
    """The score of a job: nodes × wait / limit, each to its own power; times in hours."""
    setting = world.settings[0]
    limit_s = min(max(job.limit_s, setting.wfp_shortest_s), setting.wfp_longest_s)
    waited = max(now - job.eligible_s, 0) / HOUR_S
    score = job.nodes**setting.wfp_size * waited**setting.wfp_wait / (limit_s / HOUR_S) ** setting.wfp_limit
    return float(score)


@kernel()
def counted_cpus(world: World, job: Any) -> int:
    """CPUs that a job requests; for whole nodes, the most of a node in its partition."""
    return int(job.nodes * (world.of_node[job.partition, 1] if job.gpus == WHOLE_NODE else job.cpus))


@kernel()
def size_factor(world: World, job: Any) -> float:
    """The size of a job, as a share of the machine's nodes.

    Where nodes are shared, it is half its share of the nodes and half its share of the CPUs, as in Slurm
    (``_get_priority_internal`` of priority/multifactor): a job of one GPU and one core on a node has hardly more than
    half the priority of one that takes the node. With ``SMALL_RELATIVE_TO_TIME`` it is the larger of both, divided by
    the minutes of the limit.
    """
    setting = world.settings[0]
    size = job.nodes / setting.nodes
    if setting.size_over_time == 1:
        if setting.stacked == 0:
            size = max(size, counted_cpus(world, job) / setting.cpus)
        size /= max(math.ceil(job.limit_s / MINUTE_S), 1)
    elif setting.stacked == 0:
        size = 0.5 * (size + counted_cpus(world, job) / setting.cpus)
    return float(1.0 - size if setting.favor_small == 1 else size)


@kernel()
def unranked_last(state: State, scratch: Scratch) -> int:
    """Move the jobs that arrived since the last pass, which have no priority, to the end.

    They are searched from the end, where nearly all of them are.

    Returns:
        The index of the first of them.
    """
    clock, live, queue = state.clock[0], state.live, pending(state)
    n = first = clock.n_pending
    found = 0
    while first > 0 and found < clock.arrived_since:
        first -= 1
        if live[queue[first]].priority == UNRANKED:
            found += 1
    found, below = 0, first
    for k in range(first, n):
        if live[queue[k]].priority == UNRANKED:
            scratch.slots[found] = queue[k]
            found += 1
        else:
            queue[below] = queue[k]
            below += 1
    for k in range(found):
        queue[below + k] = scratch.slots[k]
    return int(below)


@kernel()
def came_before(one: Any, other: Any) -> bool:
    """Whether a job of the same priority precedes another: by submission, then by admission.

    Slurm sorts so (``sort_job_queue2`` of slurmctld): by submission, then by number. A requeued job counts as submitted
    at its requeue. Ids of injected jobs are higher than those of a trace in any case, so ids are not used here.
    """
    if one.submit_s != other.submit_s:
        return bool(one.submit_s < other.submit_s)
    return bool(one.order < other.order)


@kernel()
def insert_by_priority(world: World, state: State, k: int, slot: int) -> bool:
    """Move the job at index k forward in order; ties by submission. Returns whether it moved."""
    live, queue = state.live, pending(state)
    job = live[slot]
    tier, priority = world.partition_tier[job.partition], job.priority
    at = k
    while at > 0:
        before = live[queue[at - 1]]
        other = world.partition_tier[before.partition]
        if other > tier or (other == tier and before.priority > priority):
            break
        if other == tier and before.priority == priority and came_before(before, job):
            break
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = slot
    return at < k
