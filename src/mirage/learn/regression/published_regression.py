"""The forest and the boosted trees of Mirage, SC'23: point regression on flat snapshots.

As published: 24 hours of snapshots, seven submissions a window at even distances, and label x in hours. A link is
submitted where the prediction lies between half an hour before the end of the present one and 500 hours after it, for
any cost of an hour. Unlike the published method, the input is the queue at the decision, not at the start of the next
link.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.model_contract import (
    Arrays,
    DecisionInputs,
    Flags,
    TrainingSettings,
    TrainingSteps,
    inputs_at,
)
from mirage.learn.regression.tree_arrays import BATCH, TreeArrays, grow_trees, join_trees
from mirage.policy.cost import Cost
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes, xgboost

PROBES = 7
"""Submissions of a window in the training data."""

EARLIEST_H, LATEST_H = -0.5, 500.0
"""Bounds of the predictions at which a link is submitted."""


class PublishedRegression(ABC):
    """The published rule; subclasses predict x."""

    inputs: tuple[str, ...] = ()

    @abstractmethod
    def gap_h(self, history: Floats32) -> Floats:
        """Shape (n,): start of the next link minus end of the present one, in hours.

        Args:
            history: Shape (n, snapshots × columns).
        """

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Where the prediction lies within the bounds, for any cost."""
        gap_h = self._of(decisions)
        found: Flags = (gap_h >= EARLIEST_H) & (gap_h <= LATEST_H)
        return found

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """The prediction."""
        return {"gap_h": self._of(decisions)}

    def settings(self) -> dict[str, Any]:
        """No further settings."""
        return {}

    def _of(self, decisions: DecisionInputs) -> Floats:
        return self.gap_h(_flat(decisions.history()))


class PublishedForest(PublishedRegression):
    """``random-forest-2023``: a forest of a hundred trees.

    Args:
        trees: The trees.
        means_h: Shape (leaves,), mean x of each leaf.
    """

    def __init__(self, trees: TreeArrays, means_h: Floats32) -> None:
        self.trees, self.means_h = trees, means_h

    def gap_h(self, history: Floats32) -> Floats:
        """Shape (n,): mean over the trees of the gap in their leaves, in hours."""
        return np.asarray(self.means_h[self.trees.leaves(history)].mean(axis=1), dtype=np.float64)

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        return self.trees.as_arrays() | {"means_h": self.means_h}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The forest stored in a model file."""
        return cls(TreeArrays.from_arrays(arrays), arrays["means_h"])


class PublishedTrees(PublishedRegression):
    """``xgboost-2023``: XGBoost with its defaults, a hundred trees.

    Args:
        content: The trees as bytes.
    """

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.content = content
        self._booster = trees_from_bytes(content)
        self._booster.set_param({"nthread": 1})

    def gap_h(self, history: Floats32) -> Floats:
        """Shape (n,): predicted gap in hours."""
        return np.asarray(self._booster.inplace_predict(history), dtype=np.float64)

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The array that a model file stores."""
        return {"trees": self.content}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The trees stored in a model file."""
        return cls(arrays["trees"].astype(np.uint8))


def train_published_forest(
    data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> PublishedForest:
    """Trains the forest on flat snapshots; it also learns from the tuning slice.

    Nothing is tuned.

    Args:
        data: Decisions with their snapshots.
        tune: Later decisions.
        settings: Seed and number of trees.
        steps: Stores finished steps, ten trees each.
    """
    history, gap_h = _both(data, tune)

    def some(first: int) -> dict[str, NDArray[Any]]:
        trees = grow_trees(history, gap_h, first, settings)
        means = [tree.value[tree.children_left == -1, 0, 0] for tree in trees]
        return TreeArrays.of(trees).as_arrays() | {"means_h": np.concatenate(means).astype(np.float32)}

    steps_done = [steps.done(f"trees-{first}", partial(some, first)) for first in range(0, settings.trees, BATCH)]
    means_h = np.concatenate([part["means_h"] for part in steps_done])
    return PublishedForest(join_trees([TreeArrays.from_arrays(part) for part in steps_done]), means_h)


def train_published_trees(
    data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> PublishedTrees:
    """Trains XGBoost on flat snapshots; it also learns from the tuning slice.

    Nothing is tuned.

    Args:
        data: Decisions with their snapshots.
        tune: Later decisions.
        settings: Seed, number of trees and threads.
        steps: Stores finished steps.
    """

    def grow() -> dict[str, NDArray[Any]]:
        history, gap_h = _both(data, tune)
        package = xgboost()
        matrix = package.DMatrix(history, gap_h, nthread=settings.threads)
        curves: dict[str, dict[str, list[float]]] = {}
        booster = package.train(
            {"seed": settings.seed, "nthread": settings.threads},
            matrix,
            num_boost_round=settings.trees,
            evals=[(matrix, "train")],
            evals_result=curves,
            verbose_eval=False,
        )
        return {"trees": trees_as_bytes(booster), "curve/train": np.array(curves["train"]["rmse"])}

    return PublishedTrees(steps.done("trees", grow)["trees"].astype(np.uint8))


def probes(data: HandOvers) -> Ints:
    """Rows of seven decisions a window, at even distances, the last at its end."""
    edges = data.windows()
    spread = [np.linspace(first, last - 1, PROBES).round() for first, last in pairwise(edges.tolist())]
    found: Ints = np.unique(np.concatenate(spread)).astype(np.int64)
    return found


def _both(data: HandOvers, tune: HandOvers) -> tuple[Floats32, Floats32]:
    """Flat histories of the probes of both slices, and their x in hours."""
    parts = [(of, probes(of)) for of in (data, tune) if len(of)]
    history = np.concatenate([_flat(inputs_at(of, rows).history()) for of, rows in parts])
    return history, np.concatenate([(of.outcome_s[rows] / HOUR_S).astype(np.float32) for of, rows in parts])


def _flat(history: Floats32) -> Floats32:
    return history.reshape(len(history), -1)
