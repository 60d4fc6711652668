"""Chart of the frontier: overlap to the right, interruption upwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirage.provision.evaluation.frontier import Frontier, Point, PolicySeries
from mirage.report.axes import numbers
from mirage.report.chart import Arrow, Chart, Curve, Note, Scale, Spot, picture_of, sample
from mirage.report.figures import links_words
from mirage.report.picture import WIDE, Dot, Picture, Shape
from mirage.report.theme import SERIES

_HEIGHT, _NEAR_PX = 290.0, 13.0
"""Height of the frame; points of a policy closer to one another than the other number share a label."""

FrontierMark = Arrow | Curve | Note | Spot


def frontier_chart(frontier: Frontier, width: float = WIDE) -> Picture:
    """Draws one link size: leads as a line, policies as points with 95 % intervals."""
    description = "; ".join(
        f"{s.policy}: interruption {p.interruption_h:.2f} h, overlap {p.overlap_h:.2f} h"
        for s in frontier.series
        for p in s.points
    )
    return picture_of(f"{frontier_name(frontier)}. {description}", _chart(frontier, width), width=width)


def frontier_name(frontier: Frontier) -> str:
    """Returns the heading of a frontier: its link size, and its load if it is of one."""
    of_load = "" if frontier.load == "all" else f", {frontier.load} load"
    return f"{links_words(frontier.link_nodes).capitalize()}{of_load}"


def _chart(frontier: Frontier, width: float) -> Chart:
    """Describes axes with room for all policies and the leads that interrupt."""
    points = [point for series in frontier.series for point in series.points]
    points += list(frontier.oracle.points) if frontier.oracle else []
    interrupting = [lead for lead in frontier.leads if lead.interruption_h > 0.1 * frontier.leads[0].interruption_h]
    right = max([p.overlap_h for p in (*points, *interrupting)] + [1.0]) * 1.15
    high = max([p.interruption_h for p in (*points, *frontier.leads)] + [0.5]) * 1.15
    near = _NEAR_PX / (width - 54) * right, _NEAR_PX / _HEIGHT * high
    oracle = [] if frontier.oracle is None else [frontier.oracle]
    diamond = Shape([(12, -1), (19, 6), (12, 13), (5, 6)], "oracle")
    return Chart(
        title="interruption, h",
        x=Scale(0, right, numbers(8 if width > 550 else 5), "overlap, h"),
        y=Scale(0, high, numbers(5)),
        marks=[
            *_leads(frontier.leads, right),
            *(mark for k, series in enumerate(frontier.series) for mark in _series(series, _colour(k), right, high)),
            *(
                Spot(p.overlap_h, p.interruption_h, "oracle", _hint(f"oracle {p.label}", p), 7, is_diamond=True)
                for series in oracle
                for p in series.points
            ),
            *(note for k, each in enumerate(frontier.series) for note in _ratios(each, f"t{_colour(k)} halo", near)),
            *(note for each in oracle for note in _ratios(each, "strong halo", near)),
            *(
                Note(lead.label if k else "reactive", lead.overlap_h, lead.interruption_h, "halo")
                for k, lead in enumerate(_within(frontier.leads, right))
            ),
        ],
        key=[
            ([*sample("lead"), Dot(12, 6, 4, "lead-dot")], "constant lead"),
            *(([Dot(12, 6, 5.5, f"s{_colour(k)}")], series.policy) for k, series in enumerate(frontier.series)),
            *(([diamond], "oracle") for _ in oracle),
        ],
        note=f"means of {frontier.windows} hand-overs; lower left is best",
        height=_HEIGHT,
    )  # fmt: skip


def _colour(k: int) -> int:
    return k % SERIES + 1


def _leads(leads: Sequence[Point], right: float) -> Iterator[FrontierMark]:
    """Yields the constant leads as a line, with an arrow where it leaves the frame."""
    shown = _within(leads, right)
    path = [(lead.overlap_h, lead.interruption_h) for lead in shown]
    if len(shown) < len(leads):
        last, beyond = shown[-1], leads[len(shown)]
        share = (right - last.overlap_h) / (beyond.overlap_h - last.overlap_h)
        end = right, last.interruption_h + share * (beyond.interruption_h - last.interruption_h)
        yield Curve([*path, end], "lead")
        yield Arrow(*end, "lead-more")
    else:
        yield Curve(path, "lead")
    for lead in shown:
        name = "reactive" if lead is leads[0] else f"lead {lead.label}"
        yield Spot(lead.overlap_h, lead.interruption_h, "lead-dot", _hint(name, lead), 4)


def _within(leads: Sequence[Point], right: float) -> Sequence[Point]:
    """Returns leads up to the first to the right of the frame; always the reactive one."""
    beyond = next((k for k, lead in enumerate(leads) if k and lead.overlap_h > right), len(leads))
    return leads[:beyond]


def _hint(name: str, point: Point) -> str:
    return f"{name}: interruption {point.interruption_h:.2f} h, overlap {point.overlap_h:.2f} h"


def _series(series: PolicySeries, colour: int, right: float, high: float) -> Iterator[FrontierMark]:
    """Yields the points of a policy with their 95 % intervals, and the line through them."""
    if len(series.points) > 1:
        yield Curve([(point.overlap_h, point.interruption_h) for point in series.points], f"w{colour}")
    for point in series.points:
        x, y = point.overlap_h, point.interruption_h
        if point.overlap_95 is not None:
            yield Curve([(bound, y) for bound in point.overlap_95], f"w{colour}")
            if point.overlap_95[1] > right:
                yield Arrow(right, y, f"s{colour}")
        if point.interruption_95 is not None:
            yield Curve([(x, bound) for bound in point.interruption_95], f"w{colour}")
            if point.interruption_95[1] > high:
                yield Arrow(x, high, f"s{colour}", is_right=False)
        yield Spot(x, y, f"s{colour}", _hint(f"{series.policy} {point.label}", point), 5.5)


def _ratios(series: PolicySeries, style: str, near: tuple[float, float]) -> Iterator[Note]:
    """Yields cost ratios near the points of a policy; points that are close share a label."""
    if len(series.points) < 2:
        return
    groups: list[list[Point]] = []
    for point in series.points:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and abs(point.overlap_h - last.overlap_h) < near[0]
            and abs(point.interruption_h - last.interruption_h) < near[1]
        ):
            groups[-1].append(point)
        else:
            groups.append([point])
    for group in groups:
        ratios = [ratio for point in group for ratio in point.label.split(", ")]
        text = ratios[0] if len(ratios) == 1 else f"{ratios[0]} to {ratios[-1]}"
        yield Note(text, group[0].overlap_h, group[0].interruption_h, style)
