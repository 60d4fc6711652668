"""Charts over time, recorded and simulated: mean waits, busy nodes and waiting jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.calibration.fidelity.hourly_levels import HourlyLevels
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fidelity.moving_average import MovingAverage, Window
from mirage.duration import DAY_S, HOUR_S
from mirage.job_state import Floats
from mirage.report.axes import Axis, Frame, clock, rulers
from mirage.report.charts.fidelity.panel import Panel
from mirage.report.svg import WIDE, label, line, polygon, polyline, text_px

HEIGHT = 236.0
HISTORIES = ("recorded", "simulated")

_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 10.0, 30.0, 30.0
COLUMN_PX = 3.0
"""Hours that would share this number of pixels are drawn as their mean."""

Point = tuple[float, float]
Span = tuple[float, float]
"""First and last instant of a time axis, so that charts can share one."""


def span_s(fidelity: Fidelity) -> Span:
    """Returns the time axis of all charts: hours with known levels, else days of submissions."""
    levels = fidelity.busy_nodes or fidelity.waiting_jobs
    if levels is None or levels.hours == 1:
        return fidelity.from_s, fidelity.until_s
    return levels.begin_s, levels.begin_s + levels.hours * HOUR_S


def moving_average_chart(found: MovingAverage, span: Span, width: float = WIDE) -> Panel:
    """Draws mean waits over windows of two weeks, each at the middle of its window."""
    name, (recorded, simulated) = window_name(found), mean_waits_h(found.windows)
    parts = _panel(f"{name}, hours", (recorded, simulated), span, width)
    description = f"{name}: {len(found.windows)} windows"
    error = "" if found.mape is None else f"; the simulated is off by {found.mape:.1%}"
    return Panel(width, HEIGHT, parts, f"{description}{error}.")


def levels_chart(levels: HourlyLevels, name: str, span: Span, width: float = WIDE) -> Panel:
    """Draws an hourly level.

    Args:
        levels: The level of both histories.
        name: Name of the level, with its unit.
        span: Time axis.
        width: In pixels.
    """
    columns = max(int((width - _LEFT - _RIGHT) / COLUMN_PX), 1)
    recorded, simulated = (hourly_means(levels, values, columns) for values in (levels.recorded, levels.simulated))
    parts = _panel(name, (recorded, simulated), span, width, filled=True)
    description = f"{name}: mean {levels.recorded_mean:.1f} recorded, {levels.simulated_mean:.1f} simulated."
    return Panel(width, HEIGHT, parts, description)


def key_marks(width: float, y: float) -> list[str]:
    """Draws samples of both curves with their names, at the right."""
    parts, x = [], width
    for name in reversed(HISTORIES):
        x -= text_px(name)
        parts += [label(name, x, y + 4, class_="ink"), line(x - 30, y, x - 6, y, name)]
        x -= 46
    return parts


def window_name(found: MovingAverage) -> str:
    """Returns the title of the curves: ``mean wait over 14 days``."""
    return f"mean wait over {found.window_s // DAY_S} days"


def mean_waits_h(windows: Sequence[Window]) -> tuple[list[Point], list[Point]]:
    """Returns recorded and simulated mean waits in hours, at the middle of each window."""
    middles = [float(window.begin_s + 7 * DAY_S) for window in windows]
    recorded = [(at, window.recorded_wait_s / HOUR_S) for at, window in zip(middles, windows)]
    return recorded, [(at, window.simulated_wait_s / HOUR_S) for at, window in zip(middles, windows)]


def hourly_means(levels: HourlyLevels, values: Floats, columns: int) -> list[Point]:
    """Returns the means of the hours that share a column."""
    hours = -(-levels.hours // columns)
    begins = np.arange(0, levels.hours, hours)
    means = np.add.reduceat(values, begins) / np.diff(np.append(begins, levels.hours))
    return [(levels.begin_s + float(k + hours / 2) * HOUR_S, float(value)) for k, value in zip(begins, means)]


def head(name: str, width: float) -> tuple[list[str], float]:
    """Draws the name of a chart and its key, and returns the top of its frame.

    The frame is lower where the two do not fit side by side.
    """
    narrow = text_px(name) + text_px("recordedsimulated") + 100 > width
    return [label(name, 0, 14, class_="strong"), *key_marks(width, 30 if narrow else 10)], _TOP + (20 if narrow else 0)


def frame_of(span: Span, high: float, top: float, width: float, height: float = HEIGHT) -> Frame:
    """Returns axes over a span of time, from 0 to a little more than ``high``."""
    return Frame(Axis(*span, _LEFT, width - _RIGHT), Axis(0, high * 1.08 or 1.0, height - _BOTTOM, top))


def curves(frame: Frame, recorded: Sequence[Point], simulated: Sequence[Point], *, filled: bool = False) -> list[str]:
    """Draws both curves, with the area between them (or below the recorded one) shaded."""
    ours, theirs = ([frame.at(*point) for point in points] for points in (recorded, simulated))
    if filled:
        shade = polygon([(ours[0][0], frame.bottom), *ours, (ours[-1][0], frame.bottom)], "area")
    else:
        shade = polygon([*ours, *theirs[::-1]], "apart")
    return [shade, polyline(ours, "recorded"), polyline(theirs, "simulated")]


def _panel(
    name: str, both: tuple[Sequence[Point], Sequence[Point]], span: Span, width: float, *, filled: bool = False
) -> list[str]:
    """Draws both curves on one pair of axes."""
    parts, top = head(name, width)
    recorded, simulated = both
    if not recorded:
        return [*parts, label("nothing to draw: no window has enough jobs", _LEFT, HEIGHT / 2)]
    frame = frame_of(span, max(value for _, value in (*recorded, *simulated)), top, width)
    return [*parts, *clock(frame), *rulers(frame, about=5), *curves(frame, recorded, simulated, filled=filled)]
