"""Places labels near the points of a chart without overlap."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from mirage.report.axes import Frame
from mirage.report.picture import FONT_PX, Drawn, Label, line, text_px

_AWAY_PX = (10.0, 22.0, 36.0)
_SIDES = ((0.6, -0.6), (1, 0), (-1, 0), (0, -1), (-0.6, -0.6), (0, 1), (0.6, 0.6), (-0.6, 0.6))
"""Directions that are tried for a label; above to the right first, where a falling line leaves room."""

Box = tuple[float, float, float, float]


@dataclass(slots=True)
class LabelPlacement:
    """The labels of one frame.

    Attributes:
        taken: Boxes that labels must not overlap, as (left, top, right, bottom).
    """

    frame: Frame
    taken: list[Box] = field(default_factory=list)

    def reserve(self, x: float, y: float, radius: float = 6.0) -> None:
        """Reserves the area of a point."""
        self.taken.append((x - radius, y - radius, x + radius, y + radius))

    def near(self, text: str, x: float, y: float, class_: str) -> list[Drawn]:
        """Draws a label near a point, with a line if it is distant; nothing without room."""
        for away, (right, down) in product(_AWAY_PX, _SIDES):
            box = _box(text, x + right * away, y + down * away, right, down)
            if self._is_free(box):
                self.taken.append(box)
                left, top, end, bottom = box
                drawn = Label(text, left, bottom - 3, style=class_)
                if away == _AWAY_PX[0]:
                    return [drawn]
                near_x, near_y = min(max(x, left), end), min(max(y, top), bottom)
                return [line(x, y, near_x, near_y, "leader"), drawn]
        return []

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = box
        if left < self.frame.left or right > self.frame.right or top < self.frame.top or bottom > self.frame.bottom:
            return False
        return all(right <= a or left >= c or bottom <= b or top >= d for a, b, c, d in self.taken)


def _box(text: str, x: float, y: float, right: float, down: float) -> Box:
    """Returns the box of a label with its near edge, in its direction, at a place."""
    width, height = text_px(text), FONT_PX + 3
    left = x if right > 0 else x - width if right < 0 else x - width / 2
    top = y if down > 0 else y - height if down < 0 else y - height / 2
    return left, top, left + width, top + height
