"""What passes through a reference arrives, and what is written through one is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import float64, int64, typeof, types

from mirage.kernel.compile import kernel
from mirage.kernel.record_arrays import Records, empty_records, record_type, records
from mirage.kernel.reference import ReferenceType, by_reference, joint_reference

ROW = record_type([("flag", np.int8), ("length_m", np.float64), ("count", np.int64)])


class Sums(NamedTuple):
    """Arrays of different types and lengths."""

    rows: Records
    counts: Any
    lengths: Any


def sums() -> Sums:
    rows = records(ROW, 3)
    rows.length_m, rows.count = [0.5, 1.5, 4.0], [7, 11, 13]
    return Sums(rows, np.array([2, 3]), np.array([0.25]))


TYPE = typeof(sums())  # type: ignore[no-untyped-call]
by_values, values = joint_reference(TYPE, types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C"))
by_pointers, pointers = joint_reference(*[ReferenceType(TYPE)] * 3)


@kernel(float64(types.voidptr))
def through_values(situation: Any) -> float:
    """Reads all three, and writes two."""
    everything, counts, lengths = values(situation)
    everything.rows[1].count += 1
    counts[0] = everything.counts[1]
    return float(everything.rows[2].length_m + lengths[0])


@kernel(float64(types.voidptr))
def through_pointers(situation: Any) -> float:
    """Reads different arrays of three tuples, and writes one."""
    first, second, third = pointers(situation)
    second.rows[0].count = first.counts[1]
    return float(first.rows[2].length_m + 10 * second.lengths[0] + 100 * third.rows[0].count)


@kernel(float64(TYPE, types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")))
def call_with_values(everything: Any, counts: Any, lengths: Any) -> float:
    """Calls with one reference to three values."""
    return through_values(by_values(everything, counts, lengths))


@kernel(float64(TYPE, TYPE, TYPE))
def call_with_pointers(first: Any, second: Any, third: Any) -> float:
    """Calls with one reference to three references."""
    return through_pointers(by_pointers(by_reference(first), by_reference(second), by_reference(third)))


def test_three_values_pass_as_one() -> None:
    everything, counts = sums(), np.array([-1, -2])
    assert call_with_values(everything, counts, np.array([8.0])) == 12.0
    assert everything.rows.count.tolist() == [7, 12, 13]
    assert counts.tolist() == [3, -2]


def test_a_reference_reads_as_the_tuple() -> None:
    first, second, third = sums(), sums(), sums()
    second.lengths[0] = 0.5
    third.rows[0].count = 9
    assert call_with_pointers(first, second, third) == 4.0 + 5.0 + 900.0
    assert [tuples.rows[0].count for tuples in (first, second, third)] == [7, 3, 9]


def test_a_field_that_the_tuple_does_not_have_is_refused() -> None:
    def missing(everything: Any) -> int:
        return int(by_reference(everything).nothing)

    with pytest.raises(Exception, match="nothing"):
        kernel(int64(TYPE))(missing)(sums())


@pytest.mark.parametrize("shape", [(0,), (4,), (2, 3)])
def test_records_are_zeroed_aligned_and_have_columns(shape: tuple[int, ...]) -> None:
    made = records(ROW, *shape)
    assert (made.shape, made.length_m.shape) == (shape, shape)
    assert not made.count.any()
    assert ROW.fields is not None
    assert [ROW.fields[name][1] for name in ("flag", "length_m", "count")] == [0, 8, 16]
    made.count = 5
    assert (made["count"] == 5).all()


def test_empty_records_can_be_written() -> None:
    made = empty_records(ROW, 2)
    made[1] = (1, 2.5, 3)
    assert (made.shape, made[1].length_m) == ((2,), 2.5)
