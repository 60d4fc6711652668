"""Allocation of nodes: taken by a job, returned at once or after a turnover."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import NIL, Scratch, State, World
from mirage.sim.kernel.resources.amounts import MEMORY, with_memory
from mirage.sim.kernel.resources.node_selection import memory_need, need


@kernel()
def take(world: World, state: State, scratch: Scratch, slot: int) -> None:
    """Give the job in ``slot`` the nodes in ``scratch.picked``, in addition to those it holds."""
    job = state.live[slot]
    clock = state.clock[0]
    bins = world.capacity.shape[0]
    if bins == 1 and world.settings[0].stacked == 1:
        state.free[0, 0] -= scratch.picked[0]
        return
    for b in range(bins):
        count = scratch.picked[b]
        if count == 0:
            continue
        gpus, cpus = need(world, b, job)
        state.free[b, 0] -= count * gpus
        state.free[b, 1] -= count * cpus
        memory = 0
        if with_memory(state.free):
            memory = memory_need(world, b, job)
            state.free[b, MEMORY] -= count * memory
        chunk = clock.free_chunk
        if chunk == NIL:
            chunk = clock.chunks_used
            clock.chunks_used += 1
        else:
            clock.free_chunk = state.chunks[chunk].next
        held = state.chunks[chunk]
        held.bin = b
        held.count = count
        held.gpus = gpus
        held.cpus = cpus
        held.memory = memory
        held.next = job.chunk
        job.chunk = chunk


@kernel()
def give(world: World, state: State, slot: int, nodes: int) -> None:
    """Take ``nodes`` nodes from the job in ``slot``, those it got last first."""
    job = state.live[slot]
    clock = state.clock[0]
    if world.capacity.shape[0] == 1 and world.settings[0].stacked == 1:
        state.free[0, 0] += nodes
        return
    while nodes > 0:
        chunk = job.chunk
        held = state.chunks[chunk]
        count = min(nodes, held.count)
        state.free[held.bin, 0] += count * held.gpus
        state.free[held.bin, 1] += count * held.cpus
        if with_memory(state.free):
            state.free[held.bin, MEMORY] += count * held.memory
        held.count -= count
        nodes -= count
        if held.count == 0:
            job.chunk = held.next
            held.next = clock.free_chunk
            clock.free_chunk = chunk


@kernel()
def release_into(world: World, state: State, slot: int, free: Any) -> None:
    """Add to ``free`` (bins, 2 or 3) what the job in ``slot`` will return when it ends."""
    add_held(world, state, state.live[slot].width, state.live[slot].chunk, free)


@kernel()
def add_held(world: World, state: State, width: int, chunk: int, free: Any) -> None:
    """Add to ``free`` (bins, 2 or 3) what the chunks from ``chunk`` on hold.

    On one pool it adds ``width`` nodes.
    """
    if world.capacity.shape[0] == 1 and world.settings[0].stacked == 1:
        free[0, 0] += width
        return
    while chunk != NIL:
        held = state.chunks[chunk]
        free[held.bin, 0] += held.count * held.gpus
        free[held.bin, 1] += held.count * held.cpus
        if with_memory(free):
            free[held.bin, MEMORY] += held.count * held.memory
        chunk = held.next


@kernel()
def charged(world: World, state: State, job: Any) -> int:
    """What a running job is charged for each second: its CPUs; its nodes where bins are pools.

    Slurm charges CPUs (``_apply_new_usage`` of priority/multifactor) unless ``TRESBillingWeights`` are set, which is
    not modelled. On equal whole nodes, users rank the same by nodes.
    """
    if world.settings[0].stacked == 1:
        return int(job.width)
    cpus, chunk = 0, job.chunk
    while chunk != NIL:
        held = state.chunks[chunk]
        cpus += held.count * held.cpus
        chunk = held.next
    return int(cpus)


@kernel(forceinline=False)
def give_later(state: State, slot: int, until_s: int) -> None:
    """Take all nodes from the ended job in ``slot``; they become free at ``until_s``.

    Calls must be in the order of ``until_s``.
    """
    clock, job = state.clock[0], state.live[slot]
    left = state.completing[clock.n_completing]
    left.until_s = until_s
    left.width = job.width
    left.chunk = job.chunk
    job.chunk = NIL
    clock.n_completing += 1


@kernel(forceinline=False)
def free_completed(world: World, state: State) -> bool:
    """Free the nodes at the end of their turnover; returns whether there were any."""
    clock, completing = state.clock[0], state.completing
    n = clock.n_completing
    done = 0
    while done < n and completing[done].until_s <= clock.now_s:
        add_held(world, state, completing[done].width, completing[done].chunk, state.free)
        chunk = completing[done].chunk
        while chunk != NIL:
            following = state.chunks[chunk].next
            state.chunks[chunk].next = clock.free_chunk
            clock.free_chunk = chunk
            chunk = following
        done += 1
    for k in range(done, n):
        completing[k - done] = completing[k]
    clock.n_completing = n - done
    return bool(done > 0)
