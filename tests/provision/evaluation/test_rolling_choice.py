"""The choice of auto in an evaluation: weekly, by what was known, beyond the interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import PolicyOutcome
from mirage.provision.evaluation.policy_score import outcome
from mirage.provision.evaluation.rolling_choice import FEWEST, better_choice, weekly_choices
from mirage.provision.link_size import LinkSize
from tests.support.made_up_windows import MONDAY_S, trial

BEGIN = PolicyChoice("careful", "by default")
COST = Cost(3, 1)
AT_S = MONDAY_S + np.arange(40) * 2 * DAY_S


def costs(**by_policy: float) -> dict[str, np.ndarray]:
    """Costs of forty hand-overs that vary with the queue, and with the policy."""
    random = np.random.default_rng(2)
    queue = random.exponential(2.0, len(AT_S))
    return {name: queue + least + random.normal(0, 0.1, len(AT_S)) for name, least in by_policy.items()}


def test_a_policy_that_costs_less_beyond_the_interval_is_chosen_and_the_best_of_several() -> None:
    found = better_choice(BEGIN, AT_S, costs(careful=3.0, good=2.0, best=1.0))
    assert found.policy == "best"
    assert found.reason == "in 40 hand-overs of this site it cost 2.01 less than careful (1.87 … 2.05)"


def test_what_is_within_the_interval_changes_nothing() -> None:
    random = np.random.default_rng(7)
    alike = {"careful": random.exponential(3.0, 40), "lucky": random.exponential(2.7, 40)}
    assert alike["lucky"].mean() < alike["careful"].mean()
    assert better_choice(BEGIN, AT_S, alike) == BEGIN
    few = {name: of_policy[: FEWEST - 1] for name, of_policy in costs(careful=9.0, good=0.0).items()}
    assert better_choice(BEGIN, AT_S[: FEWEST - 1], few) == BEGIN


def windows(count: int, every_s: int) -> tuple[WindowTrial, ...]:
    """Windows in which the last decision is late by 5 h or more, and the first is not."""
    found = []
    for k in range(count):
        one = trial(0, [0, 3, 5 + k % 3], {"careful": 2, "good": 0})
        later_s = k * every_s
        times = ("submitted_s", "started_s", "ends_s", "decisions_s")
        moved = {name: getattr(one.episode, name) + later_s for name in times}
        found.append(replace(one, episode=replace(one.episode, window=k, **moved)))
    return tuple(found)


def test_every_week_is_decided_by_the_hand_overs_that_were_over_before_it() -> None:
    trials = windows(60, DAY_S)
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
