"""Quantile regression forest (Meinshausen 2006): each leaf stores a distribution of waits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.learn.cost_ratio_rule import LEVELS
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.boosted_outcomes import all_inputs
from mirage.learn.regression.model_contract import (
    Arrays,
    DecisionInputs,
    OutcomeDistribution,
    TrainingSettings,
    TrainingSteps,
    inputs_at,
    training_rows,
)
from mirage.learn.regression.quantile_trees import log_wait, wait_of
from mirage.learn.regression.tree_arrays import BATCH, TreeArrays, grow_trees, join_trees

GRID = 64
"""Number of waits at which a leaf's distribution is stored: quantiles of all waits of the training."""

LEAST_ROWS = 40
"""Smallest number of rows in a leaf: decisions half an hour apart are nearly alike, so these are about two windows."""

_AT_ONCE = 2_000
"""Rows predicted at once: more would fill the memory."""


class QuantileForest(OutcomeDistribution):
    """Predicts by the mean of the leaves' distributions.

    Args:
        trees: The trees.
        below: Shape (leaves, grid), share of a leaf's waits up to each wait of the grid.
        grid: Shape (grid,), log waits, ascending.
        inputs: The features that the trees read.
    """

    def __init__(self, trees: TreeArrays, below: NDArray[np.float16], grid: Floats32, inputs: tuple[str, ...]) -> None:
        self.trees, self.below, self.grid, self.inputs = trees, below, grid, inputs

    def outcomes_s(self, decisions: DecisionInputs) -> Floats:
        """Shape (n, ``LEVELS``), ascending: the predicted waits less the remaining time."""
        inputs = decisions.columns(self.inputs)
        found = np.empty((len(decisions), len(LEVELS)))
        for first in range(0, len(decisions), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            below = self.below[self.trees.leaves(inputs[part])].mean(axis=1, dtype=np.float32)
            found[part] = wait_of(self._quantiles(below))
        found -= decisions.remaining_s[:, None]
        return found

    def _quantiles(self, below: Floats32) -> Floats:
        """Shape (n, levels): log waits at which distributions reach the levels."""
        found = np.empty((len(below), len(LEVELS)))
        for k, level in enumerate(LEVELS):
            right = np.minimum((below < level).sum(axis=1), len(self.grid) - 1)
            left = np.maximum(right - 1, 0)
            row = np.arange(len(below))
            low, high = below[row, left], below[row, right]
            rise = np.maximum(high - low, 1e-6)
            share = np.clip((level - low) / rise, 0.0, 1.0)
            found[:, k] = self.grid[left] + share * (self.grid[right] - self.grid[left])
        return found

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        return self.trees.as_arrays() | {"below": self.below, "grid": self.grid}

    def settings(self) -> dict[str, Any]:
        """The names of its inputs."""
        return {"inputs": list(self.inputs)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The forest stored in a model file."""
        below = arrays["below"].astype(np.float16)
        return cls(TreeArrays.from_arrays(arrays), below, arrays["grid"], tuple(settings["inputs"]))


def train_forest(data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps) -> QuantileForest:
    """Grows a forest on all features; it also learns from the tuning slice.

    Nothing is tuned.

    Args:
        data: Decisions.
        tune: Later decisions.
        settings: Seed, number of rows and of trees.
        steps: Stores finished steps, ten trees each.
    """
    inputs = all_inputs(data.names)
    lessons = [_lesson(of, inputs, settings) for of in (data, tune) if len(of)]
    rows = np.concatenate([each[0] for each in lessons])
    target = np.concatenate([each[1] for each in lessons])
    grid = np.unique(np.quantile(target, np.linspace(0, 1, GRID)).astype(np.float32))
    steps_done = [
        steps.done(f"trees-{first}", partial(_grown, rows, target, grid, first, settings))
        for first in range(0, settings.trees, BATCH)
    ]
    below = np.concatenate([part["below"] for part in steps_done])
    return QuantileForest(join_trees([TreeArrays.from_arrays(part) for part in steps_done]), below, grid, inputs)


def _lesson(data: HandOvers, inputs: tuple[str, ...], settings: TrainingSettings) -> tuple[Floats32, Floats32]:
    rows, wait_s = training_rows(data, settings.most_rows, settings.seed)
    return inputs_at(data, rows).columns(inputs), log_wait(wait_s)


def _grown(
    inputs: Floats32, target: Floats32, grid: Floats32, first: int, settings: TrainingSettings
) -> dict[str, NDArray[Any]]:
    """Grows ten trees, with the distributions of their leaves."""
    found = grow_trees(inputs, target, first, settings, min_samples_leaf=LEAST_ROWS, max_features=1 / 3)
    trees = TreeArrays.of(found)
    reached = trees.leaves(inputs)
    leaves = int(trees.leaf.max()) + 1
    position = np.searchsorted(grid, target)  # the first wait of the grid that is not below the target
    counts = np.zeros((leaves, len(grid)))
    np.add.at(counts, (reached.ravel(), np.repeat(np.minimum(position, len(grid) - 1), reached.shape[1])), 1.0)
    below = np.cumsum(counts, axis=1)
    return trees.as_arrays() | {"below": (below / below[:, -1:]).astype(np.float16)}
