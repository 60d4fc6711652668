"""Chart of students: completion time over fidelity, with a line per method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage.report.axes import numbers
from mirage.report.chart import Chart, Curve, Note, Scale, Spot, picture_of
from mirage.report.picture import MARGIN_PX, WIDE, Dot, Picture, stacked
from mirage.report.theme import SERIES

StudentRow = Mapping[str, Any]
"""A student as printed by ``mirage distill fit --json``."""


def students_chart(rows: Sequence[StudentRow], teacher: str, width: float = WIDE) -> Picture:
    """Draws the students of a teacher, a panel for each setting.

    Args:
        rows: The students.
        teacher: Their teacher; the folder of a file is left out.
        width: In pixels.
    """
    teacher_name = ":".join(Path(word).name for word in teacher.split(":"))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    described = "; ".join(
        f"{row['method']} of {row['leaves']} leaves: stage {row['states_of_teacher']['stage']:.1%}" for row in rows
    )
    panels = []
    for k, setting in enumerate(rows[0]["mean_jct_s"]):
        executors, jobs = setting.split("/")
        chart = _chart(rows, methods, setting, has_key=k == 0)
        drawn = picture_of(described if k == 0 else "", chart, width=width - 2 * MARGIN_PX)
        panels.append((f"{executors} executors, {jobs} jobs", drawn))
    note = f"teacher {teacher_name}; numbers are leaves; filled: states of the teacher, open: own states"
    return stacked(panels, "Fidelity and completion times of students", [note])


def _chart(rows: Sequence[StudentRow], methods: Sequence[str], setting: str, *, has_key: bool) -> Chart:
    times = [float(row["mean_jct_s"][setting]) for row in rows]
    shares = [100 * row[where]["stage"] for row in rows for where in ("states_of_teacher", "own_states")]
    room = 0.15 * max(max(times) - min(times), 0.02 * max(times))
    return Chart(
        title="mean time from arrival to end",
        x=Scale(min(shares) - 2, min(100.0, max(shares) + 2), numbers(10, " %"), "stages picked as the teacher does"),
        y=Scale(min(times) - room, max(times) + room, numbers(5, " s")),
        marks=[
            mark
            for where in ("own_states", "states_of_teacher")
            for k, method in enumerate(methods)
            for mark in _line([row for row in rows if row["method"] == method], where, setting, k % SERIES + 1)
        ],
        key=[([Dot(12, 6, 5, f"s{k % SERIES + 1}")], method) for k, method in enumerate(methods)] if has_key else [],
        height=220,
    )


def _line(mine: Sequence[StudentRow], where: str, setting: str, colour: int) -> Iterator[Curve | Note | Spot]:
    """Yields the points of a method in states of one kind, and the line through them."""
    path = [(100 * row[where]["stage"], float(row["mean_jct_s"][setting])) for row in mine]
    if len(path) > 1:
        yield Curve(path, f"w{colour}")
    style = f"s{colour} hollow" if where == "own_states" else f"s{colour}"
    for row, (x, y) in zip(mine, path, strict=True):
        hint = f"{row['method']}, {row['leaves']} leaves: {row[where]['stage']:.1%}, {y:.1f} s"
        yield Spot(x, y, style, hint, 4.5)
        yield Note(str(row["leaves"]), x, y, f"t{colour} halo")
