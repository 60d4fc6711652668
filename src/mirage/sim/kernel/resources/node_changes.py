"""Changes and reservations of nodes: which are known beforehand, and what a job can use."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import Scratch, State, World
from mirage.sim.kernel.resources.amounts import MEMORY, copy_amounts, with_memory
from mirage.sim.kernel.resources.holding import add_held, release_into
from mirage.sim.kernel.resources.node_selection import room


@kernel()
def change_level(world: World, change: Any, free: Any) -> None:
    """Apply a change of capacity to what is free (bins, 2 or 3)."""
    b = change.bin
    if world.settings[0].stacked == 1:
        free[b, 0] += change.nodes
    else:
        free[b, 0] += change.nodes * world.capacity[b, 0]
        free[b, 1] += change.nodes * world.capacity[b, 1]
        if with_memory(free):
            free[b, MEMORY] += change.nodes * world.capacity[b, MEMORY]


@kernel()
def next_known(world: World, state: State, at: int) -> int:
    """Index of the first change of capacity, from ``at`` on, that plans know.

    The number of changes where there is none.
    """
    if world.settings[0].reserves == 0:
        return len(world.changes)
    while at < len(world.changes) and world.changes[at].announced_s > state.clock[0].now_s:
        foreseen = world.changes[at].foreseen  # there may be a thousand unannounced changes in between
        at = foreseen if foreseen > at else at + 1
    return at


@kernel()
def felt_s(world: World, at: int) -> int:
    """The time at which a change of capacity affects plans.

    Fewer nodes take effect a turnover later than they leave: plans reserve the nodes of a job a turnover longer than
    its limit, and a job may end at the begin of a reservation. Where nodes return within a turnover, a loss takes
    effect at once, so that it is never later than the gain.
    """
    changes, turnover_s = world.changes, world.settings[0].turnover_s
    time_s = changes[at].time_s
    if changes[at].nodes > 0:
        return int(time_s)
    later = at + 1
    while later < len(changes) and changes[later].time_s <= time_s + turnover_s:
        if changes[later].nodes > 0:
            return int(time_s)
        later += 1
    return int(time_s + turnover_s)


@kernel()
def reserved_within(world: World, state: State, limit_s: int) -> bool:
    """Whether a reservation is known to begin or end within ``limit_s`` from now."""
    at = next_known(world, state, state.clock[0].changed_capacity)
    return bool(at < len(world.changes) and world.changes[at].time_s < state.clock[0].now_s + limit_s)


@kernel()
def least_free(world: World, state: State, scratch: Scratch, gone: Any, limit_s: int) -> None:
    """Set ``scratch.low`` to the least that each bin has free within ``limit_s`` from now.

    Running jobs are assumed to use their full limits. Then what is free only shrinks where a reservation begins; nodes
    in turnover can be reserved.

    Args:
        gone: By slot, above 0 for the running jobs to be treated as ended already; empty for none.
    """
    clock, live, low, ahead = state.clock[0], state.live, scratch.low, scratch.ahead
    copy_amounts(ahead, state.free)
    copy_amounts(low, state.free)
    for k in range(clock.n_completing):
        add_held(world, state, state.completing[k].width, state.completing[k].chunk, ahead)
    if len(gone) > 0:
        for k in range(clock.n_running):
            if gone[state.running[k]] > 0.0:
                release_into(world, state, state.running[k], ahead)
        copy_amounts(low, ahead)
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
    """Set ``scratch.there`` to what every bin would have free now if no job ran."""
    there = scratch.there
    copy_amounts(there, state.free)
    for k in range(state.clock[0].n_completing):
        add_held(world, state, state.completing[k].width, state.completing[k].chunk, there)
    for k in range(state.clock[0].n_running):
        release_into(world, state, state.running[k], there)


@kernel()
def reserved_away(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Whether reservations leave too few nodes to a job until its limit, if no other job ran.

    ``count_nodes`` must have set ``scratch.there``.
    """
    clock, low, ahead = state.clock[0], scratch.low, scratch.ahead
    copy_amounts(low, scratch.there)
    copy_amounts(ahead, scratch.there)
    at = next_known(world, state, clock.changed_capacity)
    while at < len(world.changes) and world.changes[at].time_s < clock.now_s + job.limit_s:
        lower(world, scratch, world.changes[at])
        at = next_known(world, state, at + 1)
    return bool(room(world, state, low, job) < job.nodes)


@kernel()
def lower(world: World, scratch: Scratch, change: Any) -> None:
    """Apply a change of capacity to ``scratch.ahead``, and lower ``scratch.low`` to it."""
    b, low, ahead = change.bin, scratch.low, scratch.ahead
    change_level(world, change, ahead)
    low[b, 0] = min(low[b, 0], ahead[b, 0])
    low[b, 1] = min(low[b, 1], ahead[b, 1])
    if with_memory(low):
        low[b, MEMORY] = min(low[b, MEMORY], ahead[b, MEMORY])
