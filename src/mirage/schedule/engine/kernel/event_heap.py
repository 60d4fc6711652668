"""The heap of future events, one live entry per job; entries with an old stamp are dead."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.kernel.heap import pop, push, restore_order
from mirage.schedule.engine.kernel.gpu_arrays import NO_SLOT, GpuState


@kernel(forceinline=False)
def push_event(clock: Any, heap: Any, due_s: float, job_id: int, stamp: int) -> None:
    """Add an event; the heap must have room."""
    heap[push(clock, heap, due_s, job_id)].stamp = stamp


@kernel(forceinline=False)
def pop_event(clock: Any, heap: Any) -> None:
    """Remove the first event."""
    pop(clock, heap)


@kernel()
def is_current(state: GpuState, k: int) -> bool:
    """Whether the entry at index k of the heap is still valid."""
    slot = state.slot_of[state.heap[k].order]
    return bool(slot != NO_SLOT and state.live[slot].stamp == state.heap[k].stamp)


@kernel(forceinline=False)
def remove_outdated(state: GpuState) -> None:
    """Rebuild the heap from its live entries when it is nearly full."""
    clock, heap = state.clock[0], state.heap
    n = 0
    for k in range(clock.n_heap):
        if is_current(state, k):
            heap[n] = heap[k]
            n += 1
    clock.n_heap = n
    restore_order(clock, heap)
