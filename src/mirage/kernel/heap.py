"""Binary heaps: events by time, and numbers by a time that may change.

Events are records that move within the first heap. An engine never changes or removes one in the middle: it adds a
newer one, and skips the older one, by its stamp, when that comes first. This costs less than the table of positions in
the second heap, of which many entries change before they come first.

An event has the field ``due``, in the engine's unit of time, and any fields of the engine. If it has the field
``order`` too, events of one time are in that order; otherwise their order depends on what the heap contained before.
The record ``clock`` counts them in its field ``n_heap``.
"""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from mirage.kernel.compile import kernel

# -- events ----------------------------------------------------------------------------------------------------------


def _order_of(event: Any) -> Any:
    return event.order if "order" in event.dtype.names else None


@overload(_order_of, strict=False)
def _compiled_order_of(event: Any) -> Any:
    return (lambda event: event.order) if "order" in event.fields else (lambda event: None)


@kernel()
def _precedes(due: Any, order: Any, other_due: Any, other_order: Any) -> bool:
    if order is None:
        return bool(due < other_due)
    return bool(due < other_due or (due == other_due and order < other_order))


@kernel()
def push(clock: Any, heap: Any, due: Any, order: Any) -> int:
    """Add an event; returns its index, where the caller writes the fields of the engine.

    Args:
        clock: The record that counts the events.
        heap: The events, with room for one more.
        due: Its time.
        order: Its order among the events of that time; None if they have none.
    """
    at = clock.n_heap
    clock.n_heap += 1
    while at > 0:
        above = (at - 1) >> 1
        if not _precedes(due, order, heap[above].due, _order_of(heap[above])):
            break
        heap[at] = heap[above]
        at = above
    heap[at].due = due
    if order is not None:
        heap[at].order = order
    return int(at)


@kernel()
def pop(clock: Any, heap: Any) -> None:
    """Remove the first event."""
    n = clock.n_heap - 1
    clock.n_heap = n
    heap[sink(heap, 0, n, heap[n].due, _order_of(heap[n]))] = heap[n]


@kernel()
def sink(heap: Any, at: int, n: int, due: Any, order: Any) -> int:
    """Move events up into a free index until an event may enter; returns where it enters.

    Args:
        heap: The events, in order except at the free index.
        at: The free index.
        n: Number of events, including the one to enter.
        due: Time of the event to enter.
        order: Its order, as for ``push``.
    """
    while True:
        below = 2 * at + 1
        if below >= n:
            break
        if below + 1 < n and _precedes(
            heap[below + 1].due, _order_of(heap[below + 1]), heap[below].due, _order_of(heap[below])
        ):
            below += 1
        if not _precedes(heap[below].due, _order_of(heap[below]), due, order):
            break
        heap[at] = heap[below]
        at = below
    return int(at)


@kernel()
def restore_order(clock: Any, heap: Any) -> None:
    """Make a heap of events in any order; the heap must have room for one more."""
    n = clock.n_heap
    for at in range(n // 2 - 1, -1, -1):
        heap[n] = heap[at]
        heap[sink(heap, at, n, heap[n].due, _order_of(heap[n]))] = heap[n]


# -- numbers by times that change --------------------------------------------------------------------------------------


@kernel()
def _is_earlier(times: Any, a: int, b: int) -> bool:
    return bool(times[a] < times[b] or (times[a] == times[b] and a < b))


@kernel(forceinline=False)
def _settle(heap: Any, places: Any, times: Any, n: int, at: int) -> None:
    """Move the number at index ``at`` up or down to its position in the heap."""
    number = heap[at]
    while at > 0 and _is_earlier(times, number, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        places[heap[at]] = at + 1
        at = (at - 1) // 2
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _is_earlier(times, heap[below + 1], heap[below]):
            below += 1
        if not _is_earlier(times, heap[below], number):
            break
        heap[at] = heap[below]
        places[heap[at]] = at + 1
        at = below
    heap[at] = number
    places[number] = at + 1


@kernel()
def expect(heap: Any, places: Any, times: Any, number: int, time: float) -> None:
    """Set the time of a number, which may be in the heap already.

    Args:
        heap: Numbers by time, then by themselves; the last integer is their count.
        places: The position of every number in the heap, from 1; 0 for none.
        times: The time of every number.
        number: From 0, below the lengths of ``places`` and ``times``.
        time: Its new time.
    """
    last = len(heap) - 1
    at = places[number] - 1
    if at < 0:
        at = heap[last]
        heap[last] += 1
        heap[at] = number
    times[number] = time
    _settle(heap, places, times, heap[last], at)


@kernel()
def forget(heap: Any, places: Any, times: Any, number: int) -> None:
    """Remove a number, if it is in the heap; arguments as for ``expect``."""
    at = places[number] - 1
    if at < 0:
        return
    last = len(heap) - 1
    heap[last] -= 1
    n = heap[last]
    places[number] = 0
    if at < n:
        heap[at] = heap[n]
        _settle(heap, places, times, n, at)
