"""CART trees grown with scikit-learn, and the nested trees that pruning produces.

Growth needs a measure that looks ahead (Gini, squared error); pruning needs the cost itself. scikit-learn prunes by the
measure of growth, which retains splits whose two sides give the same answer, so pruning is done here: Breiman,
Friedman, Olshen and Stone 1984, "Classification and Regression Trees", section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.distill.tree import DEEPEST
from mirage.distill.tree_examples import Examples, Flags
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError
from mirage.extras import install

LEAF = -1
"""The feature of a node without a condition."""


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree in arrays, one entry per node, in depth-first order, the lower side first.

    Each node precedes its descendants; the subtree below the threshold precedes the one above it.

    Attributes:
        feature: Column that is tested, or ``LEAF``.
        low: Largest value of the examples that go below; the threshold may be anything above it,
        high: up to this, the smallest value of those that go above.
        above: Node for rows at the threshold and above; the node for the others is the next one.
        end: One past the last node of its subtree.
        answer: The answer with the least cost in the examples of the node.
        cost: The cost of this answer, summed over them.
    """

    feature: Ints
    low: Floats
    high: Floats
    above: Ints
    end: Ints
    answer: Floats
    cost: Floats

    def rows_of_nodes(self, rows: Floats) -> list[Ints]:
        """The rows that reach each node; thresholds are the middles of the gaps."""
        found: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(self.feature)
        found[0] = np.arange(len(rows))
        for node, column in enumerate(self.feature):
            if column != LEAF:
                where = found[node]
                is_below = rows[where, column] < middle(self.low[node], self.high[node])
                found[node + 1], found[self.above[node]] = where[is_below], where[~is_below]
        return found


def middle(low: float, high: float) -> float:
    """The threshold between two values: above the first, and at most the second."""
    between = low + (high - low) / 2
    return between if between > low else high


def sklearn_tree() -> Any:
    """Imports scikit-learn's module of trees.

    Raises:
        ConfigurationError: The extra ``learn`` is not installed.
    """
    try:
        from sklearn import tree
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"fitting trees needs scikit-learn, which is not installed; run: {install('learn')}"
        ) from error
    return tree


def grown(examples: Examples, most_leaves: int, least_share: float, seed: int) -> GrownTree:
    """A fully grown tree, best split first.

    scikit-learn stores values as 32-bit floats, so it gets their ranks: seconds since 1970 stay distinct.

    Args:
        examples: What to learn; in some row the answers must differ in cost.
        most_leaves: The growth stops there.
        least_share: Each leaf has at least this share of the weight.
        seed: Chooses among equally good splits.

    Raises:
        ConfigurationError: The extra ``learn`` is not installed, or all answers cost the same in every row.
    """
    module, targets = sklearn_tree(), examples.targets()
    if not len(targets.of_row):
        raise ConfigurationError("no example distinguishes the answers, all cost the same; give some that do")
    kind = module.DecisionTreeRegressor if isinstance(examples.answers, Unit) else module.DecisionTreeClassifier
    learner = kind(
        max_depth=DEEPEST, max_leaf_nodes=most_leaves, min_weight_fraction_leaf=least_share, random_state=seed
    )
    ranks: NDArray[np.float32] = np.empty(examples.rows.shape, dtype=np.float32)
    for k in range(len(examples.features)):
        ranks[:, k] = np.unique(examples.rows[:, k], return_inverse=True)[1]
    learner.fit(ranks[targets.of_row], targets.target, targets.weight / targets.weight.mean())
    return _taken_over(learner.tree_, ranks, examples, targets.of_row)


def _taken_over(fitted: Any, ranks: NDArray[np.float32], examples: Examples, counted: Ints) -> GrownTree:
    """Converts scikit-learn's tree, with gaps around thresholds and costs of nodes."""
    n = fitted.node_count
    feature, above, end = np.full(n, LEAF), np.zeros(n, dtype=np.int64), np.arange(1, n + 1)
    low, high, answer, cost = (np.zeros(n) for _ in range(4))
    matters = np.zeros(len(ranks), dtype=np.bool_)
    matters[counted] = True
    number = 0

    def take(theirs: int, where: Ints) -> None:
        nonlocal number
        node, number = number, number + 1
        answer[node] = examples.best_answer(where)
        cost[node] = examples.costs_of(answer[node], where).sum()
        if fitted.children_left[theirs] != fitted.children_right[theirs]:
            column = feature[node] = fitted.feature[theirs]
            is_below = ranks[where, column] <= fitted.threshold[theirs]
            values, is_counted = examples.rows[where, column], matters[where]
            low[node], high[node] = values[is_below & is_counted].max(), values[~is_below & is_counted].min()
            goes_below = values < middle(low[node], high[node])  # rows that do not matter may lie in the gap
            take(fitted.children_left[theirs], where[goes_below])
            above[node] = number
            take(fitted.children_right[theirs], where[~goes_below])
        end[node] = number

    take(0, np.arange(len(ranks)))
    return GrownTree(feature, low, high, above, end, answer, cost)


def collapse_prices(tree: GrownTree) -> Floats:
    """The price per leaf from which each node is a leaf, or below one, in the cheapest tree.

    The weakest link is collapsed first: the node whose subtree saves least per leaf. Leaves have minus infinity.

    Returns:
        Shape (nodes,), in the unit of the costs of the examples.
    """
    n = len(tree.feature)
    under, leaves = tree.cost.copy(), np.ones(n)
    parent = np.full(n, -1)
    for node in range(n - 1, -1, -1):
        if tree.feature[node] != LEAF:
            below, above = node + 1, tree.above[node]
            parent[below] = parent[above] = node
            under[node], leaves[node] = under[below] + under[above], leaves[below] + leaves[above]
    price = np.full(n, -np.inf)
    is_split = tree.feature != LEAF
    saved = np.full(n, np.inf)
    saved[is_split] = (tree.cost - under)[is_split] / (leaves[is_split] - 1)
    reached = -np.inf
    while saved[0] < np.inf:
        weakest = int(np.argmin(saved))
        reached = max(reached, float(saved[weakest]))
        inside = np.arange(weakest, tree.end[weakest])
        inside = inside[saved[inside] < np.inf]
        price[inside], saved[inside] = reached, np.inf
        less, more = leaves[weakest] - 1, tree.cost[weakest] - under[weakest]
        node = parent[weakest]
        while node >= 0:
            leaves[node] -= less
            under[node] += more
            saved[node] = (tree.cost[node] - under[node]) / (leaves[node] - 1)
            node = parent[node]
    return price


def leaves_at(tree: GrownTree, collapse: Floats, price: float) -> Flags:
    """The nodes that are leaves of the cheapest tree at a price per leaf.

    Args:
        tree: The grown tree.
        collapse: Its ``collapse_prices``.
        price: What a leaf costs.
    """
    is_leaf = np.zeros(len(collapse), dtype=np.bool_)
    node = 0
    while node < len(collapse):
        is_leaf[node] = collapse[node] <= price
        node = int(tree.end[node]) if is_leaf[node] else node + 1
    return is_leaf
