"""The frontier as a picture: overlap to the right, interruption upwards; the lower left corner is where to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from mirage.provision.evaluation.frontier import Frontier, Point, Series
from mirage.report.axes import Axis, Frame, rulers, ticks
from mirage.report.svg import drawing, element, label, line, polyline, title
from mirage.report.theme import SERIES

WIDTH, HEIGHT = 940.0, 450.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 28.0, 44.0, 56.0
_APART = 58.0
"""Leads nearer to the last one named go without a name."""


def frontier_chart(frontier: Frontier) -> str:
    """One size of link: constant leads as a line, policies as points with their 95 % intervals."""
    frame = _frame(frontier)
    of_load = "" if frontier.load == "all" else f", {frontier.load} load"
    plural = "s" if frontier.link_nodes > 1 else ""
    name = f"Links of {frontier.link_nodes} node{plural}{of_load}"
    parts = [
        label(name, _LEFT, 20, class_="strong", font_size=14),
        label(f"{frontier.windows} hand-overs, mean hours each", WIDTH - _RIGHT, 20, text_anchor="end"),
        *_grid(frame),
    ]
    placed: list[tuple[float, float]] = []
    parts += _leads(frame, frontier.leads, placed)
    if frontier.oracle is not None:
        parts += _oracle(frame, frontier.oracle, placed)
    for k, series in enumerate(frontier.series):
        parts += _series(frame, series, k % SERIES + 1, placed)
    told = "; ".join(
        f"{s.policy}: interruption {p.interruption_h:.2f} h, overlap {p.overlap_h:.2f} h"
        for s in frontier.series
        for p in s.points
    )
    return drawing(WIDTH, HEIGHT, *parts, describes=f"{name}. {told}")


def stacked(charts: Sequence[str]) -> str:
    """Several charts of one width below each other, as one picture."""
    placed = [
        chart.replace("<svg", f'<svg y="{k * HEIGHT:g}" height="{HEIGHT:g}"', 1) for k, chart in enumerate(charts)
    ]
    return drawing(WIDTH, HEIGHT * len(charts), *placed, describes="Frontiers of interruption and overlap")


def _frame(frontier: Frontier) -> Frame:
    """Axes that show every policy whole, and the constant leads as far as they are of interest."""
    points = [point for series in frontier.series for point in series.points]
    points += list(frontier.oracle.points) if frontier.oracle else []
    right = max([_upper(p.overlap_h, p.overlap_95) for p in points], default=0.0)
    top = max([_upper(p.interruption_h, p.interruption_95) for p in points], default=0.0)
    near = [lead for lead in frontier.leads if lead.interruption_h > 0.1 * frontier.leads[0].interruption_h]
    right = max([right, *(lead.overlap_h for lead in near), 1.0]) * 1.08
    top = max([top, *(lead.interruption_h for lead in frontier.leads), 0.5]) * 1.1
    return Frame(Axis(0, right, _LEFT, WIDTH - _RIGHT), Axis(0, top, HEIGHT - _BOTTOM, _TOP))


def _upper(mean: float, interval: tuple[float, float] | None) -> float:
    return mean if interval is None else max(mean, interval[1])


def _grid(frame: Frame) -> list[str]:
    parts = rulers(frame)
    for value in ticks(frame.x.low, frame.x.high, 8):
        x = frame.x.place(value)
        parts.append(line(x, frame.top, x, frame.bottom, "axis" if value == 0 else "grid"))
        parts.append(label(f"{value:g}", x, frame.bottom + 18, text_anchor="middle"))
    middle = (frame.left + frame.right) / 2
    parts.append(label("overlap, h", middle, frame.bottom + 40, text_anchor="middle"))
    y = (frame.top + frame.bottom) / 2
    parts.append(label("interruption, h", 18, y, text_anchor="middle", transform=f"rotate(-90 18 {y:g})"))
    return parts


def _leads(frame: Frame, leads: Sequence[Point], placed: list[tuple[float, float]]) -> list[str]:
    """The constant leads, as far as they lie within the frame; the line runs on to its edge."""
    parts, path = [], [frame.at(leads[0].overlap_h, leads[0].interruption_h)]
    dots = []
    for before, lead in pairwise(leads):
        if lead.overlap_h > frame.x.high:
            share = (frame.x.high - before.overlap_h) / (lead.overlap_h - before.overlap_h)
            path.append(
                frame.at(frame.x.high, before.interruption_h + share * (lead.interruption_h - before.interruption_h))
            )
            break
        path.append(frame.at(lead.overlap_h, lead.interruption_h))
        dots.append(lead)
    parts.append(polyline(path, "lead"))
    named = (0.0, 0.0)
    for lead in [leads[0], *dots]:
        x, y = frame.at(lead.overlap_h, lead.interruption_h)
        name = "reactive" if lead is leads[0] else f"lead {lead.label}"
        hint = f"{name}: interruption {lead.interruption_h:.2f} h, overlap {lead.overlap_h:.2f} h"
        parts.append(element("circle", *title(hint), cx=x, cy=y, r=4, class_="lead-dot"))
        if lead is leads[0] or math.hypot(x - named[0], y - named[1]) > _APART:
            at_edge = frame.right - x < _APART
            anchor, shift = ("end", -8) if at_edge else ("start", 8)
            parts.append(label(name, x + shift, y - 7, text_anchor=anchor, class_="halo"))
            placed.append((x, y - 7))
            named = x, y
    return parts


def _series(frame: Frame, series: Series, colour: int, placed: list[tuple[float, float]]) -> list[str]:
    parts = []
    path = [frame.at(p.overlap_h, p.interruption_h) for p in series.points]
    if len(path) > 1:
        parts.append(polyline(path, f"w{colour}"))
    for point, (x, y) in zip(series.points, path):
        parts += _intervals(frame, point, f"w{colour}")
        hint = (
            f"{series.policy} {point.label}: interruption {point.interruption_h:.2f} h, overlap {point.overlap_h:.2f} h"
        )
        parts.append(element("circle", *title(hint), cx=x, cy=y, r=5.5, class_=f"s{colour}"))
    for k, (point, (x, y)) in enumerate(zip(series.points, path)):
        name = series.policy if len(path) == 1 else f"{series.policy} {point.label}" if k == 0 else point.label
        parts.append(_name(name, x, y, f"t{colour} halo", placed))
    return parts


def _oracle(frame: Frame, oracle: Series, placed: list[tuple[float, float]]) -> list[str]:
    parts = []
    for k, point in enumerate(oracle.points):
        x, y = frame.at(point.overlap_h, point.interruption_h)
        hint = f"oracle {point.label}: interruption {point.interruption_h:.2f} h, overlap {point.overlap_h:.2f} h"
        diamond = f"{x:g},{y - 7:g} {x + 7:g},{y:g} {x:g},{y + 7:g} {x - 7:g},{y:g}"
        parts.append(element("polygon", *title(hint), points=diamond, class_="oracle"))
        if k == 0:
            parts.append(_name("oracle", x, y, "strong halo", placed))
    return parts


def _name(text: str, x: float, y: float, class_: str, placed: list[tuple[float, float]]) -> str:
    """A name beside a point, moved up as long as it would lie on another."""
    y -= 9
    while any(abs(x - other_x) < 90 and abs(y - other_y) < 13 for other_x, other_y in placed):
        y -= 13
    placed.append((x, y))
    return label(text, x + 10, y, class_=class_)


def _intervals(frame: Frame, point: Point, class_: str) -> list[str]:
    parts = []
    x, y = frame.at(point.overlap_h, point.interruption_h)
    if point.overlap_95 is not None:
        low, high = (frame.x.clip(value) for value in point.overlap_95)
        parts.append(line(low, y, high, y, class_))
    if point.interruption_95 is not None:
        low, high = (frame.y.clip(value) for value in point.interruption_95)
        parts.append(line(x, low, x, high, class_))
    return parts
