"""Limits on what users, accounts or all together may run at once."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import NIL, PER_ACCOUNT, PER_USER, WHOLE_NODE, State, World

JOBS, NODES, GPUS, ACCRUING = range(4)
"""What a limit counts, in the order of ``State.counted``: running jobs and what they hold, and waiting jobs that gain
age."""

COUNTED = 3


@kernel()
def limits_in_force(world: World) -> bool:
    """Whether there is any limit."""
    return bool(len(world.limits) > 0)


@kernel()
def is_counted(world: World, limit: int, job: Any) -> bool:
    """Whether a limit counts a job."""
    return bool(world.limits_qos[limit, job.qos] and world.limits_partition[limit, job.partition])


@kernel()
def holder(world: World, limit: int, job: Any) -> int:
    """Index in ``State.counted`` of the user or account that a limit counts a job for."""
    if world.limits[limit].per == PER_USER:
        return int(job.user)
    return int(job.account) if world.limits[limit].per == PER_ACCOUNT else 0


@kernel()
def counted_gpus(world: World, job: Any, nodes: int) -> int:
    """GPUs that ``nodes`` nodes of a job count as."""
    return int(nodes * (world.of_node[job.partition, 0] if job.gpus == WHOLE_NODE else job.gpus))


@kernel()
def count_held(world: World, state: State, job: Any, jobs: int, nodes: int) -> None:
    """Add running jobs and nodes to the counts of a job's holder."""
    if limits_in_force(world):
        count_in_limits(world, state, job, jobs, nodes)


@kernel(forceinline=False)  # few clusters have limits: do not slow down the others
def count_in_limits(world: World, state: State, job: Any, jobs: int, nodes: int) -> None:
    """As ``count_held``, where there are limits."""
    for limit in range(len(world.limits)):
        if is_counted(world, limit, job):
            mine = state.counted[limit, holder(world, limit, job)]
            mine[JOBS] += jobs
            mine[NODES] += nodes
            mine[GPUS] += counted_gpus(world, job, nodes)


@kernel(forceinline=False)
def exceeded(world: World, state: State, job: Any, jobs: int, nodes: int) -> int:
    """Which limit more running jobs and nodes of a job's holder would exceed; -1 for none.

    Returns:
        The first such limit: ``COUNTED`` times its index, plus ``JOBS``, ``NODES`` or ``GPUS``.
    """
    for limit in range(len(world.limits)):
        if is_counted(world, limit, job):
            most, mine = world.limits[limit], state.counted[limit, holder(world, limit, job)]
            if jobs > 0 and mine[JOBS] + jobs > most.jobs:
                return COUNTED * limit + JOBS
            if mine[NODES] + nodes > most.nodes:
                return COUNTED * limit + NODES
            if mine[GPUS] + counted_gpus(world, job, nodes) > most.gpus:
                return COUNTED * limit + GPUS
    return NIL


@kernel()
def permitted(world: World, state: State, job: Any) -> bool:
    """Whether the limits let a job start now."""
    return bool(not limits_in_force(world) or exceeded(world, state, job, 1, job.nodes) == NIL)
