"""A tree as a scheduler: the highest score gets the executors that its rule allows.

One compiled function runs every tree: nodes and rule are in the vector of numbers that it receives. Each range of load
of the rule has a tree of its own, without the conditions that this load decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.executor_rule import rule_of
from mirage.dag.distilled.tree_decider import ABOVE, HEADER, RANGE, WEIGHT_CELLS, decide_by_tree
from mirage.dag.schedulers.stage_schedulers import StageScheduler
from mirage.distill.tree import Leaf, Node, Tree, merged
from mirage.distill.tree_reading import tree_of
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, MirageError, UnknownName, reason

MOST_BYTES = 1_000_000
"""Largest length of a tree's text that people can read."""


def parameters_of(tree: Tree) -> NDArray[np.float64]:
    """The parameters of ``decide_by_tree`` for a tree.

    Raises:
        UnknownName: The tree has an unknown feature or setting.
        ConfigurationError: It does not answer numbers, declares a feature in another unit, or a setting is wrong.
    """
    rule = rule_of(dict(tree.settings))
    check_features(tree)
    column = {feature.name: k for k, feature in enumerate(FEATURES)}
    cells = [0.0] * (HEADER + RANGE * len(rule.ranges))

    def add(node: Node) -> None:
        at = len(cells)
        if isinstance(node, Leaf):
            cells.extend((-1.0, float(node.value), 0.0))
            return
        cells.extend((float(column[node.feature]), node.threshold, 0.0))
        add(node.below)
        cells[at + ABOVE] = float(len(cells))
        add(node.above)

    for number, (low, high, cap) in enumerate(rule.ranges):
        there, at = merged(tree, {"crowding": (low, high)}), HEADER + RANGE * number
        tested = sum(1 << column[name] for name in there.tested)
        cells[at : at + RANGE] = [low, float(len(cells)), float(tested), *(float(one) for one in astuple(cap))]
        add(there.root)
    cells[:HEADER] = [float(len(rule.ranges)), float(len(cells))]
    return np.array([*cells, *[0.0] * (len(FEATURES) + WEIGHT_CELLS)])


def check_features(tree: Tree) -> None:
    """Checks that a tree scores candidates by their features.

    Raises:
        UnknownName: It has an unknown feature.
        ConfigurationError: It does not answer numbers, or declares a feature in another unit.
    """
    if tree.answers is not Unit.NUMBER:
        of_chains = not isinstance(tree.answers, Unit) and {"wait", "submit"} >= set(tree.answers)
        hint = "; it is a tree of mirage explain, for chains: mirage distill fit makes one for stages"
        raise ConfigurationError(
            "the tree does not answer plain numbers; its leaves are scores: 'values: number'" + hint * of_chains
        )
    unit = {feature.name: feature.unit for feature in FEATURES}
    for feature in tree.features:
        if feature.name not in unit:
            raise UnknownName("feature", feature.name, unit)
        if feature.unit is not unit[feature.name]:
            raise ConfigurationError(
                f"the feature {feature.name} is declared as {feature.unit}; it is {unit[feature.name]}"
            )


def read_tree(path: Path) -> tuple[str, Tree]:
    """Reads a tree from a file, and checks that it can run; its text and the tree.

    Raises:
        ConfigurationError: The file cannot be read, or is not a tree that scores candidates.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the tree {path} cannot be read: {reason(error)}; name a text file") from error
    if len(text) > MOST_BYTES:
        raise ConfigurationError(f"the tree {path} is longer than {MOST_BYTES} characters; make it smaller")
    tree = tree_of(text, str(path))
    try:
        check_features(tree)
        parameters_of(tree)
    except MirageError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return text, tree


def shipped_path() -> Path:
    """The file of the tree that ships with the package."""
    return Path(str(resources.files("mirage.dag.distilled") / "tree.txt"))


@lru_cache(maxsize=1)
def shipped_tree() -> Tree:
    """The tree that ships with the package."""
    return read_tree(shipped_path())[1]


def make_tree(text: str, given: Sequence[str]) -> StageScheduler:
    """Makes a scheduler from the tree in a file, or from the tree that ships with the package.

    Raises:
        ConfigurationError: The file contains no tree that can run.
    """
    tree = read_tree(Path(":".join(given)))[1] if given else shipped_tree()
    return scheduler_of(tree, text)


def scheduler_of(tree: Tree, name: str) -> StageScheduler:
    """Makes a scheduler of a tree.

    Raises:
        ConfigurationError: It does not score candidates, or its executor rule is wrong.
    """
    return StageScheduler(name, decide_by_tree, parameters_of(tree))
