"""Causes of waits, on histories small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.array_types import Floats, Ints
from mirage.calibration.inferred.capacity import Capacity, queued
from mirage.calibration.wait_causes import LIMIT, NODES, ORDER, UNEXPLAINED, WaitCauses, wait_causes
from mirage.duration import DAY_S
from mirage.trace.table import JobTable
from tests.support.made_up_site import Row, table

FOUR_NODES = Capacity(np.array([0]), np.array([4]))
LATER: Row = ("zoe", 40.0, 40.0, 1.0, 1)
"""Until somebody is submitted last, everything is looked at."""


def causes(jobs: JobTable, capacity: Capacity = FOUR_NODES, user_jobs: int | None = None) -> WaitCauses:
    """With no priorities but the order of submission."""

    def first_come(rows: Ints, now_s: int) -> Floats:
        return (now_s - jobs.submit_s[rows]).astype(float)

    return wait_causes(queued(jobs), capacity, first_come, user_jobs)


def hours(found: WaitCauses, row: int) -> dict[str, float]:
    """Hours of a job by cause, those without any left out."""
    hours_by_cause = dict(zip((NODES, LIMIT, ORDER, UNEXPLAINED), found.hours[row].tolist()))
    return {cause: pytest.approx(spent, abs=0.01) for cause, spent in hours_by_cause.items() if spent}


def test_a_job_waits_for_nodes_while_fewer_are_idle_than_it_needs() -> None:
    found = causes(table(("ada", 0, 0, 5, 3), ("bob", 1, 5, 1, 2), LATER, limit_h=5))
    assert hours(found, 1) == {NODES: 4}


def test_a_job_waits_for_its_user_s_limit_though_nodes_are_idle() -> None:
    found = causes(table(("ada", 0, 0, 5, 1), ("ada", 1, 5, 1, 1), LATER), user_jobs=1)
    assert hours(found, 1) == {LIMIT: 4}


def test_a_job_waits_for_one_that_is_promised_the_idle_nodes() -> None:
    """The second needs all four nodes, held by the first: the third may not start next to it."""
    found = causes(table(("ada", 0, 0, 5, 2), ("bob", 1, 5, 1, 4), ("eve", 2, 6, 9, 2), LATER, limit_h=10))
    assert hours(found, 1) == {NODES: 4}
    assert hours(found, 2) == {ORDER: 3, NODES: 1}


def test_a_wait_beyond_the_promised_start_is_unexplained_and_so_are_the_waits_after_it() -> None:
    """By the limit of the first, the second could start at 3 h; its grace is two samples."""
    found = causes(table(("ada", 0, 0, 3, 2), ("bob", 1, 9, 1, 4), ("eve", 2, 10, 9, 2), LATER, limit_h=3))
    assert hours(found, 1) == {NODES: 2, ORDER: 1 / 3, UNEXPLAINED: 6 - 1 / 3}
    assert hours(found, 2) == {ORDER: 1 + 1 / 3, UNEXPLAINED: 6 - 1 / 3, NODES: 1}


def test_nodes_that_stay_idle_though_the_head_of_the_queue_fits_are_unexplained() -> None:
    found = causes(table(("ada", 0, 7, 1, 1), LATER))
    assert hours(found, 0) == {ORDER: 1 / 3, UNEXPLAINED: 7 - 1 / 3}
    assert hours(causes(table(("ada", 0, 7, 1, 1), LATER), Capacity(np.array([0]), np.array([0]))), 0) == {NODES: 7}


def test_an_overdue_head_explains_nothing_of_those_at_their_limit_or_too_large() -> None:
    rows = (("ada", 0, 0, 9, 2), ("bob", 1, 8, 1, 1), ("ada", 1, 9, 1, 1), ("eve", 1, 10, 1, 3), LATER)
    found = causes(table(*rows, limit_h=9), user_jobs=1)
    assert hours(found, 1) == {ORDER: 1 / 3, UNEXPLAINED: 7 - 1 / 3}
    assert hours(found, 2) == {LIMIT: 8}
    assert hours(found, 3) == {NODES: 8, ORDER: 1 / 3, UNEXPLAINED: 2 / 3}, "its own turn comes when the rest has ended"


def test_without_time_limits_nothing_is_promised_before_jobs_have_ended() -> None:
    declared = table(("ada", 0, 0, 3, 4), ("bob", 1, 9, 1, 4), LATER, limit_h=3)
    undeclared = declared.with_columns(limit_s=np.full(len(declared), -1))
    assert hours(causes(undeclared), 1) == hours(causes(declared), 1)


def test_shares_count_jobs_that_ran_and_were_submitted_in_the_span() -> None:
    jobs = table(("ada", 0, 7, 1, 1), ("bob", 50, 52, 1, 1), ("eve", 50, 59, 0, 1), ("zoe", 90, 90, 1, 1))
    found = causes(jobs)
    assert sum(found.hours[2]) == pytest.approx(9), "cancelled while it waited"
    assert found.shares(0, 2 * DAY_S) == pytest.approx(
        {NODES: 0, LIMIT: 0, ORDER: 1 / 21, UNEXPLAINED: 20 / 21}, abs=0.01
    )
    assert found.shares(2 * DAY_S, 3 * DAY_S)[UNEXPLAINED] == pytest.approx(5 / 6, abs=0.01)
    assert set(found.shares(80 * DAY_S, 90 * DAY_S).values()) == {0.0}


def test_the_unexplained_part_of_the_moving_average() -> None:
    """Every hour for three weeks one job waits an hour, of which 20 minutes are grace."""
    rows = [("ada", float(hour), hour + 1.0, 0.5, 1) for hour in range(21 * 24)]
    found = causes(table(*rows))
    assert found.unexplained_moving_average(0, 21 * DAY_S) == pytest.approx(2 / 3, abs=0.02)
    assert found.unexplained_moving_average(0, 13 * DAY_S) is None


def test_priorities_decide_which_job_is_the_head_of_the_queue() -> None:
    """With the large job first, the small one waits by right until the large one is due."""
    jobs = queued(table(("ada", 0, 0, 5, 2), ("bob", 1, 5, 1, 4), ("eve", 0.5, 6, 9, 2), LATER, limit_h=5))
    large = int(np.flatnonzero(jobs.nodes == 4)[0])
    small = int(np.flatnonzero(np.array(jobs.user.values()) == "eve")[0])
    before, after = (
        wait_causes(jobs, FOUR_NODES, lambda rows, _, sign=sign: sign * (rows == large).astype(float), None)
        for sign in (-1.0, 1.0)
    )
    order = (NODES, LIMIT, ORDER, UNEXPLAINED).index(ORDER)
    assert after.hours[small, order] > before.hours[small, order]
    assert before.hours[small, 3] > 3
