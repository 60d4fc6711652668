"""Charts over two slices of time on one axis: the fitted and the judged slice."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.calibration.inferred.capacity import Capacity, NodeOutage
from mirage.calibration.mechanism_shares import MechanismFidelity
from mirage.report.axes import Frame, clock, rulers
from mirage.report.charts.fidelity.panel import Panel
from mirage.report.charts.fidelity.time_charts import (
    COLUMN_PX,
    HEIGHT,
    Point,
    Span,
    curves,
    frame_of,
    head,
    hourly_means,
    mean_waits_h,
    window_name,
)
from mirage.report.svg import WIDE, box, element, label, line, polyline, text_px

_NAMES_PX = 18.0
"""Height of the line with the names of the slices."""

Both = tuple[Sequence[Point], Sequence[Point]]
"""The recorded and the simulated curve of a slice."""


def waits_chart(row: MechanismFidelity, width: float = WIDE) -> Panel:
    """Draws recorded and simulated mean waits over windows of two weeks, on both slices."""
    found = [row.fitted.moving_average, row.judged.moving_average]
    name = window_name(found[1])
    drawn = [mean_waits_h(average.windows) for average in found]
    errors = [
        f"{'no window' if average.mape is None else f'off by {average.mape:.1%}'} on the slice that it was {which}"
        for average, which in zip(found, ("fitted to", "judged by"))
    ]
    parts = _panel(f"{name}, hours", row, drawn, width)
    return Panel(width, HEIGHT + _NAMES_PX, parts, f"{name}: {'; '.join(errors)}.")


def nodes_chart(row: MechanismFidelity, capacity: Capacity, gone: Sequence[NodeOutage], width: float = WIDE) -> Panel:
    """Draws recorded and simulated busy nodes, with the inferred capacity and outages.

    Args:
        row: The fidelity on both slices.
        capacity: Nodes over time.
        gone: The outages.
        width: In pixels.
    """
    columns = max(int(width / COLUMN_PX / 2), 1)
    drawn = [
        (hourly_means(levels, levels.recorded, columns), hourly_means(levels, levels.simulated, columns))
        for levels in (row.fitted.busy_nodes, row.judged.busy_nodes)
        if levels is not None
    ]
    first_s, last_s = _span(row)
    there = _steps(capacity, first_s, last_s)
    parts = _panel("busy nodes", row, drawn, width, filled=True, above=there, gone=gone)
    low, high = (int(found(value for _, value in there)) for found in (min, max))
    within = [one for one in gone if one.end_s > first_s and one.start_s < last_s]
    return Panel(
        width,
        HEIGHT + _NAMES_PX,
        parts,
        f"Busy nodes, recorded and simulated; the capacity is {low:,} to {high:,} nodes, with {len(within)} outages.",
    )


def _span(row: MechanismFidelity) -> Span:
    return row.fitted.from_s, row.judged.until_s


def _steps(capacity: Capacity, first_s: float, last_s: float) -> list[Point]:
    """Returns the corners of the capacity within a span; some may lie outside it."""
    points: list[Point] = []
    ends_s = [*capacity.times_s[1:].tolist(), max(last_s, int(capacity.times_s[-1]) + 1)]
    for begin_s, end_s, nodes in zip(capacity.times_s.tolist(), ends_s, capacity.nodes.tolist()):
        if end_s > first_s and begin_s < last_s:
            points += [(begin_s, nodes), (end_s, nodes)]
    return points or [(first_s, capacity.first), (last_s, capacity.first)]


def _panel(
    name: str,
    row: MechanismFidelity,
    drawn: Sequence[Both],
    width: float,
    *,
    filled: bool = False,
    above: Sequence[Point] = (),
    gone: Sequence[NodeOutage] = (),
) -> list[str]:
    """Draws the curves of both slices on one pair of axes."""
    parts, top = head(name, width)
    values = [value for both in drawn for curve in both for _, value in curve] + [value for _, value in above]
    if not values:
        return [*parts, label("nothing to draw: no window has enough jobs", 44, HEIGHT / 2)]
    frame = frame_of(_span(row), max(values), top + _NAMES_PX, width, HEIGHT + _NAMES_PX)
    lower = _slices(frame, row)
    for one in gone:
        begin, end = frame.x.clip(one.start_s), frame.x.clip(one.end_s)
        if end > begin:
            lower.append(box(begin, frame.top, max(end - begin, 1.5), frame.bottom - frame.top, "gap-band", "outage"))
    parts += [*lower, *clock(frame), *rulers(frame, about=5)]
    drawn_curves = [
        part for recorded, simulated in drawn if recorded for part in curves(frame, recorded, simulated, filled=filled)
    ]
    parts.append(element("g", *drawn_curves, class_="fine" if filled else None))
    if above:
        parts.append(polyline([frame.at(*point) for point in above], "capacity"))
    return parts


def _slices(frame: Frame, row: MechanismFidelity) -> list[str]:
    """Draws the judged slice, shaded, and the names of both slices above the frame."""
    begin = frame.x.place(row.judged.from_s)
    parts = [
        box(begin, frame.top, frame.right - begin, frame.bottom - frame.top, "judged-band"),
        line(begin, frame.top - _NAMES_PX + 4, begin, frame.bottom, "limit"),
    ]
    for words, low, high in (("fitted to", frame.left, begin), ("judged by", begin, frame.right)):
        if text_px(words) < high - low:
            parts.append(label(words, (low + high) / 2, frame.top - 6, text_anchor="middle"))
    return parts
