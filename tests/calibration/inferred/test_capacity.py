"""Nodes over time, and outages, from what ran and what waited."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.inferred.capacity import STEP_S, capacity_over_time, levels, outages, queued, ran
from mirage.duration import HOUR_S
from mirage.errors import TraceError
from mirage.trace.table import JobTable
from tests.support.made_up_site import Row, table


def full_for(hours: int, from_h: float, nodes: int) -> list[Row]:
    """One job after the other that holds all nodes, an hour each."""
    return [("ada", from_h + k, from_h + k, 1.0, nodes) for k in range(hours)]


def at(jobs: JobTable, dip_h: float, *hours: float) -> list[int]:
    found = capacity_over_time(jobs, int(dip_h * HOUR_S))
    places = np.searchsorted(found.times_s, np.array(hours) * HOUR_S, side="right") - 1
    return found.nodes[places].tolist()


def test_intervals_are_half_open() -> None:
    times_s = np.array([0, 5, 9, 10, 11])
    assert levels(times_s, np.array([5, 0]), np.array([10, 5]), np.array([2, 7])).tolist() == [7, 2, 2, 0, 0]


def test_dips_are_filled_in_and_longer_ones_are_nodes_that_were_away() -> None:
    jobs = queued(table(*full_for(10, 0, 8), *full_for(10, 13, 8), ("bob", 22.5, 31, 2.0, 3), *full_for(8, 40, 8)))
    assert at(jobs, 6, 5, 11, 15) == [8, 8, 8]
    assert at(jobs, 6, 32)[0] < 8
    assert at(jobs, 24, 32) == [8]


def test_growth_is_found() -> None:
    jobs = queued(table(*full_for(24, 0, 8), *full_for(24, 24, 12)))
    assert at(jobs, 6, 3, 20, 28, 40) == [8, 8, 12, 12]
    changes = capacity_over_time(jobs, 6 * HOUR_S).changes("node")
    assert [(change.time_s // HOUR_S, change.nodes) for change in changes] == [(24, 4)]


def test_the_end_of_the_trace_is_no_outage() -> None:
    """Jobs run out after the last submission; what else would have run is not known."""
    jobs = queued(table(*full_for(24, 0, 8), ("ada", 23.5, 23.5, 9.0, 2)))
    assert capacity_over_time(jobs, 6 * HOUR_S).nodes[-1] >= 8


def test_an_outage_is_a_stretch_without_starts_while_jobs_wait_for_few_nodes() -> None:
    before, after = full_for(10, 0, 8), full_for(10, 20, 8)
    waits = ("bob", 5.0, 30.5, 0.2, 1)
    found = capacity_over_time(queued(table(*before, *after, waits)), 24 * HOUR_S)
    (outage,) = outages(queued(table(*before, *after, waits)), found.times_s[:1], np.array([8]))
    assert (outage.start_s / HOUR_S, outage.end_s / HOUR_S, outage.nodes, outage.waiting) == (9, 20, 0, 1)
    assert at(queued(table(*before, *after, waits)), 24, 5, 15, 23) == [8, 1, 8]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("nobody waits", []),
        ("nodes are kept free for a large job", [("bob", 5.0, 20.5, 0.2, 1), ("eve", 4.0, 20.2, 0.1, 9)]),
        ("most nodes are in use", [("bob", 5.0, 20.5, 0.2, 1), ("eve", 0.0, 0.0, 30.0, 5)]),
    ],
)
def test_what_is_no_outage(name: str, others: list[Row]) -> None:
    jobs = queued(table(*full_for(10, 0, 8), *full_for(10, 20, 8), *others))
    assert outages(jobs, np.array([0]), np.array([8])) == (), name


def test_a_job_cancelled_while_it_waited_did_not_run() -> None:
    jobs = queued(table(("ada", 0, 2, 0.0, 1), ("ada", 0, 1, 1.0, 1)))
    assert ran(jobs).tolist() == [False, True]
    assert (capacity_over_time(jobs, STEP_S).nodes <= 1).all()


def test_a_trace_without_starts_is_refused() -> None:
    with pytest.raises(TraceError, match="there is nothing to calibrate with"):
        queued(table(("ada", 0, 2, 0.0, 1)))
