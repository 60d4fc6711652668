"""Heaps return what a sorted list returns, whatever is added, replaced and removed."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.kernel.heap import expect, forget, pop, push, restore_order, sink
from mirage.kernel.record_arrays import Records, record_type, records

CLOCK = record_type([("n_heap", np.int64), ("other", np.int64)])
ORDERED = record_type([("due", np.float64), ("order", np.int64), ("payload", np.int64)])
UNORDERED = record_type([("due", np.int64), ("payload", np.int64)])
ROOM = 40


def first(heap: Records) -> tuple[float, int, int]:
    return float(heap[0].due), int(heap[0].order), int(heap[0].payload)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.5, 1.25, 2.0, 7.5, None]), max_size=2 * ROOM - 2))
def test_events_come_by_time_and_then_in_their_order(steps: list[float | None]) -> None:
    """A time adds an event, None removes the first one."""
    clock, heap = records(CLOCK, 1)[0], records(ORDERED, ROOM)
    clock.other = 17
    expected: list[tuple[float, int, int]] = []
    for k, due in enumerate(steps):
        order = (k * 23) % 97  # not ascending
        if due is not None and len(expected) < ROOM:
            heap[push(clock, heap, due, order)].payload = 1000 + k
            heapq.heappush(expected, (due, order, 1000 + k))
        elif due is None and expected:
            assert first(heap) == heapq.heappop(expected)
            pop(clock, heap)
        assert clock.n_heap == len(expected)
    while expected:
        assert first(heap) == heapq.heappop(expected)
        pop(clock, heap)
    assert (clock.n_heap, clock.other) == (0, 17)


def test_events_without_an_order_come_by_time() -> None:
    clock, heap = records(CLOCK, 1)[0], records(UNORDERED, 5)
    for payload, due in enumerate([30, 10, 20, 10, 40]):
        heap[push(clock, heap, due, None)].payload = payload
    found = []
    while clock.n_heap:
        found.append((int(heap[0].due), int(heap[0].payload)))
        pop(clock, heap)
    assert [due for due, _ in found] == [10, 10, 20, 30, 40]
    assert sorted(found) == [(10, 1), (10, 3), (20, 2), (30, 0), (40, 4)]


def test_the_first_event_can_be_replaced_by_a_later_one() -> None:
    clock, heap = records(CLOCK, 1)[0], records(ORDERED, 4)
    for order, due in enumerate([1.0, 2.0, 3.0, 4.0]):
        push(clock, heap, due, order)
    event = heap[sink(heap, 0, 4, 3.0, 9)]
    event.due, event.order = 3.0, 9
    found = []
    while clock.n_heap:
        found.append((float(heap[0].due), int(heap[0].order)))
        pop(clock, heap)
    assert found == [(2.0, 1), (3.0, 2), (3.0, 9), (4.0, 3)]


def test_events_in_any_order_become_a_heap() -> None:
    times = [5.0, 3.0, 9.0, 3.0, 1.0, 8.0, 2.0]
    clock, heap = records(CLOCK, 1)[0], records(ORDERED, len(times) + 1)
    for k, due in enumerate(times):
        heap[k] = (due, 50 - k, k)
    clock.n_heap = len(times)
    restore_order(clock, heap)
    found = []
    while clock.n_heap:
        found.append(first(heap))
        pop(clock, heap)
    assert found == sorted((due, 50 - k, k) for k, due in enumerate(times))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([0.25, 1.0, 4.5, None])), max_size=60))
def test_times_can_be_changed_and_removed(steps: list[tuple[int, float | None]]) -> None:
    """A time is set for a number; None removes the number."""
    numbers = 8
    heap, places, times = np.zeros(numbers + 1, np.int64), np.zeros(numbers, np.int64), np.zeros(numbers)
    expected: dict[int, float] = {}
    for number, time in steps:
        if time is None:
            forget(heap, places, times, number)
            expected.pop(number, None)
        else:
            expect(heap, places, times, number, time)
            expected[number] = time
        assert heap[numbers] == len(expected)
        assert sorted(heap[: len(expected)]) == sorted(expected)
        if expected:
            assert heap[0] == min(expected, key=lambda number: (expected[number], number))
        for other in range(numbers):
            assert places[other] == 0 if other not in expected else heap[places[other] - 1] == other


@pytest.mark.parametrize("dtype", [ORDERED, UNORDERED])
def test_compiled_and_interpreted_heaps_are_equal(dtype: np.dtype[Any]) -> None:
    ordered = dtype is ORDERED
    heaps = []
    for insert in (push, getattr(push, "py_func", push)):
        clock, heap = records(CLOCK, 1)[0], records(dtype, 12)
        for k in range(12):
            insert(clock, heap, (k * 5) % 4, k if ordered else None)
        heaps.append(heap.tolist())
    assert heaps[0] == heaps[1]
