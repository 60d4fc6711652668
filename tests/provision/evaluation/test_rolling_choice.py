"""The choice of auto in an evaluation: weekly, by what was known, beyond doubt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.array_types import Floats
from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import outcome
from mirage.provision.evaluation.rolling_choice import FEWEST, better_choice, weekly_choices
from mirage.provision.link_size import LinkSize
from tests.support.made_up_windows import MONDAY_S, at, trial

BEGIN = PolicyChoice("careful", "by default")
COST = Cost(3, 1)
AT_S = MONDAY_S + np.arange(40) * 2 * DAY_S


def hand_overs(count: int, late_h: dict[str, float]) -> tuple[tuple[WindowTrial, ...], dict[str, PolicyOutcome]]:
    """Hand-overs two days apart, late by hours that vary a little with the queue."""
    queue = np.random.default_rng(2).normal(0.0, 0.2, count)
    trials = tuple(at(trial(k, [-4, -2, 8], nodes=2), int(AT_S[k])) for k in range(count))
    return trials, {name: late(name, hours + queue) for name, hours in late_h.items()}


def late(name: str, hours: Floats) -> PolicyOutcome:
    """The outcome of a policy that submits 8 h ahead, and is late even so."""
    return PolicyOutcome.of_gaps(name, hours * HOUR_S, [8 * HOUR_S] * len(hours))


def test_a_policy_that_costs_less_beyond_doubt_is_chosen_and_the_best_of_several() -> None:
    found = better_choice(BEGIN, *hand_overs(40, {"careful": 7.0, "good": 4.0, "best": 3.5}), COST)
    assert found.policy == "best"
    assert found.reason.startswith("in 40 hand-overs of this site it cost 10.50 less than careful (")


def test_a_mean_that_is_lower_is_not_enough() -> None:
    random = np.random.default_rng(7)
    trials, _ = hand_overs(40, {})
    alike = {
        "careful": late("careful", random.exponential(3.0, 40)),
        "lucky": late("lucky", random.exponential(2.7, 40)),
    }
    assert alike["lucky"].costs(COST).mean() < alike["careful"].costs(COST).mean()
    assert better_choice(BEGIN, trials, alike, COST) == BEGIN
    assert better_choice(BEGIN, *hand_overs(FEWEST - 1, {"careful": 9.0, "good": 0.0}), COST) == BEGIN


def test_a_rare_loss_that_was_missed_prevents_a_change() -> None:
    """``rare`` saves half an hour for sure in ten windows, and could be 12 h late in the next."""
    trials, _ = hand_overs(10, {})
    two = {"careful": late("careful", np.full(10, 0.5)), "rare": late("rare", np.zeros(10))}
    assert better_choice(BEGIN, trials, two, COST) == BEGIN


def test_every_week_is_decided_by_the_hand_overs_that_were_over_before_it() -> None:
    late_last = (trial(k, [0, 3, 5 + k % 3], {"careful": 2, "good": 0}) for k in range(60))
    trials = tuple(at(one, MONDAY_S + k * DAY_S) for k, one in enumerate(late_last))
    outcomes = {name: PolicyOutcome.of_keys(name, [name] * 60, trials) for name in ("careful", "good")}
    choices = [one.policy for one in weekly_choices(trials, outcomes, BEGIN, COST)]
    first = choices.index("good")
    assert first >= FEWEST
    assert choices == ["careful"] * first + ["good"] * (60 - first)
    weeks = {trials[first].episode.submitted_s // WEEK_S, trials[first - 1].episode.submitted_s // WEEK_S}
    assert len(weeks) == 2  # it changes with a week

    # what is known only later counts for nothing: the same with other outcomes from that week on
    week_s = trials[first].episode.submitted_s // WEEK_S * WEEK_S
    unknown = np.array([one.episode.ends_s > week_s - 9 * HOUR_S for one in trials])
    later = {
        name: replace(one, interruption_s=np.where(unknown, 9e9, one.interruption_s)) for name, one in outcomes.items()
    }
    assert [one.policy for one in weekly_choices(trials, later, BEGIN, COST)][: first + 1] == choices[: first + 1]


def test_a_hand_over_is_not_known_while_a_policy_s_link_still_waits() -> None:
    """A reactive chain is interrupted for an hour, ``careful`` for two weeks."""
    trials = tuple(at(trial(k, [0, 3, 1], {"careful": 2, "good": 0}), MONDAY_S + k * DAY_S) for k in range(40))
    outcomes = {name: late(name, np.full(40, hours)) for name, hours in (("careful", 14 * 24.0), ("good", 0.0))}
    choices = [one.policy for one in weekly_choices(trials, outcomes, BEGIN, COST)]
    first = choices.index("good")
    known = [one.episode.ends_s + 14 * DAY_S for one in trials]
    week_s = trials[first].episode.submitted_s // WEEK_S * WEEK_S
    assert sum(known_s <= week_s for known_s in known) >= FEWEST


def test_an_evaluation_judges_auto_by_the_policies_that_it_had_chosen(busy_setting) -> None:  # type: ignore[no-untyped-def]
    protocol = EvaluationProtocol.warm(10 * DAY_S, windows=12, every_s=36 * HOUR_S, step_s=3 * HOUR_S)
    found = evaluate(busy_setting, protocol, [LinkSize(2, 12 * HOUR_S)], ["auto", "reactive"], [COST])
    trials = found.trials[2]
    assert [row.policy for row in found.rows if row.load == "all"] == ["auto", "reactive"]
    decided = [one.decided_by["auto@3:1"] for one in trials]
    assert set(decided) <= {"holds", "what-if", "reactive"}
    assert decided[0] == "holds"
    for name in set(decided):
        chosen = np.array([one == name for one in decided])
        of_auto, of_member = outcome("auto", trials, COST), outcome(name, trials, COST)
        np.testing.assert_array_equal(of_auto.interruption_s[chosen], of_member.interruption_s[chosen])
        np.testing.assert_array_equal(of_auto.overlap_s[chosen], of_member.overlap_s[chosen])
