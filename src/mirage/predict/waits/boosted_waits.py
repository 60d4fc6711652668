"""Boosted trees for the middle and the spread of log10 waits.

Two models: the mean of log10 of the wait, and the mean size of the residual. The second learns from residuals of waits
that the first was not trained on (blocks of time are left out one by one); its own training residuals would be too
small. Jobs that still wait are completed by the mean of the waits beyond their age (`mirage.predict.survival`). Of an
array of a thousand jobs, whose waits are correlated, a few dozen are enough to learn from: they carry the weight of
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes, xgboost
from mirage.predict.model_file import Arrays
from mirage.predict.survival import Flags, completed

Inputs = NDArray[np.float32]

LEAST_SPREAD = 0.05
"""Least predicted spread in log10: 12 % up or down."""


@dataclass(frozen=True, slots=True)
class BoostingSettings:
    """How the trees are grown.

    The defaults were chosen on the first 80 % of the days of the Graham data, see docs/explanation/prediction.md.


    Attributes:
        rounds: Trees per model.
        depth: Depth of a tree.
        step: Learning rate.
        least_rows: Least weight of the rows of a leaf.
        bags: Models of the mean, each on its own draw of rows; their mean counts.
        of_alike: Rows retained of jobs that one user submitted together with one request.
        blocks: Blocks of time that are left out one by one for the residuals.
        threads: Processor threads.
        seed: Of the draws.
    """

    rounds: int = 120
    depth: int = 6
    step: float = 0.08
    least_rows: float = 20.0
    bags: int = 4
    of_alike: int = 30
    blocks: int = 3
    threads: int = 1
    seed: int = 0

    def parameters(self, seed: int) -> dict[str, Any]:
        """Returns the parameters under XGBoost's names."""
        return {
            "objective": "reg:squarederror",
            "tree_method": "hist",
            "max_bin": 64,
            "max_depth": self.depth,
            "eta": self.step,
            "min_child_weight": self.least_rows,
            "subsample": 0.5,
            "colsample_bytree": 0.3,
            "nthread": self.threads,
            "seed": seed,
        }


@dataclass(frozen=True, slots=True)
class BoostedWaits:
    """Trees for the mean of log10 waits and for their spread."""

    mean_trees: tuple[Any, ...]
    spread_trees: Any

    def mean(self, inputs: Inputs) -> Floats:
        """Expected log10 of waits in seconds, shape (n,)."""
        return _mean(self.mean_trees, inputs)

    def spread(self, inputs: Inputs) -> Floats:
        """Expected absolute distance from the mean, shape (n,)."""
        return np.maximum(np.exp(_mean((self.spread_trees,), inputs)), LEAST_SPREAD)

    def as_arrays(self) -> dict[str, NDArray[np.uint8]]:
        """Returns the trees as a model file stores them."""
        named = {f"mean_trees_{k}": trees_as_bytes(trees) for k, trees in enumerate(self.mean_trees)}
        return named | {"spread_trees": trees_as_bytes(self.spread_trees)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Returns the trees of a model file.

        Raises:
            KeyError: The file has no trees.
            ModelFileError: XGBoost cannot read them.
        """
        bags = sum(name.startswith("mean_trees_") for name in arrays)
        trees = tuple(trees_from_bytes(arrays[f"mean_trees_{k}"]) for k in range(max(bags, 1)))
        return cls(trees, trees_from_bytes(arrays["spread_trees"]))


@dataclass(frozen=True, slots=True)
class Residuals:
    """Waits compared with predictions made without them.

    Attributes:
        rows: Shape (m,), index of the row.
        score: Shape (m,), (log10 wait − mean) ÷ spread.
        stands_for: Shape (m,), the number of rows that each represents.
    """

    rows: NDArray[np.intp]
    score: Floats
    stands_for: Floats


def fit_boosted_waits(
    inputs: Inputs, log_wait: Floats, is_bound: Flags, alike: Ints, settings: BoostingSettings
) -> tuple[BoostedWaits, Residuals]:
    """Grow trees on waits in the order of time; returns them with out-of-sample residuals.

    Args:
        inputs: Shape (n, f).
        log_wait: Shape (n,), log10 of seconds.
        is_bound: Shape (n,), whether the true wait is longer than that.
        alike: Shape (n,), equal for jobs of one array.
        settings: How the trees are grown.
    """
    wait = completed(log_wait, is_bound, np.ones(len(log_wait)))
    random = np.random.default_rng(settings.seed)
    rows, weights = thinned(alike, settings.of_alike, random)
    left_out = np.empty(len(rows))
    block = rows * settings.blocks // len(wait)
    for k in range(settings.blocks):
        training = block != k
        training = training if training.any() else ~training
        trees = _grown(inputs, wait, rows[training], weights[training], settings, settings.seed + k)
        left_out[block == k] = _mean((trees,), inputs[rows[block == k]])
    distance = np.log(np.abs(wait[rows] - left_out) + LEAST_SPREAD)
    spread_trees = _grown(inputs[rows], distance, np.arange(len(rows)), weights, settings, settings.seed)
    bags = []
    for k in range(settings.bags):
        drawn, weight = thinned(alike, settings.of_alike, random)
        bags.append(_grown(inputs, wait, drawn, weight, settings, settings.seed + k))
    boosted = BoostedWaits(tuple(bags), spread_trees)
    score = (log_wait[rows] - left_out) / boosted.spread(inputs[rows])
    return boosted, Residuals(rows, score, weights)


def thinned(alike: Ints, most: int, random: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """At most ``most`` rows of every group, in order, and the number of rows each represents."""
    order = random.permutation(len(alike))
    order = order[np.argsort(alike[order], kind="stable")]
    grouped = alike[order]
    first = np.flatnonzero(np.diff(grouped, prepend=grouped[:1] - 1))
    size = np.diff(first, append=len(grouped))
    place = np.arange(len(grouped)) - np.repeat(first, size)
    weight = np.repeat(size / np.minimum(size, most), size)
    retained = place < most
    rows = order[retained]
    in_order = np.argsort(rows)
    return rows[in_order], weight[retained][in_order]


def _grown(
    inputs: Inputs, target: Floats, rows: NDArray[np.intp], weights: Floats, settings: BoostingSettings, seed: int
) -> Any:
    package = xgboost()
    matrix = package.DMatrix(inputs[rows], target[rows], weight=weights, nthread=settings.threads)
    return package.train(settings.parameters(seed), matrix, num_boost_round=settings.rounds)


def _mean(models: tuple[Any, ...], inputs: Inputs) -> Floats:
    """Averages the predictions of several models."""
    each = [np.asarray(trees.inplace_predict(inputs), dtype=np.float64) for trees in models]
    return np.asarray(np.mean(each, axis=0), dtype=np.float64)
