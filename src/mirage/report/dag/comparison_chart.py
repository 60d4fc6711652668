"""Chart of stage schedulers: mean completion times with intervals, a panel per setting."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_comparison_rows import ComparisonRow
from mirage.report.axes import Axis, Frame, columns, ticks
from mirage.report.picture import MARGIN_PX, WIDE, Bar, Dot, Drawn, Label, Picture, Shape, line, stacked, text_px

ROW_PX, TOP_PX, BOTTOM_PX = 24.0, 6.0, 28.0

WORST = 3.0
"""Means above this multiple of the best are outside the frame and given only as a number."""


def mean_jct_chart(comparison: DagComparison, note: str = "", width: float = WIDE) -> Picture:
    """Draws mean completion times of all schedulers in all settings, the shortest first.

    Args:
        comparison: The comparison.
        note: A line about the episodes.
        width: In pixels.
    """
    panels = []
    for setting in dict.fromkeys(row.setting for row in comparison.rows):
        rows = sorted((r for r in comparison.rows if r.setting == setting), key=lambda row: row.mean_jct_s)
        executors, jobs = setting.split("/")
        panels.append((f"{executors} executors, {jobs} jobs", _panel(rows, width - 2 * MARGIN_PX)))
    heading = "Mean time from a job's arrival to its end"
    return stacked(panels, heading, [f"{note}; bars are 95 % intervals over seeds" if note else ""])


def _panel(rows: Sequence[ComparisonRow], width: float) -> Picture:
    """Draws a setting: a row per scheduler, its name at the left and its mean at the right."""
    names_px = max(text_px(row.policy) for row in rows) + 12
    numbers_px = max(text_px(_seconds(row.mean_jct_s)) for row in rows) + 12
    best = rows[0].mean_jct_s
    high = 1.04 * max(_interval(row)[1] for row in rows if row.mean_jct_s <= WORST * best)
    bottom = TOP_PX + ROW_PX * len(rows)
    frame = Frame(Axis(0.0, high, names_px, width - numbers_px), Axis(-len(rows), 0, bottom, TOP_PX))
    parts = columns(frame, lambda axis: [(value, f"{value:,.6g} s") for value in ticks(0.0, axis.high, 8)])
    for k, row in enumerate(rows):
        parts += _row(row, frame, frame.y.place(-(k + 0.5)), width)
    description = "; ".join(f"{row.setting} {row.policy}: {row.mean_jct_s:.1f} s" for row in rows)
    return Picture(width, bottom + BOTTOM_PX, parts, description)


def _row(row: ComparisonRow, frame: Frame, y: float, width: float) -> list[Drawn]:
    low_s, high_s = _interval(row)
    hint = f"{row.policy}: {row.mean_jct_s:.1f} s " + (f"[{low_s:.1f}, {high_s:.1f}]" if low_s < high_s else "")
    parts: list[Drawn] = [
        Label(row.policy, 0, y + 4, style="ink"),
        Label(_seconds(row.mean_jct_s), width, y + 4, anchor="end", style="strong"),
    ]
    if row.mean_jct_s > frame.x.high:
        corners = [(frame.right - 9, y - 5), (frame.right, y), (frame.right - 9, y + 5)]
        return [*parts, line(frame.left, y, frame.right - 9, y, "leader"), Shape(corners, "lead-more")]
    low, high = frame.x.clip(low_s), frame.x.clip(high_s)
    parts.append(Bar(low, y - 5, high - low, 10, "band", hint, rx=2))
    parts.append(Dot(frame.x.place(row.mean_jct_s), y, 4, "s1"))
    return parts


def _interval(row: ComparisonRow) -> tuple[float, float]:
    """Returns the interval of a mean; for one episode, the mean itself."""
    if row.mean_jct_low_s is None or row.mean_jct_high_s is None:
        return row.mean_jct_s, row.mean_jct_s
    return row.mean_jct_low_s, row.mean_jct_high_s


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value < 1000 else f"{value:,.0f} s"
