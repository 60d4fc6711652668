"""Chart of stage schedulers: mean completion times with intervals, a panel per setting."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_comparison_rows import ComparisonRow
from mirage.report.axes import Axis, Frame, ticks
from mirage.report.svg import WIDE, box, drawing, element, label, line, polygon, text_px

ROW_PX, TOP_PX, BOTTOM_PX, HEAD_PX = 24.0, 44.0, 38.0, 56.0
MARGIN_PX = 14.0

WORST = 3.0
"""Means above this multiple of the best are outside the frame and given only as a number."""


def jct_chart(comparison: DagComparison, note: str = "", width: float = WIDE) -> str:
    """Draws mean completion times of all schedulers in all settings, the shortest first.

    Args:
        comparison: The comparison.
        note: A line about the episodes.
        width: In pixels.
    """
    parts = [
        label("Mean time from a job's arrival to its end", MARGIN_PX, 26, class_="strong", font_size=16),
        label(f"{note}; bars are 95 % intervals over seeds" if note else "", MARGIN_PX, 46),
    ]
    y = HEAD_PX
    for setting in dict.fromkeys(row.setting for row in comparison.rows):
        rows = sorted((r for r in comparison.rows if r.setting == setting), key=lambda row: row.mean_jct_s)
        parts.append(element("g", *_panel(rows, width), transform=f"translate(0 {y:g})"))
        y += TOP_PX + ROW_PX * len(rows) + BOTTOM_PX
    description = "; ".join(f"{row.setting} {row.policy}: {row.mean_jct_s:.1f} s" for row in comparison.rows)
    return drawing(width, y, box(0, 0, width, y, "card"), *parts, describes=description)


def _panel(rows: Sequence[ComparisonRow], width: float) -> list[str]:
    """Draws a setting: a row per scheduler, its name at the left and its mean at the right."""
    executors, jobs = rows[0].setting.split("/")
    names_px = max(text_px(row.policy) for row in rows) + 12
    numbers_px = max(text_px(_seconds(row.mean_jct_s)) for row in rows) + 12
    best = rows[0].mean_jct_s
    shown = [row for row in rows if row.mean_jct_s <= WORST * best]
    high = 1.04 * max(_interval(row)[1] for row in shown)
    bottom = TOP_PX + ROW_PX * len(rows)
    x = Axis(0.0, high, MARGIN_PX + names_px, width - MARGIN_PX - numbers_px)
    frame = Frame(x, Axis(-len(rows), 0, bottom, TOP_PX))
    parts = [label(f"{executors} executors, {jobs} jobs", MARGIN_PX, 28, class_="strong", font_size=14)]
    for value in ticks(0.0, high, 8):
        at = x.place(value)
        parts.append(line(at, TOP_PX, at, bottom, "axis" if value == 0 else "grid"))
        parts.append(label(f"{value:,.6g} s", at, bottom + 18, text_anchor="middle"))
    for k, row in enumerate(rows):
        parts += _row(row, frame, frame.y.place(-(k + 0.5)), width)
    return parts


def _row(row: ComparisonRow, frame: Frame, y: float, width: float) -> list[str]:
    low_s, high_s = _interval(row)
    hint = f"{row.policy}: {row.mean_jct_s:.1f} s " + (f"[{low_s:.1f}, {high_s:.1f}]" if low_s < high_s else "")
    parts = [
        label(row.policy, MARGIN_PX, y + 4, class_="ink"),
        label(_seconds(row.mean_jct_s), width - MARGIN_PX, y + 4, text_anchor="end", class_="strong"),
    ]
    if row.mean_jct_s > frame.x.high:
        corners = [(frame.right - 9, y - 5), (frame.right, y), (frame.right - 9, y + 5)]
        return [*parts, line(frame.left, y, frame.right - 9, y, "leader"), polygon(corners, "lead-more")]
    low, high = frame.x.clip(low_s), frame.x.clip(high_s)
    parts.append(box(low, y - 5, high - low, 10, "band", hint, rx=2))
    parts.append(element("circle", cx=frame.x.place(row.mean_jct_s), cy=y, r=4, class_="s1"))
    return parts


def _interval(row: ComparisonRow) -> tuple[float, float]:
    """Returns the interval of a mean; for one episode, the mean itself."""
    if row.mean_jct_low_s is None or row.mean_jct_high_s is None:
        return row.mean_jct_s, row.mean_jct_s
    return row.mean_jct_low_s, row.mean_jct_high_s


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value < 1000 else f"{value:,.0f} s"
