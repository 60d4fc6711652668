"""Small random changes of a tree and of its executor rule, for tuning.

A change moves a threshold or a score, replaces, adds or removes a condition, or moves a number of the executor rule.
Every number is rounded, so that a tuned tree is as readable as one that was not tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mirage.array_types import Floats
from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule, rule_of
from mirage.distill.rounding import rounded_number
from mirage.distill.tree import Leaf, Node, Split, Tree, TreeFeature, merged
from mirage.distill.units import FLAG_THRESHOLD, Unit

ROUNDING = 0.1
"""Relative amount by which a number may be rounded."""

_SPREAD = 0.35
"""Standard deviation of the factor, in logarithms, by which a number is moved."""

_MOST_TRIES = 20


def changed(
    tree: Tree,
    values: Floats,
    most_leaves: int,
    rng: np.random.Generator,
    *,
    may_grow: bool,
    may_rule: bool = True,
) -> Tree:
    """A tree that differs in one to three places.

    Args:
        tree: With features of ``columns`` only. It may test others of these after the change, and then lists them too.
        values: Shape (rows, features), observed candidates: thresholds of new conditions are drawn from them.
        most_leaves: Most leaves of the result.
        rng: Draws the changes.
        may_grow: Whether conditions may be added, exchanged and removed; otherwise only numbers are changed,
            even where a condition then has no effect, and those on flags stay as they are.
        may_rule: Whether the executor rule may be changed.
    """
    listed, tree = tree.features, _with_all_features(tree) if may_grow else tree
    for _ in range(_MOST_TRIES):
        other = tree
        for _ in range(int(rng.choice(3, p=(0.6, 0.3, 0.1))) + 1):
            other = _changed_once(other, values, rng, may_grow=may_grow, may_rule=may_rule)
            other = merged(other) if may_grow else other
        if other != tree and len(other.leaves) <= most_leaves:
            return _with_features(other, listed)
    return _with_features(tree, listed)


def _with_all_features(tree: Tree) -> Tree:
    """A tree that lists all features of a candidate."""
    listed = {feature.name for feature in tree.features}
    return replace(tree, features=(*tree.features, *(one for one in FEATURES if one.name not in listed)))


def _with_features(tree: Tree, listed: Sequence[TreeFeature]) -> Tree:
    """A tree that lists only given features and those that it tests."""
    names = {feature.name for feature in listed} | set(tree.tested)
    return replace(tree, features=tuple(one for one in tree.features if one.name in names))


def _changed_once(tree: Tree, values: Floats, rng: np.random.Generator, *, may_grow: bool, may_rule: bool) -> Tree:
    ways: list[tuple[float, Callable[[], Tree]]] = [
        (3.0 if may_rule else 0.0, lambda: with_rule(tree, _changed_rule(rule_of(dict(tree.settings)), rng))),
        (
            3.0,
            lambda: _at_random(
                tree,
                lambda node: isinstance(node, Split) and (may_grow or tree.unit_of(node.feature) is not Unit.FLAG),
                lambda node: _moved(node, tree, rng),
                rng,
            ),
        ),
        (
            2.0,
            lambda: _at_random(tree, lambda node: isinstance(node, Leaf), lambda node: _rescored(node, tree, rng), rng),
        ),
    ]
    if may_grow:
        ways += [
            (
                3.0,
                lambda: _at_random(tree, lambda node: True, lambda node: _with_condition(node, tree, values, rng), rng),
            ),
            (
                1.0,
                lambda: _at_random(tree, lambda node: isinstance(node, Split), lambda node: _shorter(node, rng), rng),
            ),
            (0.5, lambda: _at_random(tree, lambda node: isinstance(node, Split), _turned, rng)),
        ]
    chance = np.array([way[0] for way in ways])
    return ways[int(rng.choice(len(ways), p=chance / chance.sum()))][1]()


def with_rule(tree: Tree, rule: ExecutorRule) -> Tree:
    """A tree with another executor rule."""
    return replace(tree, settings=rule.settings())


def _at_random(
    tree: Tree, fits: Callable[[Node], bool], change: Callable[[Node], Node], rng: np.random.Generator
) -> Tree:
    """A tree with one node of a kind changed; the tree itself where there is none."""
    count = sum(fits(node) for node in _nodes(tree.root))
    if not count:
        return tree
    left = int(rng.integers(count))

    def walk(node: Node) -> Node:
        nonlocal left
        if fits(node):
            left -= 1
            if left == -1:
                return change(node)
        if isinstance(node, Leaf):
            return node
        below = walk(node.below)
        return replace(node, below=below, above=walk(node.above))

    return replace(tree, root=walk(tree.root))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Split):
        yield from _nodes(node.below)
        yield from _nodes(node.above)


def _moved(node: Node, tree: Tree, rng: np.random.Generator) -> Node:
    """A condition with another threshold."""
    assert isinstance(node, Split)
    unit = tree.unit_of(node.feature)
    if unit is Unit.FLAG:
        return _turned(node)
    if unit is Unit.NUMBER and abs(node.threshold) < 10:
        return replace(node, threshold=round(2 * node.threshold + rng.choice((-2, -1, 1, 2))) / 2)
    return replace(node, threshold=_scaled(node.threshold, unit, rng))


def _turned(node: Node) -> Node:
    """A condition with its two sides exchanged."""
    assert isinstance(node, Split)
    return replace(node, below=node.above, above=node.below)


def _rescored(node: Node, tree: Tree, rng: np.random.Generator) -> Node:
    """A leaf with the score of another, or one between or beyond those in the tree."""
    levels = np.unique([float(leaf.value) for leaf in tree.leaves])
    return Leaf(float(rng.choice(np.concatenate([levels, (levels[1:] + levels[:-1]) / 2, [-1.0, levels[-1] + 1]]))))


def _with_condition(node: Node, tree: Tree, values: Floats, rng: np.random.Generator) -> Node:
    """Adds a condition above a node, with a new score on one side, or replaces its condition."""
    column = int(rng.integers(len(FEATURES)))
    feature = FEATURES[column]
    met = float(rng.choice(values[:, column]))
    threshold = FLAG_THRESHOLD if feature.unit is Unit.FLAG else rounded_number(met, feature.unit, ROUNDING)
    if isinstance(node, Split) and rng.random() < 0.5:
        return Split(feature.name, threshold, node.below, node.above)
    other = _rescored(node, tree, rng)
    below, above = (node, other) if rng.random() < 0.5 else (other, node)
    return Split(feature.name, threshold, below, above)


def _shorter(node: Node, rng: np.random.Generator) -> Node:
    """One side of a condition only."""
    assert isinstance(node, Split)
    return node.below if rng.random() < 0.5 else node.above


def _scaled(value: float, unit: Unit, rng: np.random.Generator) -> float:
    return rounded_number(value * math.exp(_SPREAD * rng.standard_normal()), unit, ROUNDING)


def _changed_rule(rule: ExecutorRule, rng: np.random.Generator) -> ExecutorRule:
    """An executor rule with one number changed; one without a second cap gets one."""
    if not rule.crowded:
        return replace(rule, crowded=((0.4, rule.quiet),))
    which = rng.random()
    if which < 0.03:
        return _with_caps(rule, lambda cap: replace(cap, even=not cap.even))
    if which < 0.06:
        return _with_caps(rule, lambda cap: replace(cap, usual=not cap.usual))
    if which < 0.15:
        return _with_other_load(rule, int((which - 0.06) / 0.09 * len(rule.crowded)), rng)
    if which < 0.58:
        return replace(rule, quiet=_changed_cap(rule.quiet, rng))
    number = int((which - 0.58) / 0.42 * len(rule.crowded))
    load, cap = rule.crowded[number]
    return _with_crowded(rule, number, load, _changed_cap(cap, rng))


def _with_caps(rule: ExecutorRule, change: Callable[[Cap], Cap]) -> ExecutorRule:
    return ExecutorRule(change(rule.quiet), tuple((load, change(cap)) for load, cap in rule.crowded))


def _with_other_load(rule: ExecutorRule, number: int, rng: np.random.Generator) -> ExecutorRule:
    """A rule with another start of one cap; unchanged if another start is in between."""
    now, cap = rule.crowded[number]
    load = _scaled(now, Unit.SHARE, rng)
    others = [one for k, (one, _) in enumerate(rule.crowded) if k != number]
    crossed = any(min(now, load) <= one <= max(now, load) for one in others)
    return rule if crossed else _with_crowded(rule, number, load, cap)


def _with_crowded(rule: ExecutorRule, number: int, load: float, cap: Cap) -> ExecutorRule:
    return replace(rule, crowded=(*rule.crowded[:number], (load, cap), *rule.crowded[number + 1 :]))


def _changed_cap(cap: Cap, rng: np.random.Generator) -> Cap:
    which = rng.random()
    if which < 0.25:
        return replace(cap, power=float(np.clip(round(cap.power + 0.2 * rng.standard_normal(), 2), -4, 4)))
    if which < 0.5:
        return replace(cap, factor=min(_scaled(cap.factor, Unit.NUMBER, rng), 1000.0))
    if which < 0.6:
        return replace(cap, tasks_each=min(max(_scaled(cap.tasks_each, Unit.NUMBER, rng), 0.1), 1000.0))
    if which < 0.75:
        return replace(cap, most=float(np.clip(round(cap.most + 0.15 * rng.standard_normal(), 2), 0.05, 1)))
    if which < 0.9:
        key = "source_share" if which < 0.84 else "new"
        moved = round(getattr(cap, key) * math.exp(0.2 * rng.standard_normal()), 2)
        moved = float(np.clip(moved, 0.1, 10))
        return replace(cap, source_share=moved) if key == "source_share" else replace(cap, new=moved)
    return replace(cap, early=float(np.clip(round(cap.early + 0.25 * rng.standard_normal(), 2), 0, 1)))
