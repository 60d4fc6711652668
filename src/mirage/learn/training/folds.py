"""Folds of a rolling origin: train, tune on the time just before a month, test on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.learn.dataset.read_data_set import known_by
from mirage.learn.hand_overs import HandOvers

FEWEST_MONTHS = 3
"""Smallest number of test months: a choice by one month fits its load, and the next month's load differs."""

TUNE_S = 30 * DAY_S
"""Largest duration of a tuning slice."""


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """One month, and the data known before it.

    Attributes:
        month: ``2023-03``.
        train: Windows of which all was known at the start of the tuning slice.
        tune: Later windows of which all was known at the start of the month.
        test: Windows with a present link submitted in the month.
    """

    month: str
    train: HandOvers
    tune: HandOvers
    test: HandOvers


def split(data: HandOvers, train_until_s: int, tune_until_s: int) -> tuple[HandOvers, HandOvers]:
    """Splits windows into training and later tuning data, each known by its moment.

    Raises:
        ConfigurationError: One of them is empty.
    """
    train = data[known_by(data, train_until_s)]
    tune = data[(data.window_s >= train_until_s) & known_by(data, tune_until_s)]
    for part, name, until_s in ((train, "train", train_until_s), (tune, "tune", tune_until_s)):
        if not len(part):
            raise ConfigurationError(
                f"no window of the data is over by {iso(until_s)} to {name} on; windows begin "
                f"{iso(int(data.window_s.min()))} to {iso(int(data.window_s.max()))}"
            )
    return train, tune


def known_until(data: HandOvers, until_s: int) -> HandOvers:
    """Selects the windows of which all was known by a moment.

    Raises:
        ConfigurationError: There are none.
    """
    found = data[known_by(data, until_s)]
    if not len(found):
        raise ConfigurationError(
            f"no window of the data is over by {iso(until_s)}; windows begin {iso(int(data.window_s.min()))} to "
            f"{iso(int(data.window_s.max()))}"
        )
    return found


def fold(data: HandOvers, month: str) -> Fold:
    """The fold of a test month.

    Raises:
        ConfigurationError: The month has no windows, or there are none to train or to tune on.
    """
    begin_s = month_begin_s(month)
    train, tune = split(data, tune_since_s(data, begin_s), begin_s)
    test = data[(data.window_s >= begin_s) & (data.window_s < month_begin_s(shifted(month, 1)))]
    if not len(test):
        raise ConfigurationError(f"the data have no windows in {month} to test on")
    return Fold(month, train, tune, test)


def tune_since_s(data: HandOvers, until_s: int) -> int:
    """Start of the tuning slice before a moment: a month before, or a third of the time.

    The shorter of both counts.
    """
    covered_s = max(until_s - int(data.window_s.min()), 0) if len(data) else 0
    return until_s - min(TUNE_S, covered_s // 3)


def last_months(until_s: int, count: int = FEWEST_MONTHS) -> tuple[str, ...]:
    """The last whole calendar months before a moment, in order."""
    moment = datetime.fromtimestamp(until_s, UTC)
    return tuple(shifted(f"{moment:%Y-%m}", -back) for back in range(count, 0, -1))


def shifted(month: str, by: int) -> str:
    """The month that is ``by`` months later."""
    year, number = (int(word) for word in month.split("-"))
    months = 12 * year + number - 1 + by
    return f"{months // 12:04d}-{months % 12 + 1:02d}"


def month_begin_s(month: str) -> int:
    """When a month begins, UTC.

    Raises:
        ConfigurationError: It is not a month such as ``2023-03``.
    """
    try:
        begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        begin = None
    if begin is None or f"{begin:%Y-%m}" != month:  # months are compared and counted as text
        raise ConfigurationError(f"{month!r} is not a month; write it as 2023-03")
    return int(begin.timestamp())


def check_months(months: Sequence[str]) -> None:
    """Rejects months that cannot be chosen by.

    Raises:
        ConfigurationError: There are fewer than three, one is not a month, or one is named twice.
    """
    for month in months:
        month_begin_s(month)
    if len(set(months)) < len(months):
        raise ConfigurationError(f"a choice counts each month once, got {', '.join(months)}; name none twice")
    if len(months) < FEWEST_MONTHS:
        raise ConfigurationError(f"a choice needs at least {FEWEST_MONTHS} months to test on, got {', '.join(months)}")


def check_folds(data: HandOvers, months: Sequence[str]) -> None:
    """Checks, before hours of work, that every link size has data before and in each month.

    Raises:
        ConfigurationError: A month has no windows, or there are none to train or to tune on.
    """
    for nodes in np.unique(data.link_nodes):
        for month in months:
            try:
                fold(data[data.link_nodes == nodes], month)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"{month} cannot be a test month: {error}; name others with --months, or make data of more months"
                ) from error


def iso(time_s: int) -> str:
    """The day of a moment, UTC: ``2023-03-01``."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d}"
