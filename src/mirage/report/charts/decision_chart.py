"""Chart of the decisions before a submission: expected wait against time left."""

from __future__ import annotations

from itertools import pairwise

from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, Decision
from mirage.report.axes import Axis, Frame, clock, cut_marks, rulers
from mirage.report.svg import WIDE, drawing, element, label, line, polygon, polyline, text_px, title

HEIGHT = 300.0
KEY = (
    ("remaining", "remaining time of the running link"),
    ("median", "expected wait of the next link, median"),
    ("band", "up to 95 % of futures"),
    ("submit", "submits the next link"),
    ("waited", "its real wait"),
)
SHOWN_S = 36 * HOUR_S
NEEDED = {"wait_p50_s", "wait_p95_s"}
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 8.0, 34.0, 30.0
_AFTER = 0.04
"""Share of the time axis that is left blank after the last decision."""


def link_to_explain(run: ChainRun) -> int | None:
    """Returns the link with estimates and the longest wait of its successor; None without."""
    waited_s = {
        before.number: after.started_s - after.submitted_s
        for before, after in pairwise(run.links)
        if after.started_s != MISSING and len(_estimated(run, before.number)) > 2
    }
    return max(waited_s, key=lambda link: waited_s[link]) if waited_s else None


def decision_chart(run: ChainRun, link: int, width: float = WIDE) -> str:
    """Draws the last decisions while one link ran, and the wait of the next link."""
    decisions = _estimated(run, link)
    times = [float(d.now_s) for d in decisions]
    left = [d.remaining_s / HOUR_S for d in decisions]
    median = [d.estimate["wait_p50_s"] / HOUR_S for d in decisions]
    upper = [d.estimate["wait_p95_s"] / HOUR_S for d in decisions]
    following = run.after(link)
    assert following is not None
    waited_h = (following.started_s - following.submitted_s) / HOUR_S
    high = max(*left, waited_h, 1.0) * 1.15  # a long tail is cut off, and marked there
    span_s = max(times[-1] - times[0], HOUR_S)
    time = Axis(times[0], times[-1] + _AFTER * span_s, _LEFT, width - _RIGHT)
    frame = Frame(time, Axis(0, high, HEIGHT - _BOTTOM, _TOP))
    parts = [label("hours", 0, 14, class_="strong"), *rulers(frame), *clock(frame)]
    band = [frame.at(t, h) for t, h in zip(times, upper)] + [frame.at(t, h) for t, h in zip(times, median)][::-1]
    parts.append(polygon(band, "band"))
    parts.append(polyline([frame.at(t, h) for t, h in zip(times, median)], "median"))
    parts.append(polyline([frame.at(t, h) for t, h in zip(times, left)], "remaining"))
    parts += cut_marks(frame, list(zip(times, upper)), "h")
    x = frame.x.place(times[-1])
    caption = "submits the next link"
    middle = min(x, width - text_px(caption) / 2)
    parts += [line(x, frame.top - 4, x, frame.bottom, "submit")]
    parts += [label(caption, middle, _TOP - 10, text_anchor="middle", class_="submit-text halo")]
    dot = frame.at(times[-1], waited_h)
    waited = f"it waited {waited_h:.1f} h"
    parts.append(element("circle", *title(waited), cx=dot[0], cy=dot[1], r=5, class_="waited"))
    description = f"Estimates while link {link + 1} ran, until the next was submitted with {left[-1]:.1f} h left."
    return drawing(width, HEIGHT, *parts, describes=f"{description} {waited.capitalize()}.")


def _estimated(run: ChainRun, link: int) -> list[Decision]:
    """Returns decisions with estimates in the 36 hours before a link's submission."""
    found = [d for d in run.decisions if d.link == link and d.estimate.keys() >= NEEDED]
    return [d for d in found if found[-1].now_s - d.now_s <= SHOWN_S]
