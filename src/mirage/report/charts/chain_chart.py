"""Chart of a chain over time: links in two lanes, interruptions red, overlaps amber."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.duration import HOUR_S, MINUTE_S
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord
from mirage.report.axes import Axis, Frame, columns, date_name, dates
from mirage.report.picture import MIDDLE, WIDE, Bar, Drawn, Label, Picture, line, text_px

KEY = (
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
        f"{policy}: {run.interruption_s / HOUR_S:.1f} h interrupted, {run.overlap_s / HOUR_S:.1f} h overlapping"
        for policy, run in runs.items()
    )
    return Picture(width, height, parts, f"Links of a chain over time. {described}")


def _heading(run: ChainRun, policy: str, top: float, width: float) -> list[Drawn]:
    """Draws the name of the policy and the figures of the chain, on one line or on two."""
    lost = f"{run.interruption_s / HOUR_S:.1f} h interrupted"
    twice = f"{run.overlap_s / HOUR_S:.1f} h held twice"
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
    parts: list[Drawn] = []
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


def _link(record: LinkRecord, until_s: int, time: Axis, top: float, clear_s: int) -> list[Drawn]:
    """Draws the bar of a link; its name begins after ``clear_s``, the previous link's end."""
    begin = time.clip(record.submitted_s)
    start = time.clip(until_s if record.started_s == MISSING else record.started_s)
    waiting: list[Drawn] = (
        [line(begin, top + _LANE / 2, start, top + _LANE / 2, "waiting")] if start - begin > 1 else []
    )
    if record.started_s == MISSING or record.started_s > until_s:
        return waiting
    end = max(time.clip(record.ends_s), start + _LEAST_PX)
    waited_h = (record.started_s - record.submitted_s) / HOUR_S
    hint = f"link {record.number + 1}: submitted {_when(record.submitted_s)}, waited {waited_h:.1f} h, "
    hint += f"ran {_when(record.started_s)} to {_when(record.ends_s)}"
    parts = [*waiting, Bar(start, top, end - start, _LANE, f"link-{'ab'[record.number % 2]}", hint, rx=4)]
    named = max(start, time.clip(clear_s)) if clear_s != MISSING else start
    number = str(record.number + 1)
    name = next((n for n in (f"link {number}", number) if text_px(n) + 10 <= end - named), None)
    if name is not None:
        parts.append(Label(name, (named + end) / 2, top + _LANE / 2 + 4, anchor="middle", style="link-name"))
    return parts


def _when(instant_s: int) -> str:
    return f"{date_name(instant_s)} {instant_s // HOUR_S % 24:02d}:{instant_s // 60 % 60:02d}"
