"""Why then? What a policy expected the next link to wait, against what was left of the present one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, Decision
from mirage.report.axes import Axis, Frame, date_name, rulers, ticks
from mirage.report.svg import drawing, element, label, line, polygon, polyline, title

WIDTH, HEIGHT = 940.0, 300.0
SHOWN_S = 36 * HOUR_S
NEEDED = {"wait_p50_s", "wait_p95_s"}


def telling_link(run: ChainRun) -> int | None:
    """The link whose successor waited longest among those that estimates were made for; None where there is none."""
    waited_s = {
        before.number: after.started_s - after.submitted_s
        for before, after in pairwise(run.links)
        if after.started_s != MISSING and len(_estimated(run, before.number)) > 2
    }
    return max(waited_s, key=lambda link: waited_s[link]) if waited_s else None


def decision_chart(run: ChainRun, link: int) -> str:
    """The last decisions while one link ran, up to the one that asked for the next, and how long that waited."""
    decisions = _estimated(run, link)
    times = [float(d.now_s) for d in decisions]
    left = [d.remaining_s / HOUR_S for d in decisions]
    median = [d.estimate["wait_p50_s"] / HOUR_S for d in decisions]
    upper = [d.estimate["wait_p95_s"] / HOUR_S for d in decisions]
    following = run.after(link)
    assert following is not None
    waited_h = (following.started_s - following.submitted_s) / HOUR_S
    high = min(max(*left, *upper, waited_h, 1.0), 2 * max(*left, waited_h, 1.0)) * 1.05  # a long tail is cut off
    frame = Frame(Axis(times[0], times[-1] + HOUR_S, 56, WIDTH - 130), Axis(0, high, HEIGHT - 34, 26))
    parts = [label("hours", 56, 16, class_="strong"), *rulers(frame), *_hours(frame)]
    band = [frame.at(t, h) for t, h in zip(times, upper)] + [frame.at(t, h) for t, h in zip(times, median)][::-1]
    parts.append(polygon(band, "band"))
    parts.append(polyline([frame.at(t, h) for t, h in zip(times, median)], "median"))
    parts.append(polyline([frame.at(t, h) for t, h in zip(times, left)], "remaining"))
    x = frame.x.place(times[-1])
    parts += [line(x, frame.top, x, frame.bottom, "submit")]
    parts += [label("asks for the next link", x - 8, frame.top + 12, text_anchor="end", class_="submit-text halo")]
    dot = frame.at(times[-1], waited_h)
    parts.append(element("circle", *title(f"it waited {waited_h:.1f} h"), cx=dot[0], cy=dot[1], r=5, class_="waited"))
    parts += _names(frame, [("left of the link", left[-1], "ink"), ("95 % of futures", upper[-1], "t1"),
                            ("median wait", median[-1], "t1"), ("it did wait", waited_h, "strong")])  # fmt: skip
    told = f"Estimates while link {link + 1} ran, until the next was asked for with {left[-1]:.1f} h left."
    return drawing(WIDTH, HEIGHT, *parts, describes=told)


def _estimated(run: ChainRun, link: int) -> list[Decision]:
    """Decisions of a link with estimates, of the last day and a half of asking."""
    found = [d for d in run.decisions if d.link == link and d.estimate.keys() >= NEEDED]
    return [d for d in found if found[-1].now_s - d.now_s <= SHOWN_S]


def _hours(frame: Frame) -> list[str]:
    parts = []
    for hour in ticks(frame.x.low / HOUR_S / 6, frame.x.high / HOUR_S / 6, 8):
        instant_s = hour * 6 * HOUR_S
        x = frame.x.place(instant_s)
        name = f"{date_name(instant_s)} {int(instant_s // HOUR_S) % 24:02d}:00"
        parts += [line(x, frame.top, x, frame.bottom, "grid"), label(name, x, frame.bottom + 18, text_anchor="middle")]
    return parts


def _names(frame: Frame, lines: Sequence[tuple[str, float, str]]) -> list[str]:
    """Names at the right ends of lines, kept apart."""
    parts, below = [], frame.top - 20
    for name, value, class_ in sorted(lines, key=lambda entry: -entry[1]):
        y = max(frame.y.clip(value) + 4, below + 15)
        below = y
        parts.append(label(name, frame.right + 8, y, class_=f"{class_} halo"))
    return parts
