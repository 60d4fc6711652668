"""Trees of scikit-learn as plain arrays, for model files, and to decide without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.learn.hand_overs import Floats32
from mirage.learn.regression.model_contract import TrainingSettings

LEAF = -1

BATCH = 10
"""Trees grown in one step: the largest loss at a power cut."""

_APART = 1_000_000
"""Upper bound of the trees of a forest, so no two seeds share one."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeArrays:
    """Several binary trees, with their nodes one after the other.

    Attributes:
        roots: Shape (trees,), first node of each tree.
        feature: Shape (nodes,), column that is tested; ``LEAF`` in a leaf.
        threshold: Shape (nodes,): values up to this go left.
        left: Shape (nodes,), node on the left.
        right: Shape (nodes,), node on the right.
        missing_left: Shape (nodes,), whether an unknown value goes left.
        leaf: Shape (nodes,), number of the leaf, counted over all trees; ``LEAF`` elsewhere.
    """

    roots: Ints
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    leaf: NDArray[np.int32]

    def leaves(self, inputs: Floats32) -> NDArray[np.int32]:
        """Shape (n, trees): the leaf that each row reaches in each tree."""
        node = np.repeat(self.roots[None, :], len(inputs), axis=0)
        row = np.arange(len(inputs))[:, None]
        while True:
            column = self.feature[node]
            inside = column != LEAF
            if not inside.any():
                break
            value = inputs[row, np.maximum(column, 0)]
            goes_left = np.where(np.isnan(value), self.missing_left[node], value <= self.threshold[node])
            below = np.where(goes_left, self.left[node], self.right[node])
            node = np.where(inside, below, node)
        found: NDArray[np.int32] = self.leaf[node]
        return found

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The trees stored in a model file.

        Raises:
            KeyError: The file holds none.
        """
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})

    @classmethod
    def of(cls, trees: Sequence[Any]) -> Self:
        """Converts scikit-learn's ``tree_`` objects."""
        parts = [cls._one(tree) for tree in trees]
        nodes = np.cumsum([0, *(len(tree.feature) for tree in parts)])
        leaves = np.cumsum([0, *(int(tree.leaf.max()) + 1 for tree in parts)])
        return cls.joined(parts, nodes, leaves)

    @classmethod
    def joined(cls, parts: Sequence[Self], nodes: Ints, leaves: Ints) -> Self:
        """Joins trees; their nodes and leaves are renumbered from ``nodes`` and ``leaves``."""

        def moved(values: NDArray[np.int32], by: int) -> NDArray[np.int32]:
            found: NDArray[np.int32] = np.where(values == LEAF, LEAF, values + by).astype(np.int32)
            return found

        each = list(zip(parts, nodes, leaves))
        return cls(
            roots=np.concatenate([part.roots + int(by) for part, by, _ in each]).astype(np.int64),
            feature=np.concatenate([part.feature for part in parts]),
            threshold=np.concatenate([part.threshold for part in parts]),
            left=np.concatenate([moved(part.left, int(by)) for part, by, _ in each]),
            right=np.concatenate([moved(part.right, int(by)) for part, by, _ in each]),
            missing_left=np.concatenate([part.missing_left for part in parts]),
            leaf=np.concatenate([moved(part.leaf, int(by)) for part, _, by in each]),
        )

    @classmethod
    def _one(cls, tree: Any) -> Self:
        is_leaf = tree.children_left == LEAF
        number = np.where(is_leaf, np.cumsum(is_leaf) - 1, LEAF)
        missing = getattr(tree, "missing_go_to_left", None)
        return cls(
            roots=np.zeros(1, dtype=np.int64),
            feature=np.where(is_leaf, LEAF, tree.feature).astype(np.int32),
            threshold=np.asarray(tree.threshold, dtype=np.float64),
            left=tree.children_left.astype(np.int32),
            right=tree.children_right.astype(np.int32),
            missing_left=np.zeros(len(is_leaf), dtype=bool) if missing is None else np.asarray(missing, dtype=np.bool_),
            leaf=number.astype(np.int32),
        )


def join_trees(parts: Sequence[TreeArrays]) -> TreeArrays:
    """Joins several groups of trees; their leaves are renumbered in the same order."""
    nodes = np.cumsum([0, *(len(part.feature) for part in parts)])
    leaves = np.cumsum([0, *(int(part.leaf.max()) + 1 for part in parts)])
    return TreeArrays.joined(parts, nodes, leaves)


def grow_trees(inputs: Floats32, target: Floats32, first: int, settings: TrainingSettings, **options: Any) -> list[Any]:
    """Grows the trees of one step of a forest.

    Args:
        inputs: Shape (rows, columns).
        target: Shape (rows,).
        first: Number of the first tree.
        settings: Number of all trees, seed and threads.
        options: Options of scikit-learn's forest.

    Raises:
        ConfigurationError: The extra ``learn`` is not installed.
    """
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"forests need scikit-learn, which is not installed; run: {install('learn')}"
        ) from error
    forest = RandomForestRegressor(
        n_estimators=min(BATCH, settings.trees - first),
        n_jobs=settings.threads,
        random_state=random_state(settings.seed, first),
        **options,
    )
    return [tree.tree_ for tree in forest.fit(inputs, target).estimators_]


def random_state(seed: int, first: int) -> int:
    """The random state of a step, different for every step and seed.

    It is the number of the first tree plus the last digit of the seed; the other digits of the seed lead far away.
    """
    tens, digit = divmod(seed, BATCH)
    return (first + digit + tens * _APART) % 2**32
