"""Waits that nothing in the accounts explains."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.unexplained_holds import held_until
from mirage.duration import DAY_S, HOUR_S
from tests.support.made_up_site import Row, table

WAITS: Row = ("ada", 0.0, 10.0, 1.0, 2)


def held_h(other: Row, base_priority: tuple[float, float] = (0.0, 0.0), age: float = 0.0) -> float:
    """Until when the first job is held, together with another one; hours."""
    jobs = table(WAITS, other)
    return held_until(jobs, np.array(base_priority), age / DAY_S, DAY_S)[0] / HOUR_S


def test_a_job_is_held_until_another_has_passed_it_by_last() -> None:
    jobs = table(WAITS, ("bob", 1.0, 3.0, 1.0, 2), ("eve", 2.0, 7.0, 1.0, 4), ("bob", 3.0, 9.0, 1.0, 1))
    assert (held_until(jobs, np.zeros(4), 0.0, DAY_S) / HOUR_S).tolist() == [7.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("it is smaller", ("bob", 1.0, 3.0, 1.0, 1)),
        ("it is of the same user", ("ada", 1.0, 3.0, 1.0, 2)),
        ("it was submitted earlier", ("bob", -1.0, 3.0, 1.0, 2)),
        ("it started before", ("bob", 1.0, 10.0, 1.0, 2)),
    ],
)
def test_jobs_that_others_do_not_pass_by(name: str, other: Row) -> None:
    jobs = table(other, WAITS) if other[1] < 0 else table(WAITS, other)
    row = int(jobs.user.values()[0] != "ada" or (other[0] == "ada" and other[1] < 0))
    assert held_until(jobs, np.zeros(2), 0.0, DAY_S)[row] == jobs.submit_s[row], name


@pytest.mark.parametrize(("limit_h", "held_s"), [(24, 3 * HOUR_S), (23, 0)])
def test_a_shorter_job_fits_where_a_longer_one_does_not(limit_h: int, held_s: int) -> None:
    jobs = table(WAITS, ("bob", 1.0, 3.0, 1.0, 2), limit_s=np.array([24, limit_h]) * HOUR_S)
    assert held_until(jobs, np.zeros(2), 0.0, DAY_S)[0] == held_s


def test_one_of_higher_priority_goes_first_by_right() -> None:
    passer: Row = ("bob", 1.0, 3.0, 1.0, 2)
    assert held_h(passer, (100.0, 101.0)) == 0
    assert held_h(passer, (100.0, 100.0)) == 3
    assert held_h(passer, (100.0, 101.0), age=48.0) == 3, "the hour that it waits longer is worth two"


def test_a_wait_may_be_worth_more_to_one_job_than_to_another() -> None:
    """At 03:00 the first has waited three hours, and the other two, each worth so much."""
    jobs = table(("eve", 0.0, 0.0, 0.5, 1), WAITS, ("bob", 1.0, 3.0, 1.0, 2))
    for gains, held_s in (((50.0, 1.0, 2.0), 0), ((0.1, 1.0, 1.4), 3 * HOUR_S)):
        assert held_until(jobs, np.zeros(3), np.array(gains), np.inf)[1] == held_s, gains


@pytest.mark.parametrize(("wait_min", "held_min"), [(10, 5), (9, 0)])
def test_waits_of_less_than_ten_minutes_are_ignored(wait_min: int, held_min: int) -> None:
    jobs = table(("ada", 0, wait_min / 60, 1, 2), ("bob", 1 / 60, 5 / 60, 1, 3))
    assert held_until(jobs, np.zeros(2), 0.0, DAY_S)[0] == held_min * 60


@pytest.mark.parametrize(("start_min", "held_min"), [(59, 59), (60, 0)])
def test_one_that_starts_in_the_same_minute_passes_no_job_by(start_min: int, held_min: int) -> None:
    jobs = table(("ada", 0, 1, 1, 2), ("bob", 0.25, start_min / 60, 1, 3))
    assert held_until(jobs, np.zeros(2), 0.0, DAY_S)[0] == held_min * 60


def test_jobs_without_a_user_pass_each_other_by_and_age_beyond_the_oldest_is_worth_nothing() -> None:
    unknown = table(("", 0, 10, 1, 2), ("", 1, 3, 1, 3))
    assert held_until(unknown, np.zeros(2), 0.0, DAY_S)[0] == 3 * HOUR_S
    aged = table(("ada", 0, 10, 1, 2), ("bob", 4, 9, 1, 3))
    for oldest_h, held_h in ((9, 9), (5, 0)):
        found = held_until(aged, np.array([0.0, 3.0]), 1 / HOUR_S, oldest_h * HOUR_S)
        assert found[0] == held_h * HOUR_S, "at 09:00 the first has waited nine hours, and the other five"
