"""Queues of jobs in order of a key, then of their id, stored in the plan buffer.

Column 0 of ``buffer.memory`` holds every job's key. A queue uses two columns of ``buffer.ranks``: the ids in order, and
the indices of their begin and end. A job is in at most one queue.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.sorted_array import insert_at, remove_at
from mirage.schedule.engine.kernel.gpu_arrays import ON_ENDED, ON_LEFT, ON_SUBMITTED, GpuState, PlanBuffer

WAITING, RUNS = 0, 2
"""First columns of the queue of waiting jobs, and of the queue of jobs that hold GPUs."""

NEWCOMER, RETURNED, GONE = ON_SUBMITTED, ON_LEFT, ON_ENDED


@kernel()
def precedes(keys: Any, a: int, key: float, b: int) -> bool:
    """Whether job a precedes job b, which has the key ``key``."""
    return bool(keys[a] < key or (keys[a] == key and a < b))


@kernel()
def index_of(ids: Any, ends: Any, keys: Any, job: int) -> int:
    """The first index with a job that does not precede this one."""
    low, high = ends[0], ends[1]
    while low < high:
        middle = (low + high) // 2
        if precedes(keys, ids[middle], keys[job], job):
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel(forceinline=False)
def enter(ids: Any, ends: Any, keys: Any, job: int, key: float) -> None:
    """Insert a job into a queue."""
    keys[job] = key
    at = index_of(ids, ends, keys, job)
    if ends[0] > 0 and (at == ends[0] or ends[1] == len(ids)):
        ends[0] -= 1
        at -= 1
        for k in range(ends[0], at):
            ids[k] = ids[k + 1]
        ids[at] = job
    else:
        insert_at(ids, at, ends[1], job)
        ends[1] += 1


@kernel(forceinline=False)
def take_out(ids: Any, ends: Any, at: int) -> None:
    """Remove the job at an index from a queue."""
    if at == ends[0]:
        ends[0] += 1
    else:
        remove_at(ids, at, ends[1])
        ends[1] -= 1
    if ends[0] == ends[1]:
        ends[0] = 0
        ends[1] = 0


@kernel(forceinline=False)
def remove(ids: Any, ends: Any, keys: Any, job: int) -> bool:
    """Remove a job from a queue; False if it is not in the queue."""
    at = index_of(ids, ends, keys, job)
    if at >= ends[1] or ids[at] != job:
        return False
    take_out(ids, ends, at)
    return True


@kernel()
def queue_by_submission(state: GpuState, buffer: PlanBuffer) -> None:
    """Insert new and returned jobs into the waiting queue, by submission."""
    for k in range(state.clock[0].n_news):
        event, job = state.news[k, 0], state.news[k, 1]
        if event in (NEWCOMER, RETURNED):
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], buffer.memory[0], job, float(job))
