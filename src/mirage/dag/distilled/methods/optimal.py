"""Optimal trees: the least squared error of all trees of a depth over a few thresholds.

The solver is STreeD (van der Linden, de Weerdt and Demirović 2023; for regression van den Bos, van der Linden and
Demirović 2024). It needs a few binary columns, and supports no weights: each feature is cut at some of its quantiles,
and candidates are drawn in proportion to their weight. Leaves are put in order as CART's are.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.distill.ranking import Contests, ordered
from mirage.distill.rounding import rounded_number
from mirage.distill.tree import Leaf, Node, Split, Tree, TreeFeature, merged
from mirage.distill.tree_examples import Amounts
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError
from mirage.extras import install

DEEPEST = 5
"""Deeper trees take the solver hours."""


@dataclass(frozen=True, slots=True)
class OptimalSettings:
    """The limits of the search.

    Attributes:
        quantiles: Number of thresholds of a feature.
        drawn: Number of candidates to draw.
        least: Fewest drawn candidates of a leaf.
        limit_s: Processor time after which the solver stops, with the best tree so far.
    """

    quantiles: int = 3
    drawn: int = 10_000
    least: int = 10
    limit_s: float = 120.0


DEFAULTS = OptimalSettings()

_ENOUGH = 0.9
"""Part of the limit after which the solver is not called again; its clock counts whole seconds."""

_MOST_TIMES = 2
"""Most calls of the solver while other processes use the processor; each starts again."""


Unproven = Callable[[int, Tree], None]
"""Called with the number of leaves allowed and a tree that is not proven to be the best."""


@dataclass(frozen=True, slots=True)
class Optimal:
    """An optimal tree.

    Attributes:
        tree: With its leaves in order.
        is_proven: Whether the solver has proven that no tree has less squared error; False if its time ran out.
        squared_error: Mean, of the candidates drawn.
    """

    tree: Tree
    is_proven: bool
    squared_error: float


def optimal(
    contests: Contests,
    leaves: int,
    rng: np.random.Generator,
    *,
    settings: OptimalSettings = DEFAULTS,
    unproven: Unproven = lambda leaves, tree: None,
) -> Tree:
    """The optimal tree within a number of leaves, and at most ``DEEPEST`` deep.

    Args:
        contests: What to learn from.
        leaves: Most leaves of the tree.
        rng: Draws candidates.
        settings: The limits of the search.
        unproven: Called if the solver stopped before it had a proof.
    """
    found = optimal_tree(contests, leaves, rng, settings)
    if not found.is_proven:
        unproven(leaves, found.tree)
    return found.tree


def optimal_tree(
    contests: Contests,
    leaves: int,
    rng: np.random.Generator,
    settings: OptimalSettings = DEFAULTS,
    clock: Callable[[], float] = time.process_time,
) -> Optimal:
    """The optimal tree within a number of leaves, as shallow as these allow.

    Args:
        contests: What to learn from.
        leaves: Most leaves of the tree, at most 2 to the power of ``DEEPEST``.
        rng: Draws candidates.
        settings: The limits of the search.
        clock: Seconds of processor time.

    Raises:
        ConfigurationError: pystreed is not installed, or finds no tree.
    """
    examples = contests.amounts()
    rows, value = drawn(examples, settings.drawn, rng)
    if leaves == 1:
        return Optimal(ordered(Tree(examples.features, Unit.NUMBER, Leaf(1.0)), contests), True, float(value.var()))
    if len(rows) < settings.least:
        raise ConfigurationError(
            f"there are {len(rows)} candidates to learn from, but a leaf has at least "
            f"{settings.least}; give more jobs or seeds"
        )
    questions = thresholds(examples.features, rows, settings.quantiles)
    answered = np.stack([rows[:, column] >= threshold for column, threshold in questions], axis=1).astype(np.int32)
    solver = _solved(answered, value, leaves, settings, clock)

    def node_of(theirs: Any) -> Node:
        if theirs.is_leaf_node():
            return Leaf(float(theirs.label))
        column, threshold = questions[theirs.feature]
        left, right = theirs.left_child, theirs.right_child
        return Split(examples.features[column].name, threshold, node_of(left), node_of(right))

    tree = merged(Tree(examples.features, Unit.NUMBER, node_of(solver.get_tree())))
    error = float(((tree.values(rows) - value) ** 2).mean())
    return Optimal(ordered(tree, contests), bool(solver.fit_result.is_optimal()), error)


def _solved(
    answered: NDArray[np.int32], value: Floats, leaves: int, settings: OptimalSettings, clock: Callable[[], float]
) -> Any:
    """The solver when it has proven its tree, or had its processor time.

    It stops by wall-clock time. If it got little processor time until then, it is called again with a longer limit.
    """
    depth, wait_s = min(DEEPEST, math.ceil(math.log2(leaves))), settings.limit_s
    for _ in range(_MOST_TIMES):
        solver = solver_module().STreeDRegressor(
            optimization_task="regression",
            max_depth=depth,
            max_num_nodes=min(leaves, 2**depth) - 1,
            min_leaf_node_size=settings.least,
            time_limit=wait_s,
        )
        began_s = clock()
        solver.fit(answered, value)
        took_s = clock() - began_s
        if solver.is_fitted() and (solver.fit_result.is_optimal() or took_s >= _ENOUGH * settings.limit_s):
            break
        wait_s *= settings.limit_s / max(took_s, 0.1 * settings.limit_s)
    if not solver.is_fitted():
        raise ConfigurationError(f"no tree was found in {settings.limit_s} s; allow more time, or fewer leaves")
    return solver


def thresholds(features: tuple[TreeFeature, ...], rows: Floats, quantiles: int) -> list[tuple[int, float]]:
    """The allowed conditions: columns with thresholds, round ones where they split equally."""
    found: dict[bytes, tuple[int, float]] = {}
    for column, feature in enumerate(features):
        values = rows[:, column]
        cuts = np.unique(np.quantile(values, np.arange(1, quantiles + 1) / (quantiles + 1)))
        for cut in [FLAG_THRESHOLD] if feature.unit is Unit.FLAG else cuts.tolist():
            threshold = cut if feature.unit is Unit.FLAG else rounded_number(cut, feature.unit)
            is_above = values >= threshold
            if is_above.any() and not is_above.all():
                found.setdefault(is_above.tobytes(), (column, float(threshold)))
    if not found:
        raise ConfigurationError("no condition distinguishes candidates; give more decisions")
    return list(found.values())


def solver_module() -> Any:
    """Imports the solver of optimal trees.

    Raises:
        ConfigurationError: The extra ``distill`` is not installed.
    """
    try:
        return importlib.import_module("pystreed")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"optimal trees need pystreed, which is not installed; run: {install('distill')}, with Python 3.11 or 3.12"
        ) from error


def drawn(examples: Amounts, most: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rows and their targets, drawn in proportion to their weight."""
    chance = examples.stake / examples.stake.sum()
    where = rng.choice(len(chance), size=min(most, len(chance)), p=chance)
    return examples.rows[where], examples.value[where]
