"""Limits on the number of waiting jobs that gain age at once, of QOS and associations."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import NEVER_S, Scratch, State, World
from mirage.sim.kernel.job_lifecycle import UNRANKED, pending
from mirage.sim.kernel.resources.job_limits import ACCRUING, holder, is_counted


@kernel()
def give_age(world: World, state: State, scratch: Scratch) -> None:
    """Let waiting jobs gain age as far as the limits allow, in the order of submission.

    A job that gains age continues to do so while it waits in the queue, even if others come before it in the order of
    priorities; a place that becomes free is given in the same second, and age counts from then.
    """
    for limit in range(len(world.limits)):
        if world.limits[limit].ageing < NEVER_S:
            give_places(world, state, scratch)
            return


@kernel(forceinline=False)  # few clusters have such limits: do not slow down the others
def give_places(world: World, state: State, scratch: Scratch) -> None:
    """As ``give_age``, where there are such limits."""
    now, live, queue = state.clock[0].now_s, state.live, pending(state)
    state.counted[:, :, ACCRUING] = 0
    without = 0
    for k in range(state.clock[0].n_pending):
        slot = queue[k]
        job = live[slot]
        if job.priority == UNRANKED and job.eligible_s == now and is_limited(world, state, slot):
            job.eligible_s = NEVER_S  # it has just arrived, and needs a place
        if job.eligible_s < NEVER_S:
            count_ageing(world, state, slot)
            continue
        at = without
        while at > 0 and submitted_before(job, live[scratch.slots[at - 1]]):
            scratch.slots[at] = scratch.slots[at - 1]
            at -= 1
        scratch.slots[at] = slot
        without += 1
    for k in range(without):
        slot = scratch.slots[k]
        if has_place(world, state, slot):
            live[slot].eligible_s = now
            count_ageing(world, state, slot)


@kernel()
def is_limited(world: World, state: State, slot: int) -> bool:
    """Whether a limit on the number of jobs that gain age counts this job."""
    for limit in range(len(world.limits)):
        if world.limits[limit].ageing < NEVER_S and is_among(world, limit, state.live[slot]):
            return True
    return False


@kernel()
def is_among(world: World, limit: int, job: Any) -> bool:
    """Whether a limit on age counts a job."""
    of_association = world.limits_user[limit, job.user] and world.limits_account[limit, job.account]
    return bool(of_association and is_counted(world, limit, job))


@kernel()
def has_place(world: World, state: State, slot: int) -> bool:
    """Whether the first limit on age that counts a job lets one more gain it.

    Slurm checks no other limit (measured on 22.05).
    """
    job = state.live[slot]
    for limit in range(len(world.limits)):
        most = world.limits[limit].ageing
        if most < NEVER_S and is_among(world, limit, job):
            return bool(state.counted[limit, holder(world, limit, job), ACCRUING] < most)
    return True


@kernel()
def count_ageing(world: World, state: State, slot: int) -> None:
    """Count a job as one that gains age."""
    job = state.live[slot]
    for limit in range(len(world.limits)):
        if is_among(world, limit, job):
            state.counted[limit, holder(world, limit, job), ACCRUING] += 1


@kernel()
def submitted_before(one: Any, other: Any) -> bool:
    """Whether a job was submitted before another, and so precedes it in Slurm's job list.

    Later holds do not matter.
    """
    if one.submit_s != other.submit_s:
        return bool(one.submit_s < other.submit_s)
    return bool(one.id < other.id)
