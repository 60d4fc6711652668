"""Revisions of a queued link: the view, the commands to Slurm, and the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.cycle.transitions import steer
from mirage.agent.decision.revision import finish_withdrawal, release_early
from mirage.agent.model import Link, LinkState
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.policy.plan import Action, Hold, Plan, Postpone, Release, Shorten, Submit, Withdraw
from mirage.policy.view import QueuedLink
from mirage.slurm.records import QueuedJob
from tests.support import fickle
from tests.support.one_chain import NOW_S, OneChain, Slurm, queued, running
from tests.support.scripted_policies import SUBMIT, WAIT, Deciding, deciding_chain, pair

HELD, FREE = {"Dependency": "afterany:101"}, {"Dependency": ""}
AT_ONCE = FREE | {"StartTime": "now"}
ENDS_S = 9_000 + 3_600


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fickle.install(tmp_path, monkeypatch)


def jobs(**waiting: Any) -> list[QueuedJob]:
    """The present job, and the one that waits since 60 and gathers age since 61."""
    first, second = pair()
    known = {"dependency": "", "eligible_s": 60, "accrues_s": 61, **waiting}
    return [first, replace(second, **known)]


def thinking(held: bool = False, link: Link | None = None, **waiting: Any) -> Deciding:
    """A chain with a next link that competes, or is held again, and an open question."""
    waiting = ({"dependency": "afterany:101(unfulfilled)", "eligible_s": MISSING} if held else {}) | waiting
    following = link or queued(2, limit_s=3_600)
    following = replace(following, state=LinkState.HELD if held else LinkState.QUEUED)
    world = deciding_chain(running(1, ready_s=9_000), following, policy="fickle:word", signal="USR2", grace_s=120)
    deciding = Deciding(world.shows(*jobs(**waiting)))
    assert deciding.cycle() == 1
    return deciding


def revision(*actions: Action, **how: Any) -> Deciding:
    """The queued chain after an answer."""
    deciding = thinking(**how)
    deciding.runner.reply(Plan(actions))
    deciding.cycle()
    return deciding


def done(deciding: Deciding) -> tuple[list[dict[str, str]], str]:
    """The changes sent to Slurm, and the revision in the decision's record."""
    calls = [call for call in deciding.world.slurm.calls if call[:2] == ("update", 102)]
    assert calls == deciding.world.slurm.calls
    (record,) = deciding.world.store.decided
    assert not record.submits
    return [call[2] for call in calls], record.revision  # type: ignore[misc]


# -- what is told -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "waiting", "reported"),
    [
        (False, {}, QueuedLink(102, 60, 61, 3_600)),
        (False, {"limit_s": 1_800, "accrues_s": MISSING}, QueuedLink(102, 60, MISSING, 1_800)),
        (False, {"eligible_s": NOW_S + 50}, QueuedLink(102, 60, 61, 3_600, begins_s=NOW_S + 50)),
        (True, {}, QueuedLink(102, 60, 61, 3_600, held=True)),
        (True, {"eligible_s": NOW_S + 50}, QueuedLink(102, 60, 61, 3_600, held=True)),
    ],
)
def test_the_policy_is_reported_the_state_of_its_link(
    held: bool, waiting: dict[str, Any], reported: QueuedLink
) -> None:
    (question,) = thinking(held, **waiting).runner.requested
    assert question.form.queued == reported
    assert question.form.limit_s == 3_600, "that of the next links, whatever became of this one"


def test_a_link_that_was_never_released_is_not_queued() -> None:
    deciding = Deciding(deciding_chain(policy="fickle:word"))
    deciding.cycle()
    assert deciding.runner.requested[0].form.queued is None
    deciding.runner.reply(SUBMIT)
    deciding.cycle()
    assert deciding.world.slurm.calls == [("update", 102, FREE)]
    assert deciding.world.store.decided[0].submits
    assert deciding.world.chain.next_decision_s > NOW_S, "and it is asked again at its time"


@pytest.mark.parametrize(
    ("links", "shown"),
    [
        ([running(1, signalled_s=9_500), queued(2)], jobs()),
        ([running(1), queued(2, withdrawn_s=NOW_S)], jobs()),
        ([running(1), running(2)], jobs()),
        ([running(1), queued(2)], [jobs()[0], replace(jobs()[1], user="eve")]),
        ([running(1), queued(2)], jobs()[:1]),
        ([queued(1), running(2)], jobs()),
    ],
    ids=["the present one leaves", "withdrawn", "hand-over", "somebody else's job", "not seen", "overtaken"],
)
def test_no_policy_is_called(links: list[Link], shown: list[QueuedJob]) -> None:
    deciding = Deciding(deciding_chain(*links, policy="fickle:word").shows(*shown))
    assert deciding.cycle() == 0


def test_an_answer_about_the_link_as_it_stood_before_is_dropped() -> None:
    deciding = Deciding(deciding_chain(policy="fickle:word"))
    deciding.cycle()
    deciding.world.context.links[1] = [running(1), queued(2)]
    deciding.world.shows(*jobs())
    deciding.runner.reply(Plan((Hold(reason="r"),)))
    deciding.cycle()
    assert (deciding.world.slurm.calls, deciding.decided) == ([], [])


# -- what is done -------------------------------------------------------------------------------------------


def test_held_again_is_after_the_present_link() -> None:
    deciding = revision(Hold(reason="quiet"))
    assert done(deciding) == ([HELD], "hold")
    link = deciding.world.links[1]
    assert (link.state, link.released_s) == (LinkState.HELD, 60)
    assert deciding.world.events == [(2, "held-again", "job 102: it waits for job 101 again")]
    assert deciding.world.store.decided[0].reason == "quiet"


@pytest.mark.parametrize(
    ("action", "then"),
    [
        (Hold(reason="r"), [HELD]),
        (Postpone(NOW_S + 500, reason="r"), [{"StartTime": f"uts{NOW_S + 500}", "Dependency": ""}]),
        (Shorten(1_800, reason="r"), [HELD, {"TimeLimit": "30"}, FREE]),
        (Withdraw(reason="r"), [HELD]),
    ],
)
def test_further_links_are_held_before_the_next_one_is(action: Action, then: list[dict[str, str]]) -> None:
    deciding = with_further_links(action)
    further = [("update", 104, {"Dependency": "afterany:103"}), ("update", 103, {"Dependency": "afterany:102"})]
    assert deciding.world.slurm.calls == [*further, *(("update", 102, changes) for changes in then)]
    assert [link.state for link in deciding.world.links[2:]] == [LinkState.HELD, LinkState.HELD]
    assert deciding.world.links[1].withdrawn_s == MISSING
    assert deciding.world.events[:2] == [
        (4, "held-again", "job 104: it waits for job 103"),
        (3, "held-again", "job 103: it waits for job 102"),
    ]


def test_further_links_compete_again_after_the_next_one_does() -> None:
    deciding = with_further_links(Release(reason="r"), held=True)
    assert deciding.world.slurm.calls == [("update", 102, AT_ONCE), ("update", 103, FREE), ("update", 104, FREE)]
    assert [link.state for link in deciding.world.links[2:]] == [LinkState.QUEUED, LinkState.QUEUED]


def with_further_links(action: Action, *, held: bool = False) -> Deciding:
    """The chain after an answer about link 2; links 3 and 4 compete, or are held with it."""
    deciding = thinking(held)
    further = [queued(3), queued(4)]
    deciding.world.context.links[1] += [replace(x, state=LinkState.HELD) for x in further] if held else further
    deciding.world.store.rows |= {(1, link.number): link for link in deciding.world.context.links[1]}
    deciding.runner.reply(Plan((action,)))
    deciding.cycle()
    return deciding


def test_held_again_it_is_not_postponed_any_more() -> None:
    assert done(revision(Hold(reason="r"), eligible_s=NOW_S + 50)) == ([HELD | {"StartTime": "now"}], "hold")


def test_released_again() -> None:
    deciding = revision(Release(reason="r"), held=True)
    assert done(deciding) == ([AT_ONCE], "release")
    assert deciding.world.links[1].state is LinkState.QUEUED


@pytest.mark.parametrize(("start_s", "at_s"), [(NOW_S + 500, NOW_S + 500), (ENDS_S + 900, ENDS_S)])
@pytest.mark.parametrize("held", [False, True])
def test_postponed_but_never_beyond_the_present_link(start_s: int, at_s: int, held: bool) -> None:
    deciding = revision(Postpone(start_s, reason="r"), held=held)
    assert done(deciding) == ([{"StartTime": f"uts{at_s}", "Dependency": ""}], "postpone")
    assert deciding.world.links[1].begins_s == at_s


def test_postponed_to_a_moment_that_has_passed_is_a_release() -> None:
    assert done(revision(Postpone(NOW_S, reason="r"), held=True)) == ([AT_ONCE], "release")


def test_shortened_only_where_it_cannot_start_meanwhile() -> None:
    deciding = revision(Shorten(1_859, reason="r"))
    assert done(deciding) == ([HELD, {"TimeLimit": "30"}, FREE], "shorten")
    assert deciding.world.links[1].limit_s == 1_800
    assert done(revision(Shorten(1_859, reason="r"), held=True)) == ([{"TimeLimit": "30"}], "shorten")


@pytest.mark.parametrize("limit_s", [3_600, 7_200, 59, 0])
def test_a_limit_is_never_raised_and_never_none(limit_s: int) -> None:
    assert done(revision(Shorten(limit_s, reason="r"))) == ([], "")


def test_a_refused_action_does_not_stop_the_next_from_being_done() -> None:
    assert done(revision(Shorten(60, reason="a"), Release(reason="b"), held=True)) == ([AT_ONCE], "release")


@pytest.mark.parametrize(("spec", "least"), [({}, "00:03:00"), ({"least_limit_s": 2_000}, "00:33:20")])
def test_a_limit_that_the_chain_cannot_do_with_is_refused_once(spec: dict[str, Any], least: str) -> None:
    deciding = thinking()
    world = deciding.world
    world.store.chains[1] = world.context.chains[1] = replace(world.chain, spec=replace(world.chain.spec, **spec))
    for _ in range(2):
        deciding.runner.reply(Plan((Shorten(120, reason="r"),)))
        deciding.cycle()
        deciding.cycle(60)
    assert world.slurm.calls == []
    assert [event.kind for event in world.store.reported] == ["revision-refused"]
    assert least in deciding.decider.trouble(1)


@pytest.mark.parametrize(
    ("action", "held"),
    [(Hold(reason="r"), True), (Release(reason="r"), False), (Submit(reason="r"), False)],
)
def test_what_is_so_already_is_not_requested(action: Action, held: bool) -> None:
    assert done(revision(action, held=held)) == ([], "")


def test_actions_are_done_in_their_order() -> None:
    deciding = revision(Shorten(1_800, reason="a"), Release(reason="b"), held=True)
    assert done(deciding) == ([{"TimeLimit": "30"}, AT_ONCE], "shorten,release")
    assert deciding.world.store.decided[0].reason == "a; b"


# -- withdrawals --------------------------------------------------------------------------------------------


def withdrawn(world: OneChain) -> Iterator[Link]:
    """The next cycle of a chain, as far as it follows up a withdrawal; then its links."""
    finish_withdrawal(world.context, world.chain)
    steer(world.context, world.chain, [link for link in world.links if link.state is LinkState.ENDED])
    return iter(world.links)


def test_withdrawn_and_requested_anew_by_the_next_cycle() -> None:
    deciding = revision(Withdraw(reason="r"))
    world = deciding.world
    assert done(deciding) == ([], "withdraw")
    assert (world.links[1].withdrawn_s, world.chain.next_decision_s) == (NOW_S, NOW_S + 1)
    _, old, new = withdrawn(world)
    assert world.slurm.calls == [("update", 102, HELD), ("cancel", 102)]
    assert old.was_withdrawn
    assert (new.number, new.state, new.place) == (3, LinkState.PLANNED, 2)
    assert (world.chain.state, world.chain.failures) == ("active", 0)


def test_a_withdrawn_link_does_not_count_as_one_of_the_chain() -> None:
    world = revision(Withdraw(reason="r")).world
    world.store.chains[1] = world.context.chains[1] = replace(world.chain, spec=replace(world.chain.spec, links=2))
    assert [link.number for link in withdrawn(world)] == [1, 2, 3]


def test_near_the_end_of_the_present_link_it_is_only_held() -> None:
    deciding = thinking()
    deciding.world.context.now_s = ENDS_S - 150
    deciding.runner.reply(Plan((Withdraw(reason="r"),)))
    deciding.decider.open[1].requested_s = ENDS_S - 150
    deciding.cycle()
    assert done(deciding) == ([HELD], "hold")


@pytest.mark.parametrize(
    ("links", "later_s"),
    [
        ([running(1), running(2, withdrawn_s=NOW_S)], 1),
        ([queued(2, withdrawn_s=NOW_S)], 1),
        ([running(1), queued(2, withdrawn_s=NOW_S)], 301),
    ],
    ids=["it has started", "the present one has ended", "long ago"],
)
def test_an_unwanted_withdrawal_is_forgotten(links: list[Link], later_s: int) -> None:
    world = deciding_chain(*links).shows(*jobs())
    world.context.now_s += later_s
    finish_withdrawal(world.context, world.chain)
    assert world.slurm.calls == []
    assert {link.withdrawn_s for link in world.links} == {MISSING}


def test_a_link_that_started_as_it_was_to_be_withdrawn_is_not_cancelled() -> None:
    world = deciding_chain(running(1), queued(2, withdrawn_s=NOW_S)).shows(*jobs())
    world.slurm.refuses["update"] = "Job is no longer pending execution for job 102"
    finish_withdrawal(world.context, world.chain)
    assert world.slurm.calls == []
    assert world.links[1].withdrawn_s == MISSING
    assert [kind for _, kind, _ in world.events] == ["revision-too-late"]


# -- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["Job is no longer pending execution for job 102", "Job has already finished for job 102"]
)
def test_a_link_that_has_started_meanwhile_is_no_trouble(words: str) -> None:
    deciding = thinking()
    deciding.world.slurm.refuses["update"] = words
    deciding.runner.reply(Plan((Hold(reason="r"),)))
    deciding.cycle()
    assert deciding.decider.trouble(1) == ""
    ((_, kind, detail),) = deciding.world.events
    assert (kind, words in detail) == ("revision-too-late", True)
    assert deciding.world.links[1].state is LinkState.QUEUED


def test_a_refusal_is_reported_in_slurm_s_words_and_written_down_once() -> None:
    deciding = thinking()
    deciding.world.slurm.refuses["update"] = "Access/permission denied"
    for _ in range(2):
        deciding.runner.reply(Plan((Hold(reason="r"),)))
        deciding.cycle()
        assert deciding.decider.trouble(1) == "job 102: hold was refused: Access/permission denied"
        deciding.cycle(60)
    assert [event.kind for event in deciding.world.store.reported] == ["revision-refused"]
    deciding.world.slurm.refuses.clear()
    deciding.runner.reply(WAIT)
    deciding.cycle()
    assert deciding.decider.trouble(1) == ""


class NoLimits(Slurm):
    """Changes everything but limits."""

    def update(self, job: int | Sequence[int], changes: dict[str, str]) -> None:  # type: ignore[override]
        if "TimeLimit" in changes:
            raise SlurmRefused("Invalid time-min specification")
        super().update(job, changes)  # type: ignore[arg-type]


def test_a_link_with_a_refused_limit_competes_on() -> None:
    deciding = thinking()
    deciding.world.slurm = deciding.world.context.backend = NoLimits()
    deciding.runner.reply(Plan((Shorten(1_800, reason="r"),)))
    deciding.cycle()
    assert done(deciding) == ([HELD, FREE], "")
    assert "Invalid time-min" in deciding.decider.trouble(1)


class Away(Slurm):
    """Does not answer."""

    def update(self, job: object, changes: object) -> None:  # type: ignore[override]
        self.calls.append(("update", job))
        raise SlurmUnreachable("Socket timed out")


def test_a_controller_that_is_away_is_called_once_and_nothing_changes() -> None:
    deciding = thinking()
    deciding.world.other(2, running(1, job=201), queued(2, job=202, limit_s=3_600), key="geese")
    other = [replace(job, comment=job.comment.replace("deer", "geese"), id=job.id + 100) for job in jobs()]
    deciding.world.shows(*jobs(), *other)
    deciding.cycle()
    deciding.world.slurm = deciding.world.context.backend = Away()
    for number in (1, 2):
        deciding.runner.reply(Plan((Hold(reason="r"),)), chain=number)
    deciding.cycle()
    assert len(deciding.world.slurm.calls) == 1
    assert all(deciding.decider.trouble(number) for number in (1, 2))
    assert deciding.world.links[1].state is LinkState.QUEUED


def test_one_chain_s_trouble_is_its_own() -> None:
    deciding = thinking()
    deciding.world.other(2, running(1, job=201), queued(2, job=202, limit_s=3_600), key="geese")
    other = [replace(job, comment=job.comment.replace("deer", "geese"), id=job.id + 100) for job in jobs()]
    deciding.world.shows(*jobs(), *other)
    deciding.cycle()
    deciding.world.slurm.refuses["update", 102] = "no"
    for number in (1, 2):
        deciding.runner.reply(Plan((Hold(reason="r"),)), chain=number)
    deciding.cycle()
    assert deciding.world.slurm.calls == [("update", 202, {"Dependency": "afterany:201"})]
    assert [bool(deciding.decider.trouble(number)) for number in (1, 2)] == [True, False]


def test_the_fall_back_releases_a_held_link_in_time_and_leaves_a_queued_one_alone() -> None:
    for held, expected in ((True, ([AT_ONCE], "release")), (False, ([], ""))):
        deciding = thinking(held)
        deciding.ended = Deciding(waits_s=[5_000] * 60).ended
        deciding.cycle(60)
        assert done(deciding) == expected
        assert deciding.world.store.decided[0].policy == "fall-back for fickle:word"


def test_a_link_that_was_postponed_is_released_once_the_present_one_has_ended() -> None:
    world = deciding_chain(queued(2, begins_s=NOW_S + 500)).shows(jobs(eligible_s=NOW_S + 500)[1])
    release_early(world.context, world.chain)
    release_early(world.context, world.chain)
    assert world.slurm.calls == [("update", 102, {"StartTime": "now"})]
    assert [kind for _, kind, _ in world.events] == ["released-again"]


def test_a_begin_time_that_is_not_ours_is_left_alone() -> None:
    world = deciding_chain(queued(2)).shows(jobs(eligible_s=NOW_S + 500)[1])
    release_early(world.context, world.chain)
    assert world.slurm.calls == []
