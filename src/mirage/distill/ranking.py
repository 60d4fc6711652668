"""Ranking trees: each candidate of a contest is a row, its leaf gives its score.

The highest score wins. A ranking tree is a tree of numbers. It grows on the pairs (winner, loser) of contests, each
contest weighted by the cost of a wrong winner: a candidate's target is 1 if it is the winner, less the mean over the
candidates, as in the first tree of LambdaMART (Burges 2010, "From RankNet to LambdaRank to LambdaMART").
Cost-complexity pruning retains the leaves that are worth it. Squared error ignores who wins, so the scores of the
leaves are then put into the order that gives most contests their winner.

Rows of a contest are in the order in which ties are broken: of equal scores the first wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.distill.pruning import FitSettings
from mirage.distill.tree import Leaf, Node, Tree, TreeFeature, merged
from mirage.distill.tree_examples import Amounts, Flags
from mirage.distill.tree_fit import counted, fitted
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError

LEAST_MARGIN = 0.02
"""The weight of a contest whose two best candidates are equally good: small, but not zero."""

MOST_PASSES = 4
"""Passes over all leaves while their order improves."""

MOST_ORDERED = 3_000
"""Contests, spread over all, that order the leaves; more give the same order and cost hundreds of scans each."""


@dataclass(frozen=True, slots=True)
class Contests:
    """Candidates of many decisions, and the preference of a teacher for each.

    Attributes:
        features: The columns of the rows.
        rows: Shape (n, features), finite; the candidates of a contest are consecutive, in the order of ties.
        first: Shape (m,), the first row of each contest, ascending from 0.
        liking: Shape (n,), for example the probability with which a teacher takes a candidate; the highest wins.
        weight: Shape (m,), the cost of a wrong winner.
        group: Shape (m,), for example the episode that a contest comes from.
    """

    features: tuple[TreeFeature, ...]
    rows: Floats
    first: Ints
    liking: Floats
    weight: Floats
    group: Ints

    def __post_init__(self) -> None:
        n, m = len(self.rows), len(self.first)
        if self.liking.shape != (n,) or self.weight.shape != (m,) or self.group.shape != (m,):
            raise ConfigurationError(
                f"there are {n} candidates in {m} contests, but likings of the shape {self.liking.shape}, weights of "
                f"{self.weight.shape}, groups of {self.group.shape}; give one for each"
            )
        if not m or self.first[0] != 0 or (np.diff(self.first) < 1).any() or self.first[-1] >= n:
            raise ConfigurationError("first rows of contests do not ascend from 0; give each at least one candidate")

    @property
    def sizes(self) -> Ints:
        """Shape (m,), candidates of each contest."""
        return np.diff(np.append(self.first, len(self.rows)))

    @property
    def contest(self) -> Ints:
        """Shape (n,), the contest of each row."""
        return np.repeat(np.arange(len(self.first)), self.sizes)

    def winners(self, score: Floats) -> Ints:
        """Shape (m,), the row of each contest with the highest score, the first of equal ones."""
        best = np.repeat(np.maximum.reduceat(score, self.first), self.sizes)
        where = np.flatnonzero(score == best)
        return np.asarray(where[np.searchsorted(where, self.first)], dtype=np.int64)

    def part(self, chosen: Flags) -> Contests:
        """Selects some of the contests."""
        of_row, sizes = np.repeat(chosen, self.sizes), self.sizes[chosen]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return replace(
            self,
            rows=self.rows[of_row],
            first=first,
            liking=self.liking[of_row],
            weight=self.weight[chosen],
            group=self.group[chosen],
        )

    def amounts(self) -> Amounts:
        """The targets for a tree of scores: 1 for the winner and 0 for others, less the mean."""
        value = np.zeros(len(self.rows))
        value[self.winners(self.liking)] = 1.0
        value -= np.repeat(1.0 / self.sizes, self.sizes)
        of_row = self.contest
        return Amounts(self.features, self.rows, Unit.NUMBER, value, self.weight[of_row], self.group[of_row])


def joined(parts: list[Contests]) -> Contests:
    """Joins contests of several collections with the same features.

    Raises:
        ConfigurationError: There is none, or the features differ.
    """
    if not parts or any(part.features != parts[0].features for part in parts):
        raise ConfigurationError("contests without features in common cannot be joined; use the same features")
    before = np.cumsum([0, *(len(part.rows) for part in parts[:-1])])
    return Contests(
        parts[0].features,
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.first + n for part, n in zip(parts, before, strict=True)]),
        np.concatenate([part.liking for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.group for part in parts]),
    )


def margins(liking: Floats, first: Ints) -> Floats:
    """The margin of each contest's winner over the second, at least ``LEAST_MARGIN``.

    The weights of VIPER (Bastani, Pu and Solar-Lezama 2018): a state matters by the loss of a wrong answer.

    Args:
        liking: Shape (n,).
        first: Shape (m,), the first row of each contest.

    Returns:
        Shape (m,); contests of one candidate have no second and get ``LEAST_MARGIN``.
    """
    sizes = np.diff(np.append(first, len(liking)))
    best = np.maximum.reduceat(liking, first)
    others = liking.copy()
    where = np.flatnonzero(liking == np.repeat(best, sizes))
    others[where[np.searchsorted(where, first)]] = -np.inf
    second = np.maximum.reduceat(others, first)
    return np.where(sizes > 1, np.maximum(best - np.where(sizes > 1, second, best), LEAST_MARGIN), LEAST_MARGIN)


def agreement(tree: Tree, contests: Contests, weight: Floats | None = None) -> float:
    """The share of contests, by weight, in which a tree takes the winner.

    Args:
        tree: Of numbers, with the features of the contests.
        contests: The contests to evaluate.
        weight: Shape (m,); equal weights where absent.
    """
    right = contests.winners(tree.values(contests.rows)) == contests.winners(contests.liking)
    return float(np.average(right, weights=weight))


def ranking_tree(contests: Contests, held_out: Flags, rng: np.random.Generator, settings: FitSettings) -> Tree:
    """A tree that gives contests the winners of their teacher.

    Args:
        contests: What to learn from.
        held_out: Shape (m,), contests that are only evaluated.
        rng: Draws among equal splits.
        settings: How to fit.

    Raises:
        ConfigurationError: See ``fitted``.
    """
    fit = fitted(contests.amounts(), np.repeat(held_out, contests.sizes), rng, settings)
    return ordered(fit.tree, contests.part(~held_out))


def ordered(tree: Tree, contests: Contests) -> Tree:
    """Scores the leaves 1, 2, 3 ... in the order that gives most of the weight its winner.

    Each leaf in turn moves to the best place among the others; the search ends where no move helps.
    """
    whole, n = contests, len(contests.first)
    contests = contests.part(np.arange(n) % max(1, n // MOST_ORDERED) == 0)
    number = tree.leaf_numbers(contests.rows)
    winners = contests.winners(contests.liking)
    score = _ranks(np.array([float(leaf.value) for leaf in tree.leaves]))
    best = _right(contests, number, winners, score)
    for _ in range(MOST_PASSES):
        before = best
        for leaf in np.argsort(np.bincount(number, minlength=len(score)))[::-1]:
            tries = [_ranks(np.where(np.arange(len(score)) == leaf, place, score)) for place in _places(score)]
            got = [_right(contests, number, winners, one) for one in tries]
            k = int(np.argmax(got))
            if got[k] > best:
                score, best = tries[k], got[k]
        if best <= before:
            break
    values = iter(score)
    return counted(merged(replace(tree, root=_scored(tree.root, values))), whole.amounts())


def ranked(tree: Tree) -> Tree:
    """Rescores a tree 1, 2, 3 ... in its present order.

    No score is below 0, so no stage is skipped.
    """
    values = iter(_ranks(np.array([float(leaf.value) for leaf in tree.leaves])))
    return replace(tree, root=_scored(tree.root, values))


def _places(score: Floats) -> Floats:
    """Scores that a leaf may get: those of others, and all between and beyond."""
    levels = np.unique(score)
    return np.concatenate([levels, levels - 0.5, levels[-1:] + 0.5])


def _ranks(score: Floats) -> Floats:
    return np.asarray(np.unique(score, return_inverse=True)[1] + 1, dtype=np.float64)


def _right(contests: Contests, number: Ints, winners: Ints, score: Floats) -> float:
    return float(contests.weight @ (contests.winners(score[number]) == winners))


def _scored(node: Node, values: Iterator[float]) -> Node:
    if isinstance(node, Leaf):
        return replace(node, value=float(next(values)))
    below = _scored(node.below, values)
    return replace(node, below=below, above=_scored(node.above, values))
