"""Preemption by QOS: ``PreemptType=preempt/qos``, ``PreemptMode=REQUEUE``.

A job that does not fit takes the nodes of running jobs in QOS that it may preempt: they are marked one after another,
in Slurm's order, until it would fit, and those among them that hold nodes it then gets are requeued.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import NIL, NO_JOB, RUNNING, Scratch, State, World
from mirage.sim.kernel.job_lifecycle import requeue_held
from mirage.sim.kernel.resources.amounts import copy_amounts
from mirage.sim.kernel.resources.holding import add_held, release_into
from mirage.sim.kernel.resources.node_changes import least_free, reserved_within
from mirage.sim.kernel.resources.node_selection import pick


@kernel()
def may_displace(world: World, job: Any) -> bool:
    """Whether this job's QOS may preempt any other QOS."""
    return bool(world.displaces[job.qos].any())


@kernel()
def goes_before(world: World, one: Any, other: Any) -> bool:
    """Whether a running job is preempted before another: by lower QOS, then by later start.

    By later start alone where the settings require it.
    """
    if world.settings[0].youngest_first == 0:
        mine, theirs = world.qos_factor[one.qos], world.qos_factor[other.qos]
        if mine != theirs:
            return bool(mine < theirs)
    return bool(one.start_s > other.start_s or (one.start_s == other.start_s and one.id > other.id))


@kernel()
def next_to_go(world: World, state: State, job: Any, last: int) -> int:
    """The slot of the running job preempted next after the one in ``last``; -1 for none.

    ``last`` is ``NO_JOB`` for the first. A job that started in this second is not preempted.
    """
    live, best = state.live, NO_JOB
    for k in range(state.clock[0].n_running):
        slot = state.running[k]
        one = live[slot]
        if one.status != RUNNING or not world.displaces[job.qos, one.qos] or one.start_s >= state.clock[0].now_s:
            continue
        if last != NO_JOB and not goes_before(world, live[last], one):
            continue
        if best == NO_JOB or goes_before(world, one, live[best]):
            best = slot
    return best


@kernel()
def holds_picked(world: World, state: State, scratch: Scratch, slot: int) -> bool:
    """Whether a running job holds something on the bins in ``scratch.picked``."""
    if world.capacity.shape[0] == 1:
        return True
    chunk = state.live[slot].chunk
    while chunk != NIL:
        held = state.chunks[chunk]
        if held.count > 0 and scratch.picked[held.bin] > 0:
            return True
        chunk = held.next
    return False


@kernel()
def displace_for(world: World, state: State, scratch: Scratch, job: Any) -> bool:
    """Preempt running jobs to make room for a job; False, and no change, if not enough.

    A job that fits once the nodes in turnover are free waits for these: preempted jobs would not free theirs earlier.
    """
    low = scratch.low
    copy_amounts(low, state.free)
    for k in range(state.clock[0].n_completing):
        add_held(world, state, state.completing[k].width, state.completing[k].chunk, low)
    if state.clock[0].n_completing > 0 and pick(world, state, scratch, low, job, job.nodes):
        return False
    reserved = reserved_within(world, state, job.limit_s)
    if reserved:
        for k in range(state.clock[0].n_running):
            scratch.keys[state.running[k]] = 0.0
    last = NO_JOB
    enough = False
    while not enough:
        last = next_to_go(world, state, job, last)
        if last == NO_JOB:
            return False
        if reserved:
            scratch.keys[last] = 1.0
            least_free(world, state, scratch, scratch.keys, job.limit_s)
        else:
            release_into(world, state, last, low)
        enough = pick(world, state, scratch, low, job, job.nodes)
    begin_s = state.clock[0].now_s + world.settings[0].requeue_hold_s
    slot = NO_JOB
    while slot != last:
        slot = next_to_go(world, state, job, slot)
        if holds_picked(world, state, scratch, slot):
            requeue_held(world, state, slot, begin_s)
    return True
