"""Picture of a tree that schedules stages, drawn by matplotlib.

Needs the extra ``plot``.
"""

from __future__ import annotations

import importlib
from typing import Any

from mirage.report.charts.picture_file import new_figure, write_figure
from mirage.report.dag.tree_layout import BOX_PX, PAD_PX, bends
from mirage.report.dag.tree_sheet import LINE_PX, MARGIN_PX, NOTE_LINE_PX, NOTES_PX, TreeSheet
from mirage.report.svg import FONT_PX
from mirage.report.theme import LIGHT

_PX_PER_INCH = 100.0
_FONT_PT = 72 * FONT_PX / _PX_PER_INCH


def draw_with_matplotlib(sheet: TreeSheet, path: str, heading: str) -> None:
    """Draws a sheet with the layout of the SVG.

    Raises:
        ConfigurationError: matplotlib cannot write there.
    """
    figure = new_figure(sheet.width / _PX_PER_INCH, sheet.height / _PX_PER_INCH)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
    axes.axis("off")
    _text(axes, MARGIN_PX, 28, heading, fontsize=1.3 * _FONT_PT, weight="bold")
    for k, text in enumerate(sheet.notes):
        _text(axes, MARGIN_PX, NOTES_PX + NOTE_LINE_PX * k, text, color=LIGHT["muted"])
    _tree(axes, sheet)
    for k, (name, meaning) in enumerate(sheet.features):
        y = sheet.meanings_top + LINE_PX * k
        _text(axes, MARGIN_PX, y, name, color=LIGHT["muted"])
        _text(axes, MARGIN_PX + sheet.meanings_column, y, meaning, color=LIGHT["muted"])
    for k, one in enumerate(sheet.rule):
        for x, text in zip(sheet.rule_columns, (one.about, *one.limits)):
            _text(axes, MARGIN_PX + x, sheet.rule_top + LINE_PX * k, text, weight="normal" if k else "bold")
    write_figure(figure, path)


def _tree(axes: Any, sheet: TreeSheet) -> None:
    """Draws lines, boxes and text of the tree."""
    patches: Any = importlib.import_module("matplotlib.patches")
    for one in sheet.layout.boxes:
        x, y = MARGIN_PX + one.x, sheet.top + one.y
        if one.above >= 0:
            path = bends(sheet.layout.boxes[one.above], one)
            across, down = [MARGIN_PX + at for at, _ in path], [sheet.top + at for _, at in path]
            axes.plot(across, down, color=LIGHT["muted"], zorder=1)
            _text(axes, x - 24, y - 5, one.answer, color=LIGHT["muted"])
        fill = LIGHT["card"] if not one.is_leaf else LIGHT["overlap"] if one.is_left_alone else LIGHT["fill"]
        edge = fill if one.is_leaf else LIGHT["muted"]
        shape = patches.Rectangle((x, y - BOX_PX / 2), one.width, BOX_PX, facecolor=fill, edgecolor=edge, zorder=2)
        axes.add_patch(shape)
        _text(axes, x + PAD_PX, y + 4, one.text, weight="bold" if one.is_leaf else "normal")


def _text(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    axes.text(x, y, text, **{"fontsize": _FONT_PT, "color": LIGHT["ink"], "zorder": 3, **style})
