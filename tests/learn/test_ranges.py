"""Ranges of training, and what lies outside."""

import numpy as np
import pytest

from mirage.learn.ranges import BEYOND, Ranges

VALUES = np.array([[1, 10, np.nan], [3, 10, 5], [2, 10, 7]], dtype=np.float32)
RANGES = Ranges.of(VALUES, ("jobs", "nodes", "wait_h"))


def outside(*values):
    return RANGES.outside(np.array(values, dtype=np.float32))


def test_training_rows_lie_inside():
    assert all(RANGES.outside(row) is None for row in VALUES)
    assert outside(3.1, 10, 6) is None  # a little beyond is no other world


def test_the_feature_that_is_furthest_out_is_named_with_both_values():
    found = outside(4, 10, 17)
    assert found == ("wait_h", 17.0, 7.0, pytest.approx(7.2))
    assert found.words == "feature=wait_h,value=17,trained=7,allowed=7.2"
    assert outside(-5, 10, 6) == ("jobs", -5.0, 1.0, pytest.approx(0.8))


def test_how_far_out_a_feature_may_lie_is_the_range_s_own():
    wide = Ranges.of(VALUES, RANGES.names, 1.0)
    assert wide.outside(np.array([5, 10, 9], dtype=np.float32)) is None
    assert wide.outside(np.array([0, 10, 2.9], dtype=np.float32)) == ("wait_h", pytest.approx(2.9), 5.0, 3.0)


def test_a_feature_that_never_varied_may_not():
    assert outside(2, 11, 6).feature == "nodes"


def test_a_value_may_lack_only_where_it_lacked_in_training():
    assert outside(2, 10, np.nan) is None
    assert outside(np.nan, 10, 6).feature == "jobs"


def test_a_feature_without_any_value_in_training_may_have_none():
    never = Ranges.of(np.full((2, 1), np.nan, dtype=np.float32), ("x",))
    assert never.outside(np.array([np.nan], dtype=np.float32)) is None
    assert never.outside(np.array([1.0], dtype=np.float32)).feature == "x"


def test_it_is_restored_from_arrays():
    again = Ranges.from_arrays(RANGES.as_arrays(), RANGES.names)
    assert again.outside(np.array([4, 10, 17], dtype=np.float32)) == outside(4, 10, 17)
    wide = Ranges.from_arrays(Ranges.of(VALUES, RANGES.names, 2.5).as_arrays(), RANGES.names)
    assert wide.beyond == 2.5
    older = {name: values for name, values in wide.as_arrays().items() if name != "beyond"}
    assert Ranges.from_arrays(older, RANGES.names).beyond == BEYOND
