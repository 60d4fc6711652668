"""Chart of decisions over time: time left, expected wait, and expected costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from mirage.duration import HOUR_S
from mirage.provision.chain_record import Decision
from mirage.report.axes import Axis, Frame, clock, cut_marks, rulers
from mirage.report.svg import WIDE, drawing, label, line, polygon, polyline, text_px

SHOWN = 4
"""Number of links with decisions that are drawn, the last ones."""

_LEFT, _RIGHT, _TOP, _UPPER, _BETWEEN, _LOWER, _BOTTOM = 34.0, 8.0, 34.0, 190.0, 40.0, 110.0, 30.0
_COSTS = ("cost_now", "cost_later")
_KEY = (
    ("remaining", "remaining time of the running link"),
    ("median", "expected wait of the next link, median"),
    ("band", "5 to 95 % of futures"),
    ("submit", "submits the next link"),
)
_COST_KEY = (("cost-now", "expected cost of submitting now"), ("cost-later", "of waiting one step"))

Point = tuple[float, float]


def estimate_key(decisions: Sequence[Decision]) -> tuple[tuple[str, str], ...]:
    """Returns the key of the marks that the chart draws: (class, text)."""
    weighed = any(_known(decision, name) for decision in decisions for name in _COSTS)
    expected = any(_known(decision, "wait_p50_s") for decision in decisions)
    hours = _KEY if expected else (_KEY[0], _KEY[-1])
    return hours + (_COST_KEY if weighed else ())


def estimate_chart(decisions: Sequence[Decision], width: float = WIDE) -> str:
    """Draws hours above and costs below, with a green line at every submission."""
    links = sorted({decision.link for decision in decisions})[-SHOWN:]
    shown = [decision for decision in decisions if decision.link in links]
    rows = [list(row) for _, row in groupby(shown, key=lambda decision: decision.link)]
    costs = [d.estimate[name] for d in shown for name in _COSTS if _known(d, name)]
    bottom = _TOP + _UPPER
    high = max(1.0, *(d.remaining_s / HOUR_S for d in shown), *_expected_h(shown, "wait_p50_s"))
    tail = max(_expected_h(shown, "wait_p95_s"), default=0.0)
    time = Axis(shown[0].now_s, max(shown[-1].now_s, shown[0].now_s + 60), _LEFT, width - _RIGHT)
    upper = Frame(time, Axis(0, max(high, min(tail, 2 * high)) * 1.05, bottom, _TOP))  # a long tail is cut off
    parts = [label("hours", 0, 14, class_="strong"), *clock(upper, named=not costs), *rulers(upper, about=4)]
    parts += [part for row in rows for part in _hours(row, upper)]
    tails = [(float(d.now_s), d.estimate["wait_p95_s"] / HOUR_S) for d in shown if _known(d, "wait_p95_s")]
    parts += cut_marks(upper, tails, "h")
    frames = [upper]
    if costs:
        lower_top = bottom + _BETWEEN
        lower = Frame(time, Axis(0, max(*costs, 0.1) * 1.05, lower_top + _LOWER, lower_top))
        parts += [
            label("expected cost", 0, lower_top - 12, class_="strong"),
            *clock(lower),
            *rulers(lower, about=3),
        ]
        parts += [part for row in rows for part in _costs(row, lower)]
        frames.append(lower)
    parts += _submissions([d for d in shown if d.submits], frames)
    n_submissions = sum(decision.submits for decision in shown)
    description = f"{len(shown)} decisions about the last {len(rows)} links; {n_submissions} let the next compete."
    return drawing(width, frames[-1].bottom + _BOTTOM, *parts, describes=description)


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
    """Draws a line through points; a single point becomes a short dash to be visible."""
    if not points:
        return ""
    (x, y), alone = points[0], len(points) == 1
    return polyline([(x - 3, y), (x + 3, y)] if alone else points, class_)


def _submissions(submitting: Sequence[Decision], frames: Sequence[Frame]) -> list[str]:
    """Draws lines through all frames where a decision submitted, named where there is room."""
    frame = frames[0]
    parts, free_px = [], _LEFT + text_px("hours")  # does not overlap the name of the axis
    for decision in submitting:
        x = frame.x.place(decision.now_s)
        parts += [line(x, each.top, x, each.bottom, "submit") for each in frames]
        name = f"submits link {decision.link + 2}"
        half = text_px(name) / 2
        middle = min(max(x, free_px + half), frame.right - half)
        if middle - half >= free_px and abs(middle - x) <= half + 1:
            parts.append(label(name, middle, frame.top - 8, class_="submit-text halo", text_anchor="middle"))
            free_px = middle + half + 8
    return parts
