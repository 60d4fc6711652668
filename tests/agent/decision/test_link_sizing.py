"""The size of the next link before a reservation, and what the chain reports about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.chain.submission import begin_attempt
from mirage.agent.decision.link_sizing import LinkSizing, ReservedTime, size_before
from mirage.agent.model import ChainState, Link
from mirage.agent.settings import AgentSettings
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.errors import SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import SlurmReservation, Submission
from tests.support.one_chain import MACHINE, NOW_S, OneChain, ended, held, job, planned, queued, running

ALL = ("n1", "n2", "n3", "n4")

DAY_LONG = {"limit_s": 24 * HOUR_S}


def maintenance(begins_in_s: int, lasts_s: int = 2 * HOUR_S, **known: Any) -> SlurmReservation:
    start_s = NOW_S + begins_in_s
    return SlurmReservation(
        **{"name": "maint", "nodes": ALL, "flags": ("MAINT",), **known}, start_s=start_s, end_s=start_s + lasts_s
    )


class Sized:
    """A chain with reservations, and the sizing of its next link."""

    def __init__(self, folder: Path, *links: Link, **spec: Any) -> None:
        (folder / "job.sh").write_text("#!/bin/sh\n")
        options = spec.pop("options", {"time": "24:00:00"})
        submission = Submission(str(folder / "job.sh"), options)
        self.world = OneChain(*links, submission=submission, grace_s=60, **spec)
        self.world.context.machine = MACHINE
        self.sizing = LinkSizing()

    def update(self, *reservations: SlurmReservation, after_s: int = 0) -> Sized:
        context = self.world.context
        context.now_s += after_s
        context.reservations = reservations
        jobs = [
            job(one.job, JobState.RUNNING if one.started_s != MISSING else JobState.PENDING, one.number, nodes=1)
            for one in self.world.links
            if one.job > 0 and one.ended_s == MISSING
        ]
        self.world.shows(*jobs)
        self.sizing.update(context, self.world.chain)
        return self

    @property
    def limits(self) -> list[tuple[object, ...]]:
        """The limits that were requested from Slurm, in minutes."""
        return [call[2]["TimeLimit"] for call in self.world.slurm.calls if call[0] == "update"]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.world.store.reported]

    @property
    def reserved(self) -> tuple[int, int, str] | None:
        """Begin and end of the reserved time, from now on, and the reservation."""
        found = ReservedTime.of(self.world.chain.reserved)
        return None if found is None else (found.from_s - NOW_S, found.until_s - NOW_S, found.name)


def test_without_reservations_nothing_happens(tmp_path: Path) -> None:
    world = Sized(tmp_path, running(1, **DAY_LONG), held(2, **DAY_LONG)).update()
    assert (world.limits, world.kinds, world.world.chain.reserved) == ([], [], "")


def test_a_waiting_link_gets_the_time_that_is_left_without_a_tenth(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    assert world.limits == ["216"]
    link = world.world.links[0]
    assert (link.limit_s, link.shortened_from_s) == (216 * 60, 24 * HOUR_S)
    assert world.kinds == ["sized", "reserved"]
    details = [event.detail for event in world.world.store.reported]
    assert details[0].startswith("job 101: its limit is 03:36:00 in place of 1-00:00:00, to end before reservation ma")
    assert details[1].endswith(": reservation maint (MAINT)")
    assert world.reserved == (4 * HOUR_S, 6 * HOUR_S, "maint")


def test_of_several_waiting_links_the_next_one_is_sized(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG), queued(2, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    assert [link.shortened_from_s for link in world.world.links] == [24 * HOUR_S, MISSING]


def test_a_held_link_is_sized_for_the_end_of_the_running_one(tmp_path: Path) -> None:
    before = running(1, started_s=NOW_S - 20 * HOUR_S, **DAY_LONG)
    world = Sized(tmp_path, before, held(2, **DAY_LONG)).update(maintenance(14 * HOUR_S))
    assert world.limits == ["570"], "ten hours, without half an hour"


def test_the_limit_is_lowered_again_only_when_the_wait_has_used_the_slack(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    for _ in range(12):
        world.update(maintenance(4 * HOUR_S), after_s=2 * MINUTE_S)
    assert world.limits == ["216"], "24 minutes of slack"
    world.update(maintenance(4 * HOUR_S), after_s=MINUTE_S)
    assert world.limits == ["216", "193"]
    assert world.kinds == ["sized", "reserved", "sized"], "one message for one reservation"


def test_below_the_shortest_link_it_waits_with_its_own_limit(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(80 * MINUTE_S))
    assert world.limits == ["72"]
    world.update(maintenance(80 * MINUTE_S), after_s=7 * MINUTE_S)
    assert world.limits == ["72"]
    world.update(maintenance(80 * MINUTE_S), after_s=8 * MINUTE_S)
    assert world.limits == ["72", "1440"], "65 minutes are left, without a tenth less than an hour"
    assert world.world.links[0].shortened_from_s == MISSING
    assert world.reserved == (15 * MINUTE_S, 200 * MINUTE_S, "maint"), "no link has run yet"
    world.update(maintenance(80 * MINUTE_S), after_s=90 * MINUTE_S)
    assert world.limits == ["72", "1440"]
    world.update(after_s=2 * HOUR_S)
    assert (world.limits, world.reserved) == (["72", "1440"], None)
    assert world.kinds == ["sized", "reserved", "sized-back", "reserved-over"]


@pytest.mark.parametrize(
    ("spec", "left_s", "limits"),
    [
        ({}, 60 * MINUTE_S, []),
        ({"shortest_link_s": 30 * MINUTE_S}, 60 * MINUTE_S, ["54"]),
        ({"shortest_link_s": 24 * HOUR_S}, 23 * HOUR_S, []),
        ({"least_limit_s": 2 * HOUR_S}, 2 * HOUR_S, []),  # --time-min
        ({"warmup_s": 3 * HOUR_S}, 3 * HOUR_S, []),
    ],
)
def test_the_shortest_link_is_the_users(tmp_path: Path, spec: dict[str, int], left_s: int, limits: list[str]) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG), **spec).update(maintenance(left_s))
    assert world.limits == limits
    assert world.reserved == (left_s if limits else 0, left_s + 2 * HOUR_S, "maint")


def test_the_interruption_begins_with_the_end_of_the_last_link(tmp_path: Path) -> None:
    before = ended(1, ended_s=NOW_S - 300)
    assert Sized(tmp_path, before, queued(2, **DAY_LONG)).update(maintenance(60)).reserved == (-300, 7_260, "maint")
    before = running(1, started_s=NOW_S - HOUR_S, limit_s=2 * HOUR_S)
    world = Sized(tmp_path, before, held(2, **DAY_LONG)).update(maintenance(90 * MINUTE_S))
    assert (world.limits, world.reserved) == ([], (HOUR_S, 210 * MINUTE_S, "maint"))


def test_a_planned_link_is_submitted_with_its_size(tmp_path: Path) -> None:
    before = ended(1, shortened_from_s=24 * HOUR_S, limit_s=HOUR_S)
    for options in ({"time": "1-0"}, {}):  # by an option, or as the link before it
        world = Sized(tmp_path, before, planned(2), options=options).update(maintenance(4 * HOUR_S))
        link = world.world.links[1]
        assert (link.limit_s, link.shortened_from_s, world.limits) == (216 * 60, 24 * HOUR_S, [])
        world.world.store.attempt = lambda *_: True  # type: ignore[attr-defined]
        attempt = begin_attempt(world.world.store, world.world.chain, link, None, NOW_S)  # type: ignore[arg-type]
        assert attempt is not None
        assert attempt.submission.options["time"] == "216"
        world.update()
        assert (world.world.links[1].limit_s, world.world.links[1].shortened_from_s) == (MISSING, MISSING)


def test_a_deleted_or_moved_reservation_gives_the_time_back(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    world.update(maintenance(4 * HOUR_S + 20 * MINUTE_S))
    assert world.limits == ["216"], "not much longer"
    world.update(maintenance(8 * HOUR_S))
    assert world.limits == ["216", "450"]
    world.update()
    assert world.limits == ["216", "450", "1440"]
    assert world.kinds == ["sized", "reserved", "reserved", "sized", "reserved", "sized-back", "reserved-over"]


def test_a_refused_limit_is_logged_once(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    world.world.slurm.refuses["update"] = "Access/permission denied"  # another version may not raise limits
    for _ in range(3):
        world.update(after_s=10 * MINUTE_S)
    assert world.kinds == ["sized", "reserved", "size-refused", "reserved-over"]
    assert world.world.links[0].shortened_from_s == 24 * HOUR_S
    world = Sized(tmp_path, queued(1, **DAY_LONG))
    world.world.slurm.refuses["update"] = "Job is no longer pending execution"
    assert world.update(maintenance(4 * HOUR_S)).kinds == ["reserved"], "it has started"


def test_enough_other_nodes_need_no_size_unless_slurm_reports_a_reservation(tmp_path: Path) -> None:
    some = maintenance(4 * HOUR_S, nodes=("n1", "n2"))
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(some)
    assert (world.limits, world.reserved) == ([], None)
    link = world.world.links[0]
    blocked = job(link.job, JobState.PENDING, 1, reason="ReqNodeNotAvail, Reserved for maintenance")
    world.world.shows(blocked)
    world.sizing.update(world.world.context, world.world.chain)
    assert world.limits == ["216"], "a feature that only reserved nodes have"
    assert world.update(some).limits == ["216"], "the reason is gone, the reservation is not"


def test_a_link_without_a_limit_is_sized_too(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, limit_s=UNLIMITED_S)).update(maintenance(4 * HOUR_S))
    assert world.update().limits == ["216", "UNLIMITED"]


def test_a_reservation_that_begins_before_the_running_link_ends_is_reported(tmp_path: Path) -> None:
    before = running(1, started_s=NOW_S - HOUR_S, limit_s=9 * HOUR_S)
    world = Sized(tmp_path, before, held(2, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    assert (world.limits, world.reserved) == ([], (4 * HOUR_S, 6 * HOUR_S, "maint"))


def test_a_paused_chain_has_no_reserved_time(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S))
    world.world.context.change_chain(world.world.chain, state=ChainState.PAUSED)
    assert world.update(maintenance(4 * HOUR_S)).reserved is None


def test_a_floating_reservation_is_reported_once(tmp_path: Path) -> None:
    known: dict[str, Any] = {"flags": ("TIME_FLOAT",)}
    world = Sized(tmp_path, queued(1, **DAY_LONG)).update(maintenance(4 * HOUR_S, **known))
    for minutes in (2, 4, 6):
        world.update(maintenance(4 * HOUR_S + minutes * MINUTE_S, **known), after_s=2 * MINUTE_S)
    assert (world.limits, world.kinds.count("reserved")) == (["216"], 1)


def test_an_unanswered_update_is_repeated(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG))

    def unanswered(*_: object) -> None:
        raise SlurmUnreachable("no answer")

    answer, world.world.slurm.update = world.world.slurm.update, unanswered  # type: ignore[method-assign]
    with pytest.raises(SlurmUnreachable):
        world.update(maintenance(4 * HOUR_S))
    assert (world.world.links[0].limit_s, world.world.links[0].shortened_from_s) == (24 * HOUR_S, 24 * HOUR_S)
    world.world.slurm.update = answer  # type: ignore[method-assign]
    assert world.update(maintenance(4 * HOUR_S)).limits == ["216"]


@pytest.mark.parametrize(
    ("left_s", "every_s", "size_s"),
    [(10 * HOUR_S, 0, 570 * 60), (HOUR_S, 0, 54 * 60), (5 * MINUTE_S, 0, 240), (HOUR_S, 900, 45 * 60), (30, 0, 0)],
)
def test_sizes(left_s: int, every_s: int, size_s: int) -> None:
    assert size_before(NOW_S + left_s, NOW_S, every_s) == size_s


def test_an_agent_that_was_killed_after_the_update_leaves_the_usual_limit_in_the_store(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG), options={})
    world.world.store.change_link(1, 1, limit_s=216 * 60, shortened_from_s=24 * HOUR_S)  # as Slurm shows it
    world.world.context.links[1] = list(world.world.store.links(1))
    assert world.update().limits == ["1440"]


def test_an_agent_that_was_killed_next_to_an_update_leaves_no_limit_that_is_out_of_date(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, shortened_from_s=24 * HOUR_S, **DAY_LONG)).update()
    assert (world.limits, world.kinds, world.world.links[0].shortened_from_s) == ([], [], MISSING)


@pytest.mark.parametrize(
    ("minutes", "left_h", "size"),
    [(120, 4, (MISSING, MISSING)), (300, 4, (216, 300)), (216, 24, (MISSING, MISSING)), (100, 1, (54, 100))],
)
def test_a_planned_link_follows_an_edit_of_its_limit(
    tmp_path: Path, minutes: int, left_h: int, size: tuple[int, int]
) -> None:
    before = planned(1, limit_s=216 * MINUTE_S, shortened_from_s=24 * HOUR_S)
    world = Sized(tmp_path, before, options={"time": str(minutes)}).update(maintenance(left_h * HOUR_S))
    link = world.world.links[0]
    assert (link.limit_s, link.shortened_from_s) == tuple(m if m == MISSING else m * MINUTE_S for m in size)


@pytest.mark.parametrize(
    ("minutes", "budget_h", "size"), [(39, 0.0, (MISSING, MISSING)), (32, 0.0, (8, 32)), (39, 0.4, (24, 39))]
)
def test_a_planned_link_follows_an_edit_while_the_nodes_are_not_known(
    tmp_path: Path, minutes: int, budget_h: float, size: tuple[int, int]
) -> None:
    before = planned(1, limit_s=8 * MINUTE_S, shortened_from_s=32 * MINUTE_S)
    world = Sized(tmp_path, before, options={"time": str(minutes)}, budget_node_h=budget_h)
    world.world.context.machine = None
    world.update(maintenance(HOUR_S))
    link = world.world.links[0]
    assert (link.limit_s, link.shortened_from_s) == tuple(m if m == MISSING else m * MINUTE_S for m in size)


def test_a_link_without_an_answer_of_sbatch_stays_as_it_was_submitted(tmp_path: Path) -> None:
    before = planned(1, limit_s=216 * MINUTE_S, shortened_from_s=24 * HOUR_S, attempted_s=NOW_S - 1)
    world = Sized(tmp_path, before).update()
    assert (world.world.links[0].limit_s, world.world.links[0].shortened_from_s) == (216 * MINUTE_S, 24 * HOUR_S)


@pytest.mark.parametrize(("budget_h", "limits"), [(24.0, []), (10.51, ["630"]), (0.001, ["1"])])
def test_a_link_stays_within_the_budget(tmp_path: Path, budget_h: float, limits: list[str]) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG), budget_node_h=budget_h).update()
    assert world.limits == limits
    assert world.update().limits == limits
    assert world.kinds == ["sized"] * len(limits)


def test_the_shorter_of_budget_and_reservation_counts(tmp_path: Path) -> None:
    before = running(1, started_s=NOW_S - 20 * HOUR_S, nodelist="n1", **DAY_LONG)
    for budget_h, limit in ((24 + 9, "540"), (24 + 12, "570")):
        world = Sized(tmp_path, before, held(2, **DAY_LONG), budget_node_h=budget_h).update(maintenance(14 * HOUR_S))
        assert world.limits == [limit]


def test_a_pass_leaves_time_until_the_next_one(tmp_path: Path) -> None:
    world = Sized(tmp_path, queued(1, **DAY_LONG))
    world.world.context.settings = replace(AgentSettings(), pass_every_s=3_000)
    assert world.update(maintenance(4 * HOUR_S)).limits == ["190"]


def test_the_reserved_time_is_stored_as_text() -> None:
    one = ReservedTime(1, 2, "we ird")
    assert (str(one), ReservedTime.of(str(one)), ReservedTime.of("")) == ("1 2 we ird", one, None)
