"""Axes: places of values, ticks with their names, and grid lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.report.axes import (
    Axis,
    Frame,
    clock,
    columns,
    date_name,
    dates,
    instant_names,
    instants_s,
    midnights_s,
    numbers,
    rulers,
    scaled_waits,
    ticks,
    wait_ticks,
)
from mirage.report.picture import Label, Stroke, text_px


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
def test_ticks_are_round(low: float, high: float, about: int, values: list[float]) -> None:
    assert ticks(low, high, about) == pytest.approx(values)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 10))
def test_ticks_lie_within_and_are_few(low: float, span: float, about: int) -> None:
    found = ticks(low, low + span, about)
    assert len(found) <= about + 1
    assert all(low - 1e-6 * span <= value <= low + span * (1 + 1e-6) for value in found)


def test_places_are_linear_and_clipped() -> None:
    axis = Axis(10, 20, 100, 300)
    assert (axis.place(15), axis.clip(0), axis.clip(99)) == (200, 100, 300)


def test_no_more_midnights_than_fit() -> None:
    assert midnights_s(1, 3 * DAY_S) == [DAY_S, 2 * DAY_S, 3 * DAY_S]
    assert len(midnights_s(0, 100 * DAY_S, most=16)) <= 16
    assert date_name(31 * DAY_S) == "Feb 1"


DAY0 = 19_782 * DAY_S  # 2024-02-29


def test_a_frame_has_edges_and_limits_its_points() -> None:
    frame = Frame(Axis(0, 10, 40, 240), Axis(5, 25, 180, 20))
    assert (frame.left, frame.right, frame.top, frame.bottom) == (40, 240, 20, 180)
    assert (frame.at(5, 10), frame.at(-1, 99)) == ((140, 140), (40, 20))
    assert Axis(3, 3, 40, 240).place(7) == 40, "an axis of one value"


def test_instants_are_round_on_a_clock_or_a_calendar() -> None:
    begin = DAY0 + 8 * HOUR_S + 7 * MINUTE_S
    found = {
        span: [(at - DAY0) / MINUTE_S for at in instants_s(begin, begin + span * MINUTE_S, 4)] for span in (4, 13, 200)
    }
    assert found == {4: [487, 488, 489, 490, 491], 13: [490, 495, 500], 200: [540, 600, 660]}
    assert instants_s(DAY0, DAY0 + 9 * DAY_S, 4) == [19_785 * DAY_S, 19_790 * DAY_S]
    assert len(instants_s(0, 9000 * DAY_S)) == 10, "the widest distance is a thousand days"
    assert instants_s(DAY0, DAY0 + 8 * MINUTE_S) == [DAY0 + k * MINUTE_S for k in range(9)]


def test_dates_are_named_where_a_day_begins() -> None:
    assert instant_names([DAY0, DAY0 + DAY_S]) == ["Feb 29", "Mar 1"]
    names = instant_names([DAY0 + 18 * HOUR_S, DAY0 + 24 * HOUR_S, DAY0 + 30 * HOUR_S + 5 * MINUTE_S])
    assert names == ["Feb 29 18:00", "Mar 1 00:00", "06:05"]


def test_midnights_are_thinned_out_evenly() -> None:
    assert midnights_s(DAY0 - 1, DAY0 + 5 * DAY_S, 3) == [DAY0, DAY0 + 2 * DAY_S, DAY0 + 4 * DAY_S]
    assert midnights_s(DAY0, DAY0 + 5 * DAY_S, 6) == [DAY0 + k * DAY_S for k in range(6)]
    assert len(midnights_s(0, 15.5 * DAY_S)) == 16
    assert len(midnights_s(0, 16.5 * DAY_S)) == 9


def test_there_are_as_many_names_as_have_room() -> None:
    assert dates(Axis(DAY0, DAY0 + 3 * DAY_S, 0, 100)) == [(DAY0, "Feb 29"), (DAY0 + 2 * DAY_S, "Mar 2")]
    assert len(dates(Axis(DAY0, DAY0 + 3 * DAY_S, 0, 200))) == 4
    assert dates(Axis(DAY0, DAY0 + 3 * DAY_S, 0, 10)) == [(DAY0, "Feb 29")]
    assert [name for _, name in clock(Axis(DAY0, DAY0 + 12 * HOUR_S, 100, 235))] == ["Feb 29 00:00", "06:00", "12:00"]
    assert [name for _, name in clock(Axis(DAY0, DAY0 + 12 * HOUR_S, 0, 1))] == ["Feb 29 00:00", "12:00"]
    assert numbers()(Axis(0, 10, 0, 400)) == [(k, str(k)) for k in (0, 2, 4, 6, 8, 10)]
    assert numbers()(Axis(0, 10, 100, 0)) == [(0, "0"), (5, "5"), (10, "10")]
    assert numbers(2, " h")(Axis(0, 1, 0, 400)) == [(0, "0 h"), (0.5, "0.5 h"), (1, "1 h")]
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks(0, 10, 0) == [0, 10]


def test_waits_are_linear_below_a_minute_and_logarithmic_above() -> None:
    assert scaled_waits([0, 60, 540, 5940]) == pytest.approx([0, 0.30103, 1, 2], abs=1e-4)
    found = wait_ticks(Axis(0, float(scaled_waits([DAY_S])[0]), 0, 1))
    assert [name for _, name in found] == ["0", "1 min", "10 min", "1 h", "6 h", "1 d"]
    assert [value for value, _ in found] == pytest.approx(scaled_waits([0, 60, 600, 3600, 21_600, 86_400]))
    every = [name for _, name in wait_ticks(Axis(0, 9, 0, 1))]
    assert every[5:] == ["1 d", "3 d", "10 d", "30 d", "100 d"]
    assert wait_ticks(Axis(0, 9, 0, 1))[-1][0] == pytest.approx(float(scaled_waits([100 * DAY_S])[0]))


FRAME = Frame(Axis(0, 30, 50, 350), Axis(2, 12, 200, 100))


def test_rulers_have_their_values_at_the_left() -> None:
    first, name, second, other = rulers(FRAME, lambda axis: [(axis.low, "low"), (7, "seven")])
    assert first == Stroke(((50, 200), (350, 200)), "axis")
    assert second == Stroke(((50, 150), (350, 150)), "grid")
    assert name == Label("low", 42, 204, anchor="end")
    assert other == Label("seven", 42, 154, anchor="end")


def test_columns_have_their_names_below() -> None:
    parts = columns(FRAME, lambda axis: [(0, "0"), (15, "15"), (axis.high, "thirty")])
    assert [part for part in parts if isinstance(part, Stroke)] == [
        Stroke(((50, 100), (50, 200)), "axis"), Stroke(((200, 100), (200, 200)), "grid"),
        Stroke(((350, 100), (350, 200)), "grid"),
    ]  # fmt: skip
    assert [part for part in parts if isinstance(part, Label)] == [
        Label("0", 50, 218, anchor="middle"), Label("15", 200, 218, anchor="middle"),
        Label("thirty", 358 - text_px("thirty") / 2, 218, anchor="middle"),
    ]  # fmt: skip
    assert len(columns(FRAME, lambda _: [(0, "0")], named=False)) == 1


def test_names_that_would_overlap_are_left_out() -> None:
    half = text_px("word") / 2

    def names(distance_px: float) -> list[float]:
        parts = columns(FRAME, lambda _: [(10, "word"), (10 + distance_px / 10, "word"), (25, "word")])
        assert sum(isinstance(part, Stroke) for part in parts) == 3, "grid lines stay"
        return [part.x for part in parts if isinstance(part, Label)]

    assert names(2 * half + 4.1) == pytest.approx([150, 150 + 2 * half + 4.1, 300])
    assert names(2 * half + 3.9) == pytest.approx([150, 300])
    narrow = Frame(Axis(0, 30, 3, 350), FRAME.y)
    (first,) = [part for part in columns(narrow, lambda _: [(0, "word")]) if isinstance(part, Label)]
    assert first.x == half + 4, "within the picture"
