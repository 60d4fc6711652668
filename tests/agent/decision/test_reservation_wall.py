"""Walls: which reservations leave too few nodes for a link, from when and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.agent.decision.reservation_wall import LinkNodes, ReservationWall, link_nodes, occurrences
from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.job_state import JobState
from mirage.slurm.records import Machine, Node, QueuedJob, SlurmPartition, SlurmReservation

NOW_S = 1_795_716_000
"""2026-11-26 18:00:00 UTC, a Thursday."""

MACHINE = Machine(
    (
        Node("n1", "idle", True, 64, 4, ("gpu", "all")),
        Node("n2", "mixed", True, 64, 4, ("gpu", "all")),
        Node("n3", "idle", True, 32, 8, ("gpu", "all")),
        Node("n4", "idle", True, 64, 0, ("cpu", "all")),
        Node("n5", "down", False, 64, 4, ("gpu",)),
    ),
    (
        SlurmPartition("gpu", True, UNLIMITED_S, HOUR_S, ("n1", "n2", "n3", "n5")),
        SlurmPartition("cpu", False, UNLIMITED_S, HOUR_S, ("n4",)),
        SlurmPartition("all", False, UNLIMITED_S, HOUR_S, ("n1", "n2", "n3", "n4"), whole_nodes=True),
    ),
)

MAINT = SlurmReservation("maint", NOW_S + 6 * HOUR_S, NOW_S + 8 * HOUR_S, ("n1", "n2", "n3", "n4", "n5"), ("MAINT",))


def nodes(
    *reservations: SlurmReservation, count: int = 1, machine: Machine = MACHINE, job: QueuedJob | None = None,
    excluded: tuple[str, ...] = (), **options: str | None,
) -> LinkNodes | None:  # fmt: skip
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return link_nodes(machine, reservations, given, job, count=count, excluded=excluded, user="ada", now_s=NOW_S)


def wall(*reservations: SlurmReservation, limit_s: int = DAY_S, start_s: int = NOW_S, **known: Any) -> Any:
    found = nodes(*reservations, **known)
    assert found is not None
    return found.first_wall(start_s, limit_s)


def test_a_maintenance_of_all_nodes_is_a_wall_for_limits_that_reach_into_it() -> None:
    assert wall(MAINT) == ReservationWall(MAINT, MAINT.end_s)
    assert wall(MAINT, limit_s=6 * HOUR_S) is None, "it may end as the reservation begins"
    assert wall(MAINT, limit_s=6 * HOUR_S + 1).begin_s == MAINT.start_s
    assert wall(MAINT, limit_s=UNLIMITED_S).begin_s == MAINT.start_s
    assert wall(MAINT, start_s=MAINT.end_s) is None
    assert wall(MAINT, start_s=MAINT.end_s - 1).until_s == MAINT.end_s


def test_only_too_few_other_nodes_make_a_wall() -> None:
    some = replace(MAINT, nodes=("n1", "n2"))
    assert wall(some) is None, "n3 is left"
    assert wall(some, count=2).begin_s == some.start_s
    assert wall(some, excluded=("n3",)).begin_s == some.start_s
    assert wall(some, partition="cpu") is None
    assert wall(some, partition="gpu,cpu") is None
    assert wall(some, count=3, partition="gpu,all").begin_s == some.start_s, "no partition has three other nodes"
    assert wall(some, nodelist="n[2-3]").begin_s == some.start_s, "it needs both of them"
    assert wall(some, nodelist="n3") is None
    large = QueuedJob(7, JobState.PENDING, nodes=1, cpus=64)
    assert wall(some, job=large).begin_s == some.start_s, "n3 has too few processors"
    gpus = QueuedJob(7, JobState.PENDING, nodes=2, cpus=2, gpus=8, partition="all")
    assert wall(replace(MAINT, nodes=("n1",)), count=2, job=gpus) is None
    assert wall(replace(MAINT, nodes=("n1", "n3")), count=2, job=gpus).begin_s == MAINT.start_s, "n4 has no GPU"


def test_reservations_add_up_and_end_one_after_the_other() -> None:
    first = SlurmReservation("first", NOW_S + 2 * HOUR_S, NOW_S + 5 * HOUR_S, ("n1",))
    second = SlurmReservation("second", NOW_S + 4 * HOUR_S, NOW_S + 9 * HOUR_S, ("n2", "n3"))
    third = SlurmReservation("third", NOW_S + 4 * HOUR_S, NOW_S + 7 * HOUR_S, ("n1",))
    assert wall(first, second) == ReservationWall(second, first.end_s)
    assert wall(third, second, first) == ReservationWall(second, third.end_s)
    assert wall(first, second, start_s=first.end_s) is None


def test_an_active_reservation_is_a_wall_although_its_nodes_are_out_of_service() -> None:
    active = SlurmReservation("maint", NOW_S - HOUR_S, NOW_S + HOUR_S, ("n1", "n2", "n3", "n4"), ("MAINT",))
    words = ("maint", "down", "reserved", "maint")
    away = tuple(replace(node, state=word, usable=False) for node, word in zip(MACHINE.nodes, words))
    machine = Machine((*away, MACHINE.nodes[4]), MACHINE.partitions)
    assert wall(active, machine=machine) == ReservationWall(active, active.end_s)
    assert nodes(machine=replace(machine, nodes=MACHINE.nodes[4:])) is None, "down without a reservation"


def test_reservations_that_the_job_may_use_are_no_walls() -> None:
    assert wall(MAINT, reservation="maint", limit_s=HOUR_S) is None
    half = replace(MAINT, partial=True)
    assert wall(half) is None
    assert wall(half, exclusive=None).begin_s == MAINT.start_s
    assert wall(half, partition="all").begin_s == MAINT.start_s, "jobs get whole nodes there"
    assert wall(replace(MAINT, lends=True)).begin_s == MAINT.start_s
    assert wall(replace(MAINT, lends=True), signal="R:USR1@60") is None
    assert wall(replace(MAINT, users=("ada",))).begin_s == MAINT.start_s, "the job does not name it"
    assert wall(replace(MAINT, users=("ada",), flags=("MAGNETIC",))) is None


def test_a_chain_in_its_own_reservation() -> None:
    own = SlurmReservation("course", NOW_S - HOUR_S, NOW_S + 10 * HOUR_S, ("n1", "n2"))
    found = wall(own, MAINT, reservation="course")
    assert (found.begin_s, found.is_own) == (MAINT.start_s, False)
    found = wall(own, reservation="course")
    assert (found.begin_s, found.is_own) == (own.end_s, True)
    assert wall(own, reservation="course", limit_s=10 * HOUR_S) is None
    assert wall(replace(own, flags=("FLEX",)), reservation="course") is None
    assert wall(replace(own, flags=("MAINT",)), MAINT, reservation="course", limit_s=9 * HOUR_S) is None
    class_ = replace(MAINT, name="class", flags=())
    overlaps = replace(own, flags=("OVERLAP",))
    assert wall(overlaps, class_, reservation="course", limit_s=9 * HOUR_S) is None
    assert wall(overlaps, MAINT, reservation="course", limit_s=9 * HOUR_S).begin_s == MAINT.start_s
    assert wall(own, replace(MAINT, nodes=("n3",)), reservation="course", limit_s=9 * HOUR_S) is None


@pytest.mark.parametrize(
    ("flag", "days"),
    [("DAILY", [0, 1, 2, 3, 4]), ("WEEKDAY", [0, 1, 4, 5, 6]), ("WEEKLY", [0, 7]), ("MAINT", [0])],
)
def test_recurring_reservations(utc: None, flag: str, days: list[int]) -> None:
    one = SlurmReservation("r", NOW_S, NOW_S + HOUR_S, ("n1",), (flag,))
    found = list(occurrences(one, NOW_S + 8 * DAY_S))
    assert [(k.start_s - NOW_S) // DAY_S for k in found][: len(days)] == days
    assert {k.end_s - k.start_s for k in found} == {HOUR_S}


def test_weekends_and_hours(utc: None) -> None:
    saturday = SlurmReservation("r", NOW_S + 2 * DAY_S, NOW_S + 2 * DAY_S + 60, ("n1",), ("WEEKEND",))
    assert [(k.start_s - NOW_S) // DAY_S for k in occurrences(saturday, NOW_S + 10 * DAY_S)] == [2, 3, 9]
    hourly = SlurmReservation("r", NOW_S, NOW_S + 60, ("n1",), ("HOURLY",))
    assert len(list(occurrences(hourly, NOW_S + DAY_S))) == 24


def test_a_day_of_the_local_clock_has_an_hour_more_as_summer_time_ends(newfoundland: None) -> None:
    start_s = 1_793_502_000  # 2026-10-31T22:00 UTC, a day before
    one = SlurmReservation("r", start_s, start_s + 60, ("n1",), ("DAILY",))
    first, second = list(occurrences(one, start_s + 2 * DAY_S))[:2]
    assert second.start_s - first.start_s == DAY_S + HOUR_S


def test_the_next_day_of_a_recurring_reservation_is_a_wall(utc: None) -> None:
    daily = replace(MAINT, flags=("MAINT", "DAILY"))
    found = wall(daily, start_s=MAINT.end_s)
    assert (found.begin_s, found.until_s) == (MAINT.start_s + DAY_S, MAINT.end_s + DAY_S)
