"""A tree as a list of rules, one per leaf, in the order in which stages are served."""

from __future__ import annotations

from collections.abc import Iterator

from mirage.distill.tree import Condition, Leaf, Node, Tree
from mirage.distill.tree_text import answer_text, condition_text


def rules_of(tree: Tree) -> tuple[str, ...]:
    """A line for each leaf, the highest score first: ``1: own and drains_in < 35s``."""
    found = sorted(_leaves(tree.root, ()), key=lambda pair: -float(pair[0].value))
    return tuple(
        f"{answer_text(leaf.value, tree)}: {' and '.join(condition_text(one, tree) for one in met) or 'always'}"
        for leaf, met in found
    )


def _leaves(node: Node, met: tuple[Condition, ...]) -> Iterator[tuple[Leaf, tuple[Condition, ...]]]:
    """Leaves that can be reached, each with the tightest bounds on its way."""
    if isinstance(node, Leaf):
        yield node, met
        return
    for is_below, side in ((True, node.below), (False, node.above)):
        bounds = [one.threshold for one in met if (one.feature, one.is_below) == (node.feature, is_below)]
        threshold = (min if is_below else max)([*bounds, node.threshold])
        opposite = [one.threshold for one in met if (one.feature, one.is_below) == (node.feature, not is_below)]
        if any((threshold <= other) if is_below else (threshold >= other) for other in opposite):
            continue
        remaining = tuple(one for one in met if (one.feature, one.is_below) != (node.feature, is_below))
        yield from _leaves(side, (*remaining, Condition(node.feature, threshold, is_below)))
