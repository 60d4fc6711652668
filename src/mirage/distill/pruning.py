"""The number of leaves: cross-validation over groups, and fewer leaves within the noise.

Without folds the tree has as many leaves as allowed, and the caller compares several sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.distill.tree_examples import Examples, Flags
from mirage.distill.tree_growth import GrownTree, collapse_prices, grown, leaves_at
from mirage.errors import ConfigurationError

GROWN_LEAVES = 8
"""A tree is grown to this multiple of its allowed leaves: splits after a poor split may be worth it."""

MOST_BLOCKS = 200
"""Groups are merged into at most this number of blocks; standard errors need no more."""


ROUNDING = 1e-9
"""Costs that differ by this part of themselves differ only by the order of addition."""


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Settings of a fit of a tree.

    Attributes:
        max_leaves: Most leaves of the tree.
        folds: Parts of the cross-validation that chooses the number of leaves; 0 for as many leaves as help in the
            examples themselves, up to ``max_leaves``.
        least_share: Each leaf has at least this share of the weight of the examples.
        may_move: A threshold is rounded past at most this share of the weight of the examples that reach it.
        errors: Standard errors by which fewer leaves may cost more; 0 for the cheapest size, whatever the noise.
    """

    max_leaves: int = 32
    folds: int = 5
    least_share: float = 0.002
    may_move: float = 0.005
    errors: float = 1.0

    def __post_init__(self) -> None:
        if self.max_leaves < 1 or not (self.folds == 0 or 2 <= self.folds <= MOST_BLOCKS):
            raise ConfigurationError(
                f"max_leaves is {self.max_leaves} and folds is {self.folds}; "
                f"give at least 1, and from 2 to {MOST_BLOCKS} or 0 for none"
            )
        if not (0 <= self.least_share < 0.5 and 0 <= self.may_move < 0.5):
            raise ConfigurationError(
                f"least_share is {self.least_share} and may_move is {self.may_move}; give shares from 0 to below 0.5"
            )


@dataclass(frozen=True, slots=True)
class Size:
    """The cost of trees of one size, by cross-validation.

    Attributes:
        leaves: Leaves of the tree that is fitted to all examples.
        cost: Mean cost of a row's answer, in rows that the trees were not grown on; without folds, in those they were.
        error: Standard error of its difference from the cheapest size; without folds 0.
    """

    leaves: int
    cost: float
    error: float


def pruned(
    examples: Examples, settings: FitSettings, rng: np.random.Generator
) -> tuple[GrownTree, Flags, tuple[Size, ...]]:
    """A grown tree, the flags of its final leaves, and all candidate sizes.

    Raises:
        ConfigurationError: There are fewer groups than folds, or a fold has nothing to learn.
    """
    block = blocks_of(examples.group, settings.folds, rng) if settings.folds else None
    seed = int(rng.integers(2**31))
    most = GROWN_LEAVES * settings.max_leaves
    whole = grown(examples, most, settings.least_share, seed)
    collapse = collapse_prices(whole)
    prices = [p for p in _prices(collapse) if leaves_at(whole, collapse, p).sum() <= settings.max_leaves]
    if block is None:
        is_leaf = leaves_at(whole, collapse, prices[0])
        return whole, is_leaf, (Size(int(is_leaf.sum()), float(whole.cost[is_leaf].sum()) / len(examples.rows), 0.0),)
    cost = np.zeros((len(prices), int(block.max()) + 1))
    for fold in range(settings.folds):
        is_out = block % settings.folds == fold
        part = grown(examples.part(~is_out), most, settings.least_share, seed)
        smaller = np.array(prices) * float((~is_out).mean())
        cost += _costs_of_blocks(part, smaller, examples.part(is_out), block[is_out], cost.shape[1])
    sizes = _sizes(cost, np.bincount(block), [int(leaves_at(whole, collapse, p).sum()) for p in prices])
    most_cost = (1 + ROUNDING) * min(size.cost for size in sizes)
    enough = min(
        (k for k, s in enumerate(sizes) if s.cost <= most_cost + settings.errors * s.error),
        key=lambda k: sizes[k].leaves,
    )
    return whole, leaves_at(whole, collapse, prices[enough]), sizes


def blocks_of(group: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Assigns groups to blocks in random order; block b is in fold b modulo ``folds``.

    Raises:
        ConfigurationError: There are fewer groups than folds.
    """
    number = np.unique(group, return_inverse=True)[1]
    n = int(number.max(initial=-1)) + 1
    if n < folds:
        raise ConfigurationError(f"the examples come from {n} groups, and there are {folds} folds; use fewer")
    return np.asarray(rng.permutation(n)[number] % MOST_BLOCKS, dtype=np.int64)


def _prices(collapse: Floats) -> list[float]:
    """A price per leaf for each tree that pruning produces, the largest tree first."""
    steps = np.unique(np.maximum(collapse[collapse > -np.inf], 0.0))
    between = [math.sqrt(a * b) for a, b in pairwise(steps)]
    if not len(steps):
        return [math.inf]
    return [0.0, *(between if steps[0] else between[1:]), math.inf]


def _costs_of_blocks(tree: GrownTree, prices: Floats, out: Examples, block: Ints, blocks: int) -> Floats:
    """The costs of the pruned trees in held-out rows.

    Returns:
        Shape (prices, blocks), sums over rows.
    """
    of_node = np.zeros((len(tree.feature), blocks))
    for node, where in enumerate(tree.rows_of_nodes(out.rows)):
        if len(where):
            of_node[node] = np.bincount(block[where], out.costs_of(tree.answer[node], where), blocks)
    collapse = collapse_prices(tree)
    return np.stack([of_node[leaves_at(tree, collapse, price)].sum(axis=0) for price in prices])


def _sizes(cost: Floats, rows: Ints, leaves: list[int]) -> tuple[Size, ...]:
    """Mean costs with the standard errors of their differences from the least, over blocks.

    Args:
        cost: Shape (sizes, blocks), sums over rows.
        rows: Shape (blocks,).
        leaves: Of each size.
    """
    n = float(rows.sum())
    mean = cost.sum(axis=1) / n
    more = cost - cost[np.argmin(mean)]
    apart = more - np.outer(more.sum(axis=1) / n, rows)
    error = np.sqrt((apart**2).sum(axis=1) * len(rows) / (len(rows) - 1)) / n
    return tuple(Size(count, float(m), float(e)) for count, m, e in zip(leaves, mean, error, strict=True))
