"""Pictures as data: marks at their places; ``svg`` and ``png`` write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROW, MIDDLE, WIDE = 320.0, 640.0, 940.0
"""Widths at which a chart is drawn: for a phone, a tablet, a screen. Text has the same size in all of them."""

FONT_PX = 12.0
_ADVANCE = 0.6
"""Mean advance of a letter as a share of the font size, that of a broad sans-serif (DejaVu Sans)."""

MARGIN_PX = 14.0
_HEADING_PX, _HEAD_PX, _NOTE_PX, _BETWEEN_PX = 30.0, 60.0, 18.0, 20.0

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line through places; ``style`` names styles of ``theme``, here and in all marks."""

    places: Sequence[Place]
    style: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A filled polygon; ``hint`` shows when the pointer is over it."""

    places: Sequence[Place]
    style: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, with corners of radius ``rx``."""

    x: float
    y: float
    width: float
    height: float
    style: str
    hint: str = ""
    rx: float = 0.0


@dataclass(frozen=True, slots=True)
class Bars:
    """Many rectangles of one height and style, as (x, y, width)."""

    corners: Sequence[tuple[float, float, float]]
    height: float
    style: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A circle."""

    x: float
    y: float
    radius: float
    style: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; ``anchor`` is the part of it that is at its place: start, middle or end.

    ``hint`` replaces it for screen readers.
    """

    text: object
    x: float
    y: float
    style: str = ""
    anchor: str = ""
    size: float = FONT_PX
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """Marks at places relative to another place."""

    marks: Sequence[Drawn]
    x: float
    y: float


Drawn = Stroke | Shape | Bar | Bars | Dot | Label | Moved


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing.

    Attributes:
        width: In pixels.
        height: In pixels.
        marks: Its marks, in the order in which they are painted.
        description: Description for screen readers.
    """

    width: float
    height: float
    marks: Sequence[Drawn]
    description: str


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Stroke:
    """Returns a straight line."""
    return Stroke(((x1, y1), (x2, y2)), style)


def text_px(text: str, size: float = FONT_PX) -> float:
    """Estimates the width of a line of text."""
    return _ADVANCE * size * len(text)


def stacked(panels: Sequence[tuple[str, Picture]], heading: str, notes: Sequence[str]) -> Picture:
    """Returns pictures one below the other, under a heading and lines with their source.

    Args:
        panels: Name and picture of each; an empty name is not drawn.
        heading: Heading of the whole picture.
        notes: Lines below the heading; an empty one is not drawn.
    """
    notes = [note for note in notes if note]
    marks: list[Drawn] = [Label(heading, MARGIN_PX, _HEADING_PX, "strong", size=18)]
    marks += [Label(note, MARGIN_PX, 52 + _NOTE_PX * k) for k, note in enumerate(notes)]
    y = _HEAD_PX + _NOTE_PX * len(notes)
    for name, panel in panels:
        if name:
            marks.append(Label(name, MARGIN_PX, y + 16, "strong", size=14))
            y += 24
        marks.append(Moved(panel.marks, MARGIN_PX, y))
        y += panel.height + _BETWEEN_PX
    width = max(panel.width for _, panel in panels) + 2 * MARGIN_PX
    described = " ".join(panel.description for _, panel in panels)
    notes_words = ", ".join(notes)
    return Picture(width, y, [Bar(0, 0, width, y, "card"), *marks], f"{heading}: {notes_words}. {described}")
