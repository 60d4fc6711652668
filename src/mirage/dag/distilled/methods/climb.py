"""A tree changed in small steps while they increase its agreement with the teacher.

CART splits for squared error and evaluates each split on its own. The goal is that the right candidate of a decision
scores highest, and a step is accepted by that: a threshold or a score moves, a condition is added, exchanged or
removed. A few thousand steps make trees that have fewer leaves and are more faithful.
"""

from __future__ import annotations

import numpy as np

from mirage.dag.distilled.methods.cart_levels import Cart
from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.tree_decider import score_of
from mirage.dag.distilled.tree_policy import parameters_of
from mirage.distill.ranking import Contests, ranked
from mirage.distill.tree import Tree
from mirage.distill.tree_fit import counted
from mirage.job_state import Floats, Ints
from mirage.kernel.compile import kernel

STEPS = 8_000
"""Number of changes to try; most trees do not improve after 6,000."""


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
