"""The links of a chain, a row each: held, waiting, running, and what was lost where one handed over to the next."""

from __future__ import annotations

from itertools import pairwise

from mirage.duration import format_duration
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord
from mirage.report.axes import Axis, Frame, clock, instant_names
from mirage.report.svg import box, drawing, label, line

WIDTH = 940.0
SHOWN = 14
"""Links, the last ones; ``chain_chart`` shows a whole life."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 118.0, 84.0, 26.0, 28.0
_ROW, _BAR = 28.0, 16.0
_LEAST_PX = 1.5


def link_chart(run: ChainRun) -> str:
    """The last links; what is still to come of one that runs is pale."""
    shown = run.links[-SHOWN:]
    row_of = {record.number: k for k, record in enumerate(shown)}
    height = _TOP + _ROW * len(shown) + _BOTTOM
    begin_s = min(_first_s(record) for record in shown)
    end_s = max(run.until_s, *(record.ends_s for record in shown))
    frame = Frame(Axis(begin_s, max(end_s, begin_s + 60), _LEFT, WIDTH - _RIGHT), Axis(0, 1, height - _BOTTOM, _TOP))
    overs = [over for over in run.hand_overs if over.link in row_of]
    parts = clock(frame)
    parts += [part for over in overs for part in _band(over, row_of, frame)]
    parts += [part for record in shown for part in _row(record, run.until_s, row_of[record.number], frame)]
    parts += [_lost(over, _top(row_of.get(over.following, row_of[over.link]))) for over in overs]
    if run.until_s < end_s:
        x = frame.x.place(run.until_s)
        parts += [line(x, _TOP - 4, x, frame.bottom, "now"), label("now", x, _TOP - 9, text_anchor="middle")]
    told = ", ".join(f"link {b.number + 1} after link {a.number + 1}" for a, b in pairwise(shown))
    return drawing(WIDTH, height, *parts, describes=f"The last {len(shown)} links over time. {told}")


def _first_s(record: LinkRecord) -> int:
    return record.submitted_s if record.held_s == MISSING else min(record.held_s, record.submitted_s)


def _top(row: int) -> float:
    return _TOP + row * _ROW


def _row(record: LinkRecord, now_s: int, row: int, frame: Frame) -> list[str]:
    """Name, held, waiting, running."""
    top, middle = _top(row) + (_ROW - _BAR) / 2, _top(row) + _ROW / 2
    parts = [label(f"link {record.number + 1}", 12, middle + 4, class_="strong")]
    parts.append(label(str(record.job), _LEFT - 12, middle + 4, text_anchor="end") if record.job != MISSING else "")
    started = record.started_s != MISSING
    asked, start = frame.x.clip(record.submitted_s), frame.x.clip(record.started_s if started else now_s)
    if record.held_s != MISSING:
        parts.append(line(frame.x.clip(record.held_s), middle, min(asked, start), middle, "held"))
    if start - asked > 1:
        parts.append(line(asked, middle, start, middle, "waiting"))
    if not started:
        return parts
    hint = f"link {record.number + 1}, job {record.job}: waited {_span(record.started_s - record.submitted_s)}, ran "
    hint += f"{_when(record.started_s)} to {_when(record.ends_s)}"
    now, end = frame.x.clip(min(record.ends_s, now_s)), frame.x.clip(record.ends_s)
    parts.append(box(start, top, max(now - start, _LEAST_PX), _BAR, "link-b", hint, rx=3))
    if end - now > 1:
        parts.append(box(now, top, end - now, _BAR, "link-b ahead", f"its limit is at {_when(record.ends_s)}", rx=3))
    return parts


def _band(over: HandOver, row_of: dict[int, int], frame: Frame) -> list[str]:
    """What was lost at a hand-over, across the rows of both links."""
    if over.x_s == 0:
        return []
    first, last = sorted((row_of[over.link], row_of.get(over.following, row_of[over.link])))
    begin = frame.x.clip(min(over.ended_s, over.ended_s + over.x_s))
    width = max(frame.x.clip(max(over.ended_s, over.ended_s + over.x_s)) - begin, _LEAST_PX)
    kind = "gap" if over.x_s > 0 else "overlap"
    return [box(begin, _top(first), width, _top(last) - _top(first) + _ROW, f"{kind}-band")]


def _lost(over: HandOver, top: float) -> str:
    """How much, at the right end of the row of the link that took over."""
    if over.x_s == 0:
        return ""
    kind, sign = ("gap", "+") if over.x_s > 0 else ("overlap", "−")
    text = f"{sign}{_span(abs(over.x_s))}{' …' if over.open else ''}"
    what = "no link ran" if over.x_s > 0 else "two links ran"
    return label(text, WIDTH - _RIGHT + 12, top + _ROW / 2 + 4, class_=f"{kind}-text", aria_label=f"{what}: {text}")


def _span(seconds: int) -> str:
    return format_duration(seconds)


def _when(instant_s: int) -> str:
    return instant_names([instant_s - instant_s % 60])[0]
