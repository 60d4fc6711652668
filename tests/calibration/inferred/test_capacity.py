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


def test_without_dips_to_fill_in_the_capacity_is_the_level_itself() -> None:
    """Ten minutes in which five of eight nodes are in use."""
    rows: list[Row] = [("ada", 0, 0, 2, 5), ("bob", 0, 0, 1, 3), ("eve", 7 / 6, 7 / 6, 5 / 6, 3), ("ada", 2, 2, 1, 8)]
    found = capacity_over_time(queued(table(*rows)), 0)
    assert (found.times_s // 600).tolist() == [0, 6, 7]
    assert found.nodes.tolist() == [8, 5, 8]
    assert found.first == 8
    assert capacity_over_time(queued(table(*rows)), 2 * STEP_S).nodes.tolist() == [8]


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


def test_a_job_that_is_cancelled_while_it_waits_does_not_end_an_outage() -> None:
    rows = [*full_for(10, 0, 8), *full_for(10, 20, 8), ("bob", 5.0, 30.5, 0.2, 1)]
    cancelled: list[Row] = [("eve", 4.0, hour, 0.0, 1) for hour in (11.5, 14.0, 16.5, 18.5)]
    assert at(queued(table(*rows, *cancelled)), 24, 5, 15, 23) == [8, 1, 8]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("nobody waits", []),
        ("nodes are kept free for a large job", [("bob", 5.0, 20.5, 0.2, 1), ("eve", 4.0, 20.2, 0.1, 9)]),
        ("most nodes are in use", [("bob", 5.0, 20.5, 0.2, 1), ("eve", 0.0, 0.0, 30.0, 5)]),
        ("a job starts when another ends", [("bob", 5.0, 20.5, 0.2, 1), ("eve", 0.0, 0.0, 20.0, 5)]),
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
    with pytest.raises(TraceError, match="a submission, a start and an end: there is nothing to calibrate with"):
        queued(table(("ada", 0, 2, 0.0, 1)))


def test_a_trace_without_numbers_of_nodes_is_refused_for_that_reason() -> None:
    with pytest.raises(TraceError, match="no job of the trace has a number of nodes: there is nothing"):
        queued(table(("ada", 0, 2, 1.0, 0)))


def test_jobs_count_in_the_queue_with_a_start_an_end_and_nodes() -> None:
    jobs = table(
        ("eve", 3, 4, 1, 2), ("ada", 0, 2, 0, 1), ("bob", 1, 1, 5, 3), ("joe", 2, 2, 1, 1), ("zoe", 2, 2, 1, 1)
    )
    nodes, end_s = jobs.nodes.copy(), jobs.end_s.copy()
    nodes[3], end_s[4] = 0, -1
    found = queued(jobs.with_columns(nodes=nodes, end_s=end_s))
    assert found.user.values() == ["ada", "bob", "eve"], "by submission, with the one that was cancelled"
    started_early = jobs.with_columns(start_s=jobs.start_s - np.array([0, 0, 1, 0, 0]))
    assert "bob" not in queued(started_early).user.values()


@pytest.mark.parametrize(("back_h", "found"), [(12, 1), (11, 0)])
def test_an_outage_lasts_three_hours_at_least(back_h: int, found: int) -> None:
    rows = [*full_for(10, 0, 8), *full_for(10, back_h, 8), ("bob", 5.0, back_h + 0.5, 0.2, 1)]
    assert len(outages(queued(table(*rows)), np.array([0]), np.array([8]))) == found


def test_an_outage_counts_jobs_that_wait_all_the_time_and_nodes_that_stay_in_use() -> None:
    rows = [
        *full_for(10, 0, 6), *full_for(10, 20, 8), ("bob", 5.0, 20.5, 0.2, 1), ("eve", 9.0, 20.0, 0.2, 3),
        ("joe", 9.5, 20.0, 0.2, 3), ("zoe", 2.0, 2.0, 40.0, 2),
    ]  # fmt: skip
    (outage,) = outages(queued(table(*rows)), np.array([0, HOUR_S * 15]), np.array([8, 99]))
    assert (outage.start_s / HOUR_S, outage.end_s / HOUR_S, outage.nodes, outage.waiting) == (9, 20, 2, 2)
    idle_half = [("zoe", 2.0, 2.0, 40.0, 2)] * 2
    assert len(outages(queued(table(*rows, idle_half[0])), np.array([0]), np.array([8]))) == 1, "half of the nodes"
    assert outages(queued(table(*rows, *idle_half)), np.array([0]), np.array([8])) == ()


def test_room_in_an_outage_is_that_of_the_nodes_there_are_when_it_begins() -> None:
    """Five of eight nodes stay in use; thirty were until five o'clock, and are again later."""
    rows = [*full_for(10, 0, 3), *full_for(10, 20, 3), ("bob", 5.0, 20.5, 0.2, 1), ("zoe", 2.0, 2.0, 40.0, 5)]
    jobs, times_s = queued(table(*rows)), np.array([0, 5, 15]) * HOUR_S
    assert outages(jobs, times_s, np.array([30, 8, 30])) == ()
    assert len(outages(jobs, times_s, np.array([8, 30, 8]))) == 1
