"""Shutdowns: found in accounts, not confused with failures or drains, and simulated."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.inferred.capacity import capacity_over_time, queued
from mirage.calibration.inferred.shutdowns import Shutdown, bridged, out_of_use, shutdowns
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.duration import HOUR_S
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable
from tests.support.made_up_site import Row, table

WAITS: Row = ("bob", 5.0, 20.5, 1.0, 8)


def stopped(limit_h: float, *others: Row, back_h: float = 20.0) -> JobTable:
    """A machine of 40 nodes that runs jobs of two hours until 10:00, and again from 20:00 on."""
    rows: list[Row] = [("ada", float(h), float(h), 2.0, 40) for h in range(0, 10, 2)]
    rows += [("ada", back_h + h, back_h + h, 2.0, 40) for h in range(2, 10, 2)]
    return queued(table(*rows, *others, limit_h=limit_h))


def hours(found: tuple[Shutdown, ...]) -> list[tuple[float, float, bool]]:
    return [(one.start_s / HOUR_S, one.end_s / HOUR_S, one.known) for one in found]


def test_a_machine_that_stands_empty_while_a_job_waits_was_shut_down() -> None:
    assert hours(shutdowns(stopped(2.0, WAITS))) == [(10, 20.5, True)]
    assert shutdowns(stopped(2.0, WAITS))[0].waiting == 1


def test_limits_that_reach_into_it_show_that_it_was_not_known() -> None:
    assert hours(shutdowns(stopped(9.0, WAITS))) == [(10, 20.5, False)]


def test_a_maintenance_begins_when_the_last_limit_before_it_ends() -> None:
    """Jobs that ended at ten could have run until half past."""
    assert hours(shutdowns(stopped(2.5, WAITS))) == [(10.5, 20.5, True)]


def test_a_tenth_of_the_nodes_may_still_be_in_use() -> None:
    few: Row = ("eve", 11.0, 12.0, 3.0, 4)
    (found,) = shutdowns(stopped(2.0, WAITS, few))
    assert (found.start_s / HOUR_S, found.end_s / HOUR_S, found.left) == (10, 20.5, 4)
    more: Row = ("eve", 11.0, 12.0, 3.0, 5)
    assert (10, 20.5) not in [one[:2] for one in hours(shutdowns(stopped(2.0, WAITS, more)))]


@pytest.mark.parametrize(
    ("name", "others", "back_h"),
    [
        ("nobody waits", [], 20.0),
        ("the only one that waits needs more nodes than are free", [("bob", 5.0, 20.5, 1.0, 41)], 20.0),
        ("it lasts an hour", [("bob", 5.0, 11.0, 1.0, 4)], 9.0),
    ],
)
def test_what_is_no_shutdown(name: str, others: list[Row], back_h: float) -> None:
    busy = [("eve", 0.0, 0.0, 20.2, 1)] if others and others[0][4] == 41 else []
    jobs = stopped(2.0, *others, *busy, back_h=back_h)
    jobs = jobs[jobs.nodes <= 40] if name == "nobody waits" else jobs
    assert all(one.start_s >= 20 * HOUR_S for one in shutdowns(jobs)), name


def test_the_level_of_nodes_is_what_it_is_around_a_shutdown() -> None:
    times_s = np.arange(0, 30) * HOUR_S
    busy = np.where((times_s >= 8 * HOUR_S) & (times_s < 20 * HOUR_S), 1, 7)
    one = Shutdown(10 * HOUR_S, 20 * HOUR_S, 1, True, 1)
    assert bridged(times_s, busy, (one,), 3 * HOUR_S).tolist() == [7] * 30
    assert bridged(times_s, busy, (one,), HOUR_S).tolist() == [7] * 8 + [1] + [7] * 21
    assert bridged(times_s, busy, (), HOUR_S).tolist() == busy.tolist()


def test_the_level_around_a_shutdown_begins_with_the_drain_and_ends_before_as_long_after_it() -> None:
    times_s, one = np.arange(0, 30) * HOUR_S, Shutdown(10 * HOUR_S, 20 * HOUR_S, 1, True, 1)
    first, last = (np.where(times_s == hour * HOUR_S, 9, 2) for hour in (7, 23))
    assert bridged(times_s, first, (one,), 3 * HOUR_S).tolist() == [2] * 7 + [9] * 14 + [2] * 9
    assert bridged(times_s, last, (one,), 3 * HOUR_S).tolist() == last.tolist()
    assert bridged(times_s, np.roll(last, -1), (one,), 3 * HOUR_S)[6:22].tolist() == [2] + [9] * 14 + [2]


def test_a_short_lull_and_one_in_which_no_job_waits_hide_no_shutdown_after_them() -> None:
    """A lull from one to two, an idle afternoon, and then a night in which bob's job waits."""
    busy_h = [(0, 1), (2, 10), (18, 24), (40, 44)]
    rows: list[Row] = [("ada", float(a), float(a), float(b - a), 40) for a, b in busy_h]
    jobs = queued(table(*rows, ("bob", 22.0, 38.0, 2.0, 5), limit_h=8.0))
    assert hours(shutdowns(jobs)) == [(24, 38, False)]
    assert [(one.left, one.waiting) for one in shutdowns(jobs)] == [(0, 1)]


def test_capacity_excludes_shutdowns_that_are_modelled_separately() -> None:
    jobs = stopped(2.0, WAITS)
    assert capacity_over_time(jobs, 6 * HOUR_S).nodes.min() < 40
    assert capacity_over_time(jobs, 6 * HOUR_S, shutdowns(jobs)).nodes.min() == 40


def test_a_known_one_is_a_reservation_and_a_failure_is_two_changes() -> None:
    known, failed = Shutdown(10, 20, 4, True, 1), Shutdown(30, 40, 0, False, 1)
    changes, reserved = out_of_use((known, failed), "node", np.array([0, 35]), np.array([40, 36]))
    assert [(one.start_s, one.end_s, one.nodes) for one in reserved] == [(10, 20, 36)]
    assert [(one.time_s, one.nodes) for one in changes] == [(30, -36), (40, 36)]
    assert out_of_use((Shutdown(10, 20, 40, True, 1),), "node", np.array([0]), np.array([40])) == ((), ())
    (least,) = out_of_use((Shutdown(10, 20, 39, True, 1),), "node", np.array([0]), np.array([40]))[1]
    assert (least.group, least.nodes) == ("node", 1)


@pytest.mark.parametrize(
    ("times_s", "nodes", "away"),
    [((0, 19), (40, 30), 26), ((0, 20), (40, 30), 36), ((0, 10), (30, 40), 36), ((0, 11), (30, 40), 26),
     ((15, 18), (30, 40), 26), ((0, 12, 15), (40, 20, 30), 16)],
)  # fmt: skip
def test_a_shutdown_takes_the_nodes_that_there_are_all_the_time(
    times_s: tuple[int, ...], nodes: tuple[int, ...], away: int
) -> None:
    for known in (True, False):
        one = Shutdown(10, 20, 4, known, 1)
        changes, reserved = out_of_use((one,), "node", np.array(times_s), np.array(nodes))
        assert [change.nodes for change in changes] == ([] if known else [-away, away])
        assert [reservation.nodes for reservation in reserved] == ([away] if known else [])


def test_no_job_is_started_that_would_run_into_a_maintenance() -> None:
    """Only where it is known: at nine a job of two hours waits until the machine is back."""
    late: Row = ("eve", 9.0, 20.6, 1.0, 4)
    for limit_h, starts_h in ((2.0, 20.5), (9.0, 10.0)):
        jobs = stopped(limit_h, WAITS, late)
        site = Site.of(jobs, SlurmSettings(), 0, 30 * HOUR_S)
        assert site.nodes == 40
        played = site.replay(Mechanisms(shutdowns=True), jobs)
        row = int(np.flatnonzero(played.submit_s == 9 * HOUR_S)[0])
        assert played.start_s[row] >= (20.0 if limit_h == 2.0 else starts_h) * HOUR_S
        freely = site.replay(Mechanisms(), jobs)
        assert freely.start_s[row] < 20 * HOUR_S
