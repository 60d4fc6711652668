"""Examples for trees: rows with the right answers, and the cost of wrong answers.

Both kinds give the fit the same things: what to grow on (a target and a weight for each row), and the cost of an
answer. A tree of labels minimises the expected cost of its answers and not the share of wrong ones; a tree of numbers
minimises the squared error.

The reduction from costs to weights: a row of K answers becomes K examples, one of each answer, whose weight is
what that answer saves against the row's most expensive one. A classifier that errs in an example of weight w loses w,
so its weighted error is the expected cost plus a constant. For two answers that is one example of the cheaper one, and
its weight is the difference of the costs. (Abe, Zadrozny and Langford 2004, "An iterative method for multi-class
cost-sensitive learning", section 3.1: expansion of the data space.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.distill.tree import TreeFeature
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, UnknownName

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets that CART grows on.

    Attributes:
        of_row: Shape (m,), the row of each example; a row may have several or none.
        target: Shape (m,), a code of a label or a number.
        weight: Shape (m,), above 0.
    """

    of_row: Ints
    target: Floats
    weight: Floats


class Examples(Protocol):
    """Rows with the answers they should get."""

    @property
    def features(self) -> tuple[TreeFeature, ...]:
        """The columns of the rows."""

    @property
    def rows(self) -> Floats:
        """Shape (n, features)."""

    @property
    def group(self) -> Ints:
        """Shape (n,); rows of one group are always on the same side of a comparison."""

    @property
    def answers(self) -> tuple[str, ...] | Unit:
        """The labels, or the unit where answers are numbers."""

    @property
    def stake(self) -> Floats:
        """Shape (n,), how much the answer of each row matters."""

    def part(self, chosen: Flags) -> Self:
        """Selects some of the rows."""

    def targets(self) -> Targets:
        """The targets that CART grows on."""

    def best_answer(self, where: Ints) -> float:
        """The code or number with the least cost if all of some rows get it."""

    def costs_of(self, answer: float | Floats, where: Ints) -> Floats:
        """The cost in some rows of one answer, or of one for each."""

    def share_right(self, answer: Floats, weight: Floats) -> float:
        """The share of the weight with a right answer, in [0, 1].

        Of numbers, the share of the variance explained.
        """


@dataclass(frozen=True, slots=True)
class Choices:
    """Rows with the cost of each of several labels.

    Attributes:
        features: The columns of the rows.
        rows: Shape (n, features), finite.
        answers: The labels.
        costs: Shape (n, answers), finite; only differences within a row matter.
        group: Shape (n,), for example the episode or the week that a row comes from.
    """

    features: tuple[TreeFeature, ...]
    rows: Floats
    answers: tuple[str, ...]
    costs: Floats
    group: Ints

    def __post_init__(self) -> None:
        _check_rows(self)
        if self.costs.shape != (len(self.rows), len(self.answers)) or not np.isfinite(self.costs).all():
            raise ConfigurationError(
                f"costs have the shape {self.costs.shape}; give a finite one for each of {len(self.rows)} rows "
                f"and {len(self.answers)} answers"
            )

    @classmethod
    def of_labels(
        cls,
        features: tuple[TreeFeature, ...],
        rows: Floats,
        answers: tuple[str, ...],
        label: Sequence[str],
        weight: Floats | None = None,
        group: Ints | None = None,
    ) -> Choices:
        """Rows with one right label each; all others cost the row's weight.

        Args:
            features: The columns of the rows.
            rows: Shape (n, features).
            answers: All labels.
            label: The right one of each row.
            weight: Shape (n,), the cost of a wrong answer; 1 where absent.
            group: Shape (n,); each row is a group of its own where absent.

        Raises:
            UnknownName: A row's label is not among the answers.
            ConfigurationError: Shapes do not fit, or a value is not finite.
        """
        code = {answer: k for k, answer in enumerate(answers)}
        for name in sorted(set(label) - code.keys()):
            raise UnknownName("answer", name, answers)
        price = np.ones(len(rows)) if weight is None else weight
        if price.shape != (len(label),):
            raise ConfigurationError(f"weights have the shape {price.shape}; give one for each of {len(label)} labels")
        right = np.array([code[name] for name in label], dtype=np.int64)
        costs = np.where(right[:, None] == np.arange(len(answers)), 0.0, price[:, None])
        return cls(features, rows, answers, costs, np.arange(len(rows)) if group is None else group)

    @property
    def stake(self) -> Floats:
        """Shape (n,), the difference between the most expensive and the cheapest answer."""
        return np.asarray(self.costs.max(axis=1) - self.costs.min(axis=1), dtype=np.float64)

    def part(self, chosen: Flags) -> Choices:
        """Selects some of the rows."""
        return replace(self, rows=self.rows[chosen], costs=self.costs[chosen], group=self.group[chosen])

    def targets(self) -> Targets:
        """An example of each answer of a row that is cheaper than the most expensive one."""
        saved = self.costs.max(axis=1, keepdims=True) - self.costs
        row, code = np.nonzero(saved > 0)
        return Targets(row, code.astype(np.float64), saved[row, code])

    def best_answer(self, where: Ints) -> float:
        """The code with the least cost if all of some rows get it."""
        return float(np.argmin(self.costs[where].sum(axis=0)))

    def costs_of(self, answer: float | Floats, where: Ints) -> Floats:
        """The cost in some rows of one code, or of one for each."""
        return np.asarray(self.costs[where, np.asarray(answer).astype(np.int64)], dtype=np.float64)

    def share_right(self, answer: Floats, weight: Floats) -> float:
        """The share of the weight in rows where no other answer is cheaper."""
        given = self.costs_of(answer, np.arange(len(self.rows)))
        return _mean(given <= self.costs.min(axis=1), weight)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Rows with the number that each should get.

    Attributes:
        features: The columns of the rows.
        rows: Shape (n, features), finite.
        answers: The unit of the numbers.
        value: Shape (n,), finite.
        stake: Shape (n,), the weight of each row, 0 or more.
        group: Shape (n,).
    """

    features: tuple[TreeFeature, ...]
    rows: Floats
    answers: Unit
    value: Floats
    stake: Floats
    group: Ints

    def __post_init__(self) -> None:
        _check_rows(self)
        for name, column in (("values", self.value), ("weights", self.stake)):
            if column.shape != (len(self.rows),) or not np.isfinite(column).all():
                raise ConfigurationError(f"{name} have the shape {column.shape}; give a finite one for each row")
        if (self.stake < 0).any():
            raise ConfigurationError(f"a weight is {self.stake.min()}; give 0 or more")

    def part(self, chosen: Flags) -> Amounts:
        """Selects some of the rows."""
        return replace(
            self,
            rows=self.rows[chosen],
            value=self.value[chosen],
            stake=self.stake[chosen],
            group=self.group[chosen],
        )

    def targets(self) -> Targets:
        """The numbers of the rows that have a weight."""
        where = np.flatnonzero(self.stake > 0)
        return Targets(where, self.value[where], self.stake[where])

    def best_answer(self, where: Ints) -> float:
        """The weighted mean."""
        return _mean(self.value[where], self.stake[where])

    def costs_of(self, answer: float | Floats, where: Ints) -> Floats:
        """Weighted squared errors."""
        return np.asarray(self.stake[where] * (self.value[where] - answer) ** 2, dtype=np.float64)

    def share_right(self, answer: Floats, weight: Floats) -> float:
        """The share of the variance that the answers explain; negative if worse than a constant."""
        spread = _mean((self.value - _mean(self.value, weight)) ** 2, weight)
        error = _mean((self.value - answer) ** 2, weight)
        return 1.0 - error / spread if spread else float(error == 0)


def _mean(value: NDArray[np.generic], weight: Floats) -> float:
    """The weighted mean; 0 for no values or no weight."""
    total = float(weight.sum())
    return float(weight @ value.astype(np.float64)) / total if total else 0.0


def _check_rows(examples: Choices | Amounts) -> None:
    rows, group = examples.rows, examples.group
    if rows.ndim != 2 or rows.shape[1] != len(examples.features):
        raise ConfigurationError(
            f"rows have the shape {rows.shape}; give one column for each of {len(examples.features)} features"
        )
    if group.shape != (len(rows),):
        raise ConfigurationError(f"groups have the shape {group.shape}; give one for each of {len(rows)} rows")
    for k, feature in enumerate(examples.features):
        if not np.isfinite(rows[:, k]).all():
            raise ConfigurationError(f"feature {feature.name!r} is not finite in some row; leave such rows out")
        if feature.unit is Unit.FLAG and not np.isin(rows[:, k], (0, 1)).all():
            raise ConfigurationError(f"feature {feature.name!r} is a flag, but not 0 or 1 in some row; give 0 or 1")
