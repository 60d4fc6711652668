"""The availability profile: what is free from now on, if running jobs use up their limits.

``profile_s[k]`` is when the k-th stretch begins and ``profile[k]`` what each bin has free in it; the first begins now
and the last never ends. Times are exact; nothing is rounded to slots.
"""

from __future__ import annotations

from typing import Any

from mirage.sim.compile import kernel
from mirage.sim.layout import N_PROFILE, N_RUNNING, NEVER_S, NOBODY, NOW, Scratch, State, World
from mirage.sim.pool_profile import earliest_level, forget_past_level, rebuild_level, reserve_level
from mirage.sim.resources import hosts, need, pick, release_into, room


@kernel()
def one_pool(world: World) -> bool:
    """Whether the cluster is a single pool of whole nodes, which has a simpler profile."""
    return bool(world.capacity.shape[0] == 1 and world.settings[0].stacked == 1)


@kernel()
def rebuild(world: World, state: State) -> None:
    """Start afresh from the running jobs."""
    if one_pool(world):
        rebuild_level(state)
        return
    clock, live = state.clock, state.live
    profile_s, profile = state.profile_s, state.profile
    bins = world.capacity.shape[0]
    profile_s[0] = clock[NOW]
    for b in range(bins):
        profile[0, b, 0] = state.free[b, 0]
        profile[0, b, 1] = state.free[b, 1]
    n = 1
    for k in range(clock[N_RUNNING]):
        slot = state.running[k]
        end_s = max(live[slot].limit_end_s, clock[NOW] + 1)  # a job at its limit goes at once
        if end_s > profile_s[n - 1]:
            profile_s[n] = end_s
            for b in range(bins):
                profile[n, b, 0] = profile[n - 1, b, 0]
                profile[n, b, 1] = profile[n - 1, b, 1]
            n += 1
        release_into(world, state, slot, profile[n - 1])
    clock[N_PROFILE] = n


@kernel()
def forget_past(world: World, state: State) -> None:
    """Drop the stretches that are over, so that the first begins now."""
    if one_pool(world):
        forget_past_level(state)
        return
    clock, profile_s, profile = state.clock, state.profile_s, state.profile
    n = clock[N_PROFILE]
    gone = 0
    while gone + 1 < n and profile_s[gone + 1] <= clock[NOW]:
        gone += 1
    if gone > 0:
        n -= gone
        for k in range(n):
            profile_s[k] = profile_s[k + gone]
            for b in range(world.capacity.shape[0]):
                profile[k, b, 0] = profile[k + gone, b, 0]
                profile[k, b, 1] = profile[k + gone, b, 1]
        clock[N_PROFILE] = n
    profile_s[0] = clock[NOW]


@kernel()
def earliest(world: World, state: State, scratch: Scratch, job: Any) -> int:
    """The earliest stretch at whose beginning a job can start and run to its limit, or ``NOBODY``.

    ``scratch.picked`` then says where.
    """
    if one_pool(world):
        scratch.picked[0] = job.nodes
        if not state.allowed[job.partition, 0]:
            return NOBODY
        return earliest_level(state, job.nodes, job.limit_s)
    n = state.clock[N_PROFILE]
    profile_s, profile = state.profile_s, state.profile
    bins = world.capacity.shape[0]
    low = scratch.low
    k = 0
    while k < n:
        end_s = profile_s[k] + job.limit_s
        for b in range(bins):
            low[b, 0] = profile[k, b, 0]
            low[b, 1] = profile[k, b, 1]
        after = k
        possible = room(world, state, low, job) >= job.nodes
        while possible and after + 1 < n and profile_s[after + 1] < end_s:
            after += 1
            for b in range(bins):
                low[b, 0] = min(low[b, 0], profile[after, b, 0])
                low[b, 1] = min(low[b, 1], profile[after, b, 1])
            possible = room(world, state, low, job) >= job.nodes
        if possible and pick(world, state, scratch, low, job, job.nodes):
            return k
        k += 1
    return NOBODY


@kernel()
def split(world: World, state: State, time_s: int) -> int:
    """Make a stretch begin at a time (if none does) and return which."""
    clock, profile_s, profile = state.clock, state.profile_s, state.profile
    n = clock[N_PROFILE]
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if profile_s[middle] < time_s:
            low = middle + 1
        else:
            high = middle
    if low < n and profile_s[low] == time_s:
        return low
    bins = world.capacity.shape[0]
    for k in range(n, low, -1):
        profile_s[k] = profile_s[k - 1]
        for b in range(bins):
            profile[k, b, 0] = profile[k - 1, b, 0]
            profile[k, b, 1] = profile[k - 1, b, 1]
    profile_s[low] = time_s
    for b in range(bins):
        profile[low, b, 0] = profile[low - 1, b, 0]
        profile[low, b, 1] = profile[low - 1, b, 1]
    clock[N_PROFILE] = n + 1
    return low


@kernel()
def reserve(world: World, state: State, scratch: Scratch, job: Any, from_s: int, to_s: int) -> None:
    """Take the nodes in ``scratch.picked`` out of the profile between two times."""
    if one_pool(world):
        reserve_level(state, job.nodes, from_s, to_s)
        return
    first = split(world, state, from_s)
    last = state.clock[N_PROFILE] if to_s >= NEVER_S else split(world, state, to_s)
    for b in range(world.capacity.shape[0]):
        count = scratch.picked[b]
        if count > 0:
            gpus, cpus = need(world, b, job)
            for k in range(first, last):
                state.profile[k, b, 0] -= count * gpus
                state.profile[k, b, 1] -= count * cpus


@kernel()
def can_host_now(world: World, state: State, job: Any) -> bool:
    """Whether what is free now would hold a job, reservations aside."""
    if world.capacity.shape[0] == 1:
        return hosts(world, 0, state.free[0, 0], state.free[0, 1], job) >= job.nodes
    return room(world, state, state.free, job) >= job.nodes
