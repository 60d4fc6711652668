"""Axes and ticks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S
from mirage.report.axes import Axis, date_name, midnights_s, ticks


@pytest.mark.parametrize(
    ("low", "high", "about", "values"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3, 47, 4, [20, 40]),
        (0, 7.3, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 5, 3, [5]),
    ],
)
def test_ticks_are_round(low, high, about, values):
    assert ticks(low, high, about) == pytest.approx(values)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 10))
def test_ticks_lie_within_and_are_few(low, span, about):
    found = ticks(low, low + span, about)
    assert len(found) <= about + 1
    assert all(low - 1e-6 * span <= value <= low + span * (1 + 1e-6) for value in found)


def test_places_are_linear_and_clipped():
    axis = Axis(10, 20, 100, 300)
    assert (axis.place(15), axis.clip(0), axis.clip(99)) == (200, 100, 300)


def test_no_more_midnights_than_fit():
    assert midnights_s(1, 3 * DAY_S) == [DAY_S, 2 * DAY_S, 3 * DAY_S]
    assert len(midnights_s(0, 100 * DAY_S, most=16)) <= 16
    assert date_name(31 * DAY_S) == "Feb 1"
