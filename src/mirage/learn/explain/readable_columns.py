"""Readable columns, computed from model features, that a tree tests at a decision.

Data sets and running policies have the same features, so a tree answers alike in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.distill.tree import TreeFeature
from mirage.distill.units import Unit
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.learn.features import forecast_features
from mirage.learn.hand_overs import Floats32

REMAINING = "remaining"

Formula = Callable[[Floats, Floats], Floats]
"""Computes a column from a feature and from the remaining time in seconds."""


@dataclass(frozen=True, slots=True)
class Column:
    """A readable column.

    Attributes:
        feature: Its name and unit.
        source: The model feature it is computed from; empty for the remaining time.
        formula: Computes it.
        meaning: In words.
    """

    feature: TreeFeature
    source: str
    formula: Formula
    meaning: str

    @property
    def needs_forecast(self) -> bool:
        """Whether it is derived from futures of the queue."""
        return self.source in forecast_features.NAMES


def _plain(value: Floats, remaining_s: Floats) -> Floats:
    return value


def _seconds(hours: Floats, remaining_s: Floats) -> Floats:
    return np.round(hours * HOUR_S)


def _wait(gap_h: Floats, remaining_s: Floats) -> Floats:
    return np.maximum(np.round(gap_h * HOUR_S) + remaining_s, 0.0)


def _spare(gap_h: Floats, remaining_s: Floats) -> Floats:
    return -np.round(gap_h * HOUR_S)


def _column(name: str, unit: Unit, source: str, formula: Formula, meaning: str) -> Column:
    return Column(TreeFeature(name, unit), source, formula, meaning)


_QUANTILES = (50, 80, 95)

COLUMNS: dict[str, Column] = {
    column.feature.name: column
    for column in (
        _column(REMAINING, Unit.DURATION, "", _plain, "to the end of the present link"),
        *(
            _column(f"wait_p{q}", Unit.DURATION, f"gap_q{q}_h", _wait, f"{q} % of futures: a link submitted now waits")
            for q in _QUANTILES
        ),
        *(
            _column(f"spare_p{q}", Unit.DURATION, f"gap_q{q}_h", _spare, f"{REMAINING} minus wait_p{q}")
            for q in _QUANTILES
        ),
        _column("expected_interruption", Unit.DURATION, "interruption_mean_h", _seconds, "if submitted now, mean"),
        _column("expected_overlap", Unit.DURATION, "overlap_mean_h", _seconds, "if submitted now, mean"),
        _column("spare_in_order", Unit.DURATION, "expected_gap_h", _spare, "remaining minus wait after all others"),
        _column("spare_by_limits", Unit.DURATION, "limit_gap_h", _spare, "spare_in_order if all jobs use their limit"),
        _column("free_nodes", Unit.NUMBER, "free_nodes", _plain, "now"),
        _column("pending_jobs", Unit.NUMBER, "pending_jobs", _plain, "now"),
        _column("pending_nodes", Unit.NUMBER, "pending_nodes", _plain, "requested by pending jobs"),
        _column("longest_pending", Unit.DURATION, "longest_pending_h", _seconds, "past wait of the oldest pending job"),
        _column("running_jobs", Unit.NUMBER, "running_jobs", _plain, "now"),
        _column("submitted_last_hour", Unit.NUMBER, "submitted_last_hour", _plain, "jobs"),
        _column("mean_wait", Unit.DURATION, "mean_wait_h", _seconds, "of the jobs that started last"),
        _column("link_nodes", Unit.NUMBER, "link_nodes", _plain, "of each link of the chain"),
    )
}
"""Name → column, in the order of tables."""


def columns_in(names: Sequence[str]) -> tuple[Column, ...]:
    """The columns that can be computed from the given model features."""
    return tuple(column for column in COLUMNS.values() if not column.source or column.source in names)


def columns_named(features: Sequence[TreeFeature]) -> tuple[Column, ...]:
    """The columns of a tree's features.

    Raises:
        UnknownName: A feature has no column; the message lists the known ones.
        ConfigurationError: A feature is given in another unit.
    """
    found = []
    for feature in features:
        column = COLUMNS.get(feature.name)
        if column is None:
            raise UnknownName("feature", feature.name, COLUMNS)
        if column.feature.unit is not feature.unit:
            raise ConfigurationError(
                f"feature {feature.name!r} is a {column.feature.unit} and not a {feature.unit}; "
                f"write '{feature.name}: {column.feature.unit}'"
            )
        found.append(column)
    return tuple(found)


def rows_of(
    columns: Sequence[Column], values: Floats32, names: Sequence[str], remaining_s: Ints
) -> NDArray[np.float64]:
    """Shape (n, columns): the readable columns at n decisions.

    Args:
        values: Shape (n, features), model features.
        names: Names of the features.
        remaining_s: Shape (n,), time to the end of the present link.
    """
    position = {name: k for k, name in enumerate(names)}
    left_s = remaining_s.astype(np.float64)
    found = np.empty((len(left_s), len(columns)))
    for k, column in enumerate(columns):
        source = values[:, position[column.source]].astype(np.float64) if column.source else left_s
        found[:, k] = column.formula(source, left_s)
    return found
