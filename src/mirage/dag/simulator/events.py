"""The heap of events: per executor at most one, the end of its task or of its move."""

from __future__ import annotations

from mirage.dag.simulator.dag_arrays import NEVER_MS, DagState
from mirage.kernel.compile import kernel
from mirage.kernel.heap import pop, push, sink


@kernel()
def soonest_ms(state: DagState) -> int:
    """The time of the next event of an executor; ``NEVER_MS`` for none."""
    return int(state.heap[0].due) if state.clock[0].n_heap > 0 else NEVER_MS


@kernel()
def push_event(state: DagState, time_ms: int, executor: int) -> None:
    """Adds an event; of two at the same time the one added first happens first."""
    clock = state.clock[0]
    clock.sequence += 1
    state.heap[push(clock, state.heap, time_ms, clock.sequence)].executor = executor


@kernel()
def pop_event(state: DagState) -> int:
    """Removes the first event and returns its executor."""
    executor = int(state.heap[0].executor)
    pop(state.clock[0], state.heap)
    return executor


@kernel()
def replace_event(state: DagState, time_ms: int) -> None:
    """Replaces the first event by its executor's next one, at half the cost of pop and push."""
    clock, heap = state.clock[0], state.heap
    executor = heap[0].executor
    clock.sequence += 1
    event = heap[sink(heap, 0, clock.n_heap, time_ms, clock.sequence)]
    event.due, event.order, event.executor = time_ms, clock.sequence, executor
