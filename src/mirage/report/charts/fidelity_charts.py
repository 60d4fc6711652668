"""Charts of recorded and simulated histories: mean waits, levels, and waits by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mirage.array_types import Floats
from mirage.calibration.fidelity.hourly_levels import HourlyLevels
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fidelity.moving_average import MovingAverage
from mirage.calibration.fidelity.wait_classes import WaitClass
from mirage.duration import DAY_S, HOUR_S
from mirage.report.axes import Axis, Frame, clock, columns, numbers, scaled_waits, wait_ticks
from mirage.report.chart import Band, Chart, Curve, Points, Scale, head, picture_of, styled_key
from mirage.report.picture import MIDDLE, WIDE, Bar, Drawn, Label, Picture, line

HISTORIES = styled_key(("recorded", "recorded"), ("simulated", "simulated"))
"""The key of both histories."""

COLUMN_PX = 3.0
"""Hours that would share this number of pixels are drawn as their mean."""

NO_WINDOW = "nothing to draw: no window has enough jobs"

TimeSpan = tuple[float, float]
"""First and last instant of a time axis, so that charts can share one."""

_NAMES_LEFT_PX, _ROW, _BAR, _GAP = 178.0, 32.0, 8.0, 3.0
_NAME_PX = 18.0
"""Height of a name above its bars, on a narrow screen."""


def span_s(fidelity: Fidelity) -> TimeSpan:
    """Returns the time axis of all charts: hours with known levels, else days of submissions."""
    levels = fidelity.busy_nodes or fidelity.waiting_jobs
    if levels is None or levels.hours == 1:
        return fidelity.from_s, fidelity.until_s
    return levels.begin_s, levels.begin_s + levels.hours * HOUR_S


def moving_average_chart(found: MovingAverage, span: TimeSpan, width: float = WIDE) -> Picture:
    """Draws mean waits over windows of two weeks, each at the middle of its window."""
    name = window_name(found)
    error = "" if found.mape is None else f"; the simulated is off by {found.mape:.1%}"
    chart = history_chart(f"{name}, hours", span, list(wait_curves(found)))
    return picture_of(f"{name}: {len(found.windows)} windows{error}.", chart, width=width)


def levels_chart(levels: HourlyLevels, name: str, span: TimeSpan, width: float = WIDE) -> Picture:
    """Draws an hourly level.

    Args:
        levels: The level of both histories.
        name: Name of the level, with its unit.
        span: Time axis.
        width: In pixels.
    """
    description = f"{name}: mean {levels.recorded_mean:.1f} recorded, {levels.simulated_mean:.1f} simulated."
    chart = history_chart(name, span, list(level_curves(levels, width - 54)))
    return picture_of(description, chart, width=width)


def history_chart(title: str, span: TimeSpan, marks: Sequence[Band | Curve]) -> Chart:
    """Describes curves of both histories over time, with an axis from 0."""
    values = [value for mark in marks if isinstance(mark, Curve) for _, value in mark.points]
    high = max(values, default=0.0) * 1.08 or 1.0
    return Chart(
        title=title, x=Scale(*span, clock), y=Scale(0, high, numbers(5)), marks=marks, key=HISTORIES,
        empty="" if values else NO_WINDOW,
    )  # fmt: skip


def wait_curves(found: MovingAverage) -> Iterator[Band | Curve]:
    """Yields recorded and simulated mean waits in hours, and the area between them."""
    middles = [window.begin_s + 7 * DAY_S for window in found.windows]
    recorded = [(at, window.recorded_wait_s / HOUR_S) for at, window in zip(middles, found.windows)]
    simulated = [(at, window.simulated_wait_s / HOUR_S) for at, window in zip(middles, found.windows)]
    if middles:
        yield Band(recorded, simulated, "apart")
        yield Curve(recorded, "recorded")
        yield Curve(simulated, "simulated")


def level_curves(levels: HourlyLevels, width: float, more: str = "") -> Iterator[Curve]:
    """Yields means of an hourly level of both histories, with the area below the recorded one.

    ``more`` is appended to the names of styles.
    """
    count = max(int(width / COLUMN_PX), 1)
    yield Curve(_hourly_means(levels, levels.recorded, count), f"recorded{more}", area="area")
    yield Curve(_hourly_means(levels, levels.simulated, count), f"simulated{more}")


def window_name(found: MovingAverage) -> str:
    """Returns the title of the curves: ``mean wait over 14 days``."""
    return f"mean wait over {found.window_s // DAY_S} days"


def _hourly_means(levels: HourlyLevels, values: Floats, count: int) -> Points:
    """Returns the means of the hours that share a column."""
    hours = -(-levels.hours // count)
    begins = np.arange(0, levels.hours, hours)
    means = np.add.reduceat(values, begins) / np.diff(np.append(begins, levels.hours))
    return [(levels.begin_s + float(k + hours / 2) * HOUR_S, float(value)) for k, value in zip(begins, means)]


def wait_classes_chart(classes: Sequence[WaitClass], width: float = WIDE) -> Picture:
    """Draws the waits of every class: boxes 25 to 75 %, lines 10 to 90 %, ticks at the median."""
    names_left = width >= MIDDLE
    row = _ROW if names_left else _ROW + _NAME_PX
    longest_s = max(HOUR_S, *(max(one.recorded_quantiles_s[-1], one.simulated_quantiles_s[-1]) for one in classes))
    left = _NAMES_LEFT_PX if names_left else 4.0
    parts, top = head("waits by class", width, HISTORIES)
    parts.append(Label("box: half of the jobs, tick: median, line: 10 to 90 %", 0, top + 8))
    top += 32
    bottom = top + row * len(classes)
    x = Axis(0, float(scaled_waits([longest_s])[0]) * 1.02, left, width - 14)
    frame = Frame(x, Axis(0, 1, bottom, top - 6))
    parts += columns(frame, wait_ticks)
    for k, one in enumerate(classes):
        parts += _class_marks(one, frame, top + k * row, names_left=names_left)
    description = "; ".join(
        f"{one.name}: median {one.recorded_quantiles_s[2] / HOUR_S:.1f} h recorded, "
        f"{one.simulated_quantiles_s[2] / HOUR_S:.1f} h simulated"
        for one in classes
    )
    return Picture(width, bottom + 28, parts, f"Waits by class. {description}.")


def _class_marks(one: WaitClass, frame: Frame, top: float, *, names_left: bool) -> list[Drawn]:
    """Draws the name and number of jobs of a class, and its two bars."""
    name, jobs = one.name, f"{one.jobs:,}"
    bars = top + (_ROW - 2 * _BAR - _GAP) / 2 + (0 if names_left else _NAME_PX)
    parts: list[Drawn]
    if names_left:
        parts = [Label(name, 0, top + 20, "ink"), Label(jobs, frame.left - 12, top + 20, anchor="end")]
    else:
        parts = [Label(name, 0, top + 14, "ink halo"), Label(jobs, frame.right, top + 14, "halo", "end")]
    sides = (("recorded", 1, one.recorded_quantiles_s), ("simulated", 4, one.simulated_quantiles_s))
    for k, (side, colour, quantiles_s) in enumerate(sides):
        quartiles = "25 % {}, median {}, 75 % {}".format(*(f"{value / HOUR_S:.2f} h" for value in quantiles_s[1:4]))
        parts += _box_marks(frame, bars + k * (_BAR + _GAP), quantiles_s, colour, f"{name}, {side}: {quartiles}")
    return parts


def _box_marks(frame: Frame, top: float, quantiles_s: Sequence[float], colour: int, hint: str) -> list[Drawn]:
    low, first, middle, third, high = (frame.x.clip(value) for value in scaled_waits(quantiles_s).tolist())
    parts: list[Drawn] = [
        line(low, top + _BAR / 2, high, top + _BAR / 2, f"w{colour}"),
        Bar(first, top, max(third - first, 3), _BAR, f"s{colour}", hint, rx=2),
    ]
    if third - first > 2 * _BAR:  # a tick would hide a narrower box
        parts.append(line(middle, top - 1, middle, top + _BAR + 1, "median-tick"))
    return parts
