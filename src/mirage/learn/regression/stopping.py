"""Fitted optimal stopping: what waiting is worth where every later decision is taken well too.

The rule of the cost ratio looks one step ahead. Here the value of waiting is learnt by backward induction (Longstaff
and Schwartz 2001) on the outcomes of all decisions: first for the last hours of a link, then, with the rule of those
hours at hand, for the hours before. Trees predict by how much waiting costs more than submitting now; the ratio of the
costs is one of their inputs, so that one model serves all. They start from what the forecast says of a single step,
which is never less than what waiting costs, and take off what waiting is worth beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.learn.regression.correction import forecast_waits_h, guess
from mirage.learn.regression.forecast_columns import forecast_columns
from mirage.learn.regression.model import (
    REMAINING,
    Arrays,
    Flags,
    Seen,
    Steps,
    TrainingSettings,
    drawn,
    seen_in,
    step_of,
)
from mirage.learn.regression.quantile_trees import wait_of
from mirage.learn.rule import expected_cost, gain
from mirage.policy.cost import Cost
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes, xgboost

BLOCKS_H = (2.0, 4.0, 8.0, 16.0, 1e9)
"""Ends of the blocks of remaining time for which trees are grown, from the end of a link backwards."""

RATIOS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Costs of an hour of interruption, in hours of overlap, that are learnt from; others lie between or beyond."""

SWEEPS = 2
"""Trees of a block are grown so often: first as if it were waited to the end of the block, then by those trees."""


class Stopping:
    """Submits where waiting is expected to cost more than submitting now.

    Args:
        trees: Of every block of remaining time, as bytes.
        forecast: Names of the features that hold the quantiles of a forecast.
    """

    reads_history = False

    def __init__(self, trees: tuple[NDArray[np.uint8], ...], forecast: tuple[str, ...]) -> None:
        self.trees, self.forecast = trees, forecast
        self.inputs = (*forecast, REMAINING)
        self._boosters = tuple(trees_from_bytes(content) for content in trees)
        for booster in self._boosters:
            booster.set_param({"nthread": 1})

    def loss_of_waiting(self, seen: Seen, cost: Cost) -> Floats:
        """Shape (n,): what waiting is expected to cost more than submitting now, by the sum of both costs, hours."""
        inputs, first = _inputs(forecast_waits_h(seen, self.forecast), self.forecast, seen.step_s, cost)
        block = np.searchsorted(BLOCKS_H, seen.remaining_s / HOUR_S)
        found = np.zeros(len(seen))
        for k, booster in enumerate(self._boosters):
            if (here := block == k).any():
                found[here] = booster.inplace_predict(inputs[here], base_margin=first[here])
        return found

    def submits(self, seen: Seen, cost: Cost) -> Flags:
        """As ``Model`` says."""
        found: Flags = self.loss_of_waiting(seen, cost) >= 0
        return found

    def told(self, seen: Seen) -> dict[str, Floats]:
        """What waiting is expected to cost where an hour of either costs the same."""
        return {"loss_of_waiting_h": 2 * self.loss_of_waiting(seen, Cost())}

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """As ``Model`` says."""
        return {f"trees-{k}": content for k, content in enumerate(self.trees)}

    def settings(self) -> dict[str, Any]:
        """As ``Model`` says."""
        return {"forecast": list(self.forecast)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """As ``Model`` says."""
        trees = tuple(arrays[f"trees-{k}"].astype(np.uint8) for k in range(len(BLOCKS_H)))
        return cls(trees, tuple(settings["forecast"]))


def train_stopping(data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: Steps) -> Stopping:
    """Trees for every block of remaining time, from the end of a link backwards.

    Args:
        data: Decisions with their forecasts.
        tune: Later ones, on which growing stops.
        settings: Seed and bounds.
        steps: Where what is done is kept, a block at a time.

    Raises:
        ConfigurationError: The data hold no forecasts, or no decision near the end of a link.
    """
    forecast = forecast_columns(data.names)
    lessons = [_Lesson(data, forecast), _Lesson(tune, forecast)]
    trees: list[NDArray[np.uint8]] = []
    for block in range(len(BLOCKS_H)):
        if not len(lessons[0].rows(block)):  # links are shorter than that, or decisions further apart
            if not trees:
                raise ConfigurationError(
                    f"the data have no decision in the last {BLOCKS_H[0]:g} h of a link, where stopping begins; "
                    "make them with a --step of less, or choose another method"
                )
            trees.append(trees[-1])
            continue
        made = steps.done(f"block-{block}", partial(_grown, block, lessons, settings))
        for lesson in lessons:
            lesson.decide(block, trees_from_bytes(made["trees"].astype(np.uint8)))
        trees.append(made["trees"].astype(np.uint8))
    return Stopping(tuple(trees), forecast)


class _Lesson:
    """Decisions with the outcomes of submitting, and which of them submit by what has been learnt so far.

    Args:
        data: The decisions.
        forecast: Names of the features that hold the quantiles of a forecast.
    """

    def __init__(self, data: HandOvers, forecast: tuple[str, ...]) -> None:
        self.forecast, self.step_s = forecast, step_of(data)
        self.waits_h = forecast_waits_h(seen_in(data), forecast)
        self.block = np.searchsorted(BLOCKS_H, data.remaining_s / HOUR_S)
        self.last = data.remaining_s <= 0
        self.last[data.windows()[1:] - 1] = True
        self.costs = [_cost(ratio).of(data.outcome_s.astype(np.float64)) for ratio in RATIOS]
        self.stops = [self.last.copy() for _ in RATIOS]

    def rows(self, block: int) -> Ints:
        """Rows of a block at which there is a choice."""
        found: Ints = np.flatnonzero((self.block == block) & ~self.last)
        return found

    def loss_of_waiting(self, rows: Ints, which: int) -> Floats:
        """Shape (rows,): the cost of where waiting leads by the rule so far, less that of submitting, of one ratio."""
        place = np.where(self.stops[which], np.arange(len(self.last)), len(self.last))
        following = np.minimum.accumulate(place[::-1])[::-1]
        found: Floats = self.costs[which][following[rows + 1]] - self.costs[which][rows]
        return found

    def taught(self, rows: Ints) -> tuple[Floats32, Floats32, Floats]:
        """Inputs, first guesses and targets of some rows, for all ratios."""
        seen = [self.inputs(rows, ratio) for ratio in RATIOS]
        target = [self.loss_of_waiting(rows, k) for k in range(len(RATIOS))]
        return (
            np.concatenate([each[0] for each in seen]),
            np.concatenate([each[1] for each in seen]),
            np.concatenate(target),
        )

    def inputs(self, rows: Ints, ratio: float) -> tuple[Floats32, Floats32]:
        """Inputs and first guesses of some rows, for one ratio."""
        return _inputs(self.waits_h[rows], self.forecast, self.step_s, _cost(ratio))

    def decide(self, block: int, trees: Any) -> None:
        """Let trees decide in a block."""
        rows = self.rows(block)
        if len(rows):
            for k, ratio in enumerate(RATIOS):
                inputs, first = self.inputs(rows, ratio)
                self.stops[k][rows] = trees.inplace_predict(inputs, base_margin=first) >= 0


def _grown(block: int, lessons: list[_Lesson], settings: TrainingSettings) -> dict[str, NDArray[Any]]:
    """Trees of a block as bytes, with the learning curves of the last sweep."""
    package = xgboost()
    curves: dict[str, dict[str, list[float]]] = {}
    booster: Any = None
    for _ in range(SWEEPS):
        watched = []
        for k, (lesson, name) in enumerate(zip(lessons, ("train", "tune"))):
            rows = drawn(lesson.rows(block), settings.most_rows // len(RATIOS), settings.seed + k)
            if len(rows):
                inputs, first, target = lesson.taught(rows)
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
    """Costs of a ratio, which add up to one."""
    return Cost(ratio / (1 + ratio), 1 / (1 + ratio))


def _inputs(waits_h: Floats32, forecast: tuple[str, ...], step_s: int, cost: Cost) -> tuple[Floats32, Floats32]:
    """Waits, what remains, the ratio of the costs, and what the forecast says of submitting; then what of a step.

    Both in hours, by the sum of the costs.
    """
    both = cost.interruption + cost.overlap
    even = Cost(cost.interruption / both, cost.overlap / both)
    remaining_s = waits_h[:, -1].astype(np.float64) * HOUR_S
    outcomes_s = wait_of(guess(waits_h, forecast)) - remaining_s[:, None]
    now = expected_cost(outcomes_s, even)
    inputs = np.column_stack([waits_h, np.full(len(waits_h), even.interruption), now]).astype(np.float32)
    return inputs, gain(outcomes_s, remaining_s.astype(np.int64), step_s, even).astype(np.float32)


def _parameters(settings: TrainingSettings) -> Mapping[str, Any]:
    """As XGBoost calls them."""
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
