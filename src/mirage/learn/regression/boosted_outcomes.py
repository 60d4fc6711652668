"""Gradient boosting of the outcome's distribution on all features of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import (
    REMAINING,
    Arrays,
    DecisionInputs,
    OutcomeDistribution,
    TrainingSettings,
    TrainingSteps,
    inputs_at,
    training_rows,
)
from mirage.learn.regression.quantile_trees import Lesson, QuantileTrees, grow


class BoostedOutcomes(OutcomeDistribution):
    """Quantiles of the outcome by boosted trees.

    Args:
        trees: The boosted trees.
        inputs: The features they read.
    """

    def __init__(self, trees: QuantileTrees, inputs: tuple[str, ...]) -> None:
        self.trees, self.inputs = trees, inputs

    def outcomes_s(self, decisions: DecisionInputs) -> Floats:
        """Shape (n, ``LEVELS``), ascending: the predicted waits less the remaining time."""
        found: Floats = self.trees.waits_s(decisions.columns(self.inputs)) - decisions.remaining_s[:, None]
        return found

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The array that a model file stores."""
        return {"trees": self.trees.content}

    def settings(self) -> dict[str, Any]:
        """The names of its inputs."""
        return {"inputs": list(self.inputs)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The model stored in a file."""
        return cls(QuantileTrees.of(arrays), tuple(settings["inputs"]))


def train_boosted(
    data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> BoostedOutcomes:
    """Grows trees on all features, until later decisions gain nothing.

    Args:
        data: Decisions.
        tune: Later decisions.
        settings: Seed and bounds.
        steps: Stores finished steps.
    """
    inputs = all_inputs(data.names)

    def lesson(of: HandOvers, seed: int) -> Lesson:
        rows, wait_s = training_rows(of, settings.most_rows, seed)
        return Lesson(inputs_at(of, rows).columns(inputs), wait_s)

    def make() -> Mapping[str, NDArray[Any]]:
        return grow(
            lesson(data, settings.seed),
            lesson(tune, settings.seed + 1),
            settings,
            max_depth=5,
            colsample_bytree=0.5,
        )

    return BoostedOutcomes(QuantileTrees.of(steps.done("trees", make)), inputs)


def all_inputs(names: tuple[str, ...]) -> tuple[str, ...]:
    """All features, and the remaining time."""
    return (*(name for name in names if name != REMAINING), REMAINING)
