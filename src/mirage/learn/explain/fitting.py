"""Trees of several sizes fitted to a policy, and the size with the nearest costs.

Trees are grown on the earlier of the windows that are over by a moment, and compared on the later ones. A tree of the
chosen size is then grown on all of them. Windows after the moment are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.distill.fit import fitted
from mirage.distill.pruning import FitSettings
from mirage.distill.tree import Tree
from mirage.errors import ConfigurationError
from mirage.job_state import Floats
from mirage.learn.dataset.read import known_by
from mirage.learn.explain.examples import Decided
from mirage.learn.explain.fidelity import day, tree_rows
from mirage.learn.explain.tree_rule import ANSWERS, SUBMIT
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model import Flags
from mirage.learn.training.rolling_origin import submitted_rows
from mirage.policy.cost import Cost

LEAST_SHARE = 0.0005
"""Smallest share of decisions in a leaf: first submissions of a policy are few among all possible decisions."""

MAY_MOVE = 0.0005
"""Share of the decisions at a condition that rounding may move to its other side: each may be a hand-over's moment."""

CHOICE_SHARE = 1 / 3
"""Share of the windows that are over, the last ones, that choose the number of leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedTrees:
    """Trees of several sizes, grown on all windows that are over.

    Attributes:
        trees: By rising bound on their leaves, in powers of two up to the largest.
        chosen: Index of the best one.
        choice_windows: Number of hand-overs that it was chosen on.
    """

    trees: tuple[Tree, ...]
    chosen: int
    choice_windows: int

    @property
    def tree(self) -> Tree:
        """The best tree."""
        return self.trees[self.chosen]


def fitted_trees(
    data: HandOvers, decided: Decided, policy_says: Flags, cost: Cost, until_s: int, max_leaves: int, seed: int
) -> FittedTrees:
    """Fits trees of several sizes that imitate a policy.

    Args:
        data: Ordered by window, link size and time.
        decided: The examples in them.
        policy_says: Shape (n,), whether the policy submits.
        cost: Cost of hours of interruption and overlap.
        until_s: Only windows that are over by this time are used.
        max_leaves: Largest number of leaves of a tree.
        seed: Chooses among splits that are equally good.

    Raises:
        ConfigurationError: There are too few windows, or a package is missing.
    """
    told = known_by(data, until_s)
    windows_s = np.unique(data.window_s[told])
    choice_s = int(windows_s[-max(round(len(windows_s) * CHOICE_SHARE), 1)]) if len(windows_s) else until_s
    early, choice = known_by(data, choice_s), told & (data.window_s >= choice_s)
    if not early.any():
        first_s, last_s = int(data.window_s.min()), int(data.window_s.max())
        raise ConfigurationError(
            f"too few windows of the data are over by {day(until_s)}: a tree needs some to fit, and later ones to "
            f"choose its size; windows begin {day(first_s)} to {day(last_s)}"
        )
    sizes = _sizes(max_leaves)
    part, says = data[choice], policy_says[choice]
    apart = [cost_apart(part, says, tree_submits(_grown(decided, early, n, seed), part), cost) for n in sizes]
    trees = tuple(_grown(decided, told, n, seed) for n in sizes)
    return FittedTrees(trees, int(np.argmin(np.round(apart, 9))), len(part.windows()) - 1)


def tree_submits(tree: Tree, data: HandOvers) -> Flags:
    """Shape (n,): where a tree submits."""
    found: Flags = tree.codes(tree_rows(tree, data)) == ANSWERS.index(SUBMIT)
    return found


def cost_apart(data: HandOvers, policy_says: Flags, tree_says: Flags, cost: Cost) -> float:
    """Mean absolute difference between the costs of a policy's hand-overs and a tree's."""
    policy, tree = (_costs(data, says, cost) for says in (policy_says, tree_says))
    return float(np.abs(policy - tree).mean())


def _costs(data: HandOvers, says: Flags, cost: Cost) -> Floats:
    return np.asarray(cost.of(data.outcome_s[submitted_rows(says, data)].astype(np.float64)), dtype=np.float64)


def _grown(decided: Decided, told: Flags, leaves: int, seed: int) -> Tree:
    """Grows a tree with at most ``leaves`` leaves on the rows of some decisions."""
    settings = FitSettings(max_leaves=leaves, folds=0, least_share=LEAST_SHARE, may_move=MAY_MOVE)
    return fitted(decided.choices, ~told[decided.where], np.random.default_rng(seed), settings).tree


def _sizes(most: int) -> list[int]:
    """Numbers of leaves: powers of two below the largest, and the largest."""
    return [*(2**k for k in range(most.bit_length()) if 2**k < most), most]
