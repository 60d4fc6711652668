"""Trees as text for people, with comments, and the path to one answer in a line.

A text, with comments on its format::

    tree: 1                     # the version of this format
    features:
        remaining: duration     # or number, share, flag
        load: share
    answers: wait, submit       # or values: duration, where answers are numbers
    settings:                   # any keys, may be left out
        horizon: 6h

    if remaining < 6h:
        submit  # 25 % of examples, 97 % certain
    else:
        if load < 80 %:
            wait
        else:
            submit

Everything after a ``#`` is a comment and has no effect. ``tree_reading`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.distill.tree import Condition, Leaf, Node, Tree
from mirage.distill.units import Unit, written

VERSION = 1
"""Of the format; a reader knows this one and older ones."""

INDENT = "    "


def text_of(tree: Tree) -> str:
    """A tree as a text, from which ``tree_of`` makes one with the same decisions."""
    return "\n".join([*_header(tree), "", *_lines(tree.root, tree, "")]) + "\n"


def _header(tree: Tree) -> Iterator[str]:
    yield f"tree: {VERSION}"
    yield "features:"
    for feature in tree.features:
        yield f"{INDENT}{feature.name}: {feature.unit}"
    if isinstance(tree.answers, Unit):
        yield f"values: {tree.answers}"
    else:
        yield f"answers: {', '.join(tree.answers)}"
    if tree.settings:
        yield "settings:"
        for key, text in tree.settings:
            yield f"{INDENT}{key}: {text}"


def _lines(node: Node, tree: Tree, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield indent + answer_text(node.value, tree) + _remark(node)
        return
    yield f"{indent}if {condition_text(Condition(node.feature, node.threshold, True), tree)}:"
    yield from _lines(node.below, tree, indent + INDENT)
    yield f"{indent}else:"
    yield from _lines(node.above, tree, indent + INDENT)


def answer_text(value: str | float, tree: Tree) -> str:
    """An answer of a tree, in its unit where it is a number."""
    return written(float(value), tree.answers) if isinstance(tree.answers, Unit) else str(value)


def condition_text(condition: Condition, tree: Tree) -> str:
    """A condition as ``remaining < 6h``, ``load >= 80 %``, ``weekend`` or ``not weekend``."""
    unit = tree.unit_of(condition.feature)
    if unit is Unit.FLAG:
        return f"not {condition.feature}" if condition.is_below else condition.feature
    return f"{condition.feature} {'<' if condition.is_below else '>='} {written(condition.threshold, unit)}"


def reason(tree: Tree, row: Mapping[str, float]) -> str:
    """The reason for a row's answer: ``submit, as remaining < 6h and load >= 80 %``.

    Of several bounds of one feature on the same side only the nearest is given.

    Raises:
        ConfigurationError: A value that the tree tests is absent or is not a number.
    """
    nearest: dict[tuple[str, bool], Condition] = {}
    for condition in tree.path_of(row):
        key = (condition.feature, condition.is_below)
        first = nearest.get(key, condition)
        nearest[key] = min(first, condition, key=lambda met: met.threshold if met.is_below else -met.threshold)
    parts = " and ".join(condition_text(condition, tree) for condition in nearest.values())
    answer = answer_text(tree.leaf_of(row).value, tree)
    return f"{answer}, as {parts}" if parts else f"{answer}, whatever the row"


def _remark(leaf: Leaf) -> str:
    """Share and certainty of a leaf, as a comment after it."""
    parts = []
    if leaf.share is not None:
        parts.append(f"{per_cent(leaf.share)} of examples")
    if leaf.certainty is not None:
        parts.append(f"{per_cent(leaf.certainty)} certain")
    return f"  # {', '.join(parts)}" if parts else ""


def per_cent(share: float) -> str:
    """A share in whole per cent; small shares do not become 0, large ones not 100."""
    if 0 < share < 0.01:
        return "under 1 %"
    return f"{min(round(100 * share), 99) if share < 1 else 100} %"


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
