"""Brakes on wrong forecasts: the least life of a link, and the chain's own waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.decision.fallback import earliest_release_s, judge_forecast, least_life, own_waits_s
from mirage.agent.model import DecisionRecord, Link
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.policy.plan import Plan, Submit
from mirage.policy.policy_choice import PolicyChoice
from tests.support.one_chain import OneChain, ended, held, running
from tests.support.scripted_policies import SUBMIT, WAIT, Deciding, deciding_chain, pair

LIMIT_S = 3_600


AFTER_AN_EARLY_START = ended(1, started_s=8_500, ended_s=9_005), running(2, ready_s=9_000, released_s=8_990)


def waited(number: int, wait_s: int) -> Link:
    return ended(number, released_s=4_000, started_s=4_000 + wait_s)


@pytest.mark.parametrize(
    ("predecessor", "least_life", "earliest_s"),
    [
        (None, 0.25, 9_000),  # the first link of a chain
        ({"started_s": 6_299, "ended_s": 9_100}, 0.25, 9_000),  # it had 899 s left
        ({"started_s": 6_301, "ended_s": 9_100}, 0.25, 9_900),  # it had 901 s left: a fourth of the present one's hour
        ({"started_s": 8_900, "ended_s": 9_000}, 0.25, 9_000),  # it ended before its limit: this link was not early
        ({"started_s": 8_900, "ended_s": 9_100}, 0.5, 10_800),
        ({"started_s": 8_900, "ended_s": MISSING}, 0.5, 10_800),
        ({"started_s": 8_900, "ended_s": 9_100}, 0.0, 9_000),
        ({"started_s": 8_900, "ended_s": 9_100}, 0.96, 12_400),  # never later than the end
        ({"started_s": 8_900, "ended_s": 9_100, "limit_s": UNLIMITED_S}, 0.25, 9_000),
    ],
)
def test_after_a_link_that_started_early_none_is_released_in_the_first_part_of_its_life(
    predecessor: dict[str, int] | None, least_life: float, earliest_s: int
) -> None:
    before = [] if predecessor is None else [replace(ended(1, released_s=4_000), **predecessor)]
    present = running(3, released_s=MISSING)
    world = OneChain(*before, ended(2, released_s=MISSING, started_s=MISSING), present, held(4), least_life=least_life)
    assert earliest_release_s(world.chain, present, world.links, ends_s=12_400) == earliest_s


@pytest.mark.parametrize(("policy", "share"), [("what-if", 0.25), ("holds", 0.25), ("lead:4", 0.0), ("saia", 0.0)])
def test_a_policy_of_a_constant_lead_has_no_least_life_unless_the_user_names_one(policy: str, share: float) -> None:
    assert least_life(OneChain(policy=policy).chain) == share
    assert least_life(OneChain(policy=policy, least_life=0.5).chain) == 0.5


def test_a_wait_counts_from_the_release_to_the_start() -> None:
    requeued = running(4, released_s=100, earlier=((450, 460, 8_000),))
    assert own_waits_s([waited(1, 70), running(2, released_s=8_400), held(3), requeued]) == [70, 600, 350]


@pytest.mark.parametrize(("at_s", "released"), [(9_899, False), (9_900, True)])
def test_a_plan_that_submits_too_early_waits_until_the_least_life_is_over(at_s: int, released: bool) -> None:
    deciding = Deciding(deciding_chain(*AFTER_AN_EARLY_START, held(3), policy="what-if"))
    world = deciding.world
    world.context.now_s = at_s
    deciding.cycle()
    deciding.runner.reply(SUBMIT)
    deciding.cycle()
    assert deciding.decided == [(1, "what-if", released)]
    (record,) = world.store.decided
    assert record.reason == ("now" if released else "least-life:now")
    assert [call[0] for call in world.slurm.calls] == (["update"] if released else [])
    if not released:
        assert world.chain.next_decision_s == 9_900


def test_a_lead_that_is_braked_is_decided_about_as_often_as_others() -> None:
    deciding = Deciding(deciding_chain(*AFTER_AN_EARLY_START, held(3), policy="average"))
    deciding.world.context.now_s = 9_100
    deciding.cycle()
    deciding.runner.reply(replace(SUBMIT, estimate={"remaining_s": 3_000.0, "lead_s": 50_000.0}))
    deciding.cycle()
    assert deciding.world.store.decided[0].reason == "least-life:now"
    assert deciding.world.chain.next_decision_s == 9_900


def forecast(
    low_s: float, high_s: float, *, at_s: int = 8_000, revision: str = "", submits: bool = True
) -> DecisionRecord:
    estimate = {"wait_p05_s": low_s, "wait_p50_s": (low_s + high_s) / 2, "wait_p95_s": high_s}
    return DecisionRecord(1, 1, at_s, "what-if", submits, "now", estimate, {}, revision)


class Judged(OneChain):
    """A chain with a second link that was released at 8,000 and has started at 9,000."""

    def __init__(self, *decisions: DecisionRecord, wrong: int = 0, replaced: bool = True) -> None:
        super().__init__(
            running(1),
            running(2, submitted_s=500, released_s=8_000),
            chain={"wrong_forecasts": wrong},
            policy="what-if",
        )
        self.store.decisions = lambda chain, last=None: list(decisions)  # type: ignore[attr-defined]
        judge_forecast(self.context, self.chain, self.links[1], replaced=replaced)


@pytest.mark.parametrize(
    ("low_s", "high_s", "right"),
    [
        (0, 100, True),  # an hour's link: a quarter of an hour off is near enough
        (0, 99, False),
        (1_900, 9_000, True),
        (1_901, 9_000, False),
        (3_000, 3_600, False),
        (0, 3_600, True),  # futures are played up to the limit: what lies beyond is not known
    ],
)
def test_a_wait_far_outside_of_its_forecast_is_counted(low_s: float, high_s: float, right: bool) -> None:
    world = Judged(forecast(low_s, high_s), wrong=1)
    assert world.chain.wrong_forecasts == (0 if right else 2)
    assert [kind for _, kind, _ in world.events] == ([] if right else ["forecast-wrong"])
    if not right:
        assert world.events[0][2].endswith(": own waits decide in place of what-if until a forecast is right")


def test_a_policy_that_revises_queued_links_continues_to_decide_and_the_log_does_not_deny_it() -> None:
    world = Judged(forecast(0, 99), wrong=1, replaced=False)
    assert world.events[0][2].endswith("wrong 2 times in a row")


@pytest.mark.parametrize(
    "decisions",
    [
        [],
        [forecast(36_000, 36_000, at_s=7_900)],  # refused by Slurm, or of a link before it
        [forecast(36_000, 36_000, submits=False)],
        [forecast(36_000, 36_000), forecast(0, 1, at_s=8_100, revision="hold", submits=False)],
        [DecisionRecord(1, 1, 8_000, "lead:1", True, "lead-reached", {"lead_s": 3_600.0}, {})],
    ],
)
def test_without_a_forecast_of_this_release_nothing_is_judged(decisions: list[DecisionRecord]) -> None:
    world = Judged(*decisions, wrong=1)
    assert (world.chain.wrong_forecasts, world.events) == (1, [])


BY_WHAT_IF, BY_HOLDS = PolicyChoice("what-if", "it loses age"), PolicyChoice("holds", "it retains age")


@pytest.mark.parametrize(
    ("policy", "choice", "wrong", "decides"),
    [
        ("what-if", None, 1, "what-if"),
        ("what-if", None, 2, "own waits for what-if"),
        ("auto", BY_WHAT_IF, 1, "what-if for auto"),
        ("auto", BY_WHAT_IF, 2, "own waits for what-if"),
        ("auto", BY_HOLDS, 2, "holds for auto"),
    ],
)
def test_after_two_wrong_forecasts_the_chain_s_own_waits_decide(
    policy: str, choice: PolicyChoice | None, wrong: int, decides: str
) -> None:
    links = (waited(1, 300), running(2, ready_s=9_000, released_s=8_990), held(3))
    deciding = Deciding(OneChain(*links, policy=policy, chain={"wrong_forecasts": wrong}).shows())
    world = deciding.world.shows(*pair(2))
    world.context.now_s = 11_000
    deciding.cycle()
    deciding.runner.reply(Plan((Submit(reason="too-late-even-now"),), {"wait_p05_s": 5.0}, choice=choice))
    deciding.cycle()
    (record,) = world.store.decided
    assert (record.policy, record.submits) == (decides, "own waits" not in decides)
    if record.submits:
        return
    ends_s = 9_000 + LIMIT_S - 120 - 66
    assert world.chain.next_decision_s <= ends_s - 300, "the longest of its own waits ahead of the end"
    assert record.estimate["wait_p05_s"] == 5.0, "the forecast is recorded, to be judged"
    deciding.cycle(ends_s - 300 - 11_000)
    deciding.runner.reply(WAIT)
    deciding.cycle()
    assert world.store.decided[-1].submits
    assert world.store.decided[-1].reason == "own-waits:lead-reached"
