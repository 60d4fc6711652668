"""The availability profile of one pool of whole nodes: a one-dimensional step function.

The general profile does the same for many bins; this case covers most studies, and most clusters that allocate whole
nodes, and is ten times as fast.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import insert_at
from mirage.sim.kernel.arrays import NEVER_S, NIL, State, World
from mirage.sim.kernel.resources.node_changes import felt_s, next_known


@kernel()
def rebuild_level(world: World, state: State) -> None:
    """Rebuild the profile from running jobs, nodes in turnover, and reservations."""
    clock, live, running = state.clock[0], state.live, state.running
    times, level = state.profile_s, state.level
    now = clock.now_s
    free = state.free[0, 0]
    times[0] = now
    level[0] = free
    n = 1
    turnover_s = world.settings[0].turnover_s
    known = next_known(world, state, clock.changed_capacity)
    for k in range(clock.n_completing):
        left = state.completing[k]
        if known < len(world.changes):
            n, free, known = foresee_level(world, state, n, free, known, left.until_s)
        free += left.width
        if left.until_s > times[n - 1]:
            times[n] = left.until_s
            n += 1
        level[n - 1] = free
    for k in range(clock.n_running):
        job = live[running[k]]
        end_s = max(job.limit_end_s, now + 1) + turnover_s  # a job at its limit ends at once
        if known < len(world.changes):
            n, free, known = foresee_level(world, state, n, free, known, end_s)
        free += job.width
        if end_s > times[n - 1]:
            times[n] = end_s
            n += 1
        level[n - 1] = free
    if known < len(world.changes):
        n, free, known = foresee_level(world, state, n, free, known, NEVER_S)
    clock.n_profile = n


@kernel()
def foresee_level(world: World, state: State, n: int, free: int, known: int, until_s: int) -> tuple[int, int, int]:
    """Append the known changes of capacity before ``until_s`` after the first n steps.

    Returns:
        The number of steps now, what is free in the last, and the index of the next known change.
    """
    times, level = state.profile_s, state.level
    while known < len(world.changes) and felt_s(world, known) < until_s:
        change = world.changes[known]
        free += change.nodes
        if felt_s(world, known) > times[n - 1]:
            times[n] = felt_s(world, known)
            n += 1
        level[n - 1] = free
        known = next_known(world, state, known + 1)
    return n, free, known


@kernel()
def forget_past_level(state: State) -> None:
    """Drop the steps that are over, so that the first begins now."""
    clock, times, level = state.clock[0], state.profile_s, state.level
    n = clock.n_profile
    gone = 0
    while gone + 1 < n and times[gone + 1] <= clock.now_s:
        gone += 1
    if gone > 0:
        n -= gone
        for k in range(n):
            times[k] = times[k + gone]
        for k in range(n):
            level[k] = level[k + gone]
        clock.n_profile = n
    times[0] = clock.now_s


@kernel()
def earliest_level(state: State, nodes: int, limit_s: int) -> int:
    """The earliest step that begins ``limit_s`` with ``nodes`` free; -1 for none.

    A step that is too full rules out every start before it; for a job that lasts into the last step wherever it starts,
    the last such step decides.
    """
    times, level = state.profile_s, state.level
    n = state.clock[0].n_profile
    if limit_s > times[n - 1] - times[0]:
        first = n
        while first > 0 and level[first - 1] >= nodes:
            first -= 1
        return first if first < n else NIL
    begins, end_s = NIL, NEVER_S
    for k in range(n):  # non-negative indices: the compiled loop then takes half the time per step
        if times[k] >= end_s:
            break
        if level[k] < nodes:
            begins, end_s = NIL, NEVER_S
        elif begins == NIL:
            begins, end_s = k, times[k] + limit_s
    return begins


@kernel()
def earliest_level_before(state: State, nodes: int, limit_s: int, before_s: int) -> int:
    """The step of ``earliest_level`` if it begins before a time; -1 if not."""
    times, level = state.profile_s, state.level
    n = state.clock[0].n_profile
    begins, end_s = NIL, NEVER_S
    for k in range(n):
        if begins == NIL:
            if times[k] >= before_s:
                break
            if level[k] >= nodes:
                begins, end_s = k, times[k] + limit_s
        elif times[k] >= end_s:
            break
        elif level[k] < nodes:
            begins = NIL
    return begins


@kernel()
def lasts_from_now(state: State, nodes: int, limit_s: int) -> bool:
    """Whether ``nodes`` are free from now on for ``limit_s``."""
    times, level = state.profile_s, state.level
    end_s = times[0] + limit_s
    for k in range(state.clock[0].n_profile):
        if times[k] >= end_s:
            return True
        if level[k] < nodes:
            return False
    return True


@kernel()
def reserve_level(state: State, nodes: int, near: int, from_s: int, to_s: int) -> int:
    """Reserve nodes in the profile between two times, the first near step ``near``.

    Returns:
        The fewest nodes that remain free between them.
    """
    times, level, n = state.profile_s, state.level, state.clock[0].n_profile
    first = near
    while times[first] > from_s:
        first -= 1
    if times[first] < from_s:
        first += 1
        insert_level(state, first, from_s, level[first - 1])
        n += 1
    last = n
    if to_s < NEVER_S:
        last = first + first_from(times[first:n], to_s)
        if last == n or times[last] > to_s:
            insert_level(state, last, to_s, level[last - 1])
    taken = level[first:last]
    lowest = NEVER_S
    for k in range(len(taken)):
        taken[k] -= nodes
        lowest = min(lowest, taken[k])
    return int(lowest)


@kernel()
def first_from(times: Any, time_s: int) -> int:
    """Index of the first of ascending times that is at or after another.

    The number of times where there is none.
    """
    for k in range(len(times)):
        if times[k] >= time_s:
            return k
    return len(times)


@kernel()
def insert_level(state: State, k: int, time_s: int, nodes: int) -> None:
    """Insert a step with ``nodes`` free at a time, as the k-th."""
    n = state.clock[0].n_profile
    insert_at(state.profile_s, k, n, time_s)
    insert_at(state.level, k, n, nodes)
    state.clock[0].n_profile = n + 1
