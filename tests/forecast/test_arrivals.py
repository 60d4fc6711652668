"""Arrivals drawn from the recent past."""

from __future__ import annotations

from views import ended, jobs, view

from mirage.duration import DAY_S
from mirage.forecast.arrivals import past_arrivals
from mirage.sim.kernel.arrays import NOBODY

NOW = 40 * DAY_S


def test_arrivals_of_the_past_come_in_order_of_submission() -> None:
    running = jobs({"submit_s": NOW - 50, "start_s": NOW - 10, "width": 1, "nodes": 3})
    history = ended((1, 2, 60, NOW - 100, NOW - 90, NOW - 40), (1, 1, 60, NOW - 90 * DAY_S, 0, 0))
    past = past_arrivals(view(NOW, 9, 9, running=running, history=history))
    assert past.jobs.submit_s.tolist() == [NOW - 100, NOW - 50]
    assert past.jobs.nodes.tolist() == [2, 3]
    assert past.again.tolist() == [NOBODY, 0]
    assert past.days == 0
