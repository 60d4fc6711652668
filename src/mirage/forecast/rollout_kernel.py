"""Roll-outs: the kernel that runs the visible queue forward many times."""

from __future__ import annotations

from typing import Any

from numba import bool_, boolean, float64, int64

from mirage.duration import DAY_S
from mirage.sim.kernel.allocate import copy_state
from mirage.sim.kernel.arrays import (
    DISCIPLINE_TYPE,
    JOBS_TYPE,
    NEEDS_ROOM,
    NEVER_S,
    NOBODY,
    REACHED,
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
from mirage.sim.kernel.lifecycle import admit, has_slot, pending, push_end, unqueue

NOT_PLAYED = -1
"""In place of a start: this delay's is read off its neighbours'."""


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
def first_since(past: Any, time_s: int) -> int:
    """The first of some jobs by submit time that was submitted at a time or later."""
    low, high = 0, len(past)
    while low < high:
        middle = (low + high) >> 1
        if past[middle].submit_s < time_s:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(int64(JOBS_TYPE, int64[::1], int64))
def count_arrivals(past: Any, days: Any, now: int) -> int:
    """How many jobs some days of the past bring."""
    found = 0
    for ahead in range(len(days)):
        if days[ahead] > 0:
            begin_s = now - days[ahead] * DAY_S
            found += first_since(past, begin_s + DAY_S) - first_since(past, begin_s)
    return found


@kernel()
def draw_arrivals(world: World, state: State, past: Any, again: Any, days: Any, first_id: int) -> None:
    """Fill ``world.jobs`` with days of the past, each moved to follow the one before.

    A job that has not ended yet comes again with the run time that this future gives it.

    Args:
        past: JOB records by submit time.
        again: Shape (past,): slot of each that runs or waits now, ``NOBODY`` where it has ended.
        days: For each day to come, how many days back its model lies; 0 for a day without arrivals.
        first_id: Ids of the jobs that come are counted from it.
    """
    now = state.clock[0].now_s
    made = 0
    for ahead in range(len(days)):
        if days[ahead] == 0:
            continue
        shift = (days[ahead] + ahead) * DAY_S
        begin_s = now - days[ahead] * DAY_S
        k = first_since(past, begin_s)
        while k < len(past) and past[k].submit_s < begin_s + DAY_S:
            world.jobs[made] = past[k]
            world.jobs[made].submit_s = past[k].submit_s + shift
            world.jobs[made].id = first_id + made
            if again[k] != NOBODY:
                world.jobs[made].run_s = state.live[again[k]].run_s
            made += 1
            k += 1
    for k in range(made, len(world.jobs)):
        world.jobs[k].submit_s = NEVER_S


@kernel()
def pass_time(world: World, state: State, scratch: Scratch, discipline: Any, until_s: int) -> int:
    """Let time pass as ``advance`` does; segments that have ended are forgotten, as nobody reads them."""
    while True:
        came_back = advance(world, state, scratch, discipline, until_s)
        if came_back != NEEDS_ROOM or state.clock[0].n_log == 0:
            return came_back
        state.clock[0].n_log = 0


@kernel()
def approach(world: World, state: State, scratch: Scratch, discipline: Any, time_s: int) -> int:
    """Let time pass to just before ``time_s``."""
    if time_s <= state.clock[0].now_s:
        return REACHED
    came_back = pass_time(world, state, scratch, discipline, time_s - 1)
    if came_back == REACHED:
        state.clock[0].now_s = time_s
    return came_back


@kernel()
def submit_link(world: World, state: State, link: Any) -> None:
    """The next link competes from now on, and is watched.

    One that was eligible before, held since, has the age that it had then, as in Slurm; any other is submitted now.
    """
    aged = link.eligible_s < NEVER_S
    if not aged:
        link.submit_s = state.clock[0].now_s
    slot = admit(world, state, link)
    if aged:
        state.live[slot].eligible_s = link.eligible_s
    state.clock[0].watch_slot = slot
    wake_now(state)


@kernel(boolean(STATE_TYPE, int64))
def leave_queue(state: State, slot: int) -> bool:
    """Take the job in a slot out of the queue, as if it were held; False when it is not there."""
    queue = pending(state)
    for at in range(state.clock[0].n_pending):
        if queue[at] == slot:
            unqueue(state, at)
            return True
    return False


@kernel()
def fill_between(starts_s: Any, offsets_s: Any) -> None:
    """Read starts that were not played off those of the delays on either side."""
    before = 0
    for k in range(1, len(offsets_s)):
        if starts_s[k] == NOT_PLAYED:
            continue
        for between in range(before + 1, k):
            share = (offsets_s[between] - offsets_s[before]) / (offsets_s[k] - offsets_s[before])
            starts_s[between] = starts_s[before] + int(share * (starts_s[k] - starts_s[before]))
        before = k


@kernel(
    int64(
        WORLD_TYPE, STATE_TYPE, STATE_TYPE, STATE_TYPE, SCRATCH_TYPE, DISCIPLINE_TYPE,
        float64[::1], int64[:, ::1], float64[:, ::1], JOBS_TYPE, int64[::1], int64[:, ::1], JOBS_TYPE,
        int64, int64, int64[::1], bool_[::1], int64, int64[:, ::1],
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
    again: Any,
    days: Any,
    link: Any,
    waiting: int,
    sure: int,
    offsets_s: Any,
    anchors: Any,
    until_s: int,
    starts_s: Any,
) -> int:
    """Play many futures, and in each submit the next link after every one of some delays.

    The same futures serve all delays, so that their difference is the delay's alone. Where a link submitted earlier
    still waits at the next anchor, the delays up to there are not played: a start between those of its neighbours is
    near enough. Where it still waits when the future is left off, so does one submitted later.

    Args:
        seen: The cluster as the view shows it.
        base: Arrays as large as ``seen``'s: a future without the link.
        branch: The same: a future with it.
        chance: Shape (futures, jobs).
        again: Shape (past,), as ``draw_arrivals`` takes it.
        days: Shape (futures, days ahead).
        link: Shape (futures,), JOB records: the next link, as it will stand in every future.
        waiting: Slot of a pending job that is watched in the place of a link, which is not submitted then;
            ``NOBODY`` for none.
        offsets_s: Shape (delays,), ascending from 0.
        anchors: Shape (delays,): which delays are always played; the first and the last are.
        until_s: A link that has not started by then is taken to start then, or later by its delay.
        starts_s: Shape (futures, delays), written: when the link starts.

    Returns:
        ``REACHED``, or why it could not go on: how ``advance`` came back.
    """
    now = seen.clock[0].now_s
    for future in range(starts_s.shape[0]):
        copy_state(base, seen)
        draw_runs(base, samples, stretch, chance[future], sure)
        draw_arrivals(world, base, past, again, days[future], chance.shape[1])
        base.clock[0].arrived = 0
        wake_now(base)  # who was submitted since the scheduler last looked may start at once
        waits_until_s = now
        for k in range(len(offsets_s)):
            if waits_until_s >= until_s:
                starts_s[future, k] = until_s + offsets_s[k]
                continue
            if not anchors[k]:
                anchor = k + 1
                while not anchors[anchor]:
                    anchor += 1
                if waits_until_s >= now + offsets_s[anchor]:
                    starts_s[future, k] = NOT_PLAYED
                    continue
            came_back = approach(world, base, scratch, discipline, now + offsets_s[k])
            if came_back != REACHED:
                return came_back
            copy_state(branch, base)
            if waiting != NOBODY:
                branch.clock[0].watch_slot = waiting
            elif not has_slot(branch):
                return NEEDS_ROOM
            else:
                submit_link(world, branch, link[future])
            came_back = pass_time(world, branch, scratch, discipline, until_s)
            if came_back == STARTED_WATCHED:
                starts_s[future, k] = branch.clock[0].now_s
            elif came_back == REACHED:
                starts_s[future, k] = until_s + offsets_s[k]
            else:
                return came_back
            waits_until_s = starts_s[future, k]
        fill_between(starts_s[future], offsets_s)
    return REACHED
