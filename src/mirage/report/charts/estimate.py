"""Decisions about a chain over time: what was left, how long the next was to wait, what each choice would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from mirage.duration import HOUR_S
from mirage.provision.chain_record import Decision
from mirage.report.axes import Axis, Frame, clock, rulers
from mirage.report.svg import drawing, label, line, polygon, polyline

WIDTH = 940.0
SHOWN = 4
"""Links whose decisions are drawn, the last ones."""

_LEFT, _RIGHT, _TOP, _UPPER, _BETWEEN, _LOWER, _BOTTOM = 56.0, 148.0, 28.0, 190.0, 40.0, 110.0, 30.0
_COSTS = ("cost_now", "cost_later")

Point = tuple[float, float]


def estimate_chart(decisions: Sequence[Decision]) -> str:
    """Hours above, costs below where the policy weighed any; a green line where it let the next link compete."""
    links = sorted({decision.link for decision in decisions})[-SHOWN:]
    shown = [decision for decision in decisions if decision.link in links]
    rows = [list(row) for _, row in groupby(shown, key=lambda decision: decision.link)]
    costs = [d.estimate[name] for d in shown for name in _COSTS if _known(d, name)]
    bottom = _TOP + _UPPER
    high = max(1.0, *(d.remaining_s / HOUR_S for d in shown), *_expected_h(shown, "wait_p50_s"))
    tail = max(_expected_h(shown, "wait_p95_s"), default=0.0)
    time = Axis(shown[0].now_s, max(shown[-1].now_s, shown[0].now_s + 60), _LEFT, WIDTH - _RIGHT)
    upper = Frame(time, Axis(0, max(high, min(tail, 2 * high)) * 1.05, bottom, _TOP))  # a long tail is cut off
    parts = [label("hours", _LEFT, 16, class_="strong"), *clock(upper, named=not costs), *rulers(upper, about=4)]
    parts += [part for row in rows for part in _hours(row, upper)]
    expected = [("median wait", "t1"), ("5 to 95 % of futures", "t1")] if _expected_h(shown, "wait_p50_s") else []
    parts += _names(upper, [("left of the link", "ink"), *expected])
    frames = [upper]
    if costs:
        lower_top = bottom + _BETWEEN
        lower = Frame(time, Axis(0, max(*costs, 0.1) * 1.05, lower_top + _LOWER, lower_top))
        parts += [
            label("expected cost", _LEFT, lower_top - 12, class_="strong"),
            *clock(lower),
            *rulers(lower, about=3),
        ]
        parts += [part for row in rows for part in _costs(row, lower)]
        parts += _names(lower, [("of asking now", "t3"), ("of waiting one step", "t4")])
        frames.append(lower)
    parts += [part for d in shown if d.submits for part in _asked(d, frames)]
    asked = sum(decision.submits for decision in shown)
    told = f"{len(shown)} decisions about the last {len(rows)} links; {asked} let the next compete."
    return drawing(WIDTH, frames[-1].bottom + _BOTTOM, *parts, describes=told)


def _known(decision: Decision, name: str) -> bool:
    return math.isfinite(decision.estimate.get(name, math.nan))


def _expected_h(decisions: Sequence[Decision], name: str) -> list[float]:
    return [d.estimate[name] / HOUR_S for d in decisions if _known(d, name)]


def _hours(row: Sequence[Decision], frame: Frame) -> list[str]:
    def points(name: str) -> list[Point]:
        return [frame.at(d.now_s, d.estimate[name] / HOUR_S) for d in row if _known(d, name)]

    low, high = points("wait_p05_s") or points("wait_p50_s"), points("wait_p95_s")
    parts = [polygon(high + low[::-1], "band")] if len(low) == len(high) > 1 else []
    parts.append(_drawn(points("wait_p50_s"), "median"))
    parts.append(_drawn([frame.at(d.now_s, max(d.remaining_s, 0) / HOUR_S) for d in row], "remaining"))
    return parts


def _costs(row: Sequence[Decision], frame: Frame) -> list[str]:
    return [
        _drawn([frame.at(d.now_s, d.estimate[name]) for d in row if _known(d, name)], name.replace("_", "-"))
        for name in _COSTS
    ]


def _drawn(points: list[Point], class_: str) -> str:
    """A line through points; a single one is drawn as a dash, so that it can be seen."""
    if not points:
        return ""
    (x, y), alone = points[0], len(points) == 1
    return polyline([(x - 3, y), (x + 3, y)] if alone else points, class_)


def _asked(decision: Decision, frames: Sequence[Frame]) -> list[str]:
    x = frames[0].x.place(decision.now_s)
    parts = [line(x, frame.top, x, frame.bottom, "submit") for frame in frames]
    anchor = "start" if x - frames[0].left < 110 else "middle"  # clear of the name of the axis
    name = f"asks for link {decision.link + 2}"
    return [*parts, label(name, x, frames[0].top - 6, class_="submit-text halo", text_anchor=anchor)]


def _names(frame: Frame, names: Sequence[tuple[str, str]]) -> list[str]:
    """What the lines are, in their colours, beside the frame."""
    return [
        label(name, frame.right + 12, frame.top + 14 + 18 * k, class_=class_) for k, (name, class_) in enumerate(names)
    ]
