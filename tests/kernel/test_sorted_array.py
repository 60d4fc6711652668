"""Sorted arrays: insertions and removals agree with a list."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.kernel.sorted_array import insert_at, remove_at

HELD = [3, 5, 8, 13]


@pytest.mark.parametrize("at", range(len(HELD) + 1))
def test_a_value_put_in_moves_those_after_it_up(at: int) -> None:
    array = np.array([*HELD, -1, -2])
    expected = HELD.copy()
    expected.insert(at, 99)

    insert_at(array, at, len(HELD), 99)

    assert array.tolist() == [*expected, -2]


@pytest.mark.parametrize("at", range(len(HELD)))
def test_a_value_taken_out_moves_those_after_it_down(at: int) -> None:
    array = np.array([*HELD, -1, -2])
    expected = HELD.copy()
    del expected[at]

    remove_at(array, at, len(HELD))

    assert array[: len(expected)].tolist() == expected
    assert array[len(HELD) :].tolist() == [-1, -2]
