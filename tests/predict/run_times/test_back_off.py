"""Distributions by back-off, held to known answers."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.job_state import MISSING
from mirage.predict.run_times.named_history import GroupLevel, distributions, posterior
from mirage.predict.run_times.run_time_observations import Observations, Requests


def requests(n: int) -> Requests:
    """Jobs with equal requests."""
    return Requests(*(np.full(n, value) for value in (1, 1, MISSING, 3600, 1, 0)))


def observations(ended: list[float], running: list[float]) -> Observations:
    end_s = np.arange(len(ended))
    return Observations.of(
        requests(len(ended)), np.array(ended), end_s, requests(len(running)), np.array(running), len(ended)
    )


def at_most(past: Observations, use: float, levels: tuple[GroupLevel, ...]) -> float:
    """The predicted probability of a use of at most this."""
    found = distributions(past, requests(1), levels)
    return float(found.below[0][found.values <= use][-1])


def test_alone_it_is_kaplan_meier() -> None:
    """Five ended and one lost just before the third ended; worked by hand."""
    past = observations([0.1, 0.2, 0.3, 0.4, 0.5], [0.2995])
    everybody = (GroupLevel(("user",), prior=0.0),)
    assert at_most(past, 0.15, everybody) == pytest.approx(1 / 6)
    assert at_most(past, 0.25, everybody) == pytest.approx(1 - 5 / 6 * 4 / 5)
    assert at_most(past, 0.35, everybody) == pytest.approx(1 - 5 / 6 * 4 / 5 * 2 / 3)
    assert at_most(past, 0.45, everybody) == pytest.approx(1 - 5 / 6 * 4 / 5 * 2 / 3 / 2)


def test_the_wider_group_counts_as_its_prior_at_risk_in_every_bin() -> None:
    hazards = posterior(np.array([[0.2, 0.5, 1.0]]), 4.0, np.array([[2.0, 0.0, 0.0]]), np.array([[2.0, 0.0, 0.0]]))
    assert hazards.tolist() == [[pytest.approx(2.8 / 6), 0.5, 1.0]]


def test_the_latest_of_a_group_count_most() -> None:
    past = observations([0.1] * 10 + [0.9] * 10, [])
    forgetful = at_most(past, 0.5, (GroupLevel(("user",), prior=0.0, memory=5.0),))
    assert forgetful == pytest.approx(0.2)  # the first ten weigh a quarter of the last ten
    assert at_most(past, 0.5, (GroupLevel(("user",), prior=0.0),)) == pytest.approx(0.5)


def test_an_unknown_value_is_nothing_in_common() -> None:
    """Jobs without an account are no group of their own."""
    past = observations([0.1] * 20 + [0.9] * 20, [])
    everybody = GroupLevel((), prior=0.0)
    assert at_most(past, 0.5, (everybody, GroupLevel(("account",), prior=1.0, memory=5.0))) == pytest.approx(0.5)
    assert at_most(past, 0.5, (everybody, GroupLevel(("user",), prior=1.0, memory=5.0))) < 0.25
