"""Picture of a tree that schedules stages, with the rule for numbers of executors below."""

from __future__ import annotations

from mirage.atomic_file import write_output
from mirage.distill.tree import Tree
from mirage.report.charts.picture_file import BY_MATPLOTLIB, picture_kind
from mirage.report.dag.tree_layout import BOX_PX, PAD_PX, TreeBox, bends
from mirage.report.dag.tree_sheet import LINE_PX, MARGIN_PX, NOTE_LINE_PX, NOTES_PX, TreeSheet, sheet_of
from mirage.report.svg import box, drawing, element, label, line, polyline
from mirage.report.theme import standalone

KINDS = (".svg", *BY_MATPLOTLIB)
"""Supported kinds of pictures of a tree."""


def draw_tree(tree: Tree, path: str, heading: str) -> None:
    """Draws a tree into a file of the kind its name ends in.

    Args:
        tree: The tree.
        path: The picture.
        heading: Title above it, for example the tree's file.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    if picture_kind(path, KINDS) in BY_MATPLOTLIB:
        from mirage.report.dag.tree_png import draw_with_matplotlib

        draw_with_matplotlib(sheet_of(tree), path, heading)
        return
    write_output(path, standalone(tree_svg(tree, heading)))


def tree_svg(tree: Tree, heading: str) -> str:
    """Draws a tree: questions from left to right, and the executor rule below."""
    sheet = sheet_of(tree)
    parts = [box(0, 0, sheet.width, sheet.height, "card")]
    parts.append(label(heading, MARGIN_PX, 28, class_="strong", font_size=16))
    parts += [label(text, MARGIN_PX, NOTES_PX + NOTE_LINE_PX * k) for k, text in enumerate(sheet.notes)]
    parts.append(element("g", *_tree(sheet), transform=f"translate({MARGIN_PX:g} {sheet.top:g})"))
    for k, words in enumerate(sheet.features):
        y = sheet.meanings_top + k * LINE_PX
        parts += [label(text, MARGIN_PX + x, y) for text, x in zip(words, (0.0, sheet.meanings_column), strict=True)]
    parts.append(element("g", *_rule(sheet), transform=f"translate({MARGIN_PX:g} {sheet.rule_top:g})"))
    described = f"{heading}: a tree of {len(tree.leaves)} leaves"
    return drawing(sheet.width, sheet.height, *parts, describes=described)


def _tree(sheet: TreeSheet) -> list[str]:
    boxes, parts = sheet.layout.boxes, []
    for one in boxes:
        if one.above >= 0:
            parts += _line_to(boxes[one.above], one)
    for one in boxes:
        class_ = "lead-dot" if not one.is_leaf else "overlap-band" if one.is_left_alone else "area"
        parts.append(box(one.x, one.y - BOX_PX / 2, one.width, BOX_PX, class_, rx=12 if one.is_leaf else 4))
        parts.append(label(one.text, one.x + PAD_PX, one.y + 4, class_="strong" if one.is_leaf else "ink"))
    return parts


def _line_to(above: TreeBox, one: TreeBox) -> list[str]:
    """Draws the line from a question to the next box, with the answer on it."""
    return [polyline(bends(above, one), "lead"), label(one.answer, one.x - 24, one.y - 5)]


def _rule(sheet: TreeSheet) -> list[str]:
    parts = [line(0, -20, sheet.width - 2 * MARGIN_PX, -20, "grid")]
    for k, one in enumerate(sheet.rule):
        for column, (x, text) in enumerate(zip(sheet.rule_columns, (one.about, *one.limits))):
            class_ = "strong" if k == 0 else "ink" if column else None
            parts.append(label(text, x, k * LINE_PX, class_=class_))
    return parts
