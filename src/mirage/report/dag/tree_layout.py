"""Layout of a tree in a picture: questions from left to right, a row for each answer."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.distill.tree import Condition, Leaf, Node, Split, Tree
from mirage.distill.tree_text import answer_text, condition_text, per_cent
from mirage.report.picture import text_px

ROW_PX, BOX_PX, PAD_PX = 34.0, 24.0, 9.0
GAP_PX = 46.0
"""Distance between two columns; the answers of a question are on its lines there."""


@dataclass(frozen=True, slots=True)
class TreeBox:
    """A question or an answer at its place.

    Attributes:
        text: Its text.
        is_leaf: Whether it is an answer.
        is_left_alone: Whether it is an answer below 0, which leaves a stage alone.
        x: Left edge, in pixels.
        y: Middle, in pixels.
        width: In pixels.
        above: Index of the question that leads here; -1 for the first.
        answer: The answer to that question.
    """

    text: str
    is_leaf: bool
    is_left_alone: bool
    x: float
    y: float
    width: float
    above: int
    answer: str


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Boxes, each after the question that leads to it, and their total size."""

    boxes: tuple[TreeBox, ...]
    width: float
    height: float


@dataclass
class _Entry:
    node: Node
    depth: int
    above: int
    answer: str
    text: str
    y: float = 0.0


def laid_out(tree: Tree) -> TreeLayout:
    """Lays out all questions and answers of a tree, true branches above false ones."""
    entries: list[_Entry] = []
    _list(tree, tree.root, 0, -1, "", entries)
    row = 0
    for entry in entries:
        if isinstance(entry.node, Leaf):
            entry.y = (row + 0.5) * ROW_PX
            row += 1
    for k in range(len(entries) - 1, -1, -1):
        if isinstance(entries[k].node, Split):
            under = [entry.y for entry in entries if entry.above == k]
            entries[k].y = sum(under) / len(under)
    widths = _widths(entries)
    left = [0.0]
    for width in widths:
        left.append(left[-1] + width + GAP_PX)
    boxes = tuple(
        TreeBox(
            entry.text,
            isinstance(entry.node, Leaf),
            isinstance(entry.node, Leaf) and isinstance(entry.node.value, float) and entry.node.value < 0,
            left[entry.depth],
            entry.y,
            text_px(entry.text) + 2 * PAD_PX,
            entry.above,
            entry.answer,
        )
        for entry in entries
    )
    return TreeLayout(boxes, max(box.x + box.width for box in boxes), row * ROW_PX)


def _list(tree: Tree, node: Node, depth: int, above: int, answer: str, entries: list[_Entry]) -> None:
    """Appends a node and its subtree; for a flag the side where it is set comes first."""
    if isinstance(node, Leaf):
        entries.append(_Entry(node, depth, above, answer, _leaf_words(tree, node)))
        return
    here = len(entries)
    is_flag = condition_text(Condition(node.feature, node.threshold, True), tree).startswith("not ")
    question = condition_text(Condition(node.feature, node.threshold, not is_flag), tree).replace("_", " ")
    entries.append(_Entry(node, depth, above, answer, f"{question}?"))
    sides = (node.above, node.below) if is_flag else (node.below, node.above)
    for branch, side in zip(("yes", "no"), sides, strict=True):
        _list(tree, side, depth + 1, here, branch, entries)


def _leaf_words(tree: Tree, leaf: Leaf) -> str:
    text = answer_text(leaf.value, tree)
    return text if leaf.share is None else f"{text}  ({per_cent(leaf.share)})"


def _widths(entries: list[_Entry]) -> list[float]:
    """Returns the width of each column: that of its widest question or answer."""
    depth = max(entry.depth for entry in entries)
    return [max(text_px(e.text) + 2 * PAD_PX for e in entries if e.depth == column) for column in range(depth + 1)]


def bends(above: TreeBox, one: TreeBox) -> list[tuple[float, float]]:
    """Returns the line from a question to a following box: across, down or up, and across."""
    begin = above.x + above.width
    turn = max(begin, one.x - 30)
    return [(begin, above.y), (turn, above.y), (turn, one.y), (one.x, one.y)]
