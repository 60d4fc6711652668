"""Charts as data: axes and marks in the units of a result, and the picture of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage.report.axes import Axis, Frame, Ticks, columns, cut_marks, rulers
from mirage.report.label_placement import LabelPlacement
from mirage.report.picture import WIDE, Bar, Dot, Drawn, Label, Moved, Picture, Place, Shape, Stroke, line, text_px
from mirage.report.theme import style_of

_LEFT_PX, _RIGHT_PX, _BELOW_PX, _UNNAMED_PX, _BETWEEN_PX = 44.0, 10.0, 30.0, 8.0, 12.0
_TITLE_PX, _ROW_PX, _NAMES_PX, _AXIS_NAME_PX = 30.0, 20.0, 18.0, 20.0
_SAMPLE_PX, _SAMPLE_GAP_PX, _ENTRY_GAP_PX = 24.0, 6.0, 18.0
_LEAST_PX = 1.5

MOST_POINTS = 800
"""Maximum number of points of a curve; more are not visible."""

Points = Sequence[tuple[float, float]]
Sample = Sequence[Drawn]
"""Marks of 24 × 12 pixels that stand for a mark of a chart in its key."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis in the units of its values; ``name`` is written at the end of a horizontal one."""

    low: float
    high: float
    ticks: Ticks
    name: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points, limited to the frame; without a style only its marks.

    Attributes:
        points: In order of x.
        style: Style of the line.
        area: Style of the area below it; empty for none.
        cut: Unit of the values, to mark where the curve is above the frame; empty for no marks.
    """

    points: Points
    style: str
    area: str = ""
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two curves."""

    low: Points
    high: Points
    style: str


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the horizontal axis; without a style it has only a name, above the frame."""

    begin: float
    end: float
    style: str = ""
    name: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line at a value, with a name at its right end."""

    value: float
    name: str = ""
    style: str = "limit"


@dataclass(frozen=True, slots=True)
class Instant:
    """A vertical line, with a name above the frame where there is room."""

    at: float
    style: str
    name: str = ""
    name_style: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A point, with a radius in pixels."""

    x: float
    y: float
    style: str
    hint: str = ""
    radius: float = 5.0
    is_diamond: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """A mark at the edge of the frame for values beyond it, to the right or upwards."""

    x: float
    y: float
    style: str
    is_right: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """A text near a point, at a place where it covers no other text and no point."""

    text: str
    x: float
    y: float
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Marks on one pair of axes.

    Attributes:
        title: The quantity of the vertical axis with its unit, above the frame.
        x: Horizontal axis.
        y: Vertical axis.
        marks: In the order in which they are painted, above the grid; spans are below it.
        key: Samples of marks with their names; it is drawn next to the title, or above it.
        note: A sentence above the key.
        height: Of the frame, in pixels.
        has_x_names: Whether the horizontal axis has names.
        empty: The reason why there is nothing to draw; if not empty, it replaces the frame.
    """

    title: str
    x: Scale
    y: Scale
    marks: Sequence[Curve | Band | Span | Level | Instant | Spot | Arrow | Note] = ()
    key: Sequence[tuple[Sample, str]] = ()
    note: str = ""
    height: float = 176.0
    has_x_names: bool = True
    empty: str = ""


def picture_of(description: str, *charts: Chart, width: float = WIDE) -> Picture:
    """Draws charts, one below the other, with frames of one width.

    Args:
        description: Description for screen readers.
        charts: The charts.
        width: In pixels.
    """
    left = max(_LEFT_PX, *(_names_px(chart) for chart in charts))
    parts: list[Drawn] = []
    y = 0.0
    for chart in charts:
        drawn, height = _drawn(chart, left, width)
        parts += drawn if not y else [Moved(drawn, 0, y)]
        y += height + _BETWEEN_PX
    return Picture(width, y - _BETWEEN_PX, parts, description)


def steps(edges: ArrayLike, values: ArrayLike) -> Points:
    """Returns the corners of steps: each value lasts from one edge to the next."""
    across, up = np.repeat(np.asarray(edges), 2)[1:-1], np.repeat(np.asarray(values), 2)
    return list(zip(across.tolist(), up.tolist(), strict=True))


def shares_within(values: ArrayLike) -> Points:
    """Returns the per cent of values that are at most as large as each, as steps from 0."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    chosen = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_POINTS)).round().astype(np.int64))
    edges = np.concatenate([[0.0], ordered[chosen], ordered[-1:]])
    return steps(edges, np.concatenate([[0.0], (chosen + 1) / len(ordered) * 100]))


def sample(style: str) -> list[Drawn]:
    """Returns the sample of a style in a key: a line, a point or an area."""
    found = style_of(style)
    if found.is_line:
        return [line(0, 6, _SAMPLE_PX, 6, style)]
    return [Dot(12, 6, 4.5, style)] if found.is_dot else [Bar(0, 0, _SAMPLE_PX, 12, style, rx=3)]


def styled_key(*entries: tuple[str, str]) -> list[tuple[Sample, str]]:
    """Returns the key of styles with their names."""
    return [(sample(style), name) for style, name in entries]


def head(title: str, width: float, key: Sequence[tuple[Sample, str]] = (), note: str = "") -> tuple[list[Drawn], float]:
    """Draws note, key and title of a chart, and returns the lower edge of them.

    The key is at the right of the title where there is room, else above it in as many rows as needed.
    """
    parts: list[Drawn] = []
    y = 0.0
    if note:
        parts.append(Label(note, 0, 14))
        y = _ROW_PX + 2
    widths = [_SAMPLE_PX + _SAMPLE_GAP_PX + text_px(name) for _, name in key]
    whole = sum(widths) + _ENTRY_GAP_PX * (len(key) - 1)
    is_inline = not note and text_px(title) + _ENTRY_GAP_PX + whole <= width
    x = width - whole if is_inline else 0.0
    for (marks, name), wide in zip(key, widths):
        if not is_inline and x > 0 and x + wide > width:
            x, y = 0.0, y + _ROW_PX
        parts.append(Moved(marks, x, y + 4))
        parts.append(Label(name, x + _SAMPLE_PX + _SAMPLE_GAP_PX, y + 14, "ink"))
        x += wide + _ENTRY_GAP_PX
    if key and not is_inline:
        y += _ROW_PX + 4
    return [Label(title, 0, y + 14, "strong"), *parts], y + _TITLE_PX


def _names_px(chart: Chart) -> float:
    """Returns the room that the values of the vertical axis need, at the left of the frame."""
    axis = Axis(chart.y.low, chart.y.high, chart.height, 0)
    return max((text_px(name) + 14 for _, name in chart.y.ticks(axis)), default=0.0)


def _drawn(chart: Chart, left: float, width: float) -> tuple[list[Drawn], float]:
    """Draws a chart, and returns its marks and its height."""
    parts, top = head(chart.title, width, chart.key, chart.note)
    if chart.empty:
        return [*parts, Label(chart.empty, left, top + chart.height / 2)], top + chart.height + _BELOW_PX
    has_names = any(isinstance(mark, Span | Instant) and mark.name for mark in chart.marks)
    top += _NAMES_PX if has_names else 0.0
    bottom = top + chart.height
    frame = Frame(
        Axis(chart.x.low, chart.x.high, left, width - _RIGHT_PX), Axis(chart.y.low, chart.y.high, bottom, top)
    )
    parts += [mark for span in chart.marks if isinstance(span, Span) for mark in _span(span, frame)]
    parts += columns(frame, chart.x.ticks, named=chart.has_x_names)
    parts += rulers(frame, chart.y.ticks)
    labels = LabelPlacement(frame)
    for mark in chart.marks:
        parts += _mark(mark, frame, labels)
    for note in chart.marks:
        if isinstance(note, Note):
            parts += labels.near(note.text, *frame.at(note.x, note.y), note.style)
    parts += _names(chart, frame)
    if chart.x.name:
        parts.append(Label(chart.x.name, frame.right, bottom + 20 + _AXIS_NAME_PX, "strong", "end"))
    below = _BELOW_PX if chart.has_x_names else _UNNAMED_PX
    return parts, bottom + below + (_AXIS_NAME_PX if chart.x.name else 0)


def _span(span: Span, frame: Frame) -> list[Drawn]:
    begin, end = frame.x.clip(span.begin), frame.x.clip(span.end)
    if not span.style or end <= begin:
        return []
    wide = max(end - begin, _LEAST_PX)
    return [Bar(begin, frame.top, wide, frame.bottom - frame.top, span.style, span.hint)]


def _mark(mark: object, frame: Frame, labels: LabelPlacement) -> list[Drawn]:
    """Draws a mark, except for names and notes, which have their places after all marks."""
    match mark:
        case Curve(points, style, area, cut):
            return _curve(points, style, area, cut, frame)
        case Band(low, high, style) if len(low) > 1:
            return [Shape([*_places(low, frame), *_places(high, frame)[::-1]], style)]
        case Level(value, name, style):
            y = frame.y.clip(value)
            named = [Label(name, frame.right, y - 5, "halo", "end")] if name else []
            return [line(frame.left, y, frame.right, y, style), *named]
        case Instant(at, style, name):
            x = frame.x.clip(at)
            return [line(x, frame.top - (4 if name else 0), x, frame.bottom, style)]
        case Spot(value, level, style, hint, radius, is_diamond):
            x, y = frame.at(value, level)
            labels.reserve(x, y, max(radius, 6))
            corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
            return [Shape(corners, style, hint) if is_diamond else Dot(x, y, radius, style, hint)]
        case Arrow(value, level, style, is_right):
            x, y = frame.at(value, level)
            corners = [(x - 8, y - 4), (x, y), (x - 8, y + 4)] if is_right else [(x - 4, y + 8), (x, y), (x + 4, y + 8)]
            return [Shape(corners, style)]
    return []


def _curve(points: Points, style: str, area: str, cut: str, frame: Frame) -> list[Drawn]:
    """Draws a curve; a single point becomes a short dash to be visible."""
    marks: list[Drawn] = cut_marks(frame, points, cut) if cut else []
    if not points or not style:
        return marks
    places = _places(points, frame)
    if len(places) == 1:
        ((x, y),) = places
        return [line(x - 3, y, x + 3, y, style)]
    shade = [(places[0][0], frame.bottom), *places, (places[-1][0], frame.bottom)]
    return [*([Shape(shade, area)] if area else []), Stroke(places, style), *marks]


def _places(points: Points, frame: Frame) -> list[Place]:
    return [frame.at(float(x), float(y)) for x, y in points]


def _names(chart: Chart, frame: Frame) -> list[Drawn]:
    """Writes the names of spans and instants above the frame, where there is room."""
    parts: list[Drawn] = []
    free_px = 0.0
    for mark in chart.marks:
        if not isinstance(mark, Span | Instant) or not mark.name:
            continue
        half = text_px(mark.name) / 2
        if isinstance(mark, Span):
            begin, end = frame.x.clip(mark.begin), frame.x.clip(mark.end)
            middle, room, style = (begin + end) / 2, end - begin, ""
        else:
            middle, room, style = frame.x.clip(mark.at), frame.right, mark.name_style
        middle = min(middle, frame.right + _RIGHT_PX - half)
        if 2 * half < room and middle - half >= free_px:
            parts.append(Label(mark.name, middle, frame.top - 8, style, "middle"))
            free_px = middle + half + 8
    return parts
