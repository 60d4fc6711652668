"""Axes of charts: pixels of values, ticks, and grid lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.report.picture import Drawn, Label, Shape, line, text_px

_DATE_PX, _CLOCK_PX, _NUMBER_PX = 50.0, 66.0, 80.0
"""Room for a date, for a time of day, and for a number, below an axis."""

_OUTSIDE_PX = 8.0
"""Distance by which a name may overhang a frame at the right; every chart has at least this margin."""

_STEPS_S = (
    *(k * MINUTE_S for k in (1, 2, 5, 10, 15, 30)),
    *(k * HOUR_S for k in (1, 2, 3, 6, 12)),
    *(k * DAY_S for k in (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1000)),
)
"""Distances between labelled instants that are round on a clock or a calendar."""

_WAITS = (
    (0, "0"), (MINUTE_S, "1 min"), (10 * MINUTE_S, "10 min"), (HOUR_S, "1 h"), (6 * HOUR_S, "6 h"), (DAY_S, "1 d"),
    (3 * DAY_S, "3 d"), (10 * DAY_S, "10 d"), (30 * DAY_S, "30 d"), (100 * DAY_S, "100 d"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear map from values to pixels."""

    low: float
    high: float
    begin_px: float
    end_px: float

    def place(self, value: float) -> float:
        """Returns the pixel of a value."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.begin_px + share * (self.end_px - self.begin_px)

    def clip(self, value: float) -> float:
        """Returns the pixel of a value, limited to the axis."""
        return self.place(min(max(value, self.low), self.high))


Tick = tuple[float, str]
Ticks = Callable[[Axis], list[Tick]]
"""Returns the labelled values of an axis with their names."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that contains a chart, with its two axes; y grows upwards."""

    x: Axis
    y: Axis

    @property
    def left(self) -> float:
        """Pixel of the left edge."""
        return self.x.begin_px

    @property
    def right(self) -> float:
        """Pixel of the right edge."""
        return self.x.end_px

    @property
    def bottom(self) -> float:
        """Pixel of the lower edge."""
        return self.y.begin_px

    @property
    def top(self) -> float:
        """Pixel of the upper edge."""
        return self.y.end_px

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Returns the pixels of a point, limited to the frame."""
        return self.x.clip(x), self.y.clip(y)


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Returns round values between two bounds: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / max(about, 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def midnights_s(low_s: float, high_s: float, most: int = 16) -> list[int]:
    """Returns midnights (UTC) in a span, at most ``most``: every day or every few days."""
    first = math.ceil(low_s / DAY_S)
    days = list(range(first, math.floor(high_s / DAY_S) + 1))
    every = max(1, math.ceil(len(days) / most))
    return [day * DAY_S for day in days[::every]]


def instants_s(low_s: float, high_s: float, most: int = 8) -> list[int]:
    """Returns round instants (UTC) within a span, at most ``most``."""
    step_s = next((step for step in _STEPS_S if (high_s - low_s) / step <= most), _STEPS_S[-1])
    return [k * step_s for k in range(math.ceil(low_s / step_s), math.floor(high_s / step_s) + 1)]


def instant_names(instants: list[int]) -> list[str]:
    """Returns names of instants: the time of day, with the date where a new day begins."""
    if all(instant_s % DAY_S == 0 for instant_s in instants):
        return [date_name(instant_s) for instant_s in instants]
    names, day = [], None
    for instant_s in instants:
        clock = f"{instant_s // HOUR_S % 24:02d}:{instant_s // MINUTE_S % 60:02d}"
        names.append(clock if instant_s // DAY_S == day else f"{date_name(instant_s)} {clock}")
        day = instant_s // DAY_S
    return names


def date_name(instant_s: float) -> str:
    """Returns the date of an instant, such as ``Mar 1``."""
    date = datetime.fromtimestamp(instant_s, UTC)
    return f"{date:%b} {date.day}"


def numbers(about: int = 0, unit: str = "") -> Ticks:
    """Returns ticks at round numbers: about a count, or by default as many as have room."""

    def of(axis: Axis) -> list[Tick]:
        count = about or max(int(abs(axis.end_px - axis.begin_px) / _NUMBER_PX), 2)
        return [(value, f"{value:g}{unit}") for value in ticks(axis.low, axis.high, count)]

    return of


def dates(axis: Axis) -> list[Tick]:
    """Returns ticks at midnights."""
    instants = midnights_s(axis.low, axis.high, max(int((axis.end_px - axis.begin_px) / _DATE_PX), 1))
    return [(instant_s, date_name(instant_s)) for instant_s in instants]


def clock(axis: Axis) -> list[Tick]:
    """Returns ticks at round instants of any span."""
    instants = instants_s(axis.low, axis.high, max(int((axis.end_px - axis.begin_px) / _CLOCK_PX), 1))
    return list(zip(instants, instant_names(instants)))


def scaled_waits(wait_s: ArrayLike) -> Floats:
    """Scales waits for ``wait_ticks``: linear below a minute and logarithmic above."""
    return np.log10(1 + np.asarray(wait_s, dtype=np.float64) / MINUTE_S)


def wait_ticks(axis: Axis) -> list[Tick]:
    """Returns ticks at round waits, on an axis of scaled waits."""
    found = zip(scaled_waits([wait_s for wait_s, _ in _WAITS]).tolist(), (name for _, name in _WAITS))
    return [(value, name) for value, name in found if value <= axis.high]


def rulers(frame: Frame, found: Ticks) -> list[Drawn]:
    """Draws horizontal lines with their values at the left."""
    parts: list[Drawn] = []
    for value, name in found(frame.y):
        y = frame.y.place(value)
        parts.append(line(frame.left, y, frame.right, y, "axis" if value == frame.y.low else "grid"))
        parts.append(Label(name, frame.left - 8, y + 4, anchor="end"))
    return parts


def columns(frame: Frame, found: Ticks, *, named: bool = True) -> list[Drawn]:
    """Draws vertical lines with names below, without those that would overlap others."""
    parts: list[Drawn] = []
    free_px = -math.inf
    for value, name in found(frame.x):
        x, half = frame.x.place(value), text_px(name) / 2
        parts.append(line(x, frame.top, x, frame.bottom, "axis" if value == 0 else "grid"))
        middle = min(max(x, half + 4), frame.right + _OUTSIDE_PX - half)
        if named and middle - half >= free_px:
            parts.append(Label(name, middle, frame.bottom + 18, anchor="middle"))
            free_px = middle + half + 4
    return parts


def cut_marks(frame: Frame, points: Sequence[tuple[float, float]], unit: str) -> list[Drawn]:
    """Marks where a curve lies above the frame, each with the highest value there.

    Args:
        points: The curve, in order of x.
        unit: Unit of its values.
    """
    stretches = [list(run) for above, run in groupby(points, key=lambda point: point[1] > frame.y.high) if above]
    tops = [(frame.x.clip(x), value) for x, value in (max(run, key=lambda point: point[1]) for run in stretches)]
    parts: list[Drawn] = [
        Shape([(x - 5, frame.top + 7), (x + 5, frame.top + 7), (x, frame.top)], "cut") for x, _ in tops
    ]
    free_px = frame.left
    for (x, value), (next_px, _) in zip(tops, [*tops[1:], (frame.right + 14, 0)]):
        name = f"up to {value:.0f} {unit}"
        wide = text_px(name)
        begin = next((left for left in (x + 9, x - 9 - wide) if free_px <= left and left + wide <= next_px - 9), None)
        if begin is not None:
            parts.append(Label(name, begin, frame.top + 9, "halo"))
        free_px = max(x, begin or x) + 9 + (0 if begin is None or begin < x else wide)
    return parts
