"""The availability profile: what is free if running jobs use their full limits.

``profile_s[k]`` is when the k-th step begins and ``profile[k]`` what each bin has free in it; the first begins now and
the last never ends. Times are exact; nothing is rounded to slots.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import unsigned
from mirage.sim.kernel.arrays import NEVER_S, NIL, Scratch, State, World
from mirage.sim.kernel.job_lifecycle import pending
from mirage.sim.kernel.pool_profile import (
    earliest_level,
    forget_past_level,
    lasts_from_now,
    rebuild_level,
    reserve_level,
)
from mirage.sim.kernel.resources.amounts import MEMORY, copy_amounts, set_least, with_memory
from mirage.sim.kernel.resources.holding import add_held, release_into
from mirage.sim.kernel.resources.node_changes import change_level, felt_s, next_known
from mirage.sim.kernel.resources.node_selection import memory_need, most_nodes, need, pick, room

FIRST_WINDOW_S = 30
"""First window within which Slurm takes the ends of running jobs as one (select/cons_tres)."""


@kernel()
def one_pool(world: World) -> bool:
    """Whether the cluster is a single pool of whole nodes, which has a simpler profile."""
    return bool(world.capacity.shape[0] == 1 and world.settings[0].stacked == 1)


@kernel()
def rebuild(world: World, state: State, grouped: bool) -> None:
    """Rebuild the profile from running jobs, nodes in turnover, and reservations.

    Args:
        grouped: Where nodes are shared, jobs with limits that end within a window free their nodes together, at the end
            of the last of them. The first window ends 30 to 60 s after the first end, each later one twice as far from
            there as the one before (``_will_run_test`` in Slurm's select/cons_tres/job_test.c).
    """
    if one_pool(world):
        rebuild_level(world, state)
        return
    clock, live = state.clock[0], state.live
    profile_s, profile = state.profile_s, state.profile
    profile_s[0] = clock.now_s
    copy_amounts(profile[0], state.free)
    clock.n_profile = 1
    known = next_known(world, state, clock.changed_capacity)
    for k in range(clock.n_completing):
        left = state.completing[k]
        known = foresee(world, state, known, left.until_s)
        n = stretch_from(state, left.until_s)
        add_held(world, state, left.width, left.chunk, profile[n])
    anchor_s, window_s, together_s = 0, FIRST_WINDOW_S, -NEVER_S
    for k in range(clock.n_running):
        slot = state.running[k]
        end_s = max(live[slot].limit_end_s, clock.now_s + 1)  # a job at its limit ends at once
        if grouped:
            if k == 0:
                anchor_s = end_s - end_s % FIRST_WINDOW_S + FIRST_WINDOW_S
            if end_s > together_s:
                while anchor_s + window_s < end_s:
                    window_s *= 2
                together_s = max(end_s, last_end_until(state, k, anchor_s + window_s))
                window_s *= 2
            end_s = together_s
        known = foresee(world, state, known, end_s + world.settings[0].turnover_s)
        n = stretch_from(state, end_s + world.settings[0].turnover_s)
        release_into(world, state, slot, profile[n])
    foresee(world, state, known, NEVER_S)


@kernel()
def last_end_until(state: State, first: int, until_s: int) -> int:
    """The last limit end by ``until_s`` of running jobs from index ``first``; 0 for none."""
    live, running = state.live, state.running
    last_s = 0
    k = first
    while k < state.clock[0].n_running and live[running[k]].limit_end_s <= until_s:
        last_s = live[running[k]].limit_end_s
        k += 1
    return int(last_s)


@kernel()
def foresee(world: World, state: State, known: int, until_s: int) -> int:
    """Append the known changes of capacity effective before ``until_s``.

    Returns the index of the next one.
    """
    while known < len(world.changes) and felt_s(world, known) < until_s:
        change = world.changes[known]
        change_level(world, change, state.profile[stretch_from(state, felt_s(world, known))])
        known = next_known(world, state, known + 1)
    return known


@kernel()
def stretch_from(state: State, time_s: int) -> int:
    """The last step of a growing profile, a new one where it begins before ``time_s``."""
    n, profile_s, profile = state.clock[0].n_profile, state.profile_s, state.profile
    if time_s > profile_s[n - 1]:
        profile_s[n] = time_s
        copy_amounts(profile[n], profile[n - 1])
        n += 1
        state.clock[0].n_profile = n
    return int(n - 1)


@kernel(inline="always")
def occupies_s(world: World, job: Any) -> int:
    """Duration for which a plan reserves the nodes of a job: its limit and the turnover."""
    return int(job.limit_s + world.settings[0].turnover_s)


@kernel()
def forget_past(world: World, state: State) -> None:
    """Drop the steps that are over, so that the first begins now."""
    if one_pool(world):
        forget_past_level(state)
        return
    clock, profile_s, profile = state.clock[0], state.profile_s, state.profile
    n = clock.n_profile
    gone = 0
    while gone + 1 < n and profile_s[gone + 1] <= clock.now_s:
        gone += 1
    if gone > 0:
        n -= gone
        for k in range(n):
            profile_s[k] = profile_s[k + gone]
            copy_amounts(profile[k], profile[k + gone])
        clock.n_profile = n
    profile_s[0] = clock.now_s


@kernel()
def earliest(world: World, state: State, scratch: Scratch, job: Any) -> int:
    """The earliest step at which a job can start and run to its limit; -1 for none.

    If there is one, ``scratch.picked`` holds its nodes.
    """
    if one_pool(world):
        scratch.picked[0] = job.nodes
        if not state.allowed[job.partition, 0]:
            return NIL
        return earliest_level(state, job.nodes, occupies_s(world, job))
    for k in range(state.clock[0].n_profile):
        if lasts_from(world, state, scratch, job, k) and pick(world, state, scratch, scratch.low, job, job.nodes):
            return k
    return NIL


@kernel()
def fits_plan(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Whether a job can start now and run to its limit within the plan.

    If so, ``scratch.picked`` holds its nodes.
    """
    if one_pool(world):
        scratch.picked[0] = job.nodes
        return bool(state.allowed[job.partition, 0] and lasts_from_now(state, job.nodes, occupies_s(world, job)))
    return lasts_from(world, state, scratch, job, 0) and pick(world, state, scratch, scratch.low, job, job.nodes)


@kernel()
def lasts_from(world: World, state: State, scratch: Scratch, job: Any, first: int) -> bool:
    """Whether there is room for a job from the beginning of step ``first`` until its limit.

    If so, ``scratch.low`` holds what every bin has free throughout.
    """
    profile_s, profile, low = state.profile_s, state.profile, scratch.low
    end_s = profile_s[first] + occupies_s(world, job)
    copy_amounts(low, profile[first])
    possible = room(world, state, low, job) >= job.nodes
    k = first + 1
    while possible and k < state.clock[0].n_profile and profile_s[k] < end_s:
        set_least(low, low, profile[k])
        possible = room(world, state, low, job) >= job.nodes
        k += 1
    return bool(possible)


@kernel()
def last_to_start(world: World, state: State, scratch: Scratch, first: int, last: int) -> int:
    """The last queue index, ``first`` to ``last``, of a job that may start in the plan.

    Below ``first`` if there is none. Planning only reserves nodes, so no job after it will start now, however the jobs
    before it are planned.
    """
    live, queue = state.live, pending(state)
    if one_pool(world):
        while last >= first and not lasts_from_now(
            state, live[queue[last]].nodes, occupies_s(world, live[queue[last]])
        ):
            last -= 1
    else:
        while last >= first and not lasts_from(world, state, scratch, live[queue[last]], 0):
            last -= 1
    return last


@kernel()
def last_that_fits(world: World, state: State, first: int, last: int) -> int:
    """The last queue index, ``first`` to ``last``, of a job that fits now, ignoring plans.

    Below ``first`` if there is none.
    """
    live, queue = state.live, pending(state)
    most = most_nodes(world, state.free)
    if most < 1:
        return first - 1
    while last >= first:
        job = live[unsigned(queue[unsigned(last)])]
        if job.nodes <= most and room(world, state, state.free, job) >= job.nodes:
            break
        last -= 1
    return last


@kernel()
def split(world: World, state: State, time_s: int) -> int:
    """Make a step begin at a time (if none does) and return its index."""
    clock, profile_s, profile = state.clock[0], state.profile_s, state.profile
    n = clock.n_profile
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if profile_s[middle] < time_s:
            low = middle + 1
        else:
            high = middle
    if low < n and profile_s[low] == time_s:
        return low
    for k in range(n, low, -1):
        profile_s[k] = profile_s[k - 1]
        copy_amounts(profile[k], profile[k - 1])
    profile_s[low] = time_s
    copy_amounts(profile[low], profile[low - 1])
    clock.n_profile = n + 1
    return low


@kernel()
def reserve(world: World, state: State, scratch: Scratch, job: Any, near: int, from_s: int, to_s: int) -> None:
    """Reserve the nodes in ``scratch.picked`` in the profile between two times.

    The first time is near step ``near``.
    """
    if one_pool(world):
        reserve_level(state, job.nodes, near, from_s, to_s)
        return
    first = split(world, state, from_s)
    last = state.clock[0].n_profile if to_s >= NEVER_S else split(world, state, to_s)
    for b in range(world.capacity.shape[0]):
        count = scratch.picked[b]
        if count > 0:
            gpus, cpus = need(world, b, job)
            for k in range(first, last):
                state.profile[k, b, 0] -= count * gpus
                state.profile[k, b, 1] -= count * cpus
            if with_memory(world.capacity):
                memory = memory_need(world, b, job)
                for k in range(first, last):
                    state.profile[k, b, MEMORY] -= count * memory
