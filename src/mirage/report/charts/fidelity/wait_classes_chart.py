"""Chart of waits by class: recorded and simulated distribution of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mirage.calibration.fidelity.wait_classes import WaitClass
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.report.axes import Axis, Frame
from mirage.report.charts.fidelity.panel import Panel
from mirage.report.charts.fidelity.time_charts import key_marks
from mirage.report.svg import MIDDLE, WIDE, box, label, line, text_px

_MARKS = (
    (0, "0"), (MINUTE_S, "1 min"), (10 * MINUTE_S, "10 min"), (HOUR_S, "1 h"), (6 * HOUR_S, "6 h"), (DAY_S, "1 d"),
    (3 * DAY_S, "3 d"), (10 * DAY_S, "10 d"), (30 * DAY_S, "30 d"), (100 * DAY_S, "100 d"),
)  # fmt: skip
_TOP, _BOTTOM, _RIGHT = 58.0, 28.0, 14.0
_NAMES_LEFT_PX, _ROW, _BAR, _GAP = 178.0, 32.0, 8.0, 3.0
_NAME_PX = 18.0
"""Height of a name above its bars, on a narrow screen."""


def wait_classes_chart(classes: Sequence[WaitClass], width: float = WIDE) -> Panel:
    """Draws the waits of every class: boxes 25 to 75 %, lines 10 to 90 %, ticks at the median."""
    names_left = width >= MIDDLE
    row = _ROW if names_left else _ROW + _NAME_PX
    height = _TOP + row * len(classes) + _BOTTOM
    longest_s = max(HOUR_S, *(max(one.recorded_quantiles_s[-1], one.simulated_quantiles_s[-1]) for one in classes))
    left = _NAMES_LEFT_PX if names_left else 4.0
    frame = Frame(Axis(0, _scaled(longest_s) * 1.02, left, width - _RIGHT), Axis(0, 1, height - _BOTTOM, _TOP - 6))
    parts = [label("waits by class", 0, 14, class_="strong"), *key_marks(width, 10)]
    parts.append(label("box: half of the jobs, tick: median, line: 10 to 90 %", 0, 34))
    parts += _ruler(frame)
    for k, one in enumerate(classes):
        parts += _row(one, frame, _TOP + k * row, names_left=names_left)
    description = "; ".join(
        f"{one.name}: median {one.recorded_quantiles_s[2] / HOUR_S:.1f} h recorded, "
        f"{one.simulated_quantiles_s[2] / HOUR_S:.1f} h simulated"
        for one in classes
    )
    return Panel(width, height, parts, f"Waits by class. {description}.")


def _scaled(wait_s: float) -> float:
    """Scales a wait: linear below a minute and logarithmic above."""
    return math.log10(1 + wait_s / MINUTE_S)


def _ruler(frame: Frame) -> list[str]:
    """Draws vertical lines at round waits, with names that do not overlap."""
    parts, free_px = [], -math.inf
    for wait_s, name in _MARKS:
        if _scaled(wait_s) > frame.x.high:
            break
        x, half = frame.x.place(_scaled(wait_s)), text_px(name) / 2
        parts.append(line(x, frame.top, x, frame.bottom, "grid" if wait_s else "axis"))
        if x - half >= free_px:
            parts.append(label(name, x, frame.bottom + 18, text_anchor="middle"))
            free_px = x + half + 4
    return parts


def _row(one: WaitClass, frame: Frame, top: float, *, names_left: bool) -> list[str]:
    """Draws the name and number of jobs of a class, and its two bars."""
    name, jobs = one.name, f"{one.jobs:,}"
    bars = top + (_ROW - 2 * _BAR - _GAP) / 2 + (0 if names_left else _NAME_PX)
    if names_left:
        parts = [
            label(name, 0, top + 20, class_="ink"),
            label(jobs, frame.left - 12, top + 20, text_anchor="end"),
        ]
    else:
        parts = [
            label(name, 0, top + 14, class_="ink halo"),
            label(jobs, frame.right, top + 14, text_anchor="end", class_="halo"),
        ]
    sides = (("recorded", 1, one.recorded_quantiles_s), ("simulated", 4, one.simulated_quantiles_s))
    for k, (side, colour, quantiles_s) in enumerate(sides):
        quartiles = "25 % {}, median {}, 75 % {}".format(*(_hours(value) for value in quantiles_s[1:4]))
        hint = f"{name}, {side}: {quartiles}"
        parts += _bar(frame, bars + k * (_BAR + _GAP), quantiles_s, colour, hint)
    return parts


def _bar(frame: Frame, top: float, quantiles_s: Sequence[float], colour: int, hint: str) -> list[str]:
    low, first, middle, third, high = (frame.x.clip(_scaled(value)) for value in quantiles_s)
    parts = [
        line(low, top + _BAR / 2, high, top + _BAR / 2, f"w{colour}"),
        box(first, top, max(third - first, 3), _BAR, f"s{colour}", hint, rx=2),
    ]
    if third - first > 2 * _BAR:  # a tick would hide a narrower box
        parts.append(line(middle, top - 1, middle, top + _BAR + 1, "median-tick"))
    return parts


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.2f} h"
