"""Scores of hand-made windows: every column of a row, by pencil."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import HOUR_S, WEEK_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation import policy_score
from mirage.provision.evaluation.followed_link import Followed
from mirage.provision.evaluation.oracle import constant_lead, oracle, reactive
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import EvaluationRow, loads, outcome, score, submissions_s
from mirage.study.intervals import Stretches
from tests.support.made_up_windows import MONDAY_S, four_windows, trial

COST = Cost(3, 1)


def hours(result: PolicyOutcome) -> list[float]:
    return ((result.interruption_s - result.overlap_s) / HOUR_S).tolist()


def leads_h(result: PolicyOutcome) -> list[float]:
    return (result.lead_s / HOUR_S).tolist()


def row_of(rows: list[EvaluationRow], policy: str, load: str = "all") -> EvaluationRow:
    (row,) = [row for row in rows if row.policy == policy and row.load == load]
    return row


def test_reactive_takes_the_last_decision() -> None:
    result = reactive(four_windows())
    assert (result.policy, hours(result), leads_h(result)) == ("reactive", [1, 5, 13, 0], [0, 0, 0, 0])
    assert {of.dtype for of in (result.interruption_s, result.overlap_s, result.lead_s)} == {np.dtype(np.float64)}


def test_the_oracle_takes_the_cheapest_decision_of_each_window() -> None:
    result = oracle(four_windows(), COST)
    assert (result.policy, hours(result), leads_h(result)) == ("oracle", [-2, -3, 1, 0], [4, 8, 8, 0])


def test_the_oracle_takes_the_earliest_of_two_of_equal_cost() -> None:
    result = oracle([trial(0, [5, -3, 1])], COST)
    assert (hours(result), leads_h(result)) == ([-3], [4])


@pytest.mark.parametrize(
    ("lead_h", "policy", "taken_h"),
    [
        (0, "lead:0", [0, 0]),
        (3.9, "lead:3.9", [0, 0]),
        (4, "lead:4", [4, 4]),
        (7.5, "lead:7.5", [4, 4]),
        (8, "lead:8", [8, 8]),
        (24, "lead:24", [8, 8]),
    ],
)
def test_a_constant_lead_takes_the_first_decision_within_it(lead_h: float, policy: str, taken_h: list[float]) -> None:
    result = constant_lead(four_windows()[:2], lead_h)
    assert (result.policy, leads_h(result)) == (policy, taken_h)


def test_a_policy_given_a_cost_is_judged_by_what_it_chose_then() -> None:
    windows = four_windows()
    assert hours(outcome("told", windows, COST)) == [-6, -3, 1, -4]
    assert hours(outcome("told", windows, Cost(1, 1))) == [1, 5, 13, 0]
    assert hours(outcome("early", windows, COST)) == [-2, 2, 1, -8]
    assert outcome("early", windows, COST).policy == "early"


def test_the_bounds_go_by_their_names() -> None:
    windows = four_windows()
    assert hours(outcome("reactive", windows, COST)) == [1, 5, 13, 0]
    assert hours(outcome("oracle", windows, COST)) == [-2, -3, 1, 0]


def test_windows_know_their_load_and_their_time() -> None:
    assert loads(four_windows()).tolist() == ["light", "medium", "heavy", "light"]
    assert submissions_s(four_windows()).tolist() == [MONDAY_S + k * (WEEK_S + HOUR_S) for k in range(4)]


def test_every_column_of_a_row() -> None:
    windows = four_windows()
    row = row_of(score(windows, ["early"], [COST]), "early")
    assert replace(row, interruption_95=None, overlap_95=None, cost_95=None, gap_closed_95=None) == EvaluationRow(
        policy="early",
        link_nodes=2,
        load="all",
        cost_ratio=3.0,
        windows=4,
        interruption_h=0.75,  # of 0, 2, 1, 0
        overlap_h=2.5,  # of 2, 0, 0, 8
        interruption_median_h=0.5,
        overlap_median_h=1.0,
        interruption_p95_h=pytest.approx(1.85),
        overlap_p95_h=pytest.approx(7.1),
        lead_h=6.0,  # of 4, 4, 8, 8
        zero_share=0.5,
        cost=4.75,  # of 2, 6, 3, 8
        gap_closed=pytest.approx((57 - 19) / (57 - 8)),  # reactive costs 3, 15, 39, 0; the oracle 2, 3, 3, 0
        interruption_95=None,
        overlap_95=None,
        cost_95=None,
        gap_closed_95=None,
    )


def test_the_row_of_a_load_counts_its_windows_alone() -> None:
    windows = four_windows()
    result = constant_lead(windows, 4.0)
    result = replace(result, lead_s=np.array([1.0, 2.0, 3.0, 10.0]) * HOUR_S)
    members = np.array([True, False, True, False])
    bounds = (reactive(windows), oracle(windows, COST))
    row = policy_score.row_of(result, bounds, COST, 2, "light", members, Stretches.of(submissions_s(windows)))
    assert (row.load, row.windows, row.lead_h) == ("light", 2, 2.0)


def test_intervals_are_those_of_the_stretches() -> None:
    windows = four_windows()
    row = row_of(score(windows, ["early"], [COST]), "early")
    stretches, everyone = Stretches.of(submissions_s(windows)), np.full(4, True)
    assert stretches.of_window.tolist() == [0, 1, 2, 3]
    assert row.interruption_95 == stretches.mean(np.array([0.0, 2, 1, 0]), everyone)
    assert row.overlap_95 == stretches.mean(np.array([2.0, 0, 0, 8]), everyone)
    assert row.cost_95 == stretches.mean(np.array([2.0, 6, 3, 8]), everyone)
    closed = stretches.ratio(np.array([1.0, 9, 36, -8]), np.array([1.0, 12, 36, 0]), everyone)
    assert closed is not None
    assert closed[1] > 1
    assert row.gap_closed_95 == (closed[0], 1.0)  # nobody closes more than all


def test_revisions_may_close_more_than_all() -> None:
    held = Followed(submitted_s=MONDAY_S, outcome_s=0, calls=1, revisions=1)
    windows = [replace(window, followed={"early": held}) for window in four_windows()]
    row = row_of(score(windows, ["early"], [COST]), "early")
    closed = Stretches.of(submissions_s(windows)).ratio(
        np.array([3.0, 15, 39, 0]), np.array([1.0, 12, 36, 0]), np.full(4, True)
    )
    assert closed is not None
    assert closed[1] > 1
    assert row.gap_closed_95 == pytest.approx(closed)


def test_a_window_that_ends_on_the_second_has_no_interruption() -> None:
    windows = [trial(0, [0, 0, 2], {"p": 0}), trial(1, [2, 2, 2], {"p": 1})]
    row = row_of(score(windows, ["p"], [COST]), "p")
    assert (row.zero_share, row.interruption_h, row.overlap_h) == (0.5, 1.0, 0.0)


def test_a_load_class_counts_its_windows_only() -> None:
    rows = score(four_windows(), ["early"], [COST])
    light = row_of(rows, "early", "light")
    assert (light.windows, light.interruption_h, light.overlap_h, light.lead_h) == (2, 0, 5, 6)
    assert (light.cost, light.zero_share) == (5, 1)
    assert light.gap_closed == pytest.approx((3 - 10) / (3 - 2))
    assert row_of(rows, "early", "heavy").interruption_h == 1
    assert row_of(rows, "early", "medium").gap_closed == pytest.approx((15 - 6) / (15 - 3))


def test_two_windows_are_too_few_for_an_interval() -> None:
    light = row_of(score(four_windows(), ["early"], [COST]), "early", "light")
    assert (light.interruption_95, light.overlap_95, light.cost_95, light.gap_closed_95) == (None,) * 4


def test_where_waiting_was_best_there_is_no_gap_to_close() -> None:
    windows = [trial(k, [-9, -5, 0], {"p": 0}) for k in range(4)]
    row = row_of(score(windows, ["p"], [COST]), "p")
    assert (row.gap_closed, row.gap_closed_95) == (None, None)
    assert row.cost_95 == (pytest.approx(9), pytest.approx(9))


def test_without_a_price_of_overlap_there_is_no_ratio() -> None:
    row = row_of(score(four_windows(), ["early"], [Cost(2, 0)]), "early")
    assert (row.cost_ratio, row.cost) == (None, 1.5)
    assert row_of(score(four_windows(), ["early"], [Cost(1, 4)]), "early").cost_ratio == 0.25


def test_rows_come_by_cost_then_load_then_policy() -> None:
    windows = four_windows()[:2]
    rows = score(windows, ["oracle", "early"], [Cost(1, 1), Cost(5, 1)])
    assert [(row.cost_ratio, row.load, row.policy) for row in rows] == [
        (ratio, load, policy)
        for ratio in (1, 5)
        for load in ("all", "light", "medium")
        for policy in ("oracle", "early")
    ]


def test_the_bounds_close_nothing_and_everything() -> None:
    rows = score(four_windows(), ["reactive", "oracle"], [COST])
    worst, best = row_of(rows, "reactive"), row_of(rows, "oracle")
    assert (worst.gap_closed, worst.gap_closed_95) == (0, (0, 0))
    assert best.gap_closed == pytest.approx(1)
    assert best.gap_closed_95 == (pytest.approx(1), pytest.approx(1))


def test_a_row_as_plain_values() -> None:
    row = row_of(score(four_windows(nodes=8), ["early"], [COST]), "early")
    plain = row.to_json()
    assert (plain["policy"], plain["link_nodes"], plain["windows"], plain["lead_h"]) == ("early", 8, 4, 6)
    assert EvaluationRow(**plain) == row
