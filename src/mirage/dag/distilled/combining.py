"""Several trees combined into one, each deciding in its range of load.

The load is the number of jobs per executor. It is equal for all candidates of a decision, so that scores of two
trees are never compared: the combined tree decides in each range as the tree of that range does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from mirage.dag.distilled.candidate_columns import CROWDING, FEATURES
from mirage.dag.distilled.executor_rule import ExecutorRule, rule_of
from mirage.dag.distilled.tree_policy import check_features
from mirage.distill.tree import Split, Tree, merged
from mirage.distill.units import Unit, written
from mirage.errors import ConfigurationError

LOAD = FEATURES[CROWDING]


def combined(trees: Sequence[Tree], loads: Sequence[float]) -> Tree:
    """A tree that tests the load first, with the rules of all trees combined.

    Conditions and rules of a tree for loads at which it does not decide are left out.

    Args:
        trees: One more than there are loads.
        loads: In jobs per executor: where the second tree begins to decide, the third one, and so on.

    Raises:
        ConfigurationError: There are more or fewer loads, they do not rise, a tree does not score candidates, or the
            rules have too many ranges of load.
    """
    if not loads or len(trees) != len(loads) + 1:
        raise ConfigurationError(
            f"trees: {len(trees)}, loads: {len(loads)}; give at least two trees, and for each but the first the load "
            "from which it decides"
        )
    load_texts = [written(load, LOAD.unit) for load in loads]
    if not all(low < high for low, high in zip((0.0, *loads), loads)):
        raise ConfigurationError(
            f"the loads are {', '.join(load_texts)}; each must be above the previous one, the first above 0 %"
        )
    for tree in trees:
        check_features(tree)
    root = trees[-1].root
    for tree, load in zip(reversed(trees[:-1]), reversed(loads)):
        root = Split(LOAD.name, load, tree.root, root)
    listed = {LOAD.name, *(feature.name for tree in trees for feature in tree.features)}
    features = tuple(feature for feature in FEATURES if feature.name in listed)
    return merged(Tree(features, Unit.NUMBER, root, combined_rule(trees, loads).settings()))


def combined_rule(trees: Sequence[Tree], loads: Sequence[float]) -> ExecutorRule:
    """The executor rule with the numbers, at each load, of the tree that decides there."""
    starts = (-math.inf, *loads)
    ends = (*loads, math.inf)
    found = [
        (max(low, start), cap)
        for tree, start, end in zip(trees, starts, ends, strict=True)
        for low, high, cap in rule_of(dict(tree.settings)).ranges
        if low < end and high > start
    ]
    distinct = found[:1] + [one for before, one in pairwise(found) if one[1] != before[1]]
    return ExecutorRule(distinct[0][1], tuple(distinct[1:]))
