"""Decisions: requests do not block, fresh answers are used, the fall-back covers the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.model import ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.duration import UNLIMITED_S
from mirage.policy.plan import Plan, Wait
from mirage.policy.policy_choice import PolicyChoice
from tests.support.one_chain import NOW_S, held, planned, queued, running
from tests.support.scripted_policies import SUBMIT, WAIT, Deciding, deciding_chain, pair

RELEASED = ("update", 102, {"Dependency": ""})


def requested() -> Deciding:
    """A chain about which a question is open."""
    deciding = Deciding(waits_s=[60] * 60)
    assert deciding.cycle() == 1
    return deciding


# -- asking -------------------------------------------------------------------------------------------------


def test_a_question_is_queried_and_the_cycle_continues_without_its_answer() -> None:
    deciding = requested()
    (question,) = deciding.runner.requested
    assert (question.chain, question.request.policy, question.form.predecessor) == (1, "lead:1", 101)
    assert deciding.runner.waited_s == [AgentSettings().wait_for_answers_s]
    assert (deciding.decided, deciding.world.slurm.calls, deciding.runner.rests) == ([], [], 0)
    assert deciding.cycle(15) == 1
    assert len(deciding.runner.requested) == 1, "not asked again while it is open"


@pytest.mark.parametrize(
    "links",
    [
        (running(1), planned(2)),
        (running(1), queued(2)),
        (running(1), running(2), held(3)),
        (running(1, limit_s=-1), held(2)),
        (running(1, job=77), held(2)),
        (held(1),),
    ],
)
def test_where_there_is_nothing_to_decide_no_policy_is_called(links: tuple[Link, ...]) -> None:
    deciding = Deciding(deciding_chain(*links))
    assert deciding.cycle() == 0
    assert (deciding.runner.requested, deciding.runner.rests) == ([], 1)


def test_a_paused_chain_is_not_decided_about() -> None:
    deciding = requested()
    deciding.world.context.change_chain(deciding.world.chain, state=ChainState.PAUSED)
    deciding.runner.reply(SUBMIT)
    assert deciding.cycle(15) == 0
    assert (deciding.world.slurm.calls, deciding.decided) == ([], [])


def test_a_chain_is_queried_when_it_is_due_and_its_turn_has_come() -> None:
    deciding = Deciding()
    deciding.world.context.change_chain(deciding.world.chain, next_decision_s=NOW_S + 30)
    deciding.cycle(29)
    deciding.cycle(1, 99)
    assert deciding.runner.requested == []
    deciding.cycle()
    assert len(deciding.runner.requested) == 1


def test_a_poll_beyond_any_sleep_is_of_a_clock_that_was_set_back() -> None:
    deciding = Deciding()
    deciding.world.context.change_chain(deciding.world.chain, next_decision_s=NOW_S + 2 * 3_600 + 1)
    deciding.cycle()
    assert len(deciding.runner.requested) == 1


def test_the_chain_with_the_least_time_is_queried_first() -> None:
    deciding = Deciding()
    deciding.world.other(2, running(1, job=201, limit_s=1_200), held(2, job=202), key="geese")
    deciding.world.shows(*pair(), *pair(key="geese", jobs_from=200))
    assert deciding.cycle() == 2
    assert [question.chain for question in deciding.runner.requested] == [2, 1]


# -- answers ------------------------------------------------------------------------------------------------


def test_an_answer_releases_the_held_link() -> None:
    deciding = requested()
    deciding.runner.reply(SUBMIT)
    assert deciding.cycle(15) == 0
    world = deciding.world
    assert world.slurm.calls == [RELEASED]
    assert (world.links[1].state, world.links[1].released_s) == (LinkState.QUEUED, NOW_S + 15)
    (record,) = world.store.decided
    assert (record.policy, record.submits, record.reason, record.time_s) == ("lead:1", True, "now", NOW_S + 15)
    assert record.observed["running_jobs"] == 1
    assert deciding.runner.rests == 1


def test_an_answer_from_before_an_edit_is_discarded_and_the_new_policy_queried() -> None:
    deciding = requested()
    world = deciding.world
    edited = replace(world.chain, spec=replace(world.chain.spec, policy="lead:2"), edits=1)
    world.store.chains[1] = world.context.chains[1] = edited
    deciding.runner.reply(SUBMIT)
    deciding.cycle(15)
    deciding.cycle(15)
    assert (world.slurm.calls, deciding.decided) == ([], [])
    assert [question.request.policy for question in deciding.runner.requested] == ["lead:1", "lead:2"]


@pytest.mark.parametrize(
    ("policy", "requested_policy"),
    [("auto", "user-waits"), ("auto:bank=yes", "user-waits"), *((own, own) for own in ("auto:model=m", "lead:1"))],
)
def test_where_other_users_jobs_are_hidden_auto_leads_by_ones_own_waits(policy: str, requested_policy: str) -> None:
    deciding = Deciding(deciding_chain(policy=policy, interruption_cost=4.0))
    deciding.decider.hidden = "PrivateData=jobs"
    deciding.cycle()
    assert [question.request.policy for question in deciding.runner.requested] == [requested_policy]
    deciding.runner.reply(WAIT)
    deciding.cycle(15)
    events = [(event.kind, event.detail) for event in deciding.world.store.reported]
    if requested_policy == policy:
        assert events == []
        return
    why = "the jobs of other users are hidden (PrivateData=jobs), so the waits of one's own jobs decide"
    assert events == [("policy-chosen", f"user-waits: {why}")]
    assert deciding.decided == [(1, f"user-waits for {policy}", False)]
    assert deciding.decider.deciding(deciding.world.chain) == "user-waits"


def test_the_choice_of_auto_does_not_outlive_it() -> None:
    deciding = Deciding(deciding_chain(policy="auto"))
    deciding.decider.choices[1] = PolicyChoice("holds", "age counts")
    chain = deciding.world.chain
    assert deciding.decider.deciding(chain) == "holds"
    assert deciding.decider.deciding(replace(chain, spec=replace(chain.spec, policy="lead:2"))) == "lead:2"


def test_an_answer_of_the_same_cycle_is_used_in_it() -> None:
    deciding = Deciding()
    deciding.runner.reply(WAIT, number=1)
    assert deciding.cycle() == 0
    assert deciding.decided == [(1, "lead:1", False)]


@pytest.mark.parametrize(("late_s", "used"), [(300, True), (301, False)])
def test_a_late_answer_is_used_while_its_view_is_fresh(late_s: int, used: bool) -> None:
    deciding = requested()
    deciding.cycle(late_s - 10)
    deciding.world.store.decided.clear()
    deciding.runner.reply(SUBMIT)
    deciding.cycle(10)
    assert (deciding.world.slurm.calls == [RELEASED]) is used
    assert deciding.decided == ([(1, "lead:1", True)] if used else [])


def test_a_stale_answer_is_dropped_and_the_policy_is_queried_again() -> None:
    deciding = requested()
    deciding.runner.reply(SUBMIT)
    assert deciding.cycle(301) == 0
    assert deciding.decided == []
    assert deciding.cycle(15) == 1
    assert [question.number for question in deciding.runner.requested] == [1, 2]


def test_an_answer_about_another_link_is_dropped() -> None:
    deciding = requested()
    deciding.world.context.links[1] = [running(2, ready_s=9_000), held(3)]
    deciding.world.shows(*pair(2))
    deciding.runner.reply(SUBMIT)
    deciding.cycle(15)
    assert (deciding.world.slurm.calls, deciding.decided) == ([], [])


def test_the_answer_to_an_earlier_question_is_not_that_to_the_next() -> None:
    deciding = requested()
    stored = deciding.world.context.links[1]
    deciding.world.context.links[1] = [stored[0]]
    assert deciding.cycle(15) == 0, "the question is dropped with the held link"
    deciding.world.context.links[1] = stored
    assert deciding.cycle(15) == 1
    deciding.runner.reply(SUBMIT, number=1)
    assert deciding.cycle(15) == 1
    assert deciding.decided == []
    deciding.runner.reply(WAIT, number=2)
    assert deciding.cycle(15) == 0
    assert deciding.decided == [(1, "lead:1", False)]


def test_a_release_that_is_refused_stays_a_trouble_until_it_is_not() -> None:
    deciding = requested()
    deciding.world.slurm.refuses["update"] = "Access/permission denied"
    for pause_s in (15, 60):  # the second time it is tried later, and not written down again
        deciding.runner.reply(SUBMIT)
        deciding.cycle()
        assert deciding.decider.trouble(1) == "job 102 cannot be released: Access/permission denied"
        deciding.cycle(pause_s)
    assert [event.kind for event in deciding.world.store.reported].count("release-refused") == 1
    deciding.world.slurm.refuses.clear()
    deciding.runner.reply(SUBMIT)
    deciding.cycle()
    assert (deciding.decider.trouble(1), deciding.world.slurm.calls) == ("", [RELEASED])


def test_the_trouble_of_a_release_ends_with_the_wait_of_its_link() -> None:
    deciding = requested()
    deciding.world.slurm.refuses["update"] = "Job is no longer pending execution"
    deciding.runner.reply(SUBMIT)
    deciding.cycle()
    assert "cannot be released" in deciding.decider.trouble(1)
    present, waiting = deciding.world.context.links[1]
    deciding.world.context.links[1] = [present, replace(waiting, number=3, job=103)]
    deciding.cycle()
    assert deciding.decider.trouble(1) == ""


# -- no answer ----------------------------------------------------------------------------------------------


def test_the_fall_back_decides_when_no_answer_has_come_for_a_minute() -> None:
    deciding = requested()
    deciding.cycle(59)
    assert deciding.decided == []
    assert deciding.cycle(1) == 1, "the question stays open"
    assert deciding.decided == [(1, "fall-back for lead:1", False)]
    (record,) = deciding.world.store.decided
    assert record.reason == "lead-not-reached; no-answer:no answer from lead:1 yet"
    assert deciding.decider.failing == {1: "no answer from lead:1 yet; recent waits decide meanwhile"}
    deciding.cycle(59)
    assert len(deciding.decided) == 1, "and again after another minute"
    deciding.cycle(1)
    assert len(deciding.decided) == 2
    deciding.runner.reply(WAIT)
    assert deciding.cycle(15) == 0
    assert deciding.decided[-1] == (1, "lead:1", False)
    assert deciding.decider.failing == {}


def test_the_patience_is_in_real_seconds() -> None:
    deciding = requested()
    deciding.world.context.now_s += 3_000  # on a compressed clock
    deciding.cycle()
    assert deciding.decided == []
    deciding.real_s += 60
    deciding.cycle()
    assert deciding.decided[0][1] == "fall-back for lead:1"


def test_the_runner_s_excuse_is_reported() -> None:
    deciding = requested()
    deciding.runner.why = "the simulator is being compiled, since 60 s"
    deciding.cycle(60)
    assert deciding.world.store.decided[0].reason.endswith("no-answer:the simulator is being compiled, since 60 s")
    assert deciding.decider.failing[1].startswith("the simulator is being compiled")


def test_the_fall_back_may_release_and_the_late_answer_then_counts_for_nothing() -> None:
    deciding = Deciding(waits_s=[5_000] * 60)
    deciding.cycle()
    assert deciding.cycle(60) == 0
    assert deciding.world.slurm.calls == [RELEASED]
    assert deciding.decided == [(1, "fall-back for lead:1", True)]
    deciding.runner.reply(SUBMIT)
    deciding.cycle(15)
    assert len(deciding.decided) == 1


def test_a_policy_that_fails_is_reported_and_the_fall_back_decides() -> None:
    deciding = requested()
    for _ in range(2):
        deciding.runner.reply("ValueError: no such lead")
        deciding.cycle(0)
        assert deciding.decided[-1] == (1, "fall-back for lead:1", False)
        assert deciding.world.store.decided[-1].reason.endswith("; policy-failed:ValueError: no such lead")
        deciding.cycle(300)
    why = "policy lead:1 failed: ValueError: no such lead; recent waits decide meanwhile"
    assert deciding.decider.failing == {1: why}


# -- the next look ------------------------------------------------------------------------------------------


def plan(until_s: int | None = None, **estimate: float) -> Plan:
    return Plan((Wait(reason="not-now", until_s=until_s),), estimate)


@pytest.mark.parametrize(
    ("answer", "next_s"),
    [
        (plan(), 8),  # a hundredth of the limit is 36 s, and 10,008 is a multiple of it
        (plan(until_s=NOW_S + 200), 188),
        (plan(until_s=NOW_S + 21), 21),
        (plan(until_s=NOW_S + 36), 8),
        (plan(until_s=NOW_S - 5), 1),
        (plan(until_s=NOW_S + 21, remaining_s=2_000.0, lead_s=1_995.0), 21),
        (plan(until_s=NOW_S + 9_999), 7_172),
        (plan(remaining_s=2_000.0, lead_s=1_900.0), 8),
        (plan(remaining_s=2_000.0, lead_s=1_995.0), 5),
        (plan(until_s=NOW_S + 200, remaining_s=2_000.0, lead_s=1_980.0), 20),
        (plan(remaining_s=2_000.0, lead_s=1_999.9), 1),
        (plan(remaining_s=10.0), 8),
        (plan(remaining_s=float("inf"), lead_s=5.0), 8),
        (plan(remaining_s=2_000.0, lead_s=float("inf")), 8),
    ],
)
def test_the_next_poll_is_never_later_than_the_moment_that_matters(answer: Plan, next_s: int) -> None:
    deciding = requested()
    deciding.runner.reply(answer)
    deciding.cycle()
    assert deciding.world.chain.next_decision_s == NOW_S + next_s


def test_that_moment_is_counted_from_when_the_view_was_taken() -> None:
    deciding = requested()
    deciding.runner.reply(plan(remaining_s=2_000.0, lead_s=1_970.0))
    deciding.cycle(20)
    assert deciding.world.chain.next_decision_s == NOW_S + 30


@pytest.mark.parametrize(("limit_s", "interval_s"), [(600, 15), (3_600, 36), (86_400, 300), (UNLIMITED_S, 300)])
def test_intervals_scale_with_the_limit(limit_s: int, interval_s: int) -> None:
    """On a grid that all chains share, so that one snapshot of the queue serves them all."""
    deciding = Deciding(deciding_chain(running(1, limit_s=limit_s), held(2)))
    deciding.cycle()
    deciding.runner.reply(WAIT)
    deciding.cycle()
    step_s = min(interval_s, deciding.world.context.settings.poll_s)
    assert deciding.world.chain.next_decision_s == (NOW_S + interval_s) // step_s * step_s


def test_the_choice_of_auto_is_logged_once_and_again_where_it_changes() -> None:
    deciding = Deciding(deciding_chain(policy="auto"))
    choices = [PolicyChoice("holds", "it retains age"), PolicyChoice("what-if", "in 9 hand-overs it cost less")]
    for choice in (choices[0], choices[0], choices[1]):
        deciding.cycle(60)
        deciding.runner.reply(replace(WAIT, choice=choice))
        deciding.cycle()
        deciding.world.context.change_chain(deciding.world.chain, next_decision_s=0)
    assert [(one.link, one.kind, one.detail) for one in deciding.world.store.reported] == [
        (0, "policy-chosen", "holds: it retains age"),
        (0, "policy-chosen", "what-if: in 9 hand-overs it cost less"),
    ]
    assert [policy for _, policy, _ in deciding.decided] == ["holds for auto", "holds for auto", "what-if for auto"]
