"""Charts as data: axes, names, keys and marks of a picture that has been drawn from them."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.report.axes import numbers
from mirage.report.chart import (
    MOST_POINTS,
    Arrow,
    Band,
    Chart,
    Curve,
    Instant,
    Level,
    Note,
    Scale,
    Span,
    Spot,
    head,
    picture_of,
    sample,
    shares_within,
    steps,
    styled_key,
)
from mirage.report.picture import Bar, Dot, Label, Moved, Picture, Shape, Stroke, text_px
from tests.support.picture_reading import bars, hints_of, label, marks_of, readings, strokes, texts_of

X, Y = Scale(0, 40, numbers(4, " h"), "overlap, h"), Scale(-5, 10, numbers(3))


def drawn(*marks: object, width: float = 500, **changes: object) -> Picture:
    settings = {"title": "nodes", "x": X, "y": Y, "marks": marks, "height": 150.0}
    return picture_of("described", Chart(**settings | changes), width=width)  # type: ignore[arg-type]


def test_a_frame_has_room_for_the_names_of_its_values() -> None:
    picture = drawn()
    (frame,) = readings(picture)
    assert (frame.left, frame.right, frame.top, frame.bottom) == (44, 490, 30, 180)
    assert (frame.names, frame.below) == (["-5", "0", "5", "10"], ["0 h", "10 h", "20 h", "30 h", "40 h"])
    assert (picture.width, picture.height, picture.description) == (500, 230, "described")
    wide = drawn(y=Scale(0, 2e6, numbers(2, " nodes")))
    (frame,) = readings(wide)
    assert frame.left == text_px("1e+06 nodes") + 14
    name = label(picture, "overlap, h")
    assert (name.x, name.y, name.anchor, name.style) == (490, 220, "end", "strong")
    assert drawn(x=Scale(0, 40, numbers(4))).height == 210
    unnamed = drawn(x=Scale(0, 40, numbers(4)), has_x_names=False)
    assert (unnamed.height, texts_of(unnamed)) == (188, ["nodes", "-5", "0", "5", "10"])


def test_charts_are_drawn_one_below_the_other_with_frames_of_one_width() -> None:
    one = Chart(title="one", x=X, y=Scale(0, 100, numbers(2, " nodes")), height=100)
    other = Chart(title="other", x=Scale(0, 7, numbers(3)), y=Y, height=50, empty="")
    picture = picture_of("both", one, other, width=400)
    first, second = readings(picture)
    assert first.left == second.left == text_px("100 nodes") + 14
    assert first.right == second.right == 390
    assert (first.bottom, second.top) == (130, 130 + 50 + 12 + 30)
    assert picture.height == second.bottom + 30
    assert label(picture, "other").y == 130 + 50 + 12 + 14


def test_a_chart_without_values_gives_the_reason() -> None:
    picture = drawn(empty="nothing was recorded")
    assert texts_of(picture) == ["nodes", "nothing was recorded"]
    reason = label(picture, "nothing was recorded")
    assert (reason.x, reason.y, picture.height) == (44, 30 + 75, 210)


def test_a_curve_has_its_area_below_and_is_limited_to_the_frame() -> None:
    picture = drawn(Curve([(0, 0), (10, 5), (50, 99)], "edge", area="area"))
    (frame,) = readings(picture)
    assert frame.curves("edge") == [[(0, 0), (10, 5), (40, 10)]]
    assert frame.shapes("area") == [[(0, -5), (0, 0), (10, 5), (40, 10), (40, -5)]]
    (dash,) = strokes(drawn(Curve([(10, 5)], "edge")), "edge")
    assert dash == [(44 + 446 / 4 - 3, 80), (44 + 446 / 4 + 3, 80)], "a single point is a dash of six pixels"
    assert len(marks_of(drawn(Curve([], "edge", area="area")))) == len(marks_of(drawn()))


def test_a_curve_above_the_frame_is_marked_with_its_highest_value() -> None:
    peaks = [(0, 0), (4, 60.4), (5, 12), (9, 2), (20, 99), (30, 0), (36, 11), (40, 12.6)]
    picture = drawn(Curve(peaks, "edge", cut="h"))
    (frame,) = readings(picture)
    assert [one[2] for one in frame.shapes("cut")] == [(4, 10), (20, 10), (40, 10)]
    assert [text for text in texts_of(picture) if text.startswith("up to")] == [
        "up to 60 h",
        "up to 99 h",
        "up to 13 h",
    ]
    first, second, last = (label(picture, f"up to {value} h") for value in (60, 99, 13))
    assert (first.x, second.x) == pytest.approx((44 + 44.6 + 9, 44 + 223 + 9))
    assert last.x == pytest.approx(490 - 9 - text_px("up to 13 h")), "at the left where there is no room at the right"
    assert {mark.style for mark in (first, second, last)} == {"halo"}
    unstyled = drawn(Curve(peaks, "", cut="h"))
    assert strokes(unstyled, "") == []
    assert "up to 99 h" in texts_of(unstyled)


def test_of_neighbouring_peaks_only_those_with_room_are_named() -> None:
    near = [(0, 0), (10, 50), (11, 0), (12, 70), (13, 0), (40, 0)]
    picture = drawn(Curve(near, "edge", cut="h"))
    (frame,) = readings(picture)
    assert len(frame.shapes("cut")) == 2
    assert [text for text in texts_of(picture) if text.startswith("up to")] == ["up to 50 h", "up to 70 h"]
    first, second = label(picture, "up to 50 h"), label(picture, "up to 70 h")
    assert first.x + text_px("up to 50 h") + 9 == pytest.approx(44 + 446 / 4)
    assert second.x == pytest.approx(44 + 446 * 0.3 + 9)


def test_bands_levels_instants_and_spans() -> None:
    picture = drawn(
        Span(0, 5, name="free"),
        Band([(0, 1), (10, 2)], [(0, 3), (10, 12)], "apart"),
        Band([(0, 1)], [(0, 3)], "apart"),
        Level(4, "limit of 4"),
        Level(99, style="capacity"),
        Instant(10, "submit", "submits", "submit-text"),
        Instant(30, "limit"),
        Span(20, 30, "judged-band", "judged", "the judged slice"),
        Span(33, 33, "gap-band"),
    )
    (frame,) = readings(picture)
    assert frame.shapes("apart") == [[(0, 1), (10, 2), (10, 10), (0, 3)]]
    assert frame.levels("limit") == [4]
    assert frame.levels("capacity") == [10]
    name = label(picture, "limit of 4")
    assert (name.x, frame.at_y(name.y + 5), name.anchor, name.style) == (490, 4, "end", "halo")
    (upright,) = strokes(picture, "submit")
    assert upright == [(155.5, frame.top - 4), (155.5, frame.bottom)]
    (plain,) = [one for one in strokes(picture, "limit") if one[0][0] == one[1][0]]
    assert plain == [(378.5, frame.top), (378.5, frame.bottom)]
    (band,) = bars(picture, "judged-band")
    assert (band.x, band.width, band.y, band.height) == (267, 111.5, frame.top, 150)
    assert (hints_of(picture), bars(picture, "gap-band")) == (["the judged slice"], [])
    first = next(k for k, mark in enumerate(marks_of(picture)) if isinstance(mark, Bar))
    assert first < min(k for k, mark in enumerate(marks_of(picture)) if isinstance(mark, Stroke)), "below the grid"
    names = {text: label(picture, text) for text in ("submits", "judged", "free")}
    assert {text: (one.x, one.style, one.anchor) for text, one in names.items()} == {
        "submits": (155.5, "submit-text", "middle"), "judged": (322.75, "", "middle"), "free": (71.875, "", "middle")
    }  # fmt: skip
    assert {one.y for one in names.values()} == {frame.top - 8}
    assert frame.top == 30 + 18, "names are between the title and the frame"


def test_a_narrow_span_is_still_visible() -> None:
    (band,) = bars(drawn(Span(10, 10.05, "gap-band")), "gap-band")
    assert band.width == 1.5


def test_names_above_the_frame_are_left_out_where_there_is_no_room() -> None:
    picture = drawn(
        Instant(5, "submit", "first of them"), Instant(6, "submit", "second"), Instant(39.9, "submit", "last of them"),
        Span(20, 21, "judged-band", "a name too wide"),
    )  # fmt: skip
    assert [text for text in texts_of(picture) if text[0].isalpha()][1:] == [
        "first of them", "last of them", "overlap, h"
    ]  # fmt: skip
    assert label(picture, "last of them").x == 500 - text_px("last of them") / 2
    assert len(strokes(picture, "submit")) == 3


def test_spots_and_arrows() -> None:
    picture = drawn(
        Spot(10, 5, "s1", "a dot"), Spot(20, 0, "oracle", "a diamond", 7, is_diamond=True), Arrow(99, 5, "lead-more"),
        Arrow(10, 99, "s2", is_right=False),
    )  # fmt: skip
    (frame,) = readings(picture)
    assert frame.dots("s1") == [(10, 5)]
    assert hints_of(picture) == ["a dot", "a diamond"]
    (dot,) = [mark for mark in marks_of(picture) if isinstance(mark, Dot)]
    assert dot.radius == 5
    diamond, right, up = (mark.places for mark in marks_of(picture) if isinstance(mark, Shape))
    assert list(diamond) == [(267, 123), (274, 130), (267, 137), (260, 130)]
    assert list(right) == [(482, 76), (490, 80), (482, 84)]
    assert list(up) == [(151.5, 38), (155.5, 30), (159.5, 38)]


def test_notes_are_near_their_points_and_cover_no_point() -> None:
    picture = drawn(Spot(10, 5, "s1"), Note("here", 10, 5, "t1 halo"), Note("there", 10, 5, "t2"))
    here, there = label(picture, "here"), label(picture, "there")
    assert (here.style, there.style) == ("t1 halo", "t2")
    boxes = [(one.x, one.y - 12, one.x + text_px(str(one.text)), one.y + 3) for one in (here, there)]
    boxes.append((155.5 - 6, 80 - 6, 155.5 + 6, 80 + 6))
    for k, (left, top, right, bottom) in enumerate(boxes):
        for a, b, c, d in boxes[k + 1 :]:
            assert right <= a or left >= c or bottom <= b or top >= d


def test_a_key_is_next_to_the_title_where_there_is_room_else_above_it() -> None:
    key = styled_key(("recorded", "recorded"), ("area", "an area"))
    wide = [24 + 6 + text_px(name) for _, name in key]
    needed = text_px("nodes") + 18 + sum(wide) + 18
    parts, edge = head("nodes", needed, key)
    assert edge == 30
    samples = [(mark.x, mark.y) for mark in parts if isinstance(mark, Moved)]
    assert [x for x, _ in samples] == pytest.approx([needed - wide[1] - 18 - wide[0], needed - wide[1]])
    assert {y for _, y in samples} == {4}
    names = [(mark.text, mark.x, mark.y, mark.style) for mark in parts if isinstance(mark, Label)]
    assert names == [
        ("nodes", 0, 14, "strong"), ("recorded", samples[0][0] + 30, 14, "ink"),
        ("an area", samples[1][0] + 30, 14, "ink"),
    ]  # fmt: skip
    parts, edge = head("nodes", needed - 1, key)
    assert edge == 24 + 30
    assert [(mark.x, mark.y) for mark in parts if isinstance(mark, Moved)] == [(0, 4), (pytest.approx(wide[0] + 18), 4)]
    assert [(mark.text, mark.y) for mark in parts if isinstance(mark, Label)] == [
        ("nodes", 24 + 14), ("recorded", 14), ("an area", 14)
    ]  # fmt: skip
    parts, edge = head("nodes", wide[0] + 18 + wide[1] - 1, key)
    assert (edge, [(mark.x, mark.y) for mark in parts if isinstance(mark, Moved)]) == (44 + 30, [(0, 4), (0, 24)])


def test_a_note_is_above_the_key() -> None:
    parts, edge = head("nodes", 900, styled_key(("recorded", "recorded")), "of one year")
    assert [(mark.text, mark.x, mark.y) for mark in parts if isinstance(mark, Label)] == [
        ("nodes", 0, 22 + 24 + 14), ("of one year", 0, 14), ("recorded", 30, 22 + 14)
    ]  # fmt: skip
    assert edge == 22 + 24 + 30
    assert head("nodes", 900, note="of one year")[1] == 22 + 30


def test_samples_are_lines_points_or_areas() -> None:
    assert sample("median") == [Stroke(((0, 6), (24, 6)), "median")]
    assert sample("waited") == [Dot(12, 6, 4.5, "waited")]
    assert sample("gap") == [Bar(0, 0, 24, 12, "gap", rx=3)]


def test_steps_hold_each_value_from_one_edge_to_the_next() -> None:
    assert steps([0, 1, 4], [7, 2]) == [(0, 7), (1, 7), (1, 2), (4, 2)]


def test_shares_within_rise_from_0_to_100() -> None:
    assert shares_within([4, 1, 1, 8]) == [
        (0, 0), (1, 0), (1, 25), (1, 25), (1, 50), (4, 50), (4, 75), (8, 75), (8, 100), (8, 100)
    ]  # fmt: skip
    many = shares_within(np.arange(5000.0))
    assert len(many) == 2 * (MOST_POINTS + 1)
    assert many[-1] == (4999, 100)
    assert all(share == pytest.approx((value + 1) / 50, abs=0.2) for value, share in many[1:])
