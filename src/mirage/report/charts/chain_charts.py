"""Charts of a chain: its whole life in two lanes, and its last links in rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord
from mirage.report.axes import Axis, Frame, clock, columns, date_name, dates, instant_names
from mirage.report.picture import MIDDLE, WIDE, Bar, Drawn, Label, Picture, line, text_px

CHAIN_KEY = (
    ("link-b", "a link runs"),
    ("waiting", "submitted, waiting in the queue"),
    ("gap", "interruption: no link runs"),
    ("overlap", "overlap: two links run"),
)

_LEFT, _RIGHT, _TOP, _BOTTOM = 8.0, 8.0, 4.0, 30.0
_LANE, _SPACE, _HEAD, _FOOT = 24.0, 3.0, 46.0, 26.0
_SECOND_LINE = 18.0
_LEAST_PX = 1.5
_LEAST_DRAWN_S, _LEAST_NAMED_H = 10 * MINUTE_S, 0.5


def chain_chart(runs: Mapping[str, ChainRun], width: float = WIDE) -> Picture:
    """Draws the same chain under several policies, one below the other."""
    first = next(iter(runs.values()))
    head = _HEAD if width >= MIDDLE else _HEAD + _SECOND_LINE
    each = head + 2 * _LANE + _SPACE + _FOOT
    height = _TOP + each * len(runs) + _BOTTOM
    time = Axis(first.begin_s, first.until_s, _LEFT, width - _RIGHT)
    parts = columns(Frame(time, Axis(0, 1, height - _BOTTOM, _TOP)), dates)
    for k, (policy, run) in enumerate(runs.items()):
        top = _TOP + k * each
        parts += [*_heading(run, policy, top, width), *_band(run, time, top + head)]
    described = "; ".join(
        f"{policy}: {run.interruption_s / HOUR_S:.1f} h of interruption, {run.overlap_s / HOUR_S:.1f} h of overlap"
        for policy, run in runs.items()
    )
    return Picture(width, height, parts, f"Links of a chain over time. {described}")


def _heading(run: ChainRun, policy: str, top: float, width: float) -> list[Drawn]:
    """Draws the name of the policy and the figures of the chain, on one line or on two."""
    lost = f"{run.interruption_s / HOUR_S:.1f} h interruption"
    twice = f"{run.overlap_s / HOUR_S:.1f} h overlap"
    summary = f"{lost} · {twice} · alive {run.availability:.1%}"
    name = Label(policy, _LEFT, top + 18, style="strong halo", size=14)
    if width >= MIDDLE:
        return [name, Label(summary, width - _RIGHT, top + 18, anchor="end", style="halo")]
    return [name, Label(summary, _LEFT, top + 18 + _SECOND_LINE, style="halo")]


def losses(over: HandOver) -> Iterator[tuple[str, int, int]]:
    """Yields kind (``overlap`` or ``gap``), begin and duration of each loss at a hand-over.

    A hand-over can have both.
    """
    if over.overlap_s:
        yield "overlap", over.ended_s - over.overlap_s, over.overlap_s
    if over.interruption_s:
        yield "gap", over.ended_s, over.interruption_s


def _band(run: ChainRun, time: Axis, top: float) -> list[Drawn]:
    lanes = (top, top + _LANE + _SPACE)
    parts = [part for k, record in enumerate(run.links) for part in _wait(record, run.until_s, time, lanes[k % 2])]
    for k, (before, record) in enumerate(zip((None, *run.links), run.links)):
        clear_s = MISSING if before is None else before.ends_s
        parts += _link(record, run.until_s, time, lanes[k % 2], clear_s)
    free_px = {"gap": time.begin_px, "overlap": time.begin_px}
    for over in run.hand_overs:
        for kind, begin_s, lasts_s in losses(over):
            hours, x, width = lasts_s / HOUR_S, time.clip(begin_s), time.clip(begin_s + lasts_s) - time.clip(begin_s)
            what = "interruption" if kind == "gap" else kind
            if lasts_s >= _LEAST_DRAWN_S:
                hint = f"{what} of {hours:.1f} h after link {over.link + 1}{', still open' if over.open else ''}"
                parts.append(Bar(x, lanes[0], max(width, _LEAST_PX), 2 * _LANE + _SPACE, kind, hint))
            if hours >= _LEAST_NAMED_H:
                text = f"{hours:.1f} h"
                half = text_px(text) / 2
                middle = min(max(x + width / 2, time.begin_px + half), time.end_px - half)
                if middle - half >= free_px[kind]:
                    free_px[kind] = middle + half + 4
                    y = lanes[0] - 6 if kind == "gap" else lanes[1] + _LANE + 16
                    parts.append(Label(text, middle, y, anchor="middle", style=f"{kind}-text halo"))
    return parts


def _wait(record: LinkRecord, until_s: int, time: Axis, top: float) -> list[Drawn]:
    """Draws the wait of a link, which may begin before the link before it starts."""
    begin = time.clip(record.submitted_s)
    start = time.clip(until_s if record.started_s == MISSING else record.started_s)
    return [line(begin, top + _LANE / 2, start, top + _LANE / 2, "waiting")] if start - begin > 1 else []


def _link(record: LinkRecord, until_s: int, time: Axis, top: float, clear_s: int) -> list[Drawn]:
    """Draws the bar of a link; its name begins after ``clear_s``, the previous link's end."""
    if record.started_s == MISSING or record.started_s > until_s:
        return []
    start = time.clip(record.started_s)
    end = max(time.clip(record.ends_s), start + _LEAST_PX)
    waited_h = (record.started_s - record.submitted_s) / HOUR_S
    hint = f"link {record.number + 1}: submitted {_when(record.submitted_s)}, waited {waited_h:.1f} h, "
    hint += f"ran {_when(record.started_s)} to {_when(record.ends_s)}"
    parts: list[Drawn] = [Bar(start, top, end - start, _LANE, f"link-{'ab'[record.number % 2]}", hint, rx=4)]
    named = max(start, time.clip(clear_s)) if clear_s != MISSING else start
    number = str(record.number + 1)
    name = next((n for n in (f"link {number}", number) if text_px(n) + 10 <= end - named), None)
    if name is not None:
        parts.append(Label(name, (named + end) / 2, top + _LANE / 2 + 4, anchor="middle", style="link-name"))
    return parts


def _when(instant_s: int) -> str:
    return f"{date_name(instant_s)} {instant_s // HOUR_S % 24:02d}:{instant_s // 60 % 60:02d}"


SHOWN = 14
"""Number of links drawn, the last ones; ``chain_chart`` draws all links."""

LINK_KEY = (
    ("held", "held until the previous link ends"),
    ("waiting", "waiting in the queue"),
    ("link-b", "running"),
    ("link-b ahead", "remaining time, up to its limit"),
    ("gap-band", "interruption: no link runs"),
    ("overlap-band", "overlap: two links run"),
)

_ROWS_TOP, _ROWS_BOTTOM = 26.0, 28.0


@dataclass(frozen=True, slots=True)
class _Layout:
    """Layout of the rows: names left of the bars, or above them on a narrow screen.

    Attributes:
        left: Left edge of the area for bars.
        row: Height of a row.
        bar: From the top of a row to the top of its bar.
        text: From the top of a row to the baseline of its text.
    """

    width: float
    left: float
    right: float
    row: float
    bar: float
    text: float

    @classmethod
    def of(cls, width: float, both: bool = False) -> Self:
        """Returns the layout for a width, with room for one duration at the right of a row or two."""
        if width < MIDDLE:
            return cls(width, 8, width - 8, 40, 18, 14)
        return cls(width, 112, width - (172 if both else 86), 28, 6, 18)

    def top(self, row: int) -> float:
        """Returns the upper edge of a row."""
        return _ROWS_TOP + row * self.row


_BAR = 16.0


def link_chart(run: ChainRun, width: float = WIDE) -> Picture:
    """Draws the last links; the remaining time of a running link is pale."""
    shown = run.links[-SHOWN:]
    row_of = {record.number: k for k, record in enumerate(shown)}
    both = any(over.interruption_s and over.overlap_s for over in run.hand_overs)
    layout = _Layout.of(width, both)
    height = layout.top(len(shown)) + _ROWS_BOTTOM
    begin_s = min(record.queued_s for record in shown)
    end_s = max(run.until_s, *(record.ends_s for record in shown))
    time = Axis(begin_s, max(end_s, begin_s + 60), layout.left, layout.right)
    frame = Frame(time, Axis(0, 1, height - _ROWS_BOTTOM, _ROWS_TOP))
    overs = [over for over in run.hand_overs if over.link in row_of]
    parts = columns(frame, clock)
    parts += [part for over in overs for part in _hand_over_bands(over, row_of, time, layout)]
    if run.until_s < end_s:
        x = time.place(run.until_s)
        middle = min(max(x, text_px("now")), width - text_px("now"))
        parts += [line(x, _ROWS_TOP - 4, x, frame.bottom, "now"), Label("now", middle, _ROWS_TOP - 9, anchor="middle")]
    parts += [part for record in shown for part in _row(record, run.until_s, row_of[record.number], time, layout)]
    parts += [part for over in overs for part in _lost(over, row_of.get(over.following, row_of[over.link]), layout)]
    description = ", ".join(f"link {b.number + 1} after link {a.number + 1}" for a, b in pairwise(shown))
    return Picture(width, height, parts, f"The last {len(shown)} links over time. {description}")


def _row(record: LinkRecord, now_s: int, row: int, time: Axis, layout: _Layout) -> list[Drawn]:
    """Draws a row: name, held, waiting, running."""
    top, text = layout.top(row) + layout.bar, layout.top(row) + layout.text
    middle, name = top + _BAR / 2, f"link {record.number + 1}"
    parts: list[Drawn] = [Label(name, 0, text, style="strong halo")]
    if record.job != MISSING:
        is_wide = layout.width >= MIDDLE
        x, anchor = (layout.left - 12, "end") if is_wide else (text_px(name) + 10, "start")
        parts.append(Label(record.job, x, text, anchor=anchor, style="halo"))
    started = record.started_s != MISSING
    submitted, start = time.clip(record.submitted_s), time.clip(record.started_s if started else now_s)
    if record.held_s != MISSING:
        parts.append(line(time.clip(record.held_s), middle, min(submitted, start), middle, "held"))
    if start - submitted > 1:
        parts.append(line(submitted, middle, start, middle, "waiting"))
    if not started:
        return parts
    hint = f"link {record.number + 1}, job {record.job}: waited {_span(record.started_s - record.submitted_s)}, ran "
    hint += f"{_minute(record.started_s)} to {_minute(record.ends_s)}"
    now, end = time.clip(min(record.ends_s, now_s)), time.clip(record.ends_s)
    parts.append(Bar(start, top, max(now - start, _LEAST_PX), _BAR, "link-b", hint, rx=3))
    if end - now > 1:
        parts.append(Bar(now, top, end - now, _BAR, "link-b ahead", f"its limit is at {_minute(record.ends_s)}", rx=3))
    return parts


def _hand_over_bands(over: HandOver, row_of: dict[int, int], time: Axis, layout: _Layout) -> list[Drawn]:
    """Draws bands of an interruption and an overlap across the rows of both links."""
    first, last = sorted((row_of[over.link], row_of.get(over.following, row_of[over.link])))
    bands: list[Drawn] = []
    for kind, begin_s, lasts_s in losses(over):
        begin = time.clip(begin_s)
        width = max(time.clip(begin_s + lasts_s) - begin, _LEAST_PX)
        bands.append(Bar(begin, layout.top(first), width, layout.top(last + 1) - layout.top(first), f"{kind}-band"))
    return bands


def _lost(over: HandOver, row: int, layout: _Layout) -> list[Drawn]:
    """Writes the durations of interruption and overlap, at the right of the next link's row."""
    parts: list[Drawn] = []
    end = layout.width
    for kind, _, lasts_s in losses(over):
        sign, what = ("+", "no link ran") if kind == "gap" else ("−", "two links ran")
        text = f"{sign}{_span(lasts_s)}{' …' if over.open else ''}"
        hint, class_ = f"{what}: {text}", f"{kind}-text halo"
        parts.append(Label(text, end, layout.top(row) + layout.text, anchor="end", style=class_, hint=hint))
        end -= text_px(text) + 8
    return parts


def _span(seconds: int) -> str:
    return format_duration(seconds)


def _minute(instant_s: int) -> str:
    return instant_names([instant_s - instant_s % 60])[0]
