"""Chart of a chain's links, a row each, with the loss at every hand-over."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from mirage.duration import format_duration
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord
from mirage.report.axes import Axis, Frame, clock, columns, instant_names
from mirage.report.charts.chain_chart import losses
from mirage.report.picture import MIDDLE, WIDE, Bar, Drawn, Label, Picture, line, text_px

SHOWN = 14
"""Number of links drawn, the last ones; ``chain_chart`` draws all links."""

KEY = (
    ("held", "held until the previous link ends"),
    ("waiting", "waiting in the queue"),
    ("link-b", "running"),
    ("link-b ahead", "remaining time, up to its limit"),
    ("gap-band", "interruption: no link runs"),
    ("overlap-band", "overlap: two links run"),
)

_TOP, _BOTTOM = 26.0, 28.0
_LEAST_PX = 1.5


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
        return _TOP + row * self.row


_BAR = 16.0


def link_chart(run: ChainRun, width: float = WIDE) -> Picture:
    """Draws the last links; the remaining time of a running link is pale."""
    shown = run.links[-SHOWN:]
    row_of = {record.number: k for k, record in enumerate(shown)}
    both = any(over.interruption_s and over.overlap_s for over in run.hand_overs)
    layout = _Layout.of(width, both)
    height = layout.top(len(shown)) + _BOTTOM
    begin_s = min(_first_s(record) for record in shown)
    end_s = max(run.until_s, *(record.ends_s for record in shown))
    time = Axis(begin_s, max(end_s, begin_s + 60), layout.left, layout.right)
    frame = Frame(time, Axis(0, 1, height - _BOTTOM, _TOP))
    overs = [over for over in run.hand_overs if over.link in row_of]
    parts = columns(frame, clock)
    parts += [part for over in overs for part in _band(over, row_of, time, layout)]
    if run.until_s < end_s:
        x = time.place(run.until_s)
        middle = min(max(x, text_px("now")), width - text_px("now"))
        parts += [line(x, _TOP - 4, x, frame.bottom, "now"), Label("now", middle, _TOP - 9, anchor="middle")]
    parts += [part for record in shown for part in _row(record, run.until_s, row_of[record.number], time, layout)]
    parts += [part for over in overs for part in _lost(over, row_of.get(over.following, row_of[over.link]), layout)]
    description = ", ".join(f"link {b.number + 1} after link {a.number + 1}" for a, b in pairwise(shown))
    return Picture(width, height, parts, f"The last {len(shown)} links over time. {description}")


def _first_s(record: LinkRecord) -> int:
    return record.submitted_s if record.held_s == MISSING else min(record.held_s, record.submitted_s)


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
    hint += f"{_when(record.started_s)} to {_when(record.ends_s)}"
    now, end = time.clip(min(record.ends_s, now_s)), time.clip(record.ends_s)
    parts.append(Bar(start, top, max(now - start, _LEAST_PX), _BAR, "link-b", hint, rx=3))
    if end - now > 1:
        parts.append(Bar(now, top, end - now, _BAR, "link-b ahead", f"its limit is at {_when(record.ends_s)}", rx=3))
    return parts


def _band(over: HandOver, row_of: dict[int, int], time: Axis, layout: _Layout) -> list[Drawn]:
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


def _when(instant_s: int) -> str:
    return instant_names([instant_s - instant_s % 60])[0]
