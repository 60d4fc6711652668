"""Moving averages of waits against windows counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.calibration.fidelity.moving_average import moving_average
from mirage.duration import DAY_S, HOUR_S
from tests.support.made_up_histories import MONDAY_S, history

SUBMITS = np.arange(0, 16 * 24, 6)
"""Four jobs a day for sixteen days."""


def of(recorded_h, simulated_h, days=16, submits=SUBMITS):
    pair = PairedJobs.of(history(submits, recorded_h), history(submits, simulated_h))
    return moving_average(pair, MONDAY_S, MONDAY_S + days * DAY_S)


def test_windows_lie_wholly_within_the_span_a_day_apart() -> None:
    found = of([2] * 64, [3] * 64)
    assert [window.begin_s for window in found.windows] == [MONDAY_S + k * DAY_S for k in range(3)]
    assert [window.jobs for window in found.windows] == [56, 56, 56]
    assert (found.mape, found.bias, found.largest) == (0.5, 0.5, 0.5)
    assert [window.recorded_wait_s for window in found.windows] == [2 * HOUR_S] * 3
    assert [window.simulated_wait_s for window in found.windows] == [3 * HOUR_S] * 3


def test_errors_of_both_signs_add_up_in_mape_and_not_in_the_bias() -> None:
    # the first day's four jobs are in window 0 only, the last two days' in windows 1 and 2
    recorded = np.full(64, 1.0)
    simulated = recorded.copy()
    simulated[:4] += 14  # window 0: + 4 · 14 / 56 = + 1
    simulated[60:] -= 0.7  # the last day is in window 2 only: − 4 · 0.7 / 56 = − 0.05
    found = of(recorded, simulated)
    assert found.mape == pytest.approx((1 + 0 + 0.05) / 3)
    assert found.bias == pytest.approx((1 + 0 - 0.05) / 3)
    assert found.largest == pytest.approx(1)


def test_windows_with_few_jobs_or_no_wait_are_counted_and_left_out() -> None:
    few = of([1] * 19, [2] * 19, submits=SUBMITS[:19])
    assert (few.windows, few.too_few_jobs, few.no_wait, few.mape, few.bias, few.largest) == ((), 3, 0, None, None, None)
    no_waits = of([0] * 64, [1] * 64)
    assert (no_waits.windows, no_waits.too_few_jobs, no_waits.no_wait, no_waits.mape) == ((), 0, 3, None)
    neither = of([0] * 19, [2] * 19, submits=SUBMITS[:19])
    assert (neither.too_few_jobs, neither.no_wait) == (3, 0)
    enough = of([1] * 20, [2] * 20, submits=SUBMITS[:20])
    assert ([window.jobs for window in enough.windows], enough.too_few_jobs, enough.mape) == ([20], 2, 1)


def test_a_span_of_less_than_two_weeks_has_no_window() -> None:
    found = of([1] * 64, [1] * 64, days=13)
    assert (found.windows, found.too_few_jobs, found.mape) == ((), 0, None)
