"""Paired differences and rows by month, of windows written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import assess, compared_with
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.paired import ComparedWindows, Difference, corrected_in_table, differences
from mirage.provision.evaluation.policy_score import by_month, outcome, score, score_by_month, submissions_s
from mirage.provision.link_size import longest_wait_s
from mirage.study.intervals import Stretches
from mirage.study.paired_test import PairedTest, PossibleLoss, independent_windows, paired_test
from tests.support.made_up_windows import at, four_windows, trial

COST = Cost(3, 1)
POLICIES = ("reactive", "early", "told", "oracle")


def one(found: list[Difference], policy: str, load: str = "all", month: str = "all") -> Difference:
    (difference,) = [d for d in found if (d.policy, d.load, d.month) == (policy, load, month)]
    return difference


def test_a_difference_by_pencil() -> None:
    """``early`` costs 2, 6, 3, 8 at 3:1; reactive 3, 15, 39, 0.

    It could have cost as much as reactive, or its lead of 4, 4, 8 and 8 h: 4, 15, 39 and 8. Reactive has no lead.
    """
    windows = four_windows()
    found = one(differences(windows, POLICIES, "reactive", [COST]), "early")
    stretches, everyone, ones = Stretches.of(submissions_s(windows)), np.full(4, True), np.ones(4)

    def by_hand(difference: Sequence[float], first: Sequence[float], worst: float) -> PairedTest:
        losses = PossibleLoss(np.array(first), 0.0, 0.0), PossibleLoss(np.zeros(4), worst, 0.0)
        test = paired_test(np.array(difference), *losses, everyone, stretches)
        assert test is not None
        return test

    cost = by_hand([-1.0, -9, -36, 8], [2.0, 9, 36, 0], 3 * 12)
    assert found == Difference(
        policy="early",
        against="reactive",
        link_nodes=2,
        load="all",
        month="all",
        cost_ratio=3.0,
        windows=4,
        cost=(-1 - 9 - 36 + 8) / 4,
        interruption_h=(-1 - 3 - 12 + 0) / 4,
        overlap_h=(2 + 0 + 0 + 8) / 4,
        cost_95=cost.interval,
        interruption_95=by_hand([-1.0, -3, -12, 0], [1.0, 3, 12, 0], 12).interval,
        overlap_95=by_hand([2.0, 0, 0, 8], [2.0, 4, 8, 0], 0).interval,  # may be negative elsewhere
        p_value=cost.p_value,
        p_corrected=found.p_corrected,
    )
    assert found.cost_95 is not None
    assert found.cost_95[0] < found.cost < found.cost_95[1]
    assert found.cost_95[0] <= stretches.ratio(np.array([-1.0, -9, -36, 8]), ones, everyone)[0]


def table(load: str = "all") -> ComparedWindows:
    windows = four_windows()
    members = np.array([load in ("all", trial.episode.load) for trial in windows])
    return ComparedWindows(windows, members, Stretches.of(submissions_s(windows)), load)


def test_a_policy_can_be_as_late_as_reactive_and_as_early_as_its_lead() -> None:
    """At 3:1 the policy submits 8, 8, 8 and 4 h ahead, and costs 6, 3, 3 and 4.

    Links have a limit of 12 h.
    """
    late, early, base = (outcome(name, table().trials, COST) for name in ("told", "early", "reactive"))
    found = table().possible_loss(late, early, COST)
    assert found.by_window.tolist() == [8 - 6, 15 - 3, 39 - 3, 4 - 4]
    assert (found.worst, found.beyond) == (3 * 12, 0), "reactive waits for 13 h in a window"
    assert table().possible_loss(late, base, COST).worst == 0, "reactive is as late"
    assert table().possible_loss(base, late, COST).by_window.tolist() == [0, 0, 0, 0]
    assert table().possible_loss(base, late, COST).worst == 36


def test_a_load_class_bounds_the_wait_of_a_window_that_was_not_played() -> None:
    late, early = (outcome(name, table().trials, COST) for name in ("told", "early"))
    found = {load: table(load).possible_loss(late, early, COST) for load in ("light", "medium", "heavy")}
    assert {load: loss.worst for load, loss in found.items()} == {"light": 3 * 2, "medium": 3 * 12, "heavy": 3 * 12}
    assert {load: loss.beyond for load, loss in found.items()} == {"light": 3 * (2 - 1), "medium": 3 * 7, "heavy": 0}
    assert [longest_wait_s(load, 10 * HOUR_S) // HOUR_S for load in ("light", "medium", "all")] == [2, 10, 10]


def test_bounds_in_hindsight_can_lose_nothing() -> None:
    oracle, early = (outcome(name, table().trials, COST) for name in ("oracle", "early"))
    found = table().possible_loss(oracle, early, COST)
    assert (found.by_window.tolist(), found.worst, found.beyond) == ([0, 0, 0, 0], 0, 0)
    assert table().possible_loss(early, oracle, COST).worst == 36


def rarely_late(windows: int, late: int) -> list[WindowTrial]:
    """Windows two days apart.

    ``rare`` is 30 h late in the last of them, ``steady`` always an hour early.
    """
    return [
        at(trial(k, [-1, 0, 30 if k >= windows - late else 0], {"rare": 1 + (k >= windows - late), "steady": 0}),
           MARCH_S + 2 * k * DAY_S)
        for k in range(windows)
    ]  # fmt: skip


def test_a_policy_that_is_rarely_very_late_is_not_better_than_one_that_is_a_little_early() -> None:
    """One window in 30 is late, so the means are equal.

    Without it the sample is certain, and wrong. A reactive chain does not wait in these windows, so a loss of 12 h, the
    limit, is beyond them.
    """
    policies = ["rare", "steady"]
    windows = rarely_late(29, 0)
    found = one(differences(windows, policies, "steady", [Cost(1, 1)]), "rare")
    share = 1 - 0.025 ** (1 / independent_windows(submissions_s(windows)))
    assert found.cost == -1
    assert found.cost_95 == pytest.approx((-1 - share * 12, -1 + share * 12))
    assert found.cost_95[1] > 0
    assert found.verdict == ""
    assert one(differences(rarely_late(30, 1), policies, "steady", [Cost(1, 1)]), "rare").verdict == ""


def test_the_policies_of_a_table_are_corrected_together() -> None:
    """Bounds are no policies, and rules that did the same are one."""
    windows = four_windows()
    early, late, base, oracle = (outcome(name, windows, COST) for name in ("early", "told", "reactive", "oracle"))
    same = replace(early, policy="same")
    tested = [(early, 0.03), (same, 0.03), (oracle, 0.04), (late, 0.02), (base, None)]
    assert corrected_in_table(tested) == [0.03, 0.03, 0.04, 0.03, None]
    assert corrected_in_table([(early, 0.01), (late, 0.04)]) == [0.02, 0.04]
    assert corrected_in_table([(base, None)]) == [None]
    found = differences(windows, POLICIES, "reactive", [COST])
    p_value, p_corrected = ({d.policy: getattr(d, name) for d in found if d.load == d.month == "all"}
                            for name in ("p_value", "p_corrected"))  # fmt: skip
    assert p_value["told"] < p_value["early"] < 2 * p_value["told"]
    assert p_corrected["told"] == p_corrected["early"] == p_value["early"]
    assert p_corrected["oracle"] == p_value["oracle"]


def test_equal_hand_overs_of_an_earlier_submission_have_a_p_value_of_their_own() -> None:
    early = outcome("early", four_windows(), COST)
    ahead = replace(early, policy="ahead", lead_s=early.lead_s + HOUR_S)
    assert corrected_in_table([(early, 0.02), (ahead, 0.3)]) == [0.04, 0.3]
    assert corrected_in_table([(ahead, 0.3), (early, 0.02)]) == [0.3, 0.04]


def test_every_other_policy_by_load_and_by_cost() -> None:
    found = differences(four_windows(), POLICIES, "early", [COST, Cost(1, 1)])
    assert {d.policy for d in found} == {"reactive", "told", "oracle"}
    assert {(d.load, d.windows) for d in found if d.month == "all"} == {
        ("all", 4), ("light", 2), ("medium", 1), ("heavy", 1)
    }  # fmt: skip
    medium = [d for d in found if (d.load, d.policy, d.cost_ratio) == ("medium", "told", 3)]
    assert [(d.cost, d.cost_95) for d in medium] == [(3 - 6, None)]  # at 3:1 it overlaps 3 h, early is 2 h late


@pytest.mark.parametrize(
    ("cost", "p_corrected", "verdict"),
    [(-2.0, 0.049, "better"), (2.0, 0.0, "worse"), (-2.0, 0.05, ""), (2.0, 1.0, ""), (-2.0, None, "")],
)
def test_a_verdict_needs_a_small_p_value_after_the_correction(
    cost: float, p_corrected: float | None, verdict: str
) -> None:
    found = one(differences(four_windows(), POLICIES, "early", [COST]), "told")
    changed = replace(found, cost=cost, p_value=0.01, p_corrected=p_corrected)
    assert (changed.verdict, changed.to_json()["verdict"]) == (verdict, verdict)
    assert {"p_value", "p_corrected", "cost_95"} <= changed.to_json().keys()


MARCH_S = 1_677_628_800
"""2023-03-01T00:00Z."""


def winter() -> list[WindowTrial]:
    """Six windows, every second one in February and out of order."""
    times = [MARCH_S - k * DAY_S for k in (1, 8, 15)] + [MARCH_S + k * DAY_S for k in (0, 7, 14)]
    return [at(trial(k, [-6, -2, k], {"early": k % 2}), times[k]) for k in (3, 0, 5, 1, 4, 2)]


def test_months_begin_at_midnight_utc() -> None:
    windows = winter()
    months = by_month([*windows, at(windows[0], MARCH_S - 1)])
    assert {month: len(of) for month, of in months.items()} == {"2023-02": 4, "2023-03": 3}
    assert list(months) == ["2023-02", "2023-03"]


def test_rows_of_a_month_are_those_of_a_study_of_that_month() -> None:
    windows = winter()
    rows = score_by_month(windows, POLICIES[:2], [COST])
    assert [(row.month, row.policy, row.load) for row in rows] == [
        (month, policy, "all") for month in ("2023-02", "2023-03") for policy in POLICIES[:2]
    ]
    march = [trial for trial in windows if trial.episode.submitted_s >= MARCH_S]
    alone = [row for row in score(march, POLICIES[:2], [COST]) if row.load == "all"]
    assert [replace(row, month="all") for row in rows[2:]] == alone


def test_differences_come_by_month_too() -> None:
    found = differences(winter(), POLICIES[:2], "reactive", [COST])
    by = {d.month: (d.windows, d.overlap_h) for d in found if d.load == "all"}
    assert by == {"all": (6, 4.0), "2023-02": (3, pytest.approx(14 / 3)), "2023-03": (3, pytest.approx(10 / 3))}


def test_the_other_policy_is_the_one_named_else_what_if_else_none() -> None:
    assert compared_with(["average", "what-if:32", "what-if"], None) == "what-if:32"
    assert compared_with(["average", "what-if"], "average") == "average"
    assert compared_with(["average"], None) is None
    with pytest.raises(ConfigurationError, match="cannot compare with 'lead:4', which is not judged; judged: average"):
        compared_with(["average"], "lead:4")
    windows = {2: tuple(four_windows())}
    assert assess(windows, ["early", "told"], [COST]).differences == ()
    assert {d.against for d in assess(windows, ["early", "told"], [COST], against="told").differences} == {"told"}
