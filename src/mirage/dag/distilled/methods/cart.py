"""CART at several levels of pruning, and a tree improved from there in small steps.

The number of leaves is chosen by fidelity in episodes that were not learnt from. The levels of pruning are equal for
all budgets, and so are the episodes that evaluate them: a larger budget never makes a student less faithful there. All
decisions count equally, as in fidelity; weighting them by the teacher's margin (VIPER) makes trees less faithful, and
the less so the more leaves they have.

CART splits for squared error and evaluates each split on its own. The goal is that the right candidate of a decision
scores highest, and ``Climb`` accepts a step by that: a threshold or a score moves, a condition is added, exchanged or
removed. A few thousand steps make trees that have fewer leaves and are more faithful.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.tree_decider import score_of
from mirage.dag.distilled.tree_policy import parameters_of
from mirage.distill.pruning import FitSettings
from mirage.distill.ranking import Contests, agreement, ranked, ranking_tree
from mirage.distill.tree import Tree
from mirage.distill.tree_examples import Flags
from mirage.distill.tree_fit import counted
from mirage.errors import ConfigurationError
from mirage.kernel.compile import kernel

LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)
"""Leaves of the candidate trees, in steps of about the square root of two."""

LEAST_SHARE = 0.0005
"""A leaf has at least this share of the candidates' weight."""

CHOOSE_BY = 4
"""One in this number of episodes chooses the level and is not learnt from."""

STEPS = 8_000
"""Number of changes to try; most trees do not improve after 6,000."""


@dataclass(frozen=True, slots=True)
class PruningLevel:
    """A pruned tree.

    Attributes:
        most_leaves: The largest number of leaves that pruning allowed.
        tree: The tree.
        fidelity: Share of decisions with the teacher's pick, in the episodes that choose.
    """

    most_leaves: int
    tree: Tree
    fidelity: float


class Cart:
    """CART at several levels of pruning.

    Args:
        seed: Draws among equal splits.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
        """The most faithful tree within a number of leaves, the smallest of equally faithful ones."""
        del rng  # trees of one level must be the same for each budget
        return max(self.levels(contests, leaves), key=lambda level: level.fidelity).tree

    def levels(self, contests: Contests, leaves: int) -> Iterator[PruningLevel]:
        """All levels up to a number of leaves, the smallest tree first."""
        judges = one_in(contests, CHOOSE_BY)
        others = contests.part(judges)
        for most in (level for level in LEVELS if level <= leaves):
            tree = ranking_tree(
                contests,
                judges,
                np.random.default_rng(self._seed),
                FitSettings(max_leaves=most, folds=0, least_share=LEAST_SHARE),
            )
            yield PruningLevel(most, tree, agreement(tree, others))


def one_in(contests: Contests, parts: int) -> Flags:
    """Shape (contests,): flags of the contests of one in ``parts`` episodes.

    Where there are fewer episodes than parts, flags of one in ``parts`` contests.

    Raises:
        ConfigurationError: There are fewer contests than parts.
    """
    if len(contests.first) < parts:
        raise ConfigurationError(f"there are {len(contests.first)} decisions; a tree needs at least {parts}")
    number = np.unique(contests.group, return_inverse=True)[1]
    if number.max() + 1 < parts:
        number = np.arange(len(contests.first))
    return np.asarray(number % parts == parts - 1)


class Climb:
    """CART's tree, improved in fidelity by small steps.

    Args:
        seed: Draws among CART's equal splits.
        steps: Number of changes to try.
    """

    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self._cart, self._steps = Cart(seed), steps

    def __call__(self, contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
        """The most faithful tree found within a number of leaves, the smallest of equal ones."""
        return climbed(self._cart(contests, leaves, rng), contests, leaves, rng, self._steps)


def climbed(tree: Tree, contests: Contests, leaves: int, rng: np.random.Generator, steps: int) -> Tree:
    """A tree after small changes that give more decisions their winner.

    Args:
        tree: The first tree, with the features of the contests.
        contests: The contests to evaluate on.
        leaves: Most leaves of the tree.
        rng: Draws the changes.
        steps: Number of changes to try.
    """
    winners = contests.winners(contests.liking)
    right = _right(parameters_of(tree), contests.rows, contests.first, winners, contests.weight)
    for _ in range(steps):
        other = changed(tree, contests.rows, leaves, rng, may_grow=True, may_rule=False)
        found = _right(parameters_of(other), contests.rows, contests.first, winners, contests.weight)
        if found > right or (found == right and len(other.leaves) < len(tree.leaves)):
            tree, right = other, found
    return counted(ranked(tree), contests.amounts())


@kernel(forceinline=False)
def _right(p: Floats, rows: Floats, first: Ints, winners: Ints, weight: Floats) -> float:
    """The weight of contests in which the winner scores highest, and first of equal scores."""
    total = 0.0
    for contest in range(len(first)):
        end = first[contest + 1] if contest + 1 < len(first) else len(rows)
        winner, is_right = winners[contest], True
        most = score_of(p, rows[winner])
        for row in range(first[contest], end):
            found = score_of(p, rows[row])
            if found > most or (found == most and row < winner):
                is_right = False
                break
        if is_right:
            total += weight[contest]
    return total
