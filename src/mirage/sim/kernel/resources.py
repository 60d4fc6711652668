"""Nodes for a job: which can hold it, taking them and giving them back; and the limits on what is held at once."""

from __future__ import annotations

from typing import Any

from mirage.sim.kernel.arrays import NOBODY, PER_ACCOUNT, PER_USER, WHOLE_NODE, Scratch, State, World
from mirage.sim.kernel.compile import kernel


@kernel()
def hosts(world: World, b: int, gpus: int, cpus: int, job: Any) -> int:
    """How many nodes of a job fit bin ``b`` with so many GPUs and CPUs (or nodes) free."""
    if world.settings[0].stacked == 1:
        return max(gpus, 0)
    if job.gpus == WHOLE_NODE:
        return 1 if gpus == world.capacity[b, 0] and cpus == world.capacity[b, 1] else 0
    return 1 if gpus >= job.gpus and cpus >= job.cpus else 0


@kernel()
def need(world: World, b: int, job: Any) -> tuple[int, int]:
    """GPUs and CPUs (or whole nodes) that one node of a job takes from bin ``b``."""
    if world.settings[0].stacked == 1:
        return 1, 0
    if job.gpus == WHOLE_NODE:
        return world.capacity[b, 0], world.capacity[b, 1]
    return job.gpus, job.cpus


@kernel()
def pick_consecutive(scratch: Scratch, free: Any, nodes: int) -> None:
    """Choose nodes as ``select/cons_tres`` does: the smallest sufficient run of neighbours.

    Of the runs of neighbouring nodes that could take the job, the one with the fewest free CPUs that suffices is
    used; where none does, the one with the most is used up and the rest is looked for among the others. On real
    replays this names the node that Slurm took in 82–92 % of the cases with a choice, fullest first in 62–70 %
    (``_eval_nodes`` in Slurm's select/cons_tres/job_test.c).

    Args:
        free: Shape (bins, 2); ``scratch.slots`` says which bins can take a node of the job.
    """
    bins = free.shape[0]
    left = nodes
    while left > 0:
        best, best_cpus, best_suffices = NOBODY, 0, False
        b = 0
        while b < bins:
            if scratch.slots[b] == 0:
                b += 1
                continue
            begin, cpus = b, 0
            while b < bins and scratch.slots[b] == 1:
                cpus += free[b, 1]
                b += 1
            suffices = b - begin >= left
            better = cpus < best_cpus if suffices else cpus > best_cpus
            if best == NOBODY or (suffices and not best_suffices) or (suffices == best_suffices and better):
                best, best_cpus, best_suffices = begin, cpus, suffices
        b = best
        while left > 0 and b < bins and scratch.slots[b] == 1:
            scratch.picked[b] = 1
            scratch.slots[b] = 0
            left -= 1
            b += 1


@kernel()
def pick(world: World, state: State, scratch: Scratch, free: Any, job: Any, nodes: int) -> bool:
    """Choose bins for a job: best fit, ties by number; or as Slurm does.

    Args:
        free: Shape (bins, 2), what may be used; a plan passes what is free throughout.
        nodes: How many nodes to find.

    Returns:
        Whether they were found; ``scratch.picked`` then says how many on each bin.
    """
    bins = world.capacity.shape[0]
    picked = scratch.picked
    if bins == 1:
        picked[0] = nodes
        return bool(state.allowed[job.partition, 0] and hosts(world, 0, free[0, 0], free[0, 1], job) >= nodes)
    found = 0
    stacked = world.settings[0].stacked == 1
    for b in range(bins):
        picked[b] = 0
        scratch.slots[b] = 0
        if state.allowed[job.partition, b]:
            can = hosts(world, b, free[b, 0], free[b, 1], job)
            if stacked:
                picked[b] = min(can, nodes - found)
                found += picked[b]
            else:
                scratch.slots[b] = can
                found += can
    if stacked or found < nodes:
        return found >= nodes
    if world.settings[0].consecutive == 1:
        pick_consecutive(scratch, free, nodes)
        return True
    for _ in range(nodes):
        best = NOBODY
        for b in range(bins):
            if scratch.slots[b] == 1 and (
                best == NOBODY
                or free[b, 0] < free[best, 0]
                or (free[b, 0] == free[best, 0] and free[b, 1] < free[best, 1])
            ):
                best = b
        picked[best] = 1
        scratch.slots[best] = 0
    return True


@kernel()
def choice_is_stable(world: World) -> bool:
    """Whether a job would take the same nodes after other jobs have taken other nodes.

    Pools are used up in their order; among shared nodes the fullest is best, and that changes with every start.
    """
    return bool(world.settings[0].stacked == 1)


@kernel()
def most_nodes(world: World, free: Any) -> int:
    """A bound on the nodes of any job that can start on what is free."""
    bins = world.capacity.shape[0]
    if world.settings[0].stacked == 0:
        return int(bins)
    found = 0
    for b in range(bins):
        found += max(free[b, 0], 0)
    return found


@kernel()
def subtract_picked(world: World, scratch: Scratch, free: Any, job: Any) -> None:
    """Take the nodes in ``scratch.picked`` out of what is free (bins, 2)."""
    for b in range(world.capacity.shape[0]):
        count = scratch.picked[b]
        if count > 0:
            gpus, cpus = need(world, b, job)
            free[b, 0] -= count * gpus
            free[b, 1] -= count * cpus


@kernel()
def room(world: World, state: State, free: Any, job: Any) -> int:
    """How many nodes of a job the bins of its partition can hold."""
    found = 0
    for b in range(world.capacity.shape[0]):
        if state.allowed[job.partition, b]:
            found += hosts(world, b, free[b, 0], free[b, 1], job)
    return found


@kernel()
def change_level(world: World, change: Any, free: Any) -> None:
    """Apply a change of capacity to what is free (bins, 2)."""
    b = change.bin
    if world.settings[0].stacked == 1:
        free[b, 0] += change.nodes
    else:
        free[b, 0] += change.nodes * world.capacity[b, 0]
        free[b, 1] += change.nodes * world.capacity[b, 1]


@kernel()
def next_known(world: World, state: State, at: int) -> int:
    """The place of the first change of capacity, from place ``at`` on, that plans know of; else how many there are."""
    if world.settings[0].reserves == 0:
        return len(world.changes)
    while at < len(world.changes) and world.changes[at].announced_s > state.clock[0].now_s:
        at += 1
    return at


@kernel()
def felt_s(world: World, change: Any) -> int:
    """When plans feel a change of capacity: fewer nodes a turnover later than they leave.

    Plans keep the nodes of a job a turnover longer than its limit, and a job may end with the begin of a reservation.
    """
    return int(change.time_s + (world.settings[0].turnover_s if change.nodes < 0 else 0))


@kernel()
def reserved_within(world: World, state: State, limit_s: int) -> bool:
    """Whether a reservation is known to begin or end before ``limit_s`` are over."""
    at = next_known(world, state, state.clock[0].changed_capacity)
    return bool(at < len(world.changes) and world.changes[at].time_s < state.clock[0].now_s + limit_s)


@kernel()
def least_free(world: World, state: State, scratch: Scratch, gone: Any, limit_s: int) -> None:
    """Set ``scratch.low`` to the least that each bin has free before ``limit_s`` are over.

    Running jobs are taken to use up their limits. Then what is free shrinks only where a reservation begins; a node on
    its way from one job to the next is there to be reserved.

    Args:
        gone: By slot, above 0 for the running jobs that are to count as gone, and those before them, too; empty for
            none.
    """
    clock, live, low, ahead = state.clock[0], state.live, scratch.low, scratch.ahead
    bins = world.capacity.shape[0]
    for b in range(bins):
        ahead[b, 0] = state.free[b, 0]
        ahead[b, 1] = state.free[b, 1]
        low[b, 0] = state.free[b, 0]
        low[b, 1] = state.free[b, 1]
    for k in range(clock.n_completing):
        add_held(world, state, state.completing[k].width, state.completing[k].chunk, ahead)
    if len(gone) > 0:
        for k in range(clock.n_running):
            if gone[state.running[k]] > 0.0:
                release_into(world, state, state.running[k], ahead)
        for b in range(bins):
            low[b, 0] = ahead[b, 0]
            low[b, 1] = ahead[b, 1]
    ended = 0
    at = next_known(world, state, clock.changed_capacity)
    while at < len(world.changes) and world.changes[at].time_s < clock.now_s + limit_s:
        change = world.changes[at]
        while ended < clock.n_running and live[state.running[ended]].limit_end_s <= change.time_s:
            slot = state.running[ended]
            if len(gone) == 0 or gone[slot] == 0.0:
                release_into(world, state, slot, ahead)
            ended += 1
        lower(world, scratch, change)
        at = next_known(world, state, at + 1)


@kernel()
def count_nodes(world: World, state: State, scratch: Scratch) -> None:
    """Set ``scratch.there`` to what every bin would have free now if nobody ran."""
    there = scratch.there
    for b in range(world.capacity.shape[0]):
        there[b, 0] = state.free[b, 0]
        there[b, 1] = state.free[b, 1]
    for k in range(state.clock[0].n_completing):
        add_held(world, state, state.completing[k].width, state.completing[k].chunk, there)
    for k in range(state.clock[0].n_running):
        release_into(world, state, state.running[k], there)


@kernel()
def reserved_away(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Whether reservations leave too few of the nodes that are there to a job until its limit, whoever else runs.

    ``count_nodes`` has said what is there.
    """
    clock, low, ahead = state.clock[0], scratch.low, scratch.ahead
    for b in range(world.capacity.shape[0]):
        low[b, 0] = ahead[b, 0] = scratch.there[b, 0]
        low[b, 1] = ahead[b, 1] = scratch.there[b, 1]
    at = next_known(world, state, clock.changed_capacity)
    while at < len(world.changes) and world.changes[at].time_s < clock.now_s + job.limit_s:
        lower(world, scratch, world.changes[at])
        at = next_known(world, state, at + 1)
    return bool(room(world, state, low, job) < job.nodes)


@kernel()
def lower(world: World, scratch: Scratch, change: Any) -> None:
    """Apply a change of capacity to ``scratch.ahead``, and where that makes less, to ``scratch.low``."""
    b, low, ahead = change.bin, scratch.low, scratch.ahead
    change_level(world, change, ahead)
    low[b, 0] = min(low[b, 0], ahead[b, 0])
    low[b, 1] = min(low[b, 1], ahead[b, 1])


@kernel()
def take(world: World, state: State, scratch: Scratch, slot: int) -> None:
    """Give the job in ``slot`` the nodes in ``scratch.picked``, on top of those it holds."""
    job = state.live[slot]
    clock = state.clock[0]
    bins = world.capacity.shape[0]
    if bins == 1 and world.settings[0].stacked == 1:
        state.free[0, 0] -= scratch.picked[0]
        return
    for b in range(bins):
        count = scratch.picked[b]
        if count == 0:
            continue
        gpus, cpus = need(world, b, job)
        state.free[b, 0] -= count * gpus
        state.free[b, 1] -= count * cpus
        chunk = clock.free_chunk
        if chunk == NOBODY:
            chunk = clock.chunks_used
            clock.chunks_used += 1
        else:
            clock.free_chunk = state.chunks[chunk].next
        held = state.chunks[chunk]
        held.bin = b
        held.count = count
        held.gpus = gpus
        held.cpus = cpus
        held.next = job.chunk
        job.chunk = chunk


@kernel()
def give(world: World, state: State, slot: int, nodes: int) -> None:
    """Take so many nodes from the job in ``slot``, those it got last first."""
    job = state.live[slot]
    clock = state.clock[0]
    if world.capacity.shape[0] == 1 and world.settings[0].stacked == 1:
        state.free[0, 0] += nodes
        return
    while nodes > 0:
        chunk = job.chunk
        held = state.chunks[chunk]
        count = min(nodes, held.count)
        state.free[held.bin, 0] += count * held.gpus
        state.free[held.bin, 1] += count * held.cpus
        held.count -= count
        nodes -= count
        if held.count == 0:
            job.chunk = held.next
            held.next = clock.free_chunk
            clock.free_chunk = chunk


@kernel()
def release_into(world: World, state: State, slot: int, free: Any) -> None:
    """Add to ``free`` (bins, 2) what the job in ``slot`` will give back when it ends."""
    add_held(world, state, state.live[slot].width, state.live[slot].chunk, free)


@kernel()
def add_held(world: World, state: State, width: int, chunk: int, free: Any) -> None:
    """Add to ``free`` (bins, 2) what the chunks from ``chunk`` on hold, or one pool's ``width`` nodes."""
    if world.capacity.shape[0] == 1 and world.settings[0].stacked == 1:
        free[0, 0] += width
        return
    while chunk != NOBODY:
        held = state.chunks[chunk]
        free[held.bin, 0] += held.count * held.gpus
        free[held.bin, 1] += held.count * held.cpus
        chunk = held.next


# -- nodes between two jobs ---------------------------------------------------------------------------------------


@kernel(forceinline=False)
def give_later(state: State, slot: int, until_s: int) -> None:
    """Take all nodes from the job in ``slot``, which has ended; they come free at ``until_s``, none before the last."""
    clock, job = state.clock[0], state.live[slot]
    left = state.completing[clock.n_completing]
    left.until_s = until_s
    left.width = job.width
    left.chunk = job.chunk
    job.chunk = NOBODY
    clock.n_completing += 1


@kernel(forceinline=False)
def free_completed(world: World, state: State) -> bool:
    """Free the nodes whose turnover is over; whether there were any."""
    clock, completing = state.clock[0], state.completing
    n = clock.n_completing
    done = 0
    while done < n and completing[done].until_s <= clock.now_s:
        add_held(world, state, completing[done].width, completing[done].chunk, state.free)
        chunk = completing[done].chunk
        while chunk != NOBODY:
            following = state.chunks[chunk].next
            state.chunks[chunk].next = clock.free_chunk
            clock.free_chunk = chunk
            chunk = following
        done += 1
    for k in range(done, n):
        completing[k - done] = completing[k]
    clock.n_completing = n - done
    return bool(done > 0)


# -- limits on what is held at once -------------------------------------------------------------------------------

JOBS, NODES, GPUS = range(3)
"""What a limit counts, in the order of ``State.counted``."""

COUNTED = 3


@kernel()
def limits_in_force(world: World) -> bool:
    """Whether there is any limit."""
    return bool(len(world.limits) > 0)


@kernel()
def is_counted(world: World, limit: int, job: Any) -> bool:
    """Whether a limit counts a job."""
    return bool(world.limits_qos[limit, job.qos] and world.limits_partition[limit, job.partition])


@kernel()
def holder(world: World, limit: int, job: Any) -> int:
    """Whose jobs a limit counts together with a job: place in ``State.counted``."""
    if world.limits[limit].per == PER_USER:
        return int(job.user)
    return int(job.account) if world.limits[limit].per == PER_ACCOUNT else 0


@kernel()
def counted_gpus(world: World, job: Any, nodes: int) -> int:
    """GPUs that so many nodes of a job count with."""
    return int(nodes * (world.of_node[job.partition, 0] if job.gpus == WHOLE_NODE else job.gpus))


@kernel()
def count_held(world: World, state: State, job: Any, jobs: int, nodes: int) -> None:
    """Enter that a job's holder has so many running jobs and nodes more."""
    if limits_in_force(world):
        count_in_limits(world, state, job, jobs, nodes)


@kernel(forceinline=False)  # few clusters have limits: what serves them stays out of the way of the others
def count_in_limits(world: World, state: State, job: Any, jobs: int, nodes: int) -> None:
    """As ``count_held``, where there are limits."""
    for limit in range(len(world.limits)):
        if is_counted(world, limit, job):
            mine = state.counted[limit, holder(world, limit, job)]
            mine[JOBS] += jobs
            mine[NODES] += nodes
            mine[GPUS] += counted_gpus(world, job, nodes)


@kernel(forceinline=False)
def exceeded(world: World, state: State, job: Any, jobs: int, nodes: int) -> int:
    """Which limit so many running jobs and nodes more of a job's holder would exceed, or ``NOBODY``.

    Returns:
        The first of them: ``COUNTED`` times its place, and ``JOBS``, ``NODES`` or ``GPUS``.
    """
    for limit in range(len(world.limits)):
        if is_counted(world, limit, job):
            most, mine = world.limits[limit], state.counted[limit, holder(world, limit, job)]
            if jobs > 0 and mine[JOBS] + jobs > most.jobs:
                return COUNTED * limit + JOBS
            if mine[NODES] + nodes > most.nodes:
                return COUNTED * limit + NODES
            if mine[GPUS] + counted_gpus(world, job, nodes) > most.gpus:
                return COUNTED * limit + GPUS
    return NOBODY


@kernel()
def permitted(world: World, state: State, job: Any) -> bool:
    """Whether the limits let a job start now."""
    return bool(not limits_in_force(world) or exceeded(world, state, job, 1, job.nodes) == NOBODY)
