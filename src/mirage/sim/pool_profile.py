"""The availability profile of one pool of whole nodes: a step function in one dimension.

The general profile answers the same questions for many bins; this is the case that most studies, and most clusters
that give out whole nodes, need, and it is ten times as fast.
"""

from __future__ import annotations

from mirage.sim.compile import kernel
from mirage.sim.layout import N_PROFILE, N_RUNNING, NEVER_S, NOBODY, NOW, State
from mirage.sim.order import put_in


@kernel()
def rebuild_level(state: State) -> None:
    """Start afresh from the running jobs."""
    clock, live, running = state.clock, state.live, state.running
    times, level = state.profile_s, state.level
    now = clock[NOW]
    free = state.free[0, 0]
    times[0] = now
    level[0] = free
    n = 1
    for k in range(clock[N_RUNNING]):
        job = live[running[k]]
        end_s = max(job.limit_end_s, now + 1)  # a job at its limit goes at once
        free += job.width
        if end_s > times[n - 1]:
            times[n] = end_s
            n += 1
        level[n - 1] = free
    clock[N_PROFILE] = n


@kernel()
def forget_past_level(state: State) -> None:
    """Drop the stretches that are over, so that the first begins now."""
    clock, times, level = state.clock, state.profile_s, state.level
    n = clock[N_PROFILE]
    gone = 0
    while gone + 1 < n and times[gone + 1] <= clock[NOW]:
        gone += 1
    if gone > 0:
        n -= gone
        for k in range(n):
            times[k] = times[k + gone]
        for k in range(n):
            level[k] = level[k + gone]
        clock[N_PROFILE] = n
    times[0] = clock[NOW]


@kernel()
def earliest_level(state: State, nodes: int, limit_s: int) -> int:
    """The earliest stretch from whose beginning ``nodes`` are free for ``limit_s``, or ``NOBODY``.

    A stretch too full rules out every start before it.
    """
    times, level = state.profile_s, state.level
    n = state.clock[N_PROFILE]
    k = 0
    while True:
        while k < n and level[k] < nodes:
            k += 1
        if k == n:
            return NOBODY
        end_s = times[k] + limit_s
        after = k + 1
        while after < n and times[after] < end_s and level[after] >= nodes:
            after += 1
        if after == n or times[after] >= end_s:
            return k
        k = after + 1


@kernel()
def split_level(state: State, time_s: int) -> int:
    """Make a stretch begin at a time (if none does) and return which."""
    clock, times, level = state.clock, state.profile_s, state.level
    n = clock[N_PROFILE]
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < time_s:
            low = middle + 1
        else:
            high = middle
    if low < n and times[low] == time_s:
        return low
    put_in(times, low, n, time_s)
    put_in(level, low, n, level[low - 1])
    clock[N_PROFILE] = n + 1
    return low


@kernel()
def reserve_level(state: State, nodes: int, from_s: int, to_s: int) -> None:
    """Take nodes out of the profile between two times."""
    first = split_level(state, from_s)
    last = state.clock[N_PROFILE] if to_s >= NEVER_S else split_level(state, to_s)
    level = state.level
    for k in range(first, last):
        level[k] -= nodes
