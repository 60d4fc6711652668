"""Chart of students: completion time over fidelity, with a line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.report.axes import Axis, Frame, rulers, ticks
from mirage.report.charts.label_placement import LabelPlacement
from mirage.report.svg import WIDE, box, drawing, element, label, line, polyline, text_px, title
from mirage.report.theme import SERIES, standalone

LEFT_PX, RIGHT_PX, TALL_PX = 56.0, 20.0, 220.0
HEAD_PX, TOP_PX, BOTTOM_PX = 84.0, 46.0, 52.0

Row = Mapping[str, Any]
"""A student as printed by ``mirage distill fit --json``."""


def draw_frontier(rows: Sequence[Row], path: str, teacher: str) -> None:
    """Draws students into a file.

    Args:
        rows: The students.
        path: An SVG file.
        teacher: Their teacher.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    write_output(path, standalone(frontier_chart(rows, teacher)))


def frontier_chart(rows: Sequence[Row], teacher: str, width: float = WIDE) -> str:
    """Draws the students of a teacher, a panel for each setting.

    Args:
        rows: The students.
        teacher: Their teacher; the folder of a file is left out.
        width: In pixels.
    """
    teacher_name = ":".join(Path(word).name for word in teacher.split(":"))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    parts = [
        label("Fidelity and completion times of students", 14, 26, class_="strong", font_size=16),
        label(f"teacher {teacher_name}; numbers are leaves; filled: states of the teacher, open: own states", 14, 46),
        *_legend(methods),
    ]
    y = HEAD_PX
    for setting in rows[0]["mean_jct_s"]:
        parts.append(element("g", *_panel(rows, methods, setting, width), transform=f"translate(0 {y:g})"))
        y += TOP_PX + TALL_PX + BOTTOM_PX
    described = "; ".join(
        f"{row['method']} of {row['leaves']} leaves: stage {row['states_of_teacher']['stage']:.1%}" for row in rows
    )
    return drawing(width, y, box(0, 0, width, y, "card"), *parts, describes=described)


def _legend(methods: Sequence[str]) -> list[str]:
    parts, x = [], 14.0
    for k, method in enumerate(methods):
        parts.append(element("circle", cx=x + 6, cy=66, r=5, class_=f"s{k % SERIES + 1}"))
        parts.append(label(method, x + 18, 70, class_="ink"))
        x += text_px(method) + 40
    return parts


def _panel(rows: Sequence[Row], methods: Sequence[str], setting: str, width: float) -> list[str]:
    executors, jobs = setting.split("/")
    times = [float(row["mean_jct_s"][setting]) for row in rows]
    shares = [100 * row[where]["stage"] for row in rows for where in ("states_of_teacher", "own_states")]
    spread = max(max(times) - min(times), 0.02 * max(times))
    x = Axis(min(shares) - 2, min(100.0, max(shares) + 2), LEFT_PX, width - RIGHT_PX)
    frame = Frame(x, Axis(min(times) - 0.15 * spread, max(times) + 0.15 * spread, TOP_PX + TALL_PX, TOP_PX))
    parts = [
        label(f"{executors} executors, {jobs} jobs: mean time from arrival to end", 14, 18, class_="strong"),
        *rulers(frame, unit=" s"),
        label("stages picked as the teacher does", width - RIGHT_PX, frame.bottom + 40, text_anchor="end"),
    ]
    for value in ticks(x.low, x.high, 10):
        at = x.place(value)
        parts.append(line(at, frame.top, at, frame.bottom, "grid"))
        parts.append(label(f"{value:g} %", at, frame.bottom + 18, text_anchor="middle"))
    labels = LabelPlacement(frame)
    for where in ("own_states", "states_of_teacher"):
        for k, method in enumerate(methods):
            mine = [row for row in rows if row["method"] == method]
            parts += _line_of(mine, where, setting, frame, k % SERIES + 1, labels)
    return parts


def _line_of(
    mine: Sequence[Row], where: str, setting: str, frame: Frame, colour: int, labels: LabelPlacement
) -> list[str]:
    """Draws the points of a method in states of one kind, and the line through them."""
    path = [frame.at(100 * row[where]["stage"], float(row["mean_jct_s"][setting])) for row in mine]
    parts = [polyline(path, f"w{colour}")] if len(path) > 1 else []
    is_open = where == "own_states"
    for row, (x, y) in zip(mine, path, strict=True):
        hint = f"{row['method']}, {row['leaves']} leaves: {row[where]['stage']:.1%}, {row['mean_jct_s'][setting]:.1f} s"
        style = "fill:var(--card)" if is_open else None
        parts.append(element("circle", *title(hint), cx=x, cy=y, r=4.5, class_=f"s{colour}", style=style))
        labels.reserve(x, y)
    for row, (x, y) in zip(mine, path, strict=True):
        parts += labels.near(str(row["leaves"]), x, y, f"t{colour} halo")
    return parts
