"""Chart of the shares of mechanisms: the fidelity with all of them, and without each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.mechanism_shares import ALL, MechanismFidelity
from mirage.report.axes import Axis, ticks
from mirage.report.charts.fidelity.panel import Panel
from mirage.report.svg import MIDDLE, WIDE, box, element, label, line, text_px

_ROW, _BAR, _GAP, _NAME_PX = 34.0, 10.0, 3.0, 18.0
_HEAD, _FOOT, _BETWEEN = 30.0, 26.0, 34.0
_VALUE_PX = 46.0
"""Room for a figure after the longest bar."""

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


def shares_chart(rows: Sequence[MechanismFidelity], names: Sequence[str], width: float = WIDE) -> Panel:
    """Draws two figures for every choice of mechanisms, on the fitted and the judged slice.

    Args:
        rows: The choices.
        names: Names of the choices, as text.
        width: In pixels; the figures are side by side where there is room, else one below the other.
    """
    names_left = width >= MIDDLE
    row = _ROW if names_left else _ROW + _NAME_PX
    high = _HEAD + row * len(rows) + _FOOT
    parts: list[str] = []
    if names_left:
        left = max(text_px(name) for name in names) * 0.95 + 14
        wide = (width - left - _BETWEEN) / 2
        parts += [label(name, 0, _HEAD + k * row + _ROW / 2 + 4, class_="ink") for k, name in enumerate(names)]
        for k, measure in enumerate(_MEASURES):
            parts += _bars(measure, rows, left + k * (wide + _BETWEEN), wide, row, 0)
        height = high
    else:
        for k, measure in enumerate(_MEASURES):
            drawn = _bars(measure, rows, 0, width, row, _NAME_PX)
            named = [label(name, 0, _HEAD + place * row + 14, class_="ink halo") for place, name in enumerate(names)]
            parts.append(element("g", *drawn, *named, transform=f"translate(0 {k * (high + _BETWEEN):g})"))
        height = 2 * high + _BETWEEN
    return Panel(width, height, parts, _description(rows, names))


def _bars(
    measure: _Measure, rows: Sequence[MechanismFidelity], left: float, wide: float, row: float, below: float
) -> list[str]:
    """Draws the bars of one figure, a pair for every row."""
    found = [[measure.value(getattr(one, side)) for side, _ in _SIDES] for one in rows]
    known = [value for pair in found for value in pair if value is not None]
    known += [bounds[1] for one in rows if (bounds := measure.interval(one.judged)) is not None]
    most = max([0.0, *known]) or 1.0
    axis = Axis(0, most, left, left + wide - _VALUE_PX)
    foot = _HEAD + row * len(rows)
    parts = [label(measure.name, left, 14, class_="strong")]
    for mark in ticks(0, most, 4):
        x = axis.place(mark)
        parts.append(line(x, _HEAD - 4, x, foot, "grid" if mark else "axis"))
        parts.append(label(f"{mark:{measure.tick}}", x, foot + 18, text_anchor="middle" if mark else "start"))
    whole = next((pair[1] for one, pair in zip(rows, found) if one.name == ALL), None)
    if whole is not None:
        parts.append(line(axis.clip(whole), _HEAD - 4, axis.clip(whole), foot, "limit"))
    for k, (one, pair) in enumerate(zip(rows, found)):
        top = _HEAD + k * row + below + (_ROW - 2 * _BAR - _GAP) / 2
        for place, ((side, colour), value) in enumerate(zip(_SIDES, pair)):
            if value is None:
                continue
            y, bounds = top + place * (_BAR + _GAP), measure.interval(getattr(one, side))
            parts += _bar(axis, y, value, bounds, colour, f"{side}: {measure.shown(value)}")
            end = axis.clip(max(value, bounds[1] if bounds else 0.0))
            parts.append(label(measure.shown(value), end + 5, y + _BAR - 1, class_="halo"))
    return parts


def _bar(axis: Axis, top: float, value: float, bounds: tuple[float, float] | None, colour: str, hint: str) -> list[str]:
    """Draws a bar with its interval; a value below 0 is a mark at 0."""
    drawn = [box(axis.begin_px, top, max(axis.clip(value) - axis.begin_px, 1.5), _BAR, colour, hint, rx=2)]
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
