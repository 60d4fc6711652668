"""The heap of events: per executor at most one, the end of its task or of its move."""

from __future__ import annotations

from mirage.dag.simulator.dag_arrays import NEVER_MS, DagState
from mirage.kernel.compile import kernel


@kernel()
def soonest_ms(state: DagState) -> int:
    """The time of the next event of an executor; ``NEVER_MS`` for none."""
    return int(state.heap[0].time_ms) if state.clock[0].n_heap > 0 else NEVER_MS


@kernel()
def push_event(state: DagState, time_ms: int, executor: int) -> None:
    """Adds an event; of two at the same time the one added first happens first."""
    clock, heap = state.clock[0], state.heap
    place = clock.n_heap
    clock.n_heap += 1
    clock.sequence += 1
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent].time_ms <= time_ms:
            break
        _copy(state, parent, place)
        place = parent
    heap[place].time_ms, heap[place].sequence, heap[place].executor = time_ms, clock.sequence, executor


@kernel()
def pop_event(state: DagState) -> int:
    """Removes the first event and returns its executor."""
    clock, heap = state.clock[0], state.heap
    executor = int(heap[0].executor)
    clock.n_heap -= 1
    last = heap[clock.n_heap]
    if clock.n_heap > 0:
        _sink(state, last.time_ms, last.sequence, last.executor)
    return executor


@kernel()
def replace_event(state: DagState, time_ms: int) -> None:
    """Replaces the first event by its executor's next one, at half the cost of pop and push."""
    clock = state.clock[0]
    clock.sequence += 1
    _sink(state, time_ms, clock.sequence, state.heap[0].executor)


@kernel()
def _copy(state: DagState, source: int, target: int) -> None:
    heap = state.heap
    heap[target].time_ms = heap[source].time_ms
    heap[target].sequence = heap[source].sequence
    heap[target].executor = heap[source].executor


@kernel()
def _sink(state: DagState, time_ms: int, sequence: int, executor: int) -> None:
    """Replaces the first event, and restores the order of the heap."""
    heap, n = state.heap, state.clock[0].n_heap
    place = 0
    while True:
        child = 2 * place + 1
        if child >= n:
            break
        if child + 1 < n and _before(state, child + 1, heap[child].time_ms, heap[child].sequence):
            child += 1
        if not _before(state, child, time_ms, sequence):
            break
        _copy(state, child, place)
        place = child
    heap[place].time_ms, heap[place].sequence, heap[place].executor = time_ms, sequence, executor


@kernel()
def _before(state: DagState, place: int, time_ms: int, sequence: int) -> bool:
    event = state.heap[place]
    return bool(event.time_ms < time_ms or (event.time_ms == time_ms and event.sequence < sequence))
