"""Models of hand-overs: their inputs, their answers, and their training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.learn.cost_ratio_rule import LEVELS, gain, late
from mirage.learn.hand_overs import Floats32, HandOvers
from mirage.policy.cost import Cost

Arrays = Mapping[str, NDArray[Any]]
Flags = NDArray[np.bool_]

REMAINING = "remaining_h"
"""The time to the end of the present link: a feature of every model."""


@dataclass(frozen=True, slots=True, eq=False)
class DecisionInputs:
    """The inputs at n decisions.

    Attributes:
        features: Shape (n, features), in the order of ``names``; NaN where unknown.
        names: Names of the features.
        remaining_s: Shape (n,), time to the end of the present link.
        step_s: Time to the next decision.
        link_nodes: Shape (n,), nodes of the links.
        link_limit_s: Shape (n,), their time limit.
        wait_s: Shape (n,), wait of the present link.
        history: Makes the 24 hours before, shape (n, ``HISTORY``, ``COLUMNS``), for models that read them.
    """

    features: Floats32
    names: tuple[str, ...]
    remaining_s: Ints
    step_s: int
    link_nodes: Ints
    link_limit_s: Ints
    wait_s: Ints
    history: Callable[[], Floats32]

    def __len__(self) -> int:
        return len(self.remaining_s)

    def columns(self, names: tuple[str, ...]) -> Floats32:
        """Shape (n, names): features in the order of the names, ``REMAINING`` included.

        ``REMAINING`` is always available.

        Raises:
            ConfigurationError: A feature was not computed.
        """
        found = np.empty((len(self), len(names)), dtype=np.float32)
        for k, name in enumerate(names):
            if name == REMAINING:
                found[:, k] = self.remaining_s / HOUR_S
            elif name in self.names:
                found[:, k] = self.features[:, self.names.index(name)]
            else:
                raise ConfigurationError(f"no feature {name!r} among {', '.join(self.names)}; train the model again")
        return found


def inputs_at(data: HandOvers, rows: Ints | None = None) -> DecisionInputs:
    """The inputs at decisions of a data set, all by default."""
    which = np.arange(len(data), dtype=np.int64) if rows is None else rows
    return DecisionInputs(
        data.features[which],
        data.names,
        data.remaining_s[which],
        step_of(data),
        data.link_nodes[which],
        data.link_limit_s[which],
        data.wait_s[which],
        lambda: data.history(which),
    )


def step_of(data: HandOvers) -> int:
    """Seconds between decisions of a data set."""
    inside = np.diff(data.window_s) == 0
    steps = np.diff(data.time_s)[inside]
    return int(np.median(steps[steps > 0])) if (steps > 0).any() else 0


class Model(Protocol):
    """Decides at which decisions to submit.

    Attributes:
        inputs: The features it reads, in the order of its columns; empty where it reads the history.
    """

    inputs: tuple[str, ...]

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Shape (n,): whether to submit."""
        ...

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """Expected values by name, shape (n,) each; units are in the names."""
        ...

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        ...

    def settings(self) -> dict[str, Any]:
        """Everything else a model file needs; JSON values."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The model stored in a file."""
        ...


class OutcomeDistribution(ABC):
    """A model that predicts the outcome's distribution, and decides by the cost ratio."""

    inputs: tuple[str, ...] = ()

    @abstractmethod
    def outcomes_s(self, decisions: DecisionInputs) -> Floats:
        """Shape (n, ``LEVELS``), ascending: the outcome if submitted now, in seconds.

        It is the start of the next link minus the end of the present one.
        """

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Where submitting now is expected to cost no more than one step later."""
        found: Flags = gain(self.outcomes_s(decisions), decisions.remaining_s, decisions.step_s, cost) >= 0
        return found

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """The wait of a link submitted now, and its probability to be late."""
        outcomes_s = self.outcomes_s(decisions)
        waits_s = np.maximum(outcomes_s + decisions.remaining_s[:, None], 0.0)
        ends = {"wait_p05_s": 0.05, "wait_p50_s": 0.5, "wait_p95_s": 0.95}
        found: dict[str, Floats] = {name: waits_s[:, LEVELS.index(level)] for name, level in ends.items()}
        return found | {"late_share": late(outcomes_s)}


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings that all trainers share.

    Attributes:
        seed: Seed of all randomness.
        threads: Threads of the processor.
        most_rows: Largest number of decisions to learn from, drawn at random: neighbours are nearly alike.
        rounds: Largest number of trees of a boosted model; it stops earlier where the tuning slice gains nothing.
        patience: Trees without a gain there, after which it stops.
        trees: Trees of a forest.
        epochs: Largest number of epochs of a network, in each stage of its training; None for the method's own number.
    """

    seed: int = 0
    threads: int = 1
    most_rows: int = 20_000
    rounds: int = 200
    patience: int = 15
    trees: int = 100
    epochs: int | None = None


class TrainingSteps(Protocol):
    """Steps of a training, each stored when done: a power cut repeats only the unfinished."""

    @property
    def checkpoints(self) -> Path | None:
        """A folder for checkpoints of long steps, shared with other methods; None for none."""
        ...

    def report(self, words: str) -> None:
        """Reports the progress of a long step."""
        ...

    def done(self, name: str, make: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
        """The arrays of a step, made now or read back; ``curve/…`` are learning curves."""
        ...


def choices(data: HandOvers) -> Ints:
    """Rows with a choice: all but the last of each window, where every policy submits."""
    found: Ints = np.flatnonzero(data.remaining_s > 0)
    return found


def drawn(rows: Ints, most: int, seed: int) -> Ints:
    """At most ``most`` of the rows, drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    found: Ints = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    return found


def training_rows(data: HandOvers, most: int, seed: int) -> tuple[Ints, Floats]:
    """Draws at most ``most`` decisions to learn from, and the waits of links submitted there.

    Returns:
        Their rows in the data, and the waits in seconds.
    """
    rows = drawn(choices(data), most, seed)
    return rows, (data.outcome_s + data.remaining_s)[rows].astype(np.float64)
