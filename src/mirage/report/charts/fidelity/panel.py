"""Panels: charts that stand alone or one below the other in a picture."""

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
        told: What it shows, for those who cannot see it.
    """

    width: float
    height: float
    parts: Sequence[str]
    told: str

    def svg(self) -> str:
        """The chart as a picture of its own."""
        return drawing(self.width, self.height, *self.parts, describes=self.told)


def stacked(panels: Sequence[Panel], heading: str, source: str) -> str:
    """Picture of panels of one width under a heading and a line that names their source."""
    width = panels[0].width + 2 * MARGIN
    parts = [label(heading, MARGIN, 30, class_="strong", font_size=18), label(source, MARGIN, 52)]
    y = _HEAD
    for panel in panels:
        parts.append(element("g", *panel.parts, transform=f"translate({MARGIN:g} {y:g})"))
        y += panel.height + _BETWEEN
    told = " ".join(panel.told for panel in panels)
    return drawing(width, y, box(0, 0, width, y, "card"), *parts, describes=f"{heading}: {source}. {told}")
