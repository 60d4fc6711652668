"""Placement of a job: which nodes can hold it, and which of them it gets."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.sim.kernel.arrays import NIL, WHOLE_NODE, Scratch, State, World
from mirage.sim.kernel.resources.amounts import MEMORY, UNLIMITED_MIB, with_memory


@kernel()
def hosts(world: World, b: int, free: Any, job: Any) -> int:
    """Number of nodes of a job that fit bin ``b``, given what is free (bins, 2 or 3)."""
    gpus, cpus = int(free[b, 0]), int(free[b, 1])
    if world.settings[0].stacked == 1:
        return max(gpus, 0)
    if with_memory(free) and not has_memory(world, b, free, job):
        return 0
    if job.gpus == WHOLE_NODE:
        return 1 if gpus == world.capacity[b, 0] and cpus == world.capacity[b, 1] else 0
    return 1 if gpus >= job.gpus and cpus >= job.cpus else 0


@kernel()
def has_memory(world: World, b: int, free: Any, job: Any) -> bool:
    """Whether bin ``b`` has enough memory for a node of a job, free (bins, 3) and in total."""
    return bool(free[b, MEMORY] >= memory_need(world, b, job) and world.capacity[b, MEMORY] >= job.memory)


@kernel()
def memory_need(world: World, b: int, job: Any) -> int:
    """Memory in MiB that one node of a job takes from bin ``b``, where the cluster counts it."""
    has = world.capacity[b, MEMORY]
    if has == UNLIMITED_MIB:
        return 0
    return int(has if job.gpus == WHOLE_NODE or job.memory == WHOLE_NODE else job.memory)


@kernel()
def need(world: World, b: int, job: Any) -> tuple[int, int]:
    """GPUs and CPUs (or whole nodes) that one node of a job takes from bin ``b``."""
    if world.settings[0].stacked == 1:
        return 1, 0
    if job.gpus == WHOLE_NODE:
        return world.capacity[b, 0], world.capacity[b, 1]
    return job.gpus, job.cpus


@kernel()
def counted_cpus(free: Any, b: int, job: Any) -> int:
    """CPUs that node ``b`` counts as in a run of neighbours.

    Those of the job's tasks if it has GPUs, else all free ones. The former are equal on every node, so 1 represents
    them (``_select_cores`` in Slurm's select/cons_tres/job_test.c).
    """
    return 1 if job.gpus > 0 else int(free[b, 1])


@kernel()
def pick_consecutive(scratch: Scratch, free: Any, job: Any, nodes: int) -> None:
    """Choose nodes as ``select/cons_tres`` does: the smallest sufficient run of neighbours.

    Of the runs of neighbouring nodes that could take the job, the sufficient one with the fewest CPUs for it is used,
    the first of equal ones; where none suffices, the one with the most is used up and the rest is taken from the
    others. Nodes are taken from the beginning of a run, a single one where it fits best (``_eval_nodes`` in Slurm's
    select/cons_tres/job_test.c).

    Args:
        free: Shape (bins, 2 or 3); ``scratch.slots`` marks the bins that can take a node of the job.
    """
    bins = free.shape[0]
    left = nodes
    while left > 0:
        best, best_cpus, best_suffices = NIL, 0, False
        b = 0
        while b < bins:
            if scratch.slots[b] == 0:
                b += 1
                continue
            begin, cpus = b, 0
            while b < bins and scratch.slots[b] == 1:
                cpus += counted_cpus(free, b, job)
                b += 1
            suffices = b - begin >= left
            better = cpus < best_cpus if suffices else cpus > best_cpus
            if best == NIL or (suffices and not best_suffices) or (suffices == best_suffices and better):
                best, best_cpus, best_suffices = begin, cpus, suffices
        b = tightest(scratch, free, job, best) if left == 1 else best
        while left > 0 and b < bins and scratch.slots[b] == 1:
            scratch.picked[b] = 1
            scratch.slots[b] = 0
            left -= 1
            b += 1


@kernel()
def tightest(scratch: Scratch, free: Any, job: Any, begin: int) -> int:
    """The node with the fewest CPUs for a job in the run from ``begin``; the first if equal."""
    best = b = begin
    while b < free.shape[0] and scratch.slots[b] == 1:
        if counted_cpus(free, b, job) < counted_cpus(free, best, job):
            best = b
        b += 1
    return best


@kernel()
def pick(world: World, state: State, scratch: Scratch, free: Any, job: Any, nodes: int) -> bool:
    """Choose bins for a job: best fit, ties by index; or as Slurm does.

    Args:
        free: Shape (bins, 2 or 3), what may be used; a plan passes what is free throughout.
        nodes: Number of nodes to find.

    Returns:
        Whether they were found; if so, ``scratch.picked`` holds their number on each bin.
    """
    bins = world.capacity.shape[0]
    picked = scratch.picked
    if bins == 1:
        picked[0] = nodes
        return bool(state.allowed[job.partition, 0] and hosts(world, 0, free, job) >= nodes)
    found = 0
    stacked = world.settings[0].stacked == 1
    for b in range(bins):
        picked[b] = 0
        scratch.slots[b] = 0
        if state.allowed[job.partition, b]:
            can = hosts(world, b, free, job)
            if stacked:
                picked[b] = min(can, nodes - found)
                found += picked[b]
            else:
                scratch.slots[b] = can
                found += can
    if stacked or found < nodes:
        return found >= nodes
    if world.settings[0].consecutive == 1:
        pick_consecutive(scratch, free, job, nodes)
        return True
    for _ in range(nodes):
        best = NIL
        for b in range(bins):
            if scratch.slots[b] == 1 and (
                best == NIL
                or free[b, 0] < free[best, 0]
                or (free[b, 0] == free[best, 0] and free[b, 1] < free[best, 1])
            ):
                best = b
        picked[best] = 1
        scratch.slots[best] = 0
    return True


@kernel()
def choice_is_stable(world: World) -> bool:
    """Whether a job would take the same nodes after other jobs have taken other nodes.

    Pools are used up in order; among shared nodes the fullest is best, which changes with every start.
    """
    return bool(world.settings[0].stacked == 1)


@kernel()
def most_nodes(world: World, free: Any) -> int:
    """Upper bound on the nodes of any job that can start on what is free."""
    bins = world.capacity.shape[0]
    if world.settings[0].stacked == 0:
        return int(bins)
    found = 0
    for b in range(bins):
        found += max(free[b, 0], 0)
    return found


@kernel()
def subtract_picked(world: World, scratch: Scratch, free: Any, job: Any) -> None:
    """Subtract the nodes in ``scratch.picked`` from what is free (bins, 2 or 3)."""
    for b in range(world.capacity.shape[0]):
        count = scratch.picked[b]
        if count > 0:
            gpus, cpus = need(world, b, job)
            free[b, 0] -= count * gpus
            free[b, 1] -= count * cpus
            if with_memory(free):
                free[b, MEMORY] -= count * memory_need(world, b, job)


@kernel()
def room(world: World, state: State, free: Any, job: Any) -> int:
    """Number of nodes of a job that the bins of its partition can hold."""
    found = 0
    for b in range(world.capacity.shape[0]):
        if state.allowed[job.partition, b]:
            found += hosts(world, b, free, job)
    return found
