"""The heap of future events, one live entry per job; entries with an old stamp are dead."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NO_SLOT, GpuState


@kernel()
def _before(a: Any, b: Any) -> bool:
    if a.due_s != b.due_s:
        return bool(a.due_s < b.due_s)
    return bool(a.id < b.id)


@kernel()
def _copy(heap: Any, to: int, source: int) -> None:
    heap[to].due_s = heap[source].due_s
    heap[to].id = heap[source].id
    heap[to].stamp = heap[source].stamp


@kernel(forceinline=False)
def push_event(clock: Any, heap: Any, due_s: float, job_id: int, stamp: int) -> None:
    """Add an event; the heap must have room."""
    at = clock.n_heap
    clock.n_heap += 1
    while at > 0:
        above = (at - 1) // 2
        if due_s > heap[above].due_s or (due_s == heap[above].due_s and job_id >= heap[above].id):
            break
        _copy(heap, at, above)
        at = above
    heap[at].due_s = due_s
    heap[at].id = job_id
    heap[at].stamp = stamp


@kernel(forceinline=False)
def pop_event(clock: Any, heap: Any) -> None:
    """Remove the first event."""
    clock.n_heap -= 1
    n = clock.n_heap
    _sink(heap, 0, n, n)


@kernel()
def _sink(heap: Any, at: int, moved: int, n: int) -> None:
    """Insert entry ``moved`` at index ``at`` and restore the heap order below."""
    due_s, job_id, stamp = heap[moved].due_s, heap[moved].id, heap[moved].stamp
    while True:
        below = 2 * at + 1
        if below >= n:
            break
        if below + 1 < n and _before(heap[below + 1], heap[below]):
            below += 1
        if due_s < heap[below].due_s or (due_s == heap[below].due_s and job_id <= heap[below].id):
            break
        _copy(heap, at, below)
        at = below
    heap[at].due_s = due_s
    heap[at].id = job_id
    heap[at].stamp = stamp


@kernel()
def is_current(state: GpuState, k: int) -> bool:
    """Whether the entry at index k of the heap is still valid."""
    slot = state.slot_of[state.heap[k].id]
    return bool(slot != NO_SLOT and state.live[slot].stamp == state.heap[k].stamp)


@kernel(forceinline=False)
def remove_outdated(state: GpuState) -> None:
    """Rebuild the heap from its live entries when it is nearly full."""
    clock, heap = state.clock[0], state.heap
    n = 0
    for k in range(clock.n_heap):
        if is_current(state, k):
            _copy(heap, n, k)
            n += 1
    clock.n_heap = n
    for at in range(n // 2 - 1, -1, -1):
        _sink(heap, at, at, n)
