"""Links updated from the cluster: adopted, followed, given up, released."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.cycle.reconcile import Reconciler, cancel_doubles, candidates
from mirage.agent.model import Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.job_state import JobState
from mirage.slurm.records import AccountedJob, QueuedJob
from tests.support.one_chain import NOW_S, USER, OneChain, Slurm, ended, held, planned, queued, running, tagged
from tests.support.one_chain import job as job_of

SETTINGS = AgentSettings(settle_s=90, vanish_s=120, failures=2)


def followed(world: OneChain, reconciler: Reconciler | None = None) -> Reconciler:
    reconciler = reconciler or Reconciler()
    reconciler.follow(world.context, world.context.chains[1])
    return reconciler


def job(number: int, state: JobState = JobState.PENDING, link: int = 0, **known: object) -> QueuedJob:
    return job_of(number, state, link, **known)


def accounted(number: int, state: JobState, link: int = 0, **known: object) -> AccountedJob:
    comment = tagged(link) if link else ""
    return AccountedJob(number, state, user=USER, comment=comment, **{"submit_s": 50, **known})


# -- a word that does not count ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "words", "spec", "ignored"),
    [
        (running(1, ready_s=9_000), "ready@9001", {}, True),
        (running(1, ready_s=9_600), "ready@9700", {"warmup_s": 600}, True),
        (running(1, ready_s=9_100), "ready@9100", {"warmup_s": 600}, False),  # before the warm-up was over
        (running(1, ready_s=9_000), "ready@8000", {}, False),  # of a run before a requeue
        (running(1, ready_s=9_000), "done", {}, False),
        (running(1), "ready@9001", {}, True),
        (running(1, ready_s=9_001), "ready@9002", {"ready_by_job": True}, False),
        (running(1, ready_s=9_001), "ready@9002", {"ready_command": "true"}, False),
    ],
)
def test_a_word_that_does_not_count_is_logged_once(
    link: Link, words: str, spec: dict[str, object], ignored: bool
) -> None:
    world = OneChain(link, **spec).shows(job(101, JobState.RUNNING, 1, start_s=9_000, limit_s=3_600, words=words))
    reconciler = followed(world)
    followed(world, reconciler)
    followed(world)  # another agent
    why = "job 101 reported ready, but the chain was submitted without --ready-by-job and does not wait for that"
    assert [event for event in world.events if event[1] == "ready-ignored"] == [(1, "ready-ignored", why)] * ignored


@pytest.mark.parametrize(
    ("words", "spec", "ready_s"),
    [
        ("ready@9004", {}, 9_000),
        ("ready@9100", {"warmup_s": 600}, 9_100),
        ("ready@9700", {"warmup_s": 600}, 9_600),
        ("ready@9700", {"ready_by_job": True}, 9_700),
        ("ready@9700", {"ready_command": "false"}, 9_700),
    ],
)
def test_a_word_from_before_the_first_poll_counts_no_more_than_a_later_one(
    words: str, spec: dict[str, object], ready_s: int
) -> None:
    world = OneChain(queued(1), **spec).shows(job(101, JobState.RUNNING, 1, start_s=9_000, words=words))
    followed(world)
    assert world.links[0].ready_s == ready_s
    assert ("ready-ignored" in [kind for _, kind, _ in world.events]) == (ready_s in (9_000, 9_600))


# -- followed -----------------------------------------------------------------------------------------------


def test_a_link_follows_its_job() -> None:
    world = OneChain(queued(1)).shows(job(101, JobState.RUNNING, start_s=9_900))
    reconciler = followed(world)
    assert (world.links[0].state, world.links[0].started_s) == (LinkState.RUNNING, 9_900)
    assert [(link, kind) for link, kind, _ in world.events] == [(1, "started")]
    assert reconciler.missing == {}


def test_links_follow_their_own_jobs() -> None:
    world = OneChain(running(1), queued(2)).shows(
        job(101, JobState.TIMEOUT, start_s=9_000, end_s=9_990), job(102, JobState.RUNNING, start_s=9_995)
    )
    followed(world)
    assert [link.state for link in world.links] == [LinkState.ENDED, LinkState.RUNNING]


@pytest.mark.parametrize("link", [ended(1), planned(1)])
def test_what_is_over_or_was_never_tried_is_not_searched(link: Link) -> None:
    world = OneChain(link, settings=SETTINGS).shows(job(101, JobState.RUNNING, start_s=5, link=1), has_accounting=True)
    assert followed(world).missing == {}
    assert (world.links, world.events, world.slurm.calls) == ([link], [], [])


def test_a_chain_without_links_is_left_alone() -> None:
    assert followed(OneChain()).missing == {}


def test_nothing_new_is_nothing_written() -> None:
    world = OneChain(held(1)).shows(job(101, dependency="afterany:7(unfulfilled)"))
    followed(world)
    assert (world.links, world.events) == ([held(1)], [])


# -- adopted ------------------------------------------------------------------------------------------------


def test_a_link_without_an_answer_finds_its_job_by_the_tag() -> None:
    link = planned(2, attempted_s=9_900)
    world = OneChain(running(1), link).shows(
        job(101, JobState.RUNNING, start_s=9_000, link=1, eligible_s=60), job(250, link=2, submit_s=9_901)
    )
    followed(world)
    assert (world.links[1].job, world.links[1].state) == (250, LinkState.QUEUED)
    assert [(number, kind) for number, kind, _ in world.events] == [(2, "found")]


def test_a_job_older_than_the_attempt_is_of_an_attempt_before() -> None:
    world = OneChain(planned(2, attempted_s=9_900)).shows(
        job(252, link=2, submit_s=9_599), job(251, link=2, submit_s=9_600), job(250, link=2, submit_s=9_950)
    )
    chain, (link,) = world.context.chains[1], world.links
    assert [found.id for found in candidates(world.context, chain, link)] == [250, 251]
    assert candidates(world.context, chain, planned(3)) == []


def test_of_two_jobs_with_one_tag_the_first_is_stored_and_the_other_ended() -> None:
    world = OneChain(planned(2, attempted_s=40)).shows(job(300, link=2), job(299, link=2))
    followed(world)
    assert world.links[0].job == 299
    assert world.slurm.calls == [("cancel", 300)]
    assert world.events[-1] == (2, "double-cancelled", "job 300 in addition to job 299")


@pytest.mark.parametrize(
    ("link", "double", "ends"),
    [
        (running(1), job(7, JobState.RUNNING), True),
        (running(1), job(7, JobState.SUSPENDED), True),
        (running(1), job(7, JobState.CANCELLED), False),
        (running(1), job(101, JobState.RUNNING), False),
        (planned(1, attempted_s=40), job(7, JobState.RUNNING), False),
    ],
)
def test_only_another_living_job_is_a_double(link: Link, double: QueuedJob, ends: bool) -> None:
    world = OneChain(link)
    cancel_doubles(world.context, world.chain, link, [double])
    assert world.slurm.calls == ([("cancel", 7)] if ends else [])
    assert len(world.events) == int(ends)


def test_a_double_that_may_not_be_cancelled_is_a_trouble_and_no_event() -> None:
    world = OneChain(running(1)).shows(job(101, JobState.RUNNING, 1, start_s=9_000), job(300, link=1))
    world.slurm.refuses["cancel"] = "Access/permission denied"
    followed(world)
    assert (world.links, world.events) == ([running(1)], [])
    assert world.trouble == "job 300 cannot be cancelled (job 300 in addition to job 101): Access/permission denied"


@pytest.mark.parametrize(
    "other", [{"user": "eve"}, {"comment": tagged(1, store="fern")}, {"comment": tagged(1, key="geese")}]
)
def test_the_same_name_and_number_of_another_chain_is_no_double(other: dict[str, str]) -> None:
    ours, theirs = job(101, JobState.RUNNING, 1, start_s=9_000), job(300, JobState.RUNNING, 1, start_s=9_000)
    world = OneChain(running(1)).shows(ours, replace(theirs, **other))
    followed(world)
    assert (world.links, world.events, world.slurm.calls) == ([running(1)], [], [])


@pytest.mark.parametrize("other", [{"user": "eve"}, {"comment": tagged(2)}, {"comment": tagged(1, store="fern")}])
def test_a_number_of_another_job_is_not_followed(other: dict[str, str]) -> None:
    reused = replace(job(101, JobState.FAILED, 1, start_s=9_000, end_s=9_900), **other)
    world = OneChain(running(1)).shows(reused)
    assert followed(world).missing == {(1, 1): NOW_S}
    assert (world.links, world.events) == ([running(1)], [])
    gone = accounted(101, JobState.FAILED, 2, start_s=9_000, end_s=9_900)
    world = OneChain(running(1), settings=SETTINGS).shows(ended=(gone,))
    followed(world)
    assert (world.links, world.events) == ([running(1)], [])


def test_a_job_with_a_replaced_comment_is_followed_by_its_number() -> None:
    world = OneChain(queued(1)).shows(job(101, JobState.RUNNING, comment="billed to physics", start_s=9_900))
    followed(world)
    assert world.links[0].state is LinkState.RUNNING


def test_accounting_finds_a_job_that_came_and_went() -> None:
    known = accounted(250, JobState.FAILED, 2, submit_s=9_840, start_s=9_905, end_s=9_950, exit_code=3)
    world = OneChain(planned(2, attempted_s=9_900)).shows(ended=(known,))
    reconciler = followed(world)
    (link,) = world.links
    assert (link.job, link.state, link.outcome, link.exit_code) == (250, LinkState.ENDED, JobState.FAILED, 3)
    assert reconciler.missing == {}


def test_accounting_of_an_attempt_before_is_not_this_one() -> None:
    known = accounted(250, JobState.FAILED, 2, submit_s=9_599, start_s=9_840, end_s=9_850)
    world = OneChain(planned(2, attempted_s=9_900)).shows(ended=(known,))
    assert followed(world).missing == {}
    assert (world.links[0].job, world.links[0].attempted_s) == (-1, -1), "it is submitted again"


# -- given up -----------------------------------------------------------------------------------------------


def test_accounting_reports_how_a_forgotten_job_ended() -> None:
    world = OneChain(running(1)).shows(
        ended=(accounted(101, JobState.OUT_OF_MEMORY, start_s=9_000, end_s=9_500), accounted(9, JobState.FAILED))
    )
    reconciler = Reconciler()
    reconciler.missing[1, 1] = 9_000
    followed(world, reconciler)
    assert (world.links[0].outcome, world.links[0].ended_s) == (JobState.OUT_OF_MEMORY, 9_500)
    assert reconciler.missing == {}


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("missing_s", [3_599, 3_600])
def test_a_job_that_accounting_retains_alive_is_waited_for_an_hour(missing_s: int, answers: bool) -> None:
    stored = (accounted(101, JobState.RUNNING, start_s=9_000),) if answers else ()
    world = OneChain(running(1), settings=SETTINGS).shows(ended=stored, has_accounting=answers)
    reconciler = Reconciler()
    reconciler.missing[1, 1] = NOW_S - missing_s
    followed(world, reconciler)
    gone = missing_s == 3_600
    assert (world.links[0].state is LinkState.ENDED) is gone
    assert world.events == ([(1, "vanished", "job 101 is not in the queue any more")] if gone else [])
    assert reconciler.missing == ({} if gone else {(1, 1): NOW_S - missing_s})


@pytest.mark.parametrize(
    ("since_s", "has_accounting", "gone"),
    [(NOW_S - 120, True, True), (NOW_S - 119, True, False), (NOW_S - 120, False, False)],
)
def test_an_unknown_job_is_given_up_after_a_while(since_s: int, has_accounting: bool, gone: bool) -> None:
    world = OneChain(running(1), settings=SETTINGS).shows(has_accounting=has_accounting)
    reconciler = Reconciler()
    reconciler.missing[1, 1] = since_s
    followed(world, reconciler)
    assert (world.links[0].state is LinkState.ENDED) is gone
    assert reconciler.missing == ({} if gone else {(1, 1): since_s})
    assert world.events == ([(1, "vanished", "job 101 is not in the queue any more")] if gone else [])


def test_a_job_observed_again_is_not_missing_any_more() -> None:
    reconciler = followed(OneChain(running(1)))
    assert reconciler.missing == {(1, 1): NOW_S}
    followed(OneChain(running(1)).shows(job(101, JobState.RUNNING, start_s=9_000)), reconciler)
    assert reconciler.missing == {}


@pytest.mark.parametrize(
    ("attempted_s", "has_accounting", "again"),
    [(NOW_S - 90, True, True), (NOW_S - 89, True, False), (NOW_S - 90, False, False)],
)
def test_a_submission_of_which_nothing_is_observed_is_tried_again(
    attempted_s: int, has_accounting: bool, again: bool
) -> None:
    world = OneChain(planned(2, attempted_s=attempted_s), settings=SETTINGS).shows(has_accounting=has_accounting)
    followed(world)
    assert world.links == [planned(2, attempted_s=-1 if again else attempted_s)]
    text = "no job carries its tag; it will be submitted again"
    assert world.events == ([(2, "unsubmitted", text)] if again else [])


@pytest.mark.parametrize("missing_s", [3_599, 3_600])
def test_without_accounting_the_queue_alone_shows_that_there_is_no_job(missing_s: int) -> None:
    world = OneChain(planned(2, attempted_s=5_000), settings=SETTINGS).shows(has_accounting=False)
    reconciler = Reconciler()
    reconciler.missing[1, 2] = NOW_S - missing_s
    followed(world, reconciler)
    again = missing_s == 3_600
    assert world.links == [planned(2, attempted_s=-1 if again else 5_000)]
    assert reconciler.missing == ({} if again else {(1, 2): NOW_S - missing_s})


def test_a_link_that_is_to_be_submitted_again_is_not_missing() -> None:
    world = OneChain(planned(2, attempted_s=5_000), settings=SETTINGS).shows(has_accounting=True)
    reconciler = followed(world)
    assert reconciler.missing_since_s(world.links) is None, "else accounting is read from 1970 on"


def test_the_oldest_link_not_observed_reports_how_much_history_to_read() -> None:
    reconciler = Reconciler()
    links = [running(1, attempted_s=700), running(2, attempted_s=300), running(3, attempted_s=100)]
    assert reconciler.missing_since_s(links) is None
    reconciler.missing = {(1, 1): 5, (1, 2): 6, (2, 3): 7}
    assert reconciler.missing_since_s(links) == 300
    assert reconciler.missing_since_s(links[:1]) == 700
    assert reconciler.missing_since_s([running(9)]) is None


# -- let go -------------------------------------------------------------------------------------------------

HELD_UP = job(101, reason="launch failed requeued held")
WAITS = (1, "waits", "held by Slurm: it could not be launched (launch failed requeued held)")


def test_a_job_slurm_holds_is_released() -> None:
    world = OneChain(queued(1), settings=SETTINGS).shows(HELD_UP)
    reconciler = followed(world)
    assert world.slurm.calls == [("release", 101)]
    assert world.events == [WAITS, (1, "released-again", "job 101: launch failed requeued held")]
    assert reconciler.releases == {(1, 1): 1}


def test_a_job_held_by_a_person_stays_held() -> None:
    world = OneChain(queued(1)).shows(job(101, reason="JobHeldUser"))
    assert followed(world).releases == {}
    assert world.slurm.calls == []


def test_a_job_released_without_success_is_replaced() -> None:
    reconciler = Reconciler()
    for _ in range(2):
        followed(OneChain(queued(1), settings=SETTINGS).shows(HELD_UP), reconciler)
    world = OneChain(queued(1), settings=SETTINGS).shows(HELD_UP)
    followed(world, reconciler)
    assert world.slurm.calls == [("cancel", 101)]
    why = "job 101: launch failed requeued held; released 2 times without success"
    assert world.events == [WAITS, (1, "replaced", why)]
    assert world.links == [queued(1, cancelled_s=NOW_S, reason=HELD_UP.reason)]
    assert reconciler.releases == {}


def test_a_job_that_may_not_be_released_is_replaced() -> None:
    world = OneChain(queued(1), settings=SETTINGS).shows(HELD_UP)
    world.context.backend = world.slurm = Slurm(release="Access/permission denied")
    assert followed(world).releases == {}
    assert world.slurm.calls == [("cancel", 101)]
    assert world.events == [WAITS, (1, "replaced", "job 101: launch failed requeued held; Access/permission denied")]


def test_a_job_that_can_neither_be_released_nor_cancelled_is_tried_again() -> None:
    world = OneChain(queued(1), settings=SETTINGS).shows(HELD_UP)
    world.slurm.refuses |= {"release": "no", "cancel": "neither"}
    assert followed(world).releases == {(1, 1): 1}
    assert (world.links, world.events) == ([queued(1, reason=HELD_UP.reason)], [WAITS])
    assert world.trouble == "job 101 cannot be cancelled (job 101: launch failed requeued held): neither"


@pytest.mark.parametrize("starts", [False, True], ids=["it waits", "it starts at once"])
@pytest.mark.parametrize(
    ("first", "output"),
    [
        (job(101, JobState.RUNNING, link=1), ["released-elsewhere"]),
        (job(101, JobState.RUNNING, link=1, completing=True), []),
        (job(101, JobState.COMPLETED, link=1), []),
        (None, []),
    ],
    ids=["runs", "completes", "over", "purged"],
)
def test_a_link_that_another_user_releases_leaves_a_line_in_the_log(
    starts: bool, first: QueuedJob | None, output: list[str]
) -> None:
    world = OneChain(running(1), held(2))
    released = job(102, JobState.RUNNING if starts else JobState.PENDING, link=2, eligible_s=9_990)
    world.shows(*([first] if first else []), released)
    followed(world)
    assert world.links[1].state is (LinkState.RUNNING if starts else LinkState.QUEUED)
    assert [kind for link, kind, _ in world.events if link == 2 and kind != "started"] == output


@pytest.mark.parametrize(("reason", "noted"), [("JobHeldAdmin", True), ("JobHeldUser", True), ("Dependency", False)])
def test_a_hold_is_noticed_while_a_link_still_waits_for_the_one_before(reason: str, noted: bool) -> None:
    waits = job(102, link=2, dependency="afterany:101(unfulfilled)", reason=reason, priority=0.0)
    world = OneChain(running(1), held(2)).shows(job(101, JobState.RUNNING, link=1), waits)
    followed(world)
    assert (world.links[1].state, world.links[1].reason) == (LinkState.HELD, reason if noted else "")
    assert [kind for link, kind, _ in world.events if link == 2] == (["waits"] if noted else [])
