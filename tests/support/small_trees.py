"""A small known tree, and any tree with rows at and next to its thresholds."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mirage.distill.tree import Leaf, Node, Split, Tree, TreeFeature
from mirage.distill.units import Unit

FEATURES = (TreeFeature("remaining", Unit.DURATION), TreeFeature("load", Unit.SHARE), TreeFeature("weekend", Unit.FLAG))

SMALL = Tree(
    FEATURES,
    ("wait", "submit"),
    Split(
        "remaining",
        21_600,
        Leaf("submit", 0.25, 0.972),
        Split(
            "load",
            0.8,
            Leaf("wait", 0.7, 1.0),
            Split("weekend", 0.5, Leaf("wait", 0.048), Leaf("submit", 0.002, 0.9999)),
        ),
    ),
    (("horizon", "6h"), ("made_from", "weeks 1 to 8, by hand")),
)

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["a", "if-idle", "else.b", "x-", "_c", "not_d"])
ANY_FEATURES = st.lists(
    st.builds(TreeFeature, NAMES, st.sampled_from(list(Unit))), min_size=1, unique_by=lambda f: f.name
)


@st.composite
def trees_and_rows(draw: st.DrawFn) -> tuple[Tree, NDArray[np.float64]]:
    """A tree of labels, and rows at its thresholds, one float off them, or anywhere."""
    features = tuple(draw(ANY_FEATURES))
    answers = ("wait", "if-not", "else-then")
    unit = {feature.name: feature.unit for feature in features}
    leaves = st.builds(Leaf, st.sampled_from(answers), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1))

    def split(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        name = st.sampled_from(sorted(unit))
        return name.flatmap(
            lambda chosen: st.builds(
                Split, st.just(chosen), st.just(0.5) if unit[chosen] is Unit.FLAG else NUMBERS, children, children
            )
        )

    tree = Tree(features, answers, draw(st.recursive(leaves, split, max_leaves=8)))
    thresholds = [0.5, *(node.threshold for node in splits_of(tree.root))]
    near = [math.nextafter(t, side) for t in thresholds for side in (t, np.inf, -np.inf)]
    values = st.sampled_from(near) | st.floats(allow_nan=False)
    row = st.lists(values, min_size=len(features), max_size=len(features))
    return tree, np.array(draw(st.lists(row, min_size=1, max_size=12)), dtype=np.float64)


def splits_of(node: Node) -> list[Split]:
    """All splits of a tree."""
    if isinstance(node, Leaf):
        return []
    return [node, *splits_of(node.below), *splits_of(node.above)]
