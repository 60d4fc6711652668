"""Picture of a tree that schedules stages, with the rule for numbers of executors below."""

from __future__ import annotations

from mirage.distill.tree import Tree
from mirage.report.dag.tree_layout import BOX_PX, PAD_PX, TreeBox, bends
from mirage.report.dag.tree_sheet import LINE_PX, MARGIN_PX, NOTE_LINE_PX, NOTES_PX, TreeSheet, sheet_of
from mirage.report.picture import Bar, Drawn, Label, Moved, Picture, Stroke, line


def tree_picture(tree: Tree, heading: str) -> Picture:
    """Draws a tree: questions from left to right, and the executor rule below."""
    sheet = sheet_of(tree)
    parts: list[Drawn] = [Bar(0, 0, sheet.width, sheet.height, "card")]
    parts.append(Label(heading, MARGIN_PX, 28, style="strong", size=16))
    parts += [Label(text, MARGIN_PX, NOTES_PX + NOTE_LINE_PX * k) for k, text in enumerate(sheet.notes)]
    parts.append(Moved([*_tree(sheet)], MARGIN_PX, sheet.top))
    for k, words in enumerate(sheet.features):
        y = sheet.meanings_top + k * LINE_PX
        parts += [Label(text, MARGIN_PX + x, y) for text, x in zip(words, (0.0, sheet.meanings_column), strict=True)]
    parts.append(Moved([*_rule(sheet)], MARGIN_PX, sheet.rule_top))
    described = f"{heading}: a tree of {len(tree.leaves)} leaves"
    return Picture(sheet.width, sheet.height, parts, described)


def _tree(sheet: TreeSheet) -> list[Drawn]:
    boxes, parts = sheet.layout.boxes, []
    for one in boxes:
        if one.above >= 0:
            parts += _line_to(boxes[one.above], one)
    for one in boxes:
        class_ = "lead-dot" if not one.is_leaf else "overlap-band" if one.is_left_alone else "area"
        parts.append(Bar(one.x, one.y - BOX_PX / 2, one.width, BOX_PX, class_, rx=12 if one.is_leaf else 4))
        parts.append(Label(one.text, one.x + PAD_PX, one.y + 4, style="strong" if one.is_leaf else "ink"))
    return parts


def _line_to(above: TreeBox, one: TreeBox) -> list[Drawn]:
    """Draws the line from a question to the next box, with the answer on it."""
    return [Stroke(bends(above, one), "lead"), Label(one.answer, one.x - 24, one.y - 5)]


def _rule(sheet: TreeSheet) -> list[Drawn]:
    parts: list[Drawn] = [line(0, -20, sheet.width - 2 * MARGIN_PX, -20, "grid")]
    for k, one in enumerate(sheet.rule):
        for column, (x, text) in enumerate(zip(sheet.rule_columns, (one.about, *one.limits))):
            class_ = "strong" if k == 0 else "ink" if column else ""
            parts.append(Label(text, x, k * LINE_PX, style=class_))
    return parts
