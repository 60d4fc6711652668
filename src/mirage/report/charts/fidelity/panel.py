"""Panels: charts used alone or stacked in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.report.svg import box, drawing, element, label

MARGIN = 14.0
_HEAD, _BETWEEN = 74.0, 22.0


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart.

    Attributes:
        width: In pixels.
        height: In pixels.
        parts: Its markup.
        description: Description of its content, for screen readers.
    """

    width: float
    height: float
    parts: Sequence[str]
    description: str

    def svg(self) -> str:
        """Returns the chart as a separate picture."""
        return drawing(self.width, self.height, *self.parts, describes=self.description)


def stacked(panels: Sequence[Panel], heading: str, source: str) -> str:
    """Returns panels of one width as a picture, under a heading and their source."""
    width = panels[0].width + 2 * MARGIN
    parts = [label(heading, MARGIN, 30, class_="strong", font_size=18), label(source, MARGIN, 52)]
    y = _HEAD
    for panel in panels:
        parts.append(element("g", *panel.parts, transform=f"translate({MARGIN:g} {y:g})"))
        y += panel.height + _BETWEEN
    description = " ".join(panel.description for panel in panels)
    return drawing(width, y, box(0, 0, width, y, "card"), *parts, describes=f"{heading}: {source}. {description}")
