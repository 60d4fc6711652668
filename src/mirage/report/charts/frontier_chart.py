"""Chart of the frontier: overlap to the right, interruption upwards."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.provision.evaluation.frontier import Frontier, Point, PolicySeries
from mirage.report.axes import Axis, Frame, rulers, ticks
from mirage.report.charts.label_placement import LabelPlacement
from mirage.report.figures import links_words
from mirage.report.svg import WIDE, box, drawing, element, label, line, polygon, polyline, text_px, title
from mirage.report.theme import SERIES

_LEFT, _RIGHT, _HEIGHT = 34.0, 14.0, 290.0
_HEAD, _LEGEND_ROW, _ABOVE, _BELOW = 22.0, 20.0, 40.0, 52.0
_NEAR_PX = 13.0
"""Points of a policy closer to one another than this share a label."""

Placed = tuple[float, float]


def frontier_chart(frontier: Frontier, width: float = WIDE) -> str:
    """Draws one link size: leads as a line, policies as points with 95 % intervals."""
    parts, height = _panel(frontier, width, 0)
    description = "; ".join(
        f"{s.policy}: interruption {p.interruption_h:.2f} h, overlap {p.overlap_h:.2f} h"
        for s in frontier.series
        for p in s.points
    )
    return drawing(width, height, *parts, describes=f"{_name(frontier)}. {description}")


def stacked(shown: Sequence[Frontier], heading: str, notes: Sequence[str], width: float = WIDE) -> str:
    """Returns a picture of several frontiers, under a heading and lines with their source."""
    parts = [label(heading, 12, 30, class_="strong", font_size=18)]
    parts += [label(text, 12, 52 + 18 * k) for k, text in enumerate(notes)]
    y = 60.0 + 18 * len(notes)
    for frontier in shown:
        panel, height = _panel(frontier, width - 24, 20)
        name = label(_name(frontier), 0, 16, class_="strong", font_size=14)
        parts.append(element("g", name, *panel, transform=f"translate(12 {y:g})"))
        y += height + 16
    whole = [box(0, 0, width, y, "card"), *parts]
    return drawing(width, y, *whole, describes="Frontiers of interruption and overlap")


def _name(frontier: Frontier) -> str:
    of_load = "" if frontier.load == "all" else f", {frontier.load} load"
    return f"{links_words(frontier.link_nodes).capitalize()}{of_load}"


def _panel(frontier: Frontier, width: float, y: float) -> tuple[list[str], float]:
    """Draws one frontier below ``y``, and returns its parts and its lower edge."""
    legend, rows = _legend(frontier, width, y + _HEAD)
    top = y + _HEAD + rows * _LEGEND_ROW + _ABOVE
    frame = _frame(frontier, width, top)
    parts = [
        label(f"means of {frontier.windows} hand-overs; lower left is best", 0, y + 14),
        *legend,
        label("interruption, h", 0, top - 14, class_="strong"),
        label("overlap, h", width - _RIGHT, frame.bottom + 40, text_anchor="end", class_="strong"),
        *_grid(frame),
    ]
    labels = LabelPlacement(frame)
    parts += _leads(frame, frontier.leads, labels)
    oracle = [] if frontier.oracle is None else _oracle(frame, frontier.oracle, labels)
    parts += [part for k, series in enumerate(frontier.series) for part in _series(frame, series, _colour(k), labels)]
    parts += oracle
    for k, series in enumerate(frontier.series):
        parts += _ratios(frame, series, f"t{_colour(k)} halo", labels)
    if frontier.oracle is not None:
        parts += _ratios(frame, frontier.oracle, "strong halo", labels)
    parts += _lead_names(frame, frontier.leads, labels)
    return parts, frame.bottom + _BELOW


def _colour(k: int) -> int:
    return k % SERIES + 1


def _legend(frontier: Frontier, width: float, top: float) -> tuple[list[str], int]:
    """Draws samples with names in as many rows as needed; returns them and the row count."""
    entries = [("constant lead", "lead")]
    entries += [(series.policy, f"s{_colour(k)}") for k, series in enumerate(frontier.series)]
    entries += [("oracle", "oracle")] if frontier.oracle is not None else []
    parts, x, row = [], 0.0, 0
    for name, class_ in entries:
        wide = 30 + text_px(name) + 18
        if x > 0 and x + wide > width:
            x, row = 0.0, row + 1
        y = top + _LEGEND_ROW * row + 12
        if class_ == "lead":
            parts.append(line(x, y, x + 24, y, "lead"))
            parts.append(element("circle", cx=x + 12, cy=y, r=4, class_="lead-dot"))
        elif class_ == "oracle":
            parts.append(_diamond(x + 12, y))
        else:
            parts.append(element("circle", cx=x + 12, cy=y, r=5.5, class_=class_))
        parts.append(label(name, x + 30, y + 4, class_="ink"))
        x += wide
    return parts, row + 1


def _frame(frontier: Frontier, width: float, top: float) -> Frame:
    """Returns axes that contain the mean of every policy, and the leads that interrupt."""
    points = [point for series in frontier.series for point in series.points]
    points += list(frontier.oracle.points) if frontier.oracle else []
    near = [lead for lead in frontier.leads if lead.interruption_h > 0.1 * frontier.leads[0].interruption_h]
    right = max([p.overlap_h for p in (*points, *near)] + [1.0]) * 1.15
    high = max([p.interruption_h for p in (*points, *frontier.leads)] + [0.5]) * 1.15
    return Frame(Axis(0, right, _LEFT, width - _RIGHT), Axis(0, high, top + _HEIGHT, top))


def _grid(frame: Frame) -> list[str]:
    parts = rulers(frame)
    for value in ticks(frame.x.low, frame.x.high, 8 if frame.right - frame.left > 500 else 5):
        x = frame.x.place(value)
        parts.append(line(x, frame.top, x, frame.bottom, "axis" if value == 0 else "grid"))
        parts.append(label(f"{value:g}", x, frame.bottom + 20, text_anchor="middle"))
    return parts


def _leads(frame: Frame, leads: Sequence[Point], labels: LabelPlacement) -> list[str]:
    """Draws the constant leads as a line, with an arrow where it leaves the frame."""
    shown = _within(frame, leads)
    path = [frame.at(lead.overlap_h, lead.interruption_h) for lead in shown]
    parts, more = [], leads[len(shown) :]
    if more:
        share = (frame.x.high - shown[-1].overlap_h) / (more[0].overlap_h - shown[-1].overlap_h)
        height_h = shown[-1].interruption_h + share * (more[0].interruption_h - shown[-1].interruption_h)
        x, y = frame.at(frame.x.high, height_h)
        parts += [polyline([*path, (x, y)], "lead"), polygon([(x, y - 5), (x + 9, y), (x, y + 5)], "lead-more")]
    else:
        parts.append(polyline(path, "lead"))
    for lead, (x, y) in zip(shown, path):
        name = "reactive" if lead is leads[0] else f"lead {lead.label}"
        parts.append(element("circle", *title(_hint(name, lead)), cx=x, cy=y, r=4, class_="lead-dot"))
        labels.reserve(x, y)
    return parts


def _within(frame: Frame, leads: Sequence[Point]) -> Sequence[Point]:
    """Returns leads up to the first to the right of the frame; always the reactive one."""
    beyond = next((k for k, lead in enumerate(leads) if k and lead.overlap_h > frame.x.high), len(leads))
    return leads[:beyond]


def _lead_names(frame: Frame, leads: Sequence[Point], labels: LabelPlacement) -> list[str]:
    parts = []
    for lead in _within(frame, leads):
        name = "reactive" if lead is leads[0] else lead.label
        parts += labels.near(name, *frame.at(lead.overlap_h, lead.interruption_h), "halo")
    return parts


def _hint(name: str, point: Point) -> str:
    return f"{name}: interruption {point.interruption_h:.2f} h, overlap {point.overlap_h:.2f} h"


def _series(frame: Frame, series: PolicySeries, colour: int, labels: LabelPlacement) -> list[str]:
    path = [frame.at(p.overlap_h, p.interruption_h) for p in series.points]
    parts = [polyline(path, f"w{colour}")] if len(path) > 1 else []
    for point, (x, y) in zip(series.points, path):
        parts += _intervals(frame, point, colour)
        hint = _hint(f"{series.policy} {point.label}", point)
        parts.append(element("circle", *title(hint), cx=x, cy=y, r=5.5, class_=f"s{colour}"))
        labels.reserve(x, y)
    return parts


def _oracle(frame: Frame, oracle: PolicySeries, labels: LabelPlacement) -> list[str]:
    parts = []
    for point in oracle.points:
        x, y = frame.at(point.overlap_h, point.interruption_h)
        parts.append(_diamond(x, y, _hint(f"oracle {point.label}", point)))
        labels.reserve(x, y, 7)
    return parts


def _diamond(x: float, y: float, hint: str = "") -> str:
    corners = f"{x:.4g},{y - 7:.4g} {x + 7:.4g},{y:.4g} {x:.4g},{y + 7:.4g} {x - 7:.4g},{y:.4g}"
    return element("polygon", *title(hint), points=corners, class_="oracle")


def _ratios(frame: Frame, series: PolicySeries, class_: str, labels: LabelPlacement) -> list[str]:
    """Writes cost ratios near the points of a policy; points that are close share a label."""
    if len(series.points) < 2:
        return []
    groups: list[list[tuple[Point, Placed]]] = []
    for point in series.points:
        x, y = frame.at(point.overlap_h, point.interruption_h)
        if groups and max(abs(x - groups[-1][-1][1][0]), abs(y - groups[-1][-1][1][1])) < _NEAR_PX:
            groups[-1].append((point, (x, y)))
        else:
            groups.append([(point, (x, y))])
    parts = []
    for group in groups:
        ratios = [ratio for point, _ in group for ratio in point.label.split(", ")]
        text = ratios[0] if len(ratios) == 1 else f"{ratios[0]} to {ratios[-1]}"
        parts += labels.near(text, *group[0][1], class_)
    return parts


def _intervals(frame: Frame, point: Point, colour: int) -> list[str]:
    """Draws the cross of the 95 % intervals, with an arrow where one leaves the frame."""
    parts = []
    x, y = frame.at(point.overlap_h, point.interruption_h)
    if point.overlap_95 is not None:
        low, high = (frame.x.clip(value) for value in point.overlap_95)
        parts.append(line(low, y, high, y, f"w{colour}"))
        if point.overlap_95[1] > frame.x.high:
            parts.append(polygon([(high - 8, y - 4), (high, y), (high - 8, y + 4)], f"s{colour}"))
    if point.interruption_95 is not None:
        low, high = (frame.y.clip(value) for value in point.interruption_95)
        parts.append(line(x, low, x, high, f"w{colour}"))
        if point.interruption_95[1] > frame.y.high:
            parts.append(polygon([(x - 4, high + 8), (x, high), (x + 4, high + 8)], f"s{colour}"))
    return parts
