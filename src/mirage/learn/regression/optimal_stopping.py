"""Fitted optimal stopping: the value of waiting if every later decision is good, too.

The rule of the cost ratio covers one step. Here the value of waiting is learnt by backward induction (Longstaff and
Schwartz 2001) on the outcomes of all decisions: first for the last hours of a link, then, with the rule of those hours,
for the hours before. Trees predict the cost of waiting minus the cost of submitting now. The cost ratio is one of their
inputs, so one model serves all ratios. They start from the forecast's value for a single step, which is never less than
the cost of waiting, and subtract the further value of waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.learn.cost_ratio_rule import expected_cost, gain
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.corrected_forecast import forecast_columns, forecast_waits_h, guess
from mirage.learn.regression.model_contract import (
    REMAINING,
    Arrays,
    DecisionInputs,
    Flags,
    TrainingSettings,
    TrainingSteps,
    drawn,
    inputs_at,
    step_of,
)
from mirage.learn.regression.quantile_trees import wait_of
from mirage.policy.cost import Cost
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes, xgboost

BLOCKS_H = (2.0, 4.0, 8.0, 16.0, 1e9)
"""Ends of the blocks of remaining time, each with its own trees, from the end of a link backwards."""

RATIOS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Costs of an hour of interruption, in hours of overlap, in training; other ratios lie between or beyond."""

SWEEPS = 2
"""Number of times a block's trees are grown: first with waiting to the end of the block, then by those trees."""


class OptimalStopping:
    """Submits where waiting is expected to cost more than submitting now.

    Args:
        trees: Trees of every block of remaining time, as bytes.
        forecast: Names of the features with the quantiles of a forecast.
    """

    def __init__(self, trees: tuple[NDArray[np.uint8], ...], forecast: tuple[str, ...]) -> None:
        self.trees, self.forecast = trees, forecast
        self.inputs = (*forecast, REMAINING)
        self._boosters = tuple(trees_from_bytes(content) for content in trees)
        for booster in self._boosters:
            booster.set_param({"nthread": 1})

    def loss_of_waiting(self, decisions: DecisionInputs, cost: Cost) -> Floats:
        """Shape (n,): expected cost of waiting minus that of submitting now, in hours.

        It is relative to the sum of both costs.
        """
        inputs, first = _inputs(forecast_waits_h(decisions, self.forecast), self.forecast, decisions.step_s, cost)
        block = np.searchsorted(BLOCKS_H, decisions.remaining_s / HOUR_S)
        found = np.zeros(len(decisions))
        for k, booster in enumerate(self._boosters):
            if (here := block == k).any():
                found[here] = booster.inplace_predict(inputs[here], base_margin=first[here])
        return found

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Where waiting is expected to cost at least as much as submitting now."""
        found: Flags = self.loss_of_waiting(decisions, cost) >= 0
        return found

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """Extra cost expected of waiting, at equal costs of interruption and overlap."""
        return {"loss_of_waiting_h": 2 * self.loss_of_waiting(decisions, Cost())}

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        return {f"trees-{k}": content for k, content in enumerate(self.trees)}

    def settings(self) -> dict[str, Any]:
        """The names of the forecast's features."""
        return {"forecast": list(self.forecast)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The model stored in a file."""
        trees = tuple(arrays[f"trees-{k}"].astype(np.uint8) for k in range(len(BLOCKS_H)))
        return cls(trees, tuple(settings["forecast"]))


def train_stopping(
    data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> OptimalStopping:
    """Grows trees for every block of remaining time, from the end of a link backwards.

    Args:
        data: Decisions with their forecasts.
        tune: Later decisions, on which growing stops.
        settings: Seed and bounds.
        steps: Stores finished steps, one block each.

    Raises:
        ConfigurationError: The data have no forecasts, or no decision near the end of a link.
    """
    forecast = forecast_columns(data.names)
    lessons = [_Lesson(data, forecast), _Lesson(tune, forecast)]
    trees: list[NDArray[np.uint8]] = []
    for block in range(len(BLOCKS_H)):
        if not len(lessons[0].rows(block)):  # links are shorter than the block, or decisions further apart
            if not trees:
                raise ConfigurationError(
                    f"the data have no decision in the last {BLOCKS_H[0]:g} h of a link, where stopping begins; "
                    "make them with a smaller --step, or choose another method"
                )
            trees.append(trees[-1])
            continue
        made = steps.done(f"block-{block}", partial(_grown, block, lessons, settings))
        for lesson in lessons:
            lesson.decide(block, trees_from_bytes(made["trees"].astype(np.uint8)))
        trees.append(made["trees"].astype(np.uint8))
    return OptimalStopping(tuple(trees), forecast)


class _Lesson:
    """Decisions with the outcomes of submitting, and the current rule's submissions.

    Args:
        data: The decisions.
        forecast: Names of the features with the quantiles of a forecast.
    """

    def __init__(self, data: HandOvers, forecast: tuple[str, ...]) -> None:
        self.forecast, self.step_s = forecast, step_of(data)
        self.waits_h = forecast_waits_h(inputs_at(data), forecast)
        self.block = np.searchsorted(BLOCKS_H, data.remaining_s / HOUR_S)
        self.last = data.remaining_s <= 0
        self.last[data.windows()[1:] - 1] = True
        self.costs = [_cost(ratio).of(data.outcome_s.astype(np.float64)) for ratio in RATIOS]
        self.stops = [self.last.copy() for _ in RATIOS]

    def rows(self, block: int) -> Ints:
        """Rows of a block that have a choice."""
        found: Ints = np.flatnonzero((self.block == block) & ~self.last)
        return found

    def loss_of_waiting(self, rows: Ints, which: int) -> Floats:
        """Shape (rows,): cost of waiting by the current rule minus cost of submitting now.

        It is the cost at one ratio.
        """
        position = np.where(self.stops[which], np.arange(len(self.last)), len(self.last))
        following = np.minimum.accumulate(position[::-1])[::-1]
        found: Floats = self.costs[which][following[rows + 1]] - self.costs[which][rows]
        return found

    def examples(self, rows: Ints) -> tuple[Floats32, Floats32, Floats]:
        """Inputs, first guesses and targets of some rows, for all ratios."""
        inputs = [self.inputs(rows, ratio) for ratio in RATIOS]
        target = [self.loss_of_waiting(rows, k) for k in range(len(RATIOS))]
        return (
            np.concatenate([each[0] for each in inputs]),
            np.concatenate([each[1] for each in inputs]),
            np.concatenate(target),
        )

    def inputs(self, rows: Ints, ratio: float) -> tuple[Floats32, Floats32]:
        """Inputs and first guesses of some rows, for one ratio."""
        return _inputs(self.waits_h[rows], self.forecast, self.step_s, _cost(ratio))

    def decide(self, block: int, trees: Any) -> None:
        """Applies trees to the decisions of a block."""
        rows = self.rows(block)
        if len(rows):
            for k, ratio in enumerate(RATIOS):
                inputs, first = self.inputs(rows, ratio)
                self.stops[k][rows] = trees.inplace_predict(inputs, base_margin=first) >= 0


def _grown(block: int, lessons: list[_Lesson], settings: TrainingSettings) -> dict[str, NDArray[Any]]:
    """Grows a block's trees, as bytes, with the learning curves of the last sweep."""
    package = xgboost()
    curves: dict[str, dict[str, list[float]]] = {}
    booster: Any = None
    for _ in range(SWEEPS):
        watched = []
        for k, (lesson, name) in enumerate(zip(lessons, ("train", "tune"))):
            rows = drawn(lesson.rows(block), settings.most_rows // len(RATIOS), settings.seed + k)
            if len(rows):
                inputs, first, target = lesson.examples(rows)
                matrix = package.DMatrix(inputs, target, base_margin=first, nthread=settings.threads)
                watched.append((matrix, name))
        curves = {}
        booster = package.train(
            _parameters(settings),
            watched[0][0],
            num_boost_round=settings.rounds,
            evals=watched,
            evals_result=curves,
            early_stopping_rounds=settings.patience if len(watched) > 1 else None,
            verbose_eval=False,
        )
        if len(watched) > 1:
            booster = booster[: booster.best_iteration + 1]
        for lesson in lessons:
            lesson.decide(block, booster)
    found: dict[str, NDArray[Any]] = {"trees": trees_as_bytes(booster)}
    for name, measured in curves.items():
        found[f"curve/{name}"] = np.array(next(iter(measured.values())))
    return found


def _cost(ratio: float) -> Cost:
    """The costs at a ratio; they add up to one."""
    return Cost(ratio / (1 + ratio), 1 / (1 + ratio))


def _inputs(waits_h: Floats32, forecast: tuple[str, ...], step_s: int, cost: Cost) -> tuple[Floats32, Floats32]:
    """Inputs of the trees, and their first guess.

    The inputs are waits, remaining time, the share of an hour of interruption in both costs, and the forecast's cost of
    submitting now. The guess is the forecast's cost of submitting one step later, less that of now. Both in hours,
    relative to the sum of the costs.
    """
    both = cost.interruption + cost.overlap
    even = Cost(cost.interruption / both, cost.overlap / both)
    remaining_s = waits_h[:, -1].astype(np.float64) * HOUR_S
    outcomes_s = wait_of(guess(waits_h, forecast)) - remaining_s[:, None]
    now = expected_cost(outcomes_s, even)
    inputs = np.column_stack([waits_h, np.full(len(waits_h), even.interruption), now]).astype(np.float32)
    return inputs, gain(outcomes_s, remaining_s.astype(np.int64), step_s, even).astype(np.float32)


def _parameters(settings: TrainingSettings) -> Mapping[str, Any]:
    """The parameters of XGBoost."""
    return {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "max_bin": 64,
        "max_depth": 4,
        "eta": 0.1,
        "min_child_weight": 100,
        "subsample": 0.7,
        "base_score": 0.0,
        "nthread": settings.threads,
        "seed": settings.seed,
    }
