"""Charts of a calibration: both slices over time, mechanisms, and causes of waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.inferred.capacity import Capacity, NodeOutage
from mirage.calibration.mechanism_shares import ALL, MechanismFidelity, WaitCauseShares
from mirage.calibration.wait_causes import CAUSES, LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.report.axes import Axis, Frame, columns, ticks
from mirage.report.chart import Band, Chart, Curve, Instant, Points, Span, picture_of
from mirage.report.charts.fidelity_charts import history_chart, level_curves, wait_curves, window_name
from mirage.report.picture import MIDDLE, WIDE, Bar, Drawn, Label, Moved, Picture, line, text_px

COLOURS = {NODES: "s6", LIMIT: "s3", ORDER: "s2", UNEXPLAINED: "gap"}
"""The style of each cause."""


# -- over time --------------------------------------------------------------------------------------------------------


def waits_chart(row: MechanismFidelity, width: float = WIDE) -> Picture:
    """Draws recorded and simulated mean waits over windows of two weeks, on both slices."""
    found = [row.fitted.moving_average, row.judged.moving_average]
    name = window_name(found[1])
    errors = [
        f"{'no window' if average.mape is None else f'off by {average.mape:.1%}'} on the slice that it was {which}"
        for average, which in zip(found, ("fitted to", "judged by"))
    ]
    chart = _slices_chart(f"{name}, hours", row, [mark for average in found for mark in wait_curves(average)])
    return picture_of(f"{name}: {'; '.join(errors)}.", chart, width=width)


def nodes_chart(row: MechanismFidelity, capacity: Capacity, gone: Sequence[NodeOutage], width: float = WIDE) -> Picture:
    """Draws recorded and simulated busy nodes, with the inferred capacity and outages.

    Args:
        row: The fidelity on both slices.
        capacity: Nodes over time.
        gone: The outages.
        width: In pixels.
    """
    known = [levels for levels in (row.fitted.busy_nodes, row.judged.busy_nodes) if levels is not None]
    first_s, last_s = row.fitted.from_s, row.judged.until_s
    there = _capacity_steps(capacity, first_s, last_s)
    outages = [Span(one.start_s, one.end_s, "gap-band", hint="outage") for one in gone]
    curves = [curve for levels in known for curve in level_curves(levels, width / 2, " fine")]
    chart = _slices_chart("busy nodes", row, [*curves, Curve(there, "capacity")], outages)
    low, high = (int(found(value for _, value in there)) for found in (min, max))
    within = [one for one in gone if one.end_s > first_s and one.start_s < last_s]
    return picture_of(
        f"Busy nodes, recorded and simulated; the capacity is {low:,} to {high:,} nodes, with {len(within)} outages.",
        chart,
        width=width,
    )


def _slices_chart(
    title: str, row: MechanismFidelity, marks: Sequence[Band | Curve], spans: Sequence[Span] = ()
) -> Chart:
    """Describes curves over both slices, with the judged slice shaded."""
    first_s, judged_s, last_s = row.fitted.from_s, row.judged.from_s, row.judged.until_s
    slices = (
        Span(first_s, judged_s, name="fitted to"),
        Span(judged_s, last_s, "judged-band", "judged by"),
        Instant(judged_s, "limit"),
    )
    chart = history_chart(title, (first_s, last_s), marks)
    return replace(chart, marks=[*slices, *spans, *chart.marks])


def _capacity_steps(capacity: Capacity, first_s: float, last_s: float) -> Points:
    """Returns the corners of the capacity within a span; some may lie outside it."""
    points: list[tuple[float, float]] = []
    ends_s = [*capacity.times_s[1:].tolist(), max(last_s, int(capacity.times_s[-1]) + 1)]
    for begin_s, end_s, nodes in zip(capacity.times_s.tolist(), ends_s, capacity.nodes.tolist()):
        if end_s > first_s and begin_s < last_s:
            points += [(begin_s, nodes), (end_s, nodes)]
    return points or [(first_s, capacity.first), (last_s, capacity.first)]


# -- mechanisms -------------------------------------------------------------------------------------------------------

_ROW, _BAR, _GAP, _NAME_PX = 34.0, 10.0, 3.0, 18.0
_HEAD, _FOOT, _BETWEEN = 30.0, 26.0, 34.0
_VALUE_PX = 46.0
"""Room for a figure after the longest bar."""

_SPACE_PX = 5.0
"""Space between a bar or the line and a figure."""

_SIDES = (("fitted", "s6"), ("judged", "s3"))


@dataclass(frozen=True, slots=True)
class _Measure:
    """A figure shown as bars.

    Attributes:
        name: Title above its bars.
        value: Its value for a fidelity; None where it has none.
        shown: Formats a value.
        tick: The format of a value at the axis.
        interval: Its interval for a fidelity, where it has one.
    """

    name: str
    value: Callable[[Fidelity], float | None]
    shown: Callable[[float], str]
    tick: str
    interval: Callable[[Fidelity], tuple[float, float] | None]


_MEASURES = (
    _Measure(
        "error of the moving average", lambda f: f.moving_average.mape, lambda v: f"{v:.1%}", ".0%", lambda _: None
    ),
    _Measure(
        "rank correlation of single jobs",
        lambda f: f.rank_correlation.value,
        lambda v: f"{v:.2f}",
        "g",
        lambda f: f.rank_correlation.interval,
    ),
)


def shares_chart(rows: Sequence[MechanismFidelity], names: Sequence[str], width: float = WIDE) -> Picture:
    """Draws two figures for every choice of mechanisms, on the fitted and the judged slice.

    Args:
        rows: The choices.
        names: Names of the choices, as text.
        width: In pixels; the figures are side by side where there is room, else one below the other.
    """
    names_left = width >= MIDDLE
    row = _ROW if names_left else _ROW + _NAME_PX
    high = _HEAD + row * len(rows) + _FOOT
    parts: list[Drawn] = []
    if names_left:
        left = max(text_px(name) for name in names) * 0.95 + 14
        wide = (width - left - _BETWEEN) / 2
        parts += [Label(name, 0, _HEAD + k * row + _ROW / 2 + 4, style="ink") for k, name in enumerate(names)]
        for k, measure in enumerate(_MEASURES):
            parts += _bars(measure, rows, left + k * (wide + _BETWEEN), wide, row, 0)
        height = high
    else:
        for k, measure in enumerate(_MEASURES):
            drawn = _bars(measure, rows, 0, width, row, _NAME_PX)
            named = [Label(name, 0, _HEAD + place * row + 14, style="ink halo") for place, name in enumerate(names)]
            parts.append(Moved([*drawn, *named], 0, k * (high + _BETWEEN)))
        height = 2 * high + _BETWEEN
    return Picture(width, height, parts, _description(rows, names))


def _bars(
    measure: _Measure, rows: Sequence[MechanismFidelity], left: float, wide: float, row: float, below: float
) -> list[Drawn]:
    """Draws the bars of one figure, a pair for every row."""
    sides = [getattr(one, side) for one in rows for side, _ in _SIDES]
    known = [value for one in sides if (value := measure.value(one)) is not None]
    known += [bounds[1] for one in sides if (bounds := measure.interval(one)) is not None]
    most = max([0.0, *known]) or 1.0
    axis = Axis(0, most, left, left + wide - _VALUE_PX)
    foot = _HEAD + row * len(rows)
    parts: list[Drawn] = [Label(measure.name, left, 14, "strong")]
    frame = Frame(axis, Axis(0, 1, foot, _HEAD - 4))
    parts += columns(frame, lambda axis: [(value, f"{value:{measure.tick}}") for value in ticks(0, axis.high, 4)])
    whole = next((measure.value(one.judged) for one in rows if one.name == ALL), None)
    limit_px = None if whole is None else axis.clip(whole)
    if limit_px is not None:
        parts.append(line(limit_px, _HEAD - 4, limit_px, foot, "limit"))
    for k, one in enumerate(rows):
        top = _HEAD + k * row + below + (_ROW - 2 * _BAR - _GAP) / 2
        for place, (side, colour) in enumerate(_SIDES):
            fidelity = getattr(one, side)
            if (value := measure.value(fidelity)) is None:
                continue
            y, bounds = top + place * (_BAR + _GAP), measure.interval(fidelity)
            parts += _bar(axis, y, value, bounds, colour, f"{side}: {measure.shown(value)}")
            end = axis.clip(max(value, bounds[1] if bounds else 0.0))
            x = end + _SPACE_PX
            if limit_px is not None and x - _SPACE_PX <= limit_px <= x + text_px(measure.shown(value)):
                x = limit_px + _SPACE_PX  # after the line, so that it does not cross the figure
            parts.append(Label(measure.shown(value), x, y + _BAR - 1, style="halo"))
    return parts


def _bar(
    axis: Axis, top: float, value: float, bounds: tuple[float, float] | None, colour: str, hint: str
) -> list[Drawn]:
    """Draws a bar with its interval; a value below 0 is a mark at 0."""
    drawn: list[Drawn] = [Bar(axis.begin_px, top, max(axis.clip(value) - axis.begin_px, 1.5), _BAR, colour, hint, rx=2)]
    if bounds is not None:
        low, high = (axis.clip(bound) for bound in bounds)
        drawn.append(line(low, top + _BAR / 2, high, top + _BAR / 2, "interval"))
    return drawn


def _description(rows: Sequence[MechanismFidelity], names: Sequence[str]) -> str:
    """Describes the judged figures of every row, for screen readers."""
    descriptions = []
    for one, name in zip(rows, names):
        figures = [
            f"{measure.name} {measure.shown(value)}"
            for measure in _MEASURES
            if (value := measure.value(one.judged)) is not None
        ]
        descriptions.append(f"{name}: {', '.join(figures) or 'nothing to compare'}")
    return f"Fidelity on the judged slice. {'; '.join(descriptions)}."


# -- causes -----------------------------------------------------------------------------------------------------------

_CAUSE_ROW, _CAUSE_BAR, _CAUSE_TOP = 30.0, 16.0, 6.0
_CAUSE_NAMES_PX, _CAUSE_VALUE_PX = 150.0, 130.0


def wait_causes_chart(waited: Sequence[WaitCauseShares], names: Sequence[str], width: float = WIDE) -> Picture:
    """Draws a bar for every history, divided among the causes.

    Args:
        waited: Causes of waits of the jobs of some slices.
        names: Names of the slices.
        width: In pixels.
    """
    bars = [
        (f"{name}, {which}", shares)
        for one, name in zip(waited, names)
        for which, shares in (("recorded", one.recorded), ("replayed", one.replayed))
    ]
    names_left = width >= MIDDLE
    row = _CAUSE_ROW if names_left else _CAUSE_ROW + _NAME_PX
    parts: list[Drawn] = []
    for k, (name, shares) in enumerate(bars):
        top = _CAUSE_TOP + k * row
        left = _CAUSE_NAMES_PX if names_left else 0.0
        parts.append(Label(name, 0, top + 12, style="ink"))
        parts += _cause_bar(name, shares, left, width - _CAUSE_VALUE_PX, top + (0 if names_left else _NAME_PX))
    description = "; ".join(
        f"{name}: {', '.join(f'{shares.get(cause, 0.0):.0%} {cause}' for cause in CAUSES)}" for name, shares in bars
    )
    return Picture(width, _CAUSE_TOP + row * len(bars), parts, f"Causes of waits. {description}.")


def _cause_bar(name: str, shares: Mapping[str, float], left: float, right: float, top: float) -> list[Drawn]:
    """Draws the shares of a history in one bar, with the unexplained share at its end."""
    parts: list[Drawn] = []
    begin = left
    for cause in CAUSES:
        wide = shares.get(cause, 0.0) * (right - left)
        parts.append(Bar(begin, top, wide, _CAUSE_BAR, COLOURS[cause], f"{name}: {shares.get(cause, 0.0):.1%} {cause}"))
        begin += wide
    words = f"{shares.get(UNEXPLAINED, 0.0):.0%} {UNEXPLAINED}"
    return [*parts, Label(words, right + 8, top + _CAUSE_BAR - 4)]
