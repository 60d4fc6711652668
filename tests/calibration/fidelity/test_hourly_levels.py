"""Hourly levels of busy nodes and of the queue, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.fidelity.hourly_levels import busy_nodes, waiting_jobs
from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from tests.support.made_up_histories import MONDAY_S, history


def test_busy_nodes_hour_by_hour() -> None:
    # each job runs an hour; 2 nodes from 0 h and 3 from 1 h on, simulated half an hour and two hours later
    recorded = history([0, 1, 6], [0, 0, 0], nodes=[2, 3, 1])
    simulated = history([0, 1, 6], [0.5, 2, 0])
    found = busy_nodes(PairedJobs.of(recorded, simulated), None, None)
    assert (found.begin_s, found.hours) == (MONDAY_S, 6)
    assert found.recorded.tolist() == [2, 3, 0, 0, 0, 0]
    assert found.simulated.tolist() == [1, 1, 0, 3, 0, 0]
    assert found.mean_absolute_difference == pytest.approx((1 + 2 + 3) / 6)
    assert found.share_of_mean == pytest.approx((1 + 2 + 3) / 5)
    assert (found.recorded_mean, found.simulated_mean) == (pytest.approx(5 / 6), pytest.approx(5 / 6))
    assert found.correlation == pytest.approx(np.corrcoef(found.recorded, found.simulated)[0, 1])


def test_the_queue_is_jobs_that_are_submitted_and_not_started() -> None:
    recorded = history([0, 1, 6], [2, 1, 0], nodes=[5, 5, 5])
    simulated = history([0, 1, 6], [0, 3, 0])
    found = waiting_jobs(PairedJobs.of(recorded, simulated), None, None)
    assert found.recorded.tolist() == [1, 2, 0, 0, 0, 0]
    assert found.simulated.tolist() == [0, 1, 1, 1, 0, 0]


def test_a_span_shows_jobs_that_were_submitted_before_it() -> None:
    recorded = history([0, 6], [1.5, 0])
    pair = PairedJobs.of(recorded, history([0, 6], [2.5, 0]))
    found = busy_nodes(pair, MONDAY_S + 2 * HOUR_S, MONDAY_S + 4 * HOUR_S)
    assert (found.begin_s, found.hours) == (MONDAY_S + 2 * HOUR_S, 2)
    assert (found.recorded.tolist(), found.simulated.tolist()) == ([0.5, 0], [0.5, 0.5])


def test_each_history_waits_from_its_own_submission() -> None:
    pair = PairedJobs.of(history([0, 6], [2, 0]), history([1, 6], [2, 0]))
    assert waiting_jobs(pair, None, None).simulated.tolist() == [0, 1, 1, 0, 0, 0]


def test_a_span_is_cut_to_what_is_known() -> None:
    pair = PairedJobs.of(history([0, 6], [1.5, 0]), history([0, 6], [2.5, 0]))
    found = busy_nodes(pair, MONDAY_S - 99 * HOUR_S, MONDAY_S + 99 * HOUR_S)
    assert (found.begin_s, found.hours) == (MONDAY_S, 6)
    half = busy_nodes(pair, MONDAY_S + 2 * HOUR_S, MONDAY_S + 2 * HOUR_S + 1800)
    assert (half.hours, half.recorded.tolist(), half.simulated.tolist()) == (1, [1], [0])


@pytest.mark.parametrize(("length_s", "hours"), [(2 * HOUR_S - 1, 1), (2 * HOUR_S, 2), (2 * HOUR_S + 1, 2)])
def test_an_hour_that_is_not_whole_is_left_out(length_s: int, hours: int) -> None:
    pair = PairedJobs.of(history([0, 6], [1.5, 0]), history([0, 6], [2.5, 0]))
    assert busy_nodes(pair, MONDAY_S + HOUR_S, MONDAY_S + HOUR_S + length_s).hours == hours


def test_less_than_an_hour_is_one_span() -> None:
    pair = PairedJobs.of(history([0, 0.25], [0, 0]), history([0, 0.25], [0, 0]))
    found = waiting_jobs(pair, None, None)
    assert found is None
    busy = busy_nodes(pair, None, None)
    assert (busy.hours, busy.correlation, busy.mean_absolute_difference) == (1, None, 0)


def test_levels_that_are_not_recorded_are_none() -> None:
    pair = PairedJobs.of(history([0, 1], [0, 0], nodes=[MISSING, MISSING]), history([0, 1], [1, 1]))
    assert busy_nodes(pair, None, None) is None
    queue = waiting_jobs(pair, None, None)
    assert (queue.recorded_mean, queue.share_of_mean, queue.correlation) == (0, None, None)
    assert queue.simulated_mean == 1
