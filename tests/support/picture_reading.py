"""Pictures as their readers see them: texts in order, and marks in the units of the axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from mirage.report.picture import Bar, Bars, Dot, Drawn, Label, Moved, Picture, Shape, Stroke

Point = tuple[float, float]


def marks_of(picture: Picture) -> list[Drawn]:
    """All marks in the order of painting, at their places in the picture."""
    return [_moved(mark, x, y) for mark, x, y in _single(picture.marks, 0.0, 0.0)]


def texts_of(picture: Picture) -> list[str]:
    """All texts in the order of painting."""
    return [str(mark.text) for mark in marks_of(picture) if isinstance(mark, Label)]


def hints_of(picture: Picture, style: str = "") -> list[str]:
    """Hints of all marks, or of those of a style."""
    marks = [mark for mark in marks_of(picture) if not isinstance(mark, Label | Moved | Stroke | Bars)]
    return [mark.hint for mark in marks if mark.hint and style in ("", mark.style)]


def label(picture: Picture, text: str) -> Label:
    """The only label with a text."""
    (found,) = [mark for mark in marks_of(picture) if isinstance(mark, Label) and str(mark.text) == text]
    return found


def bars(picture: Picture, style: str) -> list[Bar]:
    """Rectangles of a style."""
    return [mark for mark in marks_of(picture) if isinstance(mark, Bar) and mark.style == style]


def strokes(picture: Picture, style: str) -> list[list[Point]]:
    """Places of the lines of a style, in pixels."""
    return [list(mark.places) for mark in marks_of(picture) if isinstance(mark, Stroke) and mark.style == style]


@dataclass(frozen=True)
class Reading:
    """A frame of a picture, read with its own axes as with a ruler.

    Attributes:
        left: Pixel of the left edge.
        right: Pixel of the right edge.
        top: Pixel of the upper edge.
        bottom: Pixel of the lower edge.
        names: Names at the vertical axis, from below.
        below: Names at the horizontal axis, from the left.
        at_x: The value of a pixel on the horizontal axis, by names below this frame or, without any, the next one.
        at_y: The value of a pixel on the vertical axis.
        marks: Marks within the frame.
    """

    left: float
    right: float
    top: float
    bottom: float
    names: list[str]
    below: list[str]
    at_x: Callable[[float], float]
    at_y: Callable[[float], float]
    marks: list[Drawn]

    def curves(self, style: str) -> list[list[Point]]:
        """Points of the lines of a style, in the units of both axes."""
        found = [mark.places for mark in self.marks if isinstance(mark, Stroke) and mark.style == style]
        return [[(self.at_x(x), self.at_y(y)) for x, y in places] for places in found]

    def shapes(self, style: str) -> list[list[Point]]:
        """Corners of the polygons of a style, in the units of both axes."""
        found = [mark.places for mark in self.marks if isinstance(mark, Shape) and mark.style == style]
        return [[(self.at_x(x), self.at_y(y)) for x, y in places] for places in found]

    def dots(self, style: str) -> list[Point]:
        """Middles of the points of a style, in the units of both axes."""
        found = [mark for mark in self.marks if isinstance(mark, Dot) and mark.style == style]
        return [(self.at_x(dot.x), self.at_y(dot.y)) for dot in found]

    def levels(self, style: str) -> list[float]:
        """Values of the horizontal lines of a style that cross the frame."""
        places = [mark.places for mark in self.marks if isinstance(mark, Stroke) and mark.style == style]
        return [self.at_y(one[0][1]) for one in places if {one[0][0], one[-1][0]} == {self.left, self.right}]


def readings(picture: Picture, year: int = 0) -> list[Reading]:
    """The frames of a picture, from above, as its texts and grid lines describe them.

    Args:
        picture: The picture.
        year: The year of dates below the frames, which are then read as seconds since 1970; 0 for numbers.
    """
    marks = marks_of(picture)
    lines = [mark.places for mark in marks if isinstance(mark, Stroke) and mark.style in ("grid", "axis")]
    uprights = [(one[0][1], one[1][1]) for one in lines if one[0][1] != one[1][1]]
    found: list[Reading] = []
    for rulers in [*_frames(marks)][::-1]:
        lines = [line.places for line, _ in rulers]
        left, right, first = lines[0][0][0], lines[0][1][0], lines[0][0][1]
        top, bottom = next((high, low) for high, low in uprights if high <= first <= low)
        names = [str(name.text) for _, name in rulers]
        below = [
            (line.places[0][0], str(name.text))
            for line, name in pairwise(marks)
            if isinstance(line, Stroke)
            and isinstance(name, Label)
            and name.anchor == "middle"
            and name.y == bottom + 18
        ]
        words = [text for _, text in below]
        at_y = _scale([(line[0][1], _number(name)) for line, name in zip(lines, names)])
        across = _instants(words, year) if year else [_number(word) for word in words]
        at_x = found[-1].at_x if found and not below else _scale([(x, value) for (x, _), value in zip(below, across)])
        inside = [mark for mark in marks if top <= _lowest(mark) <= bottom]
        found.append(Reading(left, right, top, bottom, names, words, at_x, at_y, inside))
    return found[::-1]


def timeline(picture: Picture, year: int) -> Callable[[float], float]:
    """The instant of a pixel, by the dates and times below the grid lines of a picture."""
    named = [
        (line.places[0][0], str(name.text))
        for line, name in pairwise(marks_of(picture))
        if isinstance(line, Stroke) and isinstance(name, Label) and name.y == line.places[1][1] + 18
    ]
    return _scale([(x, at_s) for (x, _), at_s in zip(named, _instants([text for _, text in named], year))])


def _frames(marks: list[Drawn]) -> Iterator[list[tuple[Stroke, Label]]]:
    """Yields the horizontal grid lines with their names, frame by frame."""
    frame: list[tuple[Stroke, Label]] = []
    for line, name in pairwise(marks):
        if not (isinstance(line, Stroke) and isinstance(name, Label) and name.anchor == "end"):
            continue
        if (name.x, name.y) == (line.places[0][0] - 8, line.places[0][1] + 4):
            if frame and line.places[0][1] > frame[-1][0].places[0][1]:
                yield frame
                frame = []
            frame.append((line, name))
    if frame:
        yield frame


def _scale(known: list[tuple[float, float | None]]) -> Callable[[float], float]:
    numbers = [(pixel, value) for pixel, value in known if value is not None]

    def value_at(pixel: float) -> float:
        (first_px, first), *_, (last_px, last) = numbers
        return round(first + (pixel - first_px) * (last - first) / (last_px - first_px), 6)

    return value_at


def _number(text: str) -> float | None:
    found = re.match(r"-?[\d.,]+(e[+-]\d+)?", text)
    return float(found[0].replace(",", "")) if found else None


def _instants(names: list[str], year: int) -> list[float | None]:
    """Instants of dates and times of day; a time without a date is of the last date before it."""
    found: list[float | None] = []
    day = ""
    for name in names:
        words = name.split()
        day = " ".join(words[:2]) if words[0].isalpha() else day
        if not day:
            found.append(None)
            continue
        clock = words[-1] if ":" in words[-1] else "00:00"
        found.append(datetime.strptime(f"{year} {day} {clock}", "%Y %b %d %H:%M").replace(tzinfo=UTC).timestamp())
    return found


def _lowest(mark: Drawn) -> float:
    if isinstance(mark, Stroke | Shape):
        return max(y for _, y in mark.places)
    return mark.y if isinstance(mark, Dot | Label | Bar) else 0.0


def _single(marks: object, x: float, y: float) -> Iterator[tuple[Drawn, float, float]]:
    for mark in marks:  # type: ignore[attr-defined]
        if isinstance(mark, Moved):
            yield from _single(mark.marks, x + mark.x, y + mark.y)
        else:
            yield mark, x, y


def _moved(mark: Drawn, x: float, y: float) -> Drawn:
    if isinstance(mark, Stroke | Shape):
        return replace(mark, places=[(x + left, y + top) for left, top in mark.places])
    if isinstance(mark, Bars):
        return replace(mark, corners=[(x + left, y + top, width) for left, top, width in mark.corners])
    return replace(mark, x=mark.x + x, y=mark.y + y)
