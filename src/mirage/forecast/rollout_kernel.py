"""Roll-outs: the kernel that simulates the visible queue forward many times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import bool_, boolean, int64, typeof

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S
from mirage.forecast.past_arrivals import ARRIVAL, ARRIVALS_TYPE
from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records, records
from mirage.sim.kernel.allocate import copy_state
from mirage.sim.kernel.arrays import (
    DISCIPLINE_TYPE,
    NEEDS_ROOM,
    NEVER_S,
    NO_JOB,
    REACHED,
    REQUESTS_TYPE,
    SCRATCH_TYPE,
    STARTED_WATCHED,
    STATE_TYPE,
    WORLD_TYPE,
    Scratch,
    State,
    World,
)
from mirage.sim.kernel.event_loop import advance, wake_now
from mirage.sim.kernel.job_lifecycle import admit, has_slot, pending, push_end, unqueue

NOT_PLAYED = -1
"""In place of a start: the start for this delay is interpolated from its neighbours."""


DRAWN_S = DAY_S // 4
"""Length of time for which arrivals are drawn at once: most futures end before a day has passed."""


class FutureDraws(NamedTuple):
    """The draws for some futures, and the samples that they select."""

    samples: Floats  # see ``Uses``
    stretch: Ints
    chance: Floats  # (futures, jobs), uniform in [0, 1)
    past: Records  # ARRIVAL, by submit time
    again: Ints  # (past,), slot of each that is waiting or running now, ``NO_JOB`` where it has ended
    days: Ints  # (futures, days ahead), age in days of the model of each; 0 for a day without arrivals
    sure: int  # slot of the one job known to run until its limit: the present link
    now_s: int  # begin of the futures


def _example() -> FutureDraws:
    f1, i1 = np.zeros(1), np.zeros(1, np.int64)
    return FutureDraws(
        f1, np.zeros((1, 2), np.int64), np.zeros((1, 1)), records(ARRIVAL, 1), i1, np.zeros((1, 1), np.int64), 0, 0
    )


DRAWS_TYPE = typeof(_example())  # type: ignore[no-untyped-call]


@kernel()
def drawn_run_s(draws: FutureDraws, future: int, slot: int, limit_s: int) -> int:
    """Returns the run time of the visible job in a slot, in one of the futures."""
    first, last = draws.stretch[slot, 0], draws.stretch[slot, 1]
    use = 1.0 if slot == draws.sure else draws.samples[first + int(draws.chance[future, slot] * (last - first))]
    return max(int(use * limit_s), 1)


@kernel()
def draw_runs(state: State, draws: FutureDraws, future: int) -> None:
    """Assigns a run time to every visible job."""
    clock, live = state.clock[0], state.live
    now = clock.now_s
    for slot in range(draws.chance.shape[1]):
        live[slot].run_s = drawn_run_s(draws, future, slot, live[slot].limit_s)
    clock.n_heap = 0
    for k in range(clock.n_running):
        slot = state.running[k]
        job = live[slot]
        job.end_s = max(min(job.start_s + job.run_s, job.limit_end_s), now + 1)
        push_end(state, slot, job.end_s)


@kernel()
def first_since(past: Any, time_s: int) -> int:
    """Returns the index of the first job, by submit time, submitted at a time or later."""
    low, high = 0, len(past)
    while low < high:
        middle = (low + high) >> 1
        if past[middle].submit_s < time_s:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(int64(ARRIVALS_TYPE, int64[:, ::1], int64))
def most_arrivals(past: Any, days: Any, now: int) -> int:
    """Returns the largest number of jobs that days of the past bring, in any future.

    Args:
        past: ARRIVAL records by submit time.
        days: Shape (futures, days ahead), rows as in ``draw_arrivals``.
    """
    most = 0
    for future in range(days.shape[0]):
        found = 0
        for ahead in range(days.shape[1]):
            if days[future, ahead] > 0:
                begin_s = now - days[future, ahead] * DAY_S
                found += first_since(past, begin_s + DAY_S) - first_since(past, begin_s)
        most = max(most, found)
    return most


@kernel()
def draw_arrivals(world: World, draws: FutureDraws, future: int, drawn: Any) -> None:
    """Writes the next stretch of arrivals, of a past day moved ahead, into ``world.jobs``.

    A job that has not ended yet arrives again with the run time that this future gives it.

    Args:
        drawn: Shape (2,): number of stretches of ``DRAWN_S`` drawn so far, and number of jobs in them; updated.
    """
    ahead_s, made = drawn[0] * DRAWN_S, drawn[1]
    past, day = draws.past, draws.days[future, ahead_s // DAY_S]
    begin_s = draws.now_s - day * DAY_S + ahead_s % DAY_S
    k = first_since(past, begin_s) if day > 0 else len(past)
    while k < len(past) and past[k].submit_s < begin_s + DRAWN_S:
        model, job, slot = past[k], world.jobs[made], draws.again[k]
        job.id = draws.chance.shape[1] + made
        job.submit_s = model.submit_s - begin_s + draws.now_s + ahead_s
        job.run_s = model.run_s if slot == NO_JOB else drawn_run_s(draws, future, slot, model.limit_s)
        job.limit_s = model.limit_s
        job.nodes = model.nodes
        job.gpus = model.gpus
        job.cpus = model.cpus
        job.user = model.user
        job.partition = model.partition
        job.priority_offset = model.priority_offset
        job.after = NO_JOB
        job.begin_s = MISSING
        made += 1
        k += 1
    if made < len(world.jobs):
        world.jobs[made].submit_s = NEVER_S
    drawn[0] += 1
    drawn[1] = made


@kernel()
def pass_time(
    world: World,
    state: State,
    scratch: Scratch,
    discipline: Any,
    until_s: int,
    draws: FutureDraws,
    future: int,
    drawn: Any,
) -> int:
    """Advances time like ``advance``, and draws arrivals on the way.

    Segments that have ended are discarded: nothing reads them.
    """
    while True:
        reach_s = until_s
        if drawn[0] * DRAWN_S < draws.days.shape[1] * DAY_S:
            reach_s = min(until_s, draws.now_s + drawn[0] * DRAWN_S - 1)
        came_back = advance(world, state, scratch, discipline, reach_s)
        if came_back == REACHED and reach_s < until_s:
            draw_arrivals(world, draws, future, drawn)
        elif came_back == NEEDS_ROOM and state.clock[0].n_log > 0:
            state.clock[0].n_log = 0
        else:
            return came_back


@kernel()
def submit_link(world: World, state: State, link: Any) -> None:
    """Submits the next link now, and watches it.

    A link that was eligible before it was held has its age of that time, as in Slurm; any other is submitted now.
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
    """Takes the job in a slot out of the queue, as if held; False when it is not there."""
    queue = pending(state)
    for at in range(state.clock[0].n_pending):
        if queue[at] == slot:
            unqueue(state, at)
            return True
    return False


@kernel()
def fill_between(starts_s: Any, offsets_s: Any) -> None:
    """Interpolates starts that were not simulated between those of the neighbouring delays."""
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
        WORLD_TYPE, STATE_TYPE, STATE_TYPE, STATE_TYPE, SCRATCH_TYPE, DISCIPLINE_TYPE, DRAWS_TYPE, int64[::1],
        REQUESTS_TYPE, int64, int64[::1], bool_[::1], int64, int64[:, ::1],
    )
)  # fmt: skip
def roll_out(
    world: World,
    observed: State,
    base: State,
    branch: State,
    scratch: Scratch,
    discipline: Any,
    draws: FutureDraws,
    drawn: Any,
    link: Any,
    waiting: int,
    offsets_s: Any,
    anchors: Any,
    until_s: int,
    starts_s: Any,
) -> int:
    """Simulates many futures, each with the next link submitted after each of some delays.

    The same futures serve all delays, so that they differ only by the delay. Where a link submitted earlier still waits
    at the next anchor, the delays up to there are not simulated: a start interpolated between its neighbours is
    accurate enough. Where it still waits when the future is cut off, so does one submitted later.

    Args:
        observed: The cluster as the view reports it.
        base: Arrays as large as ``observed``'s: a future without the link.
        branch: Arrays of the same size: a future with it.
        drawn: Scratch space, see ``draw_arrivals``.
        link: Shape (futures,), REQUEST records: the next link in every future.
        waiting: Slot of a pending job that is watched instead of a link, which is not submitted then; ``NO_JOB`` for
            none.
        offsets_s: Shape (delays,), ascending from 0.
        anchors: Shape (delays,): the delays that are always simulated, among them the first and the last.
        until_s: A link that has not started by then is assumed to start then, or later by its delay.
        starts_s: Shape (futures, delays), written: when the link starts.

    Returns:
        ``REACHED``, or the result of ``advance`` that stopped it.
    """
    now = draws.now_s
    for future in range(starts_s.shape[0]):
        copy_state(base, observed)
        draw_runs(base, draws, future)
        drawn[:] = 0
        draw_arrivals(world, draws, future, drawn)
        base.clock[0].arrived = 0
        wake_now(base)  # jobs submitted since the scheduler's last pass may start at once
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
            submit_s = now + offsets_s[k]
            if submit_s > base.clock[0].now_s:  # up to just before the submission
                came_back = pass_time(world, base, scratch, discipline, submit_s - 1, draws, future, drawn)
                if came_back != REACHED:
                    return came_back
                base.clock[0].now_s = submit_s
            copy_state(branch, base)
            if waiting != NO_JOB:
                branch.clock[0].watch_slot = waiting
            elif not has_slot(branch):
                return NEEDS_ROOM
            else:
                submit_link(world, branch, link[future])
            came_back = pass_time(world, branch, scratch, discipline, until_s, draws, future, drawn)
            if came_back == STARTED_WATCHED:
                starts_s[future, k] = branch.clock[0].now_s
            elif came_back == REACHED:
                starts_s[future, k] = until_s + offsets_s[k]
            else:
                return came_back
            waits_until_s = starts_s[future, k]
        fill_between(starts_s[future], offsets_s)
    return REACHED
