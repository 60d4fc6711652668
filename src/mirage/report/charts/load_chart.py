"""Chart of a cluster's load: busy nodes above, the queue below, on one time axis."""

from __future__ import annotations

from mirage.demo.demonstration import Load
from mirage.job_state import Ints
from mirage.report.axes import Axis, Frame, days, rulers
from mirage.report.svg import WIDE, drawing, label, line, polygon, polyline

HEIGHT = 320.0
_LEFT, _RIGHT = 40.0, 8.0


def load_chart(load: Load, nodes: int, until_s: int, width: float = WIDE) -> str:
    """Draws busy nodes and the queue as steps."""
    time = Axis(float(load.time_s[0]), float(until_s), _LEFT, width - _RIGHT)
    upper = Frame(time, Axis(0, nodes * 1.05, 150, 26))
    lower = Frame(time, Axis(0, max(float(load.queued.max()), 1.0) * 1.05, HEIGHT - 28, 192))
    parts = [label("busy nodes", 0, 14, class_="strong"), *days(upper, named=False), *rulers(upper, about=4)]
    parts += _steps(upper, load.time_s, load.busy, "area", "edge")
    limit = upper.y.place(nodes)
    parts += [line(upper.left, limit, upper.right, limit, "limit")]
    parts += [label(f"{nodes} nodes", upper.right, limit - 5, text_anchor="end", class_="halo")]
    parts += [label("nodes requested by waiting jobs", 0, 180, class_="strong"), *days(lower)]
    parts += rulers(lower, about=3)
    parts += _steps(lower, load.time_s, load.queued, "queue-area", "queue")
    description = f"Busy nodes: mean {load.busy.mean():.0f} of {nodes}. Queue: mean {load.queued.mean():.0f} nodes."
    return drawing(width, HEIGHT, *parts, describes=description)


def _steps(frame: Frame, time_s: Ints, values: Ints, area: str, edge: str) -> list[str]:
    points: list[tuple[float, float]] = []
    for instant_s, value, until_s in zip(time_s, values, [*time_s[1:], frame.x.high]):
        points += [frame.at(float(instant_s), float(value)), frame.at(float(until_s), float(value))]
    corners = [(frame.left, frame.bottom), *points, (frame.right, frame.bottom)]
    return [polygon(corners, area), polyline(points, edge)]
