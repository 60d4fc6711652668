"""First come, first served, without backfill: no job passes the head of the queue."""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import DISCIPLINE, Reference, Scratch, State, World, dereference
from mirage.sim.kernel.job_lifecycle import pending, start
from mirage.sim.kernel.resources.job_limits import permitted


@kernel()
def start_heads(world: World, state: State, scratch: Scratch) -> int:
    """Start jobs from the front of the queue while they fit.

    A job over a limit is skipped, and does not block the queue.

    Returns:
        The index of the first job that does not fit: the blocked head. The queue's length when there is none.
    """
    at = 0
    while at < state.clock[0].n_pending:
        slot = pending(state)[at]
        job = state.live[slot]
        if start(world, state, scratch, at):
            continue
        if permitted(world, state, job):
            return at
        at += 1
    return at


@kernel(DISCIPLINE)
def fcfs(situation: Reference) -> int:
    """Start heads while they fit."""
    world, state, scratch = dereference(situation)
    start_heads(world, state, scratch)
    state.clock[0].ended_since = 0
    state.clock[0].arrived_since = 0
    return 0
