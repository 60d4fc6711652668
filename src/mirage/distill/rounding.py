"""Round thresholds: 6h instead of 5h 58min 12.3s, where that changes little."""

from __future__ import annotations

from dataclasses import replace

from mirage.distill.tree import Leaf, Node, Tree, merged
from mirage.distill.units import Unit, simplest

TOLERANCE = 0.05
"""Largest relative change of a threshold by ``rounded``."""


def rounded(tree: Tree, tolerance: float = TOLERANCE) -> Tree:
    """A tree with thresholds rounded to simple numbers, in the units of its features.

    Rows between the old and the new threshold may get other answers. ``fit`` uses the examples instead, and moves a
    threshold only past few of them.

    Args:
        tree: The tree; splits without effect after the rounding are merged.
        tolerance: Largest relative change of a threshold.
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
    """The simplest number within a relative tolerance of a value."""
    room = abs(value) * tolerance
    return simplest(value - room, value + room, value, unit)[0] if value - room < value + room else value
