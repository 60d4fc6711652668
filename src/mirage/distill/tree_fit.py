"""Fits of trees: grown, pruned, rounded, and evaluated on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.distill.pruning import FitSettings, Size, pruned
from mirage.distill.rounding import rounded_number
from mirage.distill.tree import Leaf, Node, Split, Tree, merged
from mirage.distill.tree_examples import Choices, Examples, Flags
from mirage.distill.tree_growth import LEAF, GrownTree, middle
from mirage.distill.units import Unit, simplest
from mirage.errors import ConfigurationError

DEFAULTS = FitSettings()


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a tree on some rows.

    Attributes:
        leaves: Of the tree.
        depth: Of the tree.
        rows: Number of rows.
        fidelity: Share of rows for which no other answer is cheaper; of numbers, the share of the variance that is
            explained.
        weighted_fidelity: The same, each row weighted by how much its answer matters.
        cost: Mean cost of the answers; of numbers, the mean weighted squared error.
        least_cost: Mean cost of the best answer of each row.
        constant_cost: Mean cost of the single answer that is best for all these rows.
    """

    leaves: int
    depth: int
    rows: int
    fidelity: float
    weighted_fidelity: float
    cost: float
    least_cost: float
    constant_cost: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted tree.

    Attributes:
        tree: With the share and the certainty of each leaf in the examples that it was fitted to.
        learned: Figures of these examples.
        held_out: Figures of the others.
        sizes: The candidates, the largest tree first; before rounding and merging.
    """

    tree: Tree
    learned: Figures
    held_out: Figures
    sizes: tuple[Size, ...]


def fitted(examples: Examples, held_out: Flags, rng: np.random.Generator, settings: FitSettings = DEFAULTS) -> Fit:
    """The tree with the least cost in examples, with as few leaves as their noise allows.

    Args:
        examples: ``Choices`` or ``Amounts``.
        held_out: Shape (n,), the rows that are only evaluated; rows in order of time are best
            split at a moment, and rows of a group belong on one side.
        rng: Draws the folds.
        settings: How to fit.

    Raises:
        ConfigurationError: The extra ``learn`` is not installed; there is nothing to learn or to evaluate; or there are
            fewer groups than folds.
    """
    if held_out.shape != (len(examples.rows),) or held_out.all() or not held_out.any():
        raise ConfigurationError(
            f"{int(held_out.sum())} of {len(examples.rows)} rows are held out; hold out some, and not all"
        )
    learnt = examples.part(~held_out)
    grown_tree, is_leaf, sizes = pruned(learnt, settings, rng)
    root = _snapped(grown_tree, is_leaf, 0, learnt, np.arange(len(learnt.rows)), settings.may_move)
    tree = counted(merged(Tree(learnt.features, learnt.answers, root)), learnt)
    return Fit(tree, figures(tree, learnt), figures(tree, examples.part(held_out)), sizes)


def figures(tree: Tree, examples: Examples) -> Figures:
    """The figures of a tree on examples, for instance of one that was edited by hand.

    Raises:
        ConfigurationError: The examples have different features or answers from the tree.
    """
    _check_alike(tree, examples)
    everywhere = np.arange(len(examples.rows))
    given = _given(tree, examples.rows)
    best = examples.best_answer(everywhere)
    least = examples.costs.min(axis=1) if isinstance(examples, Choices) else np.zeros(len(everywhere))
    return Figures(
        leaves=len(tree.leaves),
        depth=tree.depth,
        rows=len(everywhere),
        fidelity=examples.share_right(given, np.ones(len(everywhere))),
        weighted_fidelity=examples.share_right(given, examples.stake),
        cost=float(examples.costs_of(given, everywhere).mean()),
        least_cost=float(least.mean()),
        constant_cost=float(examples.costs_of(best, everywhere).mean()),
    )


def counted(tree: Tree, examples: Examples) -> Tree:
    """Adds to each leaf its share and its certainty in examples.

    Raises:
        ConfigurationError: The examples have different features or answers from the tree.
    """
    _check_alike(tree, examples)
    number, n = tree.leaf_numbers(examples.rows), len(tree.leaves)
    came = np.bincount(number, minlength=n)
    certain: list[float | None] = [None] * n
    if isinstance(examples, Choices):
        given = _given(tree, examples.rows)
        is_best = examples.costs_of(given, np.arange(len(number))) <= examples.costs.min(axis=1)
        right = np.bincount(number, is_best, n)
        certain = [float(right[k] / came[k]) if came[k] else None for k in range(n)]
    remarks = iter([(float(came[k]) / len(number), certain[k]) for k in range(n)])
    return replace(tree, root=_remarked(tree.root, remarks))


def _remarked(node: Node, remarks: Iterator[tuple[float, float | None]]) -> Node:
    if isinstance(node, Leaf):
        share, certainty = next(remarks)
        return Leaf(node.value, share, certainty)
    below = _remarked(node.below, remarks)
    return replace(node, below=below, above=_remarked(node.above, remarks))


def _given(tree: Tree, rows: Floats) -> Floats:
    """The codes or numbers that a tree gives to rows."""
    return tree.values(rows) if isinstance(tree.answers, Unit) else tree.codes(rows).astype(np.float64)


def _check_alike(tree: Tree, examples: Examples) -> None:
    if tree.features != examples.features or tree.answers != examples.answers:
        raise ConfigurationError(
            "the tree and the examples have different features or answers, or in another order; give examples with "
            f"{', '.join(f'{feature.name} ({feature.unit})' for feature in tree.features)} and with "
            f"{tree.answers if isinstance(tree.answers, Unit) else ', '.join(tree.answers)}"
        )
    if not len(examples.rows):
        raise ConfigurationError("there are no examples; give at least one")


def _snapped(tree: GrownTree, is_leaf: Flags, node: int, examples: Examples, where: Ints, may_move: float) -> Node:
    """A node of the pruned tree, with round thresholds and answers refitted to its rows."""
    if is_leaf[node] or tree.feature[node] == LEAF:
        return Leaf(_leaf_answer(tree, node, examples, where))
    column = int(tree.feature[node])
    feature = examples.features[column]
    values = examples.rows[where, column]
    wish = middle(float(tree.low[node]), float(tree.high[node]))
    threshold = snapped_threshold(values, examples.stake[where], wish, feature.unit, may_move)
    is_below = values < threshold
    below = _snapped(tree, is_leaf, node + 1, examples, where[is_below], may_move)
    above = _snapped(tree, is_leaf, int(tree.above[node]), examples, where[~is_below], may_move)
    return Split(feature.name, threshold, below, above)


def snapped_threshold(values: Floats, stake: Floats, wish: float, unit: Unit, may_move: float) -> float:
    """The simplest threshold that moves no value to the other side.

    It may move a few values where that makes it easier to read.

    Args:
        values: Shape (n,), of the examples that reach the split.
        stake: Shape (n,), how much each matters; those with 0 are ignored.
        wish: The threshold so far.
        unit: Of the values.
        may_move: Share of the stakes that may move to the other side.
    """
    matters = stake > 0
    order = np.argsort(values[matters], kind="stable")
    ranked, weight = values[matters][order], stake[matters][order]
    cut = int(np.searchsorted(ranked, wish, side="left"))
    if cut in (0, len(ranked)):
        return rounded_number(wish, unit)
    exact, is_easy = simplest(float(ranked[cut - 1]), float(ranked[cut]), wish, unit)
    room = may_move * float(weight.sum())
    if is_easy or not room:
        return exact
    down = int(np.searchsorted(np.cumsum(weight[:cut][::-1]), room, side="right"))
    up = int(np.searchsorted(np.cumsum(weight[cut:]), room, side="right"))
    low, high = ranked[max(cut - 1 - down, 0)], ranked[min(cut + up, len(ranked) - 1)]
    return simplest(float(low), float(high), wish, unit)[0]


def _leaf_answer(tree: GrownTree, node: int, examples: Examples, where: Ints) -> str | float:
    """The best answer of the rows of a leaf; a number is rounded within its standard error."""
    has_stake = bool((examples.stake[where] > 0).any())
    best = examples.best_answer(where) if has_stake else float(tree.answer[node])
    if not isinstance(examples.answers, Unit):
        return examples.answers[int(best)]
    weight = examples.stake[where]
    total = float(weight.sum())
    error = np.sqrt(float(weight @ examples.costs_of(best, where))) / total if total else 0.0
    low, high = best - error, best + error
    return simplest(low, high, best, examples.answers)[0] if low < high else best
