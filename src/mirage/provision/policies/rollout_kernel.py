"""Rollouts: the kernel that runs the visible queue forward many times."""

from __future__ import annotations

from typing import Any

from numba import float64, int64, void

from mirage.duration import DAY_S
from mirage.sim.kernel.allocate import copy_state
from mirage.sim.kernel.arrays import (
    DISCIPLINE_TYPE,
    JOBS_TYPE,
    NEVER_S,
    SCRATCH_TYPE,
    STARTED_WATCHED,
    STATE_TYPE,
    WORLD_TYPE,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.compile import kernel
from mirage.sim.kernel.engine import advance, wake_now
from mirage.sim.kernel.lifecycle import admit, push_end


@kernel()
def draw_runs(state: State, samples: Any, stretch: Any, chance: Any, sure: int) -> None:
    """Give every visible job a run time.

    Args:
        chance: Shape (jobs,), uniform in [0, 1).
        sure: Slot of the one job known to run until its limit: the present link.
    """
    clock, live = state.clock[0], state.live
    now = clock.now_s
    for slot in range(len(chance)):
        job = live[slot]
        first, last = stretch[slot, 0], stretch[slot, 1]
        use = 1.0 if slot == sure else samples[first + int(chance[slot] * (last - first))]
        job.run_s = max(int(use * job.limit_s), 1)
    clock.n_heap = 0
    for k in range(clock.n_running):
        slot = state.running[k]
        job = live[slot]
        job.end_s = max(min(job.start_s + job.run_s, job.limit_end_s), now + 1)
        push_end(state, slot, job.end_s)


@kernel()
def draw_arrivals(world: World, past: Any, days: Any, now: int) -> None:
    """Fill ``world.jobs`` with days of the past, each moved to follow the one before.

    Args:
        past: JOB records by submit time.
        days: For each day to come, how many days back its model lies; 0 for a day without arrivals.
    """
    made = 0
    for ahead in range(len(days)):
        if days[ahead] == 0:
            continue
        shift = (days[ahead] + ahead) * DAY_S
        low, high = 0, len(past)
        while low < high:
            middle = (low + high) >> 1
            if past[middle].submit_s < now - days[ahead] * DAY_S:
                low = middle + 1
            else:
                high = middle
        k = low
        while k < len(past) and past[k].submit_s < now - (days[ahead] - 1) * DAY_S and made < len(world.jobs):
            world.jobs[made] = past[k]
            world.jobs[made].submit_s = past[k].submit_s + shift
            world.jobs[made].id = world.jobs[0].id + made
            made += 1
            k += 1
    for k in range(made, len(world.jobs)):
        world.jobs[k].submit_s = NEVER_S


@kernel()
def submit_link(world: World, state: State, link: Any) -> None:
    """The next link is submitted now, and watched."""
    link[0].submit_s = state.clock[0].now_s
    state.clock[0].watch_slot = admit(world, state, link[0])
    wake_now(state)


@kernel()
def approach(world: World, state: State, scratch: Scratch, discipline: Any, time_s: int) -> None:
    """Let time pass to just before ``time_s``."""
    if time_s > state.clock[0].now_s:
        advance(world, state, scratch, discipline, time_s - 1)
        state.clock[0].now_s = time_s


@kernel(
    void(
        WORLD_TYPE, STATE_TYPE, STATE_TYPE, STATE_TYPE, SCRATCH_TYPE, DISCIPLINE_TYPE,
        float64[::1], int64[:, ::1], float64[:, ::1], JOBS_TYPE, int64[:, ::1], JOBS_TYPE,
        int64, int64[::1], int64, int64[:, ::1],
    )
)  # fmt: skip
def roll_out(
    world: World,
    seen: State,
    base: State,
    branch: State,
    scratch: Scratch,
    discipline: Any,
    samples: Any,
    stretch: Any,
    chance: Any,
    past: Any,
    days: Any,
    link: Any,
    sure: int,
    offsets_s: Any,
    until_s: int,
    starts_s: Any,
) -> None:
    """Play many futures, and in each submit the next link after every one of some delays.

    The same futures serve all delays, so that their difference is the delay's alone.

    Args:
        seen: The cluster as the view shows it.
        base: Arrays as large as ``seen``'s: a future without the link.
        branch: The same: a future with it.
        chance: Shape (futures, jobs).
        days: Shape (futures, days ahead).
        offsets_s: Shape (delays,), ascending from 0.
        until_s: A link that has not started by then is taken to start then.
        starts_s: Shape (futures, delays), written: when the link starts.
    """
    now = seen.clock[0].now_s
    for future in range(starts_s.shape[0]):
        copy_state(base, seen)
        draw_runs(base, samples, stretch, chance[future], sure)
        draw_arrivals(world, past, days[future], now)
        base.clock[0].arrived = 0
        for k in range(len(offsets_s)):
            approach(world, base, scratch, discipline, now + offsets_s[k])
            copy_state(branch, base)
            submit_link(world, branch, link)
            came_back = advance(world, branch, scratch, discipline, until_s)
            starts_s[future, k] = branch.clock[0].now_s if came_back == STARTED_WATCHED else until_s
