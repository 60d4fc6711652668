"""Thresholds that people can say: 6h for 5h 58min 12.3s, where that changes little."""

from __future__ import annotations

from dataclasses import replace

from mirage.distill.tree import Leaf, Node, Tree, merged
from mirage.distill.units import Unit, simplest

TOLERANCE = 0.05
"""Part of a threshold by which ``rounded`` may move it."""


def rounded(tree: Tree, tolerance: float = TOLERANCE) -> Tree:
    """A tree whose thresholds are the simplest numbers nearby in the units of its features.

    It may answer rows between the old and the new threshold otherwise. ``fit`` looks at the examples instead, and
    moves a threshold only past few of them.

    Args:
        tree: The tree; splits that decide nothing after the rounding are merged.
        tolerance: A threshold moves by at most this part of itself.
    """
    return merged(replace(tree, root=_rounded(tree.root, tree, tolerance)))


def _rounded(node: Node, tree: Tree, tolerance: float) -> Node:
    if isinstance(node, Leaf):
        return node
    return replace(
        node,
        threshold=rounded_number(node.threshold, tree.unit_of(node.feature), tolerance),
        below=_rounded(node.below, tree, tolerance),
        above=_rounded(node.above, tree, tolerance),
    )


def rounded_number(value: float, unit: Unit, tolerance: float = TOLERANCE) -> float:
    """The simplest number within a part of a value."""
    room = abs(value) * tolerance
    return simplest(value - room, value + room, value, unit)[0] if value - room < value + room else value
