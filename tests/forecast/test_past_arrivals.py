"""Arrivals drawn from the recent past."""

from __future__ import annotations

from mirage.duration import DAY_S
from mirage.forecast.past_arrivals import past_arrivals
from mirage.sim.kernel.arrays import NO_JOB, WHOLE_NODE
from tests.support.made_up_views import ended, jobs, view

NOW = 40 * DAY_S


def test_arrivals_of_the_past_come_in_order_of_submission() -> None:
    running = jobs({"submit_s": NOW - 50, "start_s": NOW - 10, "width": 1, "nodes": 3})
    history = ended((1, 2, 60, NOW - 100, NOW - 90, NOW - 40), (1, 1, 60, NOW - 90 * DAY_S, 0, 0))
    past = past_arrivals(view(NOW, 9, 9, running=running, history=history))
    assert past.jobs.submit_s.tolist() == [NOW - 100, NOW - 50]
    assert past.jobs.nodes.tolist() == [2, 3]
    assert past.again.tolist() == [NO_JOB, 0]
    assert past.days == 14, "a job has ended forty days ago"


def test_days_are_known_back_to_the_first_ended_job_that_is_shown() -> None:
    """A view contains the latest ended jobs only.

    What waits or runs for long is no evidence of those before.
    """
    old = jobs({"submit_s": NOW - 10 * DAY_S, "start_s": NOW - 9 * DAY_S, "width": 1, "nodes": 3})
    rows = [
        (1, 1, 60, NOW - k * DAY_S // 2 - 90, NOW - k * DAY_S // 2 - 60, NOW - k * DAY_S // 2) for k in range(5, 0, -1)
    ]
    assert past_arrivals(view(NOW, 9, 9, running=old, history=ended(*rows))).days == 2
    assert past_arrivals(view(NOW, 9, 9, running=old)).days == 10


def test_days_without_submissions_are_known_after_the_first_ended_job() -> None:
    """A burst of yesterday, or of today, after weeks without jobs is one day of fourteen."""
    long_ago = (1, 1, 60, NOW - 90 * DAY_S, NOW - 80 * DAY_S, NOW - 70 * DAY_S)
    for hours in (36, 12):
        at_s = NOW - hours * DAY_S // 24
        past = past_arrivals(view(NOW, 9, 9, history=ended(long_ago, *[(1, 1, 60, at_s, at_s, at_s + 60)] * 100)))
        assert (len(past.jobs), past.days) == (100, 14)


def test_an_arrival_has_the_request_of_its_job_and_the_row_of_one_that_is_still_there() -> None:
    """In order of submission: a waiting, an ended, a running, an ended job; no older ones."""
    old = {"submit_s": NOW - 15 * DAY_S, "nodes": 99, "user": 99}
    pending = jobs(
        old,
        {"submit_s": NOW - 300, "limit_s": 7200, "nodes": 2, "user": 4, "gpus": 3, "cpus": 16, "partition": 1},
    )
    running = jobs(
        old | {"start_s": NOW - 9, "width": 99},
        {"submit_s": NOW - 100, "start_s": NOW - 50, "width": 5, "limit_s": 500, "nodes": 5, "user": 7, "cpus": 32,
         "partition": 2},
    )  # fmt: skip
    history = ended((9, 6, 600, NOW - 40, NOW - 39, NOW - 4), (3, 8, 900, NOW - 200, NOW - 150, NOW - 30))
    past = past_arrivals(view(NOW, 9, 9, pending=pending, running=running, history=history))
    assert past.jobs.submit_s.tolist() == [NOW - 300, NOW - 200, NOW - 100, NOW - 40]
    assert past.jobs.limit_s.tolist() == [7200, 900, 500, 600]
    assert past.jobs.nodes.tolist() == [2, 8, 5, 6]
    assert past.jobs.user.tolist() == [4, 3, 7, 9]
    assert past.jobs.gpus.tolist() == [3, WHOLE_NODE, -1, WHOLE_NODE]
    assert past.jobs.cpus[[0, 2]].tolist() == [16, 32]
    assert past.jobs["partition"].tolist() == [1, 0, 2, 0]
    assert past.jobs.run_s[[1, 3]].tolist() == [120, 35]
    assert past.again.tolist() == [1, NO_JOB, 3, NO_JOB], "rows of the pending, then of the running jobs"


def test_a_job_of_exactly_two_weeks_ago_counts() -> None:
    rows = [(1, 1, 60, submit_s, submit_s, submit_s + 9) for submit_s in (NOW - 14 * DAY_S - 1, NOW - 14 * DAY_S)]
    assert past_arrivals(view(NOW, 9, 9, history=ended(*rows))).jobs.submit_s.tolist() == [NOW - 14 * DAY_S]


def test_without_jobs_there_are_no_days() -> None:
    nothing = past_arrivals(view(NOW, 9, 9))
    assert (len(nothing.jobs), len(nothing.again), nothing.days) == (0, 0, 0)
