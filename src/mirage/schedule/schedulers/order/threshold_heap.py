"""Future crossings: a heap of jobs by the time at which each passes a threshold.

Each job is in the heap at most once. The heap uses two columns of ``PlanBuffer.ranks``, the heap and every job's
position in it (0 for none, else counted from 1), and one column of ``PlanBuffer.memory``, the times. The number of jobs
in it is the last integer of its first column.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel


@kernel()
def _before(times: Any, a: int, b: int) -> bool:
    return bool(times[a] < times[b] or (times[a] == times[b] and a < b))


@kernel(forceinline=False)
def _settle(heap: Any, places: Any, times: Any, n: int, at: int) -> None:
    """Move the job at index ``at`` up or down to its position in the heap."""
    job = heap[at]
    while at > 0 and _before(times, job, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        places[heap[at]] = at + 1
        at = (at - 1) // 2
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _before(times, heap[below + 1], heap[below]):
            below += 1
        if not _before(times, heap[below], job):
            break
        heap[at] = heap[below]
        places[heap[at]] = at + 1
        at = below
    heap[at] = job
    places[job] = at + 1


@kernel()
def expect(heap: Any, places: Any, times: Any, job: int, time_s: float) -> None:
    """Set the time at which a job crosses, also for a job that is in the heap already."""
    last = len(heap) - 1
    at = places[job] - 1
    if at < 0:
        at = heap[last]
        heap[last] += 1
        heap[at] = job
    times[job] = time_s
    _settle(heap, places, times, heap[last], at)


@kernel()
def forget(heap: Any, places: Any, times: Any, job: int) -> None:
    """Remove a job from the heap, if it is there."""
    at = places[job] - 1
    if at < 0:
        return
    last = len(heap) - 1
    heap[last] -= 1
    n = heap[last]
    places[job] = 0
    if at < n:
        heap[at] = heap[n]
        _settle(heap, places, times, n, at)
