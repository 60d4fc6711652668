"""Boosted trees for quantiles of the wait of a link.

The target is the logarithm of the wait, so ten minutes more matter where a minute was expected, and not where a day
was. For every level of ``mirage.learn.cost_ratio_rule.LEVELS``, XGBoost grows one group of trees by its pinball
loss, from an
optional first guess. Growing stops when the pinball loss on later data no longer falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.learn.cost_ratio_rule import LEVELS
from mirage.learn.hand_overs import Floats32
from mirage.learn.regression.model_contract import Arrays, TrainingSettings
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes, xgboost

LEAST_S = 300.0
"""Waits are compared by their ratio above this, and by their difference below."""


def log_wait(wait_s: NDArray[Any]) -> Floats32:
    """The target: log of waits, with negative ones as 0.

    A forecast may hold waits of minus a second or two.
    """
    found: Floats32 = np.log(np.maximum(wait_s, 0.0) / LEAST_S + 1.0).astype(np.float32)
    return found


def wait_of(target: NDArray[Any]) -> Floats:
    """Waits in seconds for values of the target."""
    found: Floats = np.maximum(np.expm1(target.astype(np.float64)), 0.0) * LEAST_S
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Training data of trees.

    Attributes:
        inputs: Shape (n, f).
        wait_s: Shape (n,), the wait to predict.
        guess: Shape (n, levels), the target's quantiles before any tree; None for one value everywhere.
    """

    inputs: Floats32
    wait_s: Floats
    guess: Floats32 | None = None

    def matrix(self, threads: int) -> Any:
        """The data as a matrix of XGBoost."""
        return xgboost().DMatrix(self.inputs, log_wait(self.wait_s), base_margin=self.guess, nthread=threads)


def grow(lesson: Lesson, tune: Lesson | None, settings: TrainingSettings, **more: Any) -> dict[str, NDArray[Any]]:
    """Grows trees, and returns them as bytes, with the learning curves.

    Args:
        lesson: Their training data.
        tune: Later data, on which growing stops; None to grow all rounds.
        settings: Number of trees, and the seed.
        more: Parameters of XGBoost that differ from the defaults here.
    """
    package = xgboost()
    train = lesson.matrix(settings.threads)
    watched = [(train, "train")] + ([(tune.matrix(settings.threads), "tune")] if tune is not None else [])
    curves: dict[str, dict[str, list[float]]] = {}
    booster = package.train(
        _parameters(settings) | more,
        train,
        num_boost_round=settings.rounds,
        evals=watched,
        evals_result=curves,
        early_stopping_rounds=settings.patience if tune is not None else None,
        verbose_eval=False,
    )
    if tune is not None:
        booster = booster[: booster.best_iteration + 1]
    found: dict[str, NDArray[Any]] = {"trees": trees_as_bytes(booster)}
    for name, measured in curves.items():
        found[f"curve/{name}"] = np.array(next(iter(measured.values())))
    return found


class QuantileTrees:
    """Trees that predict quantiles of the wait.

    Args:
        content: The trees as bytes.
    """

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.content = content
        self._booster = trees_from_bytes(content)
        self._booster.set_param({"nthread": 1})

    def waits_s(self, inputs: Floats32, guess: Floats32 | None = None) -> Floats:
        """Shape (n, levels), ascending: quantiles of the wait."""
        predicted = self._booster.inplace_predict(inputs, base_margin=guess)
        return wait_of(np.sort(np.asarray(predicted).reshape(len(inputs), len(LEVELS)), axis=1))

    @classmethod
    def of(cls, arrays: Arrays) -> QuantileTrees:
        """The trees stored in a model file.

        Raises:
            KeyError: The file holds none.
        """
        return cls(arrays["trees"].astype(np.uint8))


def _parameters(settings: TrainingSettings) -> dict[str, Any]:
    """The parameters of XGBoost."""
    return {
        "objective": "reg:quantileerror",
        "quantile_alpha": np.array(LEVELS),
        "tree_method": "hist",
        "max_bin": 64,
        "max_depth": 4,
        "eta": 0.1,
        "min_child_weight": 50,
        "subsample": 0.7,
        "base_score": 0.0,
        "nthread": settings.threads,
        "seed": settings.seed,
    }
