"""Exchange of running jobs for jobs that precede them: preemption in SRTF and Tiresias.

For each waiting job, in order:

1. If it fits on free GPUs, it starts. GPUs of jobs that are leaving are reserved for the jobs that come first.
2. Otherwise jobs that hold GPUs and come after it are selected, the last first, until it fits. If it does not fit even
   then, it waits.
3. Selected jobs that are not necessary are spared, the first in order first.
4. The others are preempted. The job starts at once if their GPUs are free at once, otherwise when they have left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NO_JOB, GpuState, GpuWorld, PlanBuffer
from mirage.schedule.engine.kernel.gpu_lifecycle import settle, stops_after_s
from mirage.schedule.engine.kernel.gpu_packing import pack, shift
from mirage.schedule.engine.kernel.plan_writers import write_placed_start, write_preempt
from mirage.schedule.schedulers.job_queue import RUNS, WAITING, enter, precedes, remove, take_out
from mirage.schedule.schedulers.preemption import way_for_job

LEAVES, TAKEN = 4, 6
"""Columns of integers: the queue of leaving jobs; jobs selected for preemption."""

RANKS = 7
"""Columns of integers that the exchange needs."""


FITS, TAKES, MAKES_WAY = 1, 2, 3
"""Reasons by number: a start on free GPUs, one on GPUs of jobs preempted for it, and their preemption."""


class GpuAccount(NamedTuple):
    """Numbers of GPUs while a plan is made."""

    spare: int  # free at once
    coming: int  # free at once, or held by jobs that are leaving


@kernel()
def after(buffer: PlanBuffer, offset: float, other: int, job: int) -> bool:
    """Whether a job that holds GPUs comes after one that waits."""
    return precedes(buffer.memory[0], job, buffer.memory[0][other] - offset, other)


@kernel(forceinline=False)
def later_gpus(state: GpuState, buffer: PlanBuffer, offset: float, job: int, enough: int) -> int:
    """GPUs of jobs that come after a waiting job, counted until they are enough."""
    ids, ends = buffer.ranks[RUNS], buffer.ranks[RUNS + 1]
    gpus = 0
    for k in range(ends[1] - 1, ends[0] - 1, -1):
        if gpus >= enough or not after(buffer, offset, ids[k], job):
            break
        gpus += state.live[state.slot_of[ids[k]]].held
    return gpus


@kernel(forceinline=False)
def take_for(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, offset: float, coming: int) -> int:
    """Select jobs that come after this one until it fits into the free GPUs of the plan.

    Returns their number; 0 if the job does not fit.
    """
    ids, ends, taken = buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.ranks[TAKEN]
    n = 0
    for k in range(ends[1] - 1, ends[0] - 1, -1):
        if not after(buffer, offset, ids[k], job.id):
            break
        victim = state.live[state.slot_of[ids[k]]]
        shift(state, victim, buffer.free, 1)
        coming += victim.held
        taken[n] = ids[k]
        n += 1
        if coming >= job.gpus and pack(world, state, buffer.free, job, job.gpus, buffer.picked) > 0:
            return n
    for k in range(n):
        shift(state, state.live[state.slot_of[taken[k]]], buffer.free, -1)
    return 0


@kernel(forceinline=False)
def spare_taken(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, n: int) -> int:
    """Spare the selected jobs that are not necessary; returns the number of the others.

    The others are first in the list afterwards.
    """
    taken = buffer.ranks[TAKEN]
    for k in range(n - 1, -1, -1):
        victim = state.live[state.slot_of[taken[k]]]
        shift(state, victim, buffer.free, -1)
        if pack(world, state, buffer.free, job, job.gpus, buffer.picked) > 0:
            taken[k] = NO_JOB
        else:
            shift(state, victim, buffer.free, 1)
    left = 0
    for k in range(n):
        if taken[k] != NO_JOB:
            taken[left] = taken[k]
            left += 1
    return left


@kernel(forceinline=False)
def evict_taken(world: GpuWorld, state: GpuState, buffer: PlanBuffer, how: int, n: int, actions: int) -> int:
    """Write the preemptions of the selected jobs; returns the number of GPUs free at once."""
    taken, keys = buffer.ranks[TAKEN], buffer.memory[0]
    at_once = 0
    for k in range(n):
        victim = state.live[state.slot_of[taken[k]]]
        settle(victim, state.clock[0].now_s)  # as the engine will, before the job leaves
        way = way_for_job(victim, how)
        write_preempt(buffer, actions + k, victim.id, way, MAKES_WAY)
        remove(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], keys, victim.id)
        if stops_after_s(world, victim, way) > 0.0:
            enter(buffer.ranks[LEAVES], buffer.ranks[LEAVES + 1], keys, victim.id, keys[victim.id])
        else:
            at_once += shift(state, victim, buffer.spare, 1)
    return at_once


@kernel(forceinline=False)
def reserve(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any) -> int:
    """Reserve GPUs that are or will be free for a job, so that no later job takes them.

    Returns the decrease of the number of GPUs that are free at once.
    """
    lost = 0
    for k in range(pack(world, state, buffer.free, job, job.gpus, buffer.picked)):
        server = buffer.picked[k].server
        buffer.free[server] -= buffer.picked[k].gpus
        over = buffer.spare[server] - buffer.free[server]
        if over > 0:
            buffer.spare[server] -= over
            lost += over
    return lost


@kernel(forceinline=False)
def start_now(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, actions: int, job: Any, used: int, reason: int
) -> int:
    """Write the start of a job on GPUs that are free at once.

    Returns the number of locations; 0 if the job does not fit.
    """
    places = write_placed_start(world, state, buffer, buffer.spare, actions, job.id, used, reason)
    for k in range(used, used + places):
        buffer.free[buffer.places[k].server] -= buffer.places[k].gpus
    return places


@kernel()
def open_account(state: GpuState, buffer: PlanBuffer) -> GpuAccount:
    """Count GPUs that are free at once, and GPUs that are or will be, by server and in total."""
    spare = 0
    for server in range(len(state.free)):
        buffer.spare[server] = state.free[server]
        buffer.free[server] = state.free[server]
        spare += state.free[server]
    leaves, ends = buffer.ranks[LEAVES], buffer.ranks[LEAVES + 1]
    coming = spare
    for k in range(ends[0], ends[1]):
        coming += shift(state, state.live[state.slot_of[leaves[k]]], buffer.free, 1)
    return GpuAccount(spare, coming)


@kernel(forceinline=False)
def exchange(world: GpuWorld, state: GpuState, buffer: PlanBuffer, offset: float, how: int) -> int:
    """Write the plan; returns the number of actions.

    Jobs that start move from the waiting queue to the queue of jobs that hold GPUs, with the offset added to their key.
    Jobs that are preempted leave that queue, and enter the waiting queue with the news that they have left.

    Args:
        offset: Subtracted from the keys of jobs that hold GPUs to compare them with waiting jobs.
        how: The way to preempt, as a number from ``way_number``.
    """
    ids, ends, keys = buffer.ranks[WAITING], buffer.ranks[WAITING + 1], buffer.memory[0]
    if ends[0] == ends[1]:
        return 0
    account = open_account(state, buffer)
    spare, coming = account.spare, account.coming
    actions, used, k = 0, 0, ends[0]
    while k < ends[1]:
        job = state.live[state.slot_of[ids[k]]]
        runs_ends = buffer.ranks[RUNS + 1]
        contested = runs_ends[0] < runs_ends[1] and after(buffer, offset, buffer.ranks[RUNS][runs_ends[1] - 1], job.id)
        if coming == 0 and not contested:
            break
        places = start_now(world, state, buffer, actions, job, used, FITS) if job.gpus <= spare else 0
        if places == 0 and (job.gpus > coming or pack(world, state, buffer.free, job, job.gpus, buffer.picked) == 0):
            n = 0
            if contested and coming + later_gpus(state, buffer, offset, job.id, job.gpus - coming) >= job.gpus:
                n = take_for(world, state, buffer, job, offset, coming)
            if n == 0:
                k += 1
                continue
            n = spare_taken(world, state, buffer, job, n)
            for victim in range(n):
                coming += state.live[state.slot_of[buffer.ranks[TAKEN][victim]]].held
            spare += evict_taken(world, state, buffer, how, n, actions)
            actions += n
            places = start_now(world, state, buffer, actions, job, used, TAKES) if job.gpus <= spare else 0
        coming -= job.gpus
        if places == 0:
            spare -= reserve(world, state, buffer, job)
            k += 1
            continue
        spare -= job.gpus
        actions += 1
        used += places
        take_out(ids, ends, k)
        enter(buffer.ranks[RUNS], runs_ends, keys, job.id, keys[job.id] + offset)
        k = max(k, ends[0])
    return actions
