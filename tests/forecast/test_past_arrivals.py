"""Arrivals drawn from the recent past."""

from __future__ import annotations

from mirage.duration import DAY_S
from mirage.forecast.past_arrivals import past_arrivals
from mirage.sim.kernel.arrays import NO_JOB
from tests.support.made_up_views import ended, jobs, view

NOW = 40 * DAY_S


def test_arrivals_of_the_past_come_in_order_of_submission() -> None:
    running = jobs({"submit_s": NOW - 50, "start_s": NOW - 10, "width": 1, "nodes": 3})
    history = ended((1, 2, 60, NOW - 100, NOW - 90, NOW - 40), (1, 1, 60, NOW - 90 * DAY_S, 0, 0))
    past = past_arrivals(view(NOW, 9, 9, running=running, history=history))
    assert past.jobs.submit_s.tolist() == [NOW - 100, NOW - 50]
    assert past.jobs.nodes.tolist() == [2, 3]
    assert past.again.tolist() == [NO_JOB, 0]
    assert past.days == 0


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
    since_long = ended((1, 1, 60, NOW - 90 * DAY_S, NOW - 80 * DAY_S, NOW - 70 * DAY_S), *rows)
    assert past_arrivals(view(NOW, 9, 9, running=old, history=since_long)).days == 10
