"""The limit on a user's running jobs, visible as a plateau."""

from __future__ import annotations

import numpy as np

from mirage.calibration.inferred.capacity import queued
from mirage.calibration.inferred.user_job_limit import user_job_limit
from tests.support.made_up_site import Row, table


def bursts(users: int, most: int, jobs: int, run_h: float = 1.0) -> list[Row]:
    """Jobs of users with many submissions at once and a limit on running ones."""
    return [(f"u{u}", 0.0, (k // most) * run_h, run_h, 1) for u in range(users) for k in range(jobs)]


def test_a_plateau_is_found() -> None:
    found = user_job_limit(queued(table(*bursts(5, 8, 80))))
    assert found is not None
    assert (found.most, found.users) == (8, 5)
    assert found.hours == 5 * 9  # the last hour nothing waits any more


def test_two_users_make_no_limit() -> None:
    assert user_job_limit(queued(table(*bursts(2, 8, 80)))) is None


def test_a_user_far_above_the_plateau_shows_that_there_is_none() -> None:
    eve: list[Row] = [("eve", 0.0, k // 30, 1.0, 1) for k in range(600)]
    assert user_job_limit(queued(table(*bursts(5, 8, 80), *eve))) is None


def test_a_short_exception_does_not_hide_it() -> None:
    lifted = [("eve", 0.0, 0.0, 0.1, 1) for _ in range(12)] + [("eve", 0.0, 0.1, 0.1, 1)]
    found = user_job_limit(queued(table(*bursts(5, 8, 80), *lifted)))
    assert found is not None
    assert found.most == 8


def test_counts_that_thin_out_are_no_plateau_however_few_there_are() -> None:
    """A hundred hours with one job, thirty with two, eight with three; one waits all the time."""
    rows: list[Row] = []
    for user in ("ada", "bob", "eve", "joe"):
        rows += [(user, 0.0, 0.0, 100.0, 1), (user, 0.0, 138.0, 1.0, 1)]
        rows += [(user, 100.0, 100.0, 30.0, 1)] * 2 + [(user, 130.0, 130.0, 8.0, 1)] * 3
    assert user_job_limit(queued(table(*rows))) is None


def test_a_full_cluster_is_no_limit() -> None:
    """Users without a limit, with jobs on what falls free: time thins out with the count."""
    dice = np.random.default_rng(3)
    rows: list[Row] = []
    for user in range(12):
        for submit_h in dice.uniform(0, 100, 60).tolist():
            wait_h, run_h = dice.exponential([2.0, 1.5]).tolist()
            rows.append((f"u{user}", submit_h, submit_h + wait_h, run_h + 0.1, 1))
    assert user_job_limit(queued(table(*rows))) is None
