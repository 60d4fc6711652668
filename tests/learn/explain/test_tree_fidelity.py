"""Fidelity of a tree: where it differs from a policy, by hand."""

import numpy as np
import pytest

from mirage.distill.tree_reading import tree_of
from mirage.duration import DAY_S, HOUR_S
from mirage.learn.explain.policy_explanation import tree_submits
from mirage.learn.explain.tree_fidelity import (
    LeafDifference,
    WindowDifference,
    fidelity_of,
    leaf_differences,
    reached_rows,
    window_differences,
)
from mirage.policy.cost import Cost
from tests.support.made_up_hand_overs import BEGIN_S, made_up_hand_overs

TREE = """\
tree: 1
features:
    remaining: duration
answers: wait, submit

if remaining < 6h:
    submit
else:
    wait
"""


def test_a_policy_without_a_decision_that_has_a_choice_is_equalled() -> None:
    data = made_up_hand_overs(2)
    ends = data[data.remaining_s == 0]
    nowhere = np.zeros(len(ends), dtype=bool)
    agrees = fidelity_of(ends, nowhere, nowhere)
    assert (agrees.windows, agrees.decisions, agrees.equal_decisions, agrees.waits) == (8, 0, 1.0, 1.0)
    assert (agrees.equal_hand_overs, agrees.near_hand_overs, agrees.apart_h) == (1.0, 1.0, 0.0)
    assert leaf_differences(tree_of(TREE), ends, nowhere) == ()


def test_decisions_up_to_the_submission_are_reached() -> None:
    data = made_up_hand_overs(1)[:48]  # two windows of 24 decisions
    submits = np.zeros(48, dtype=bool)
    submits[[2, 4]] = True
    assert reached_rows(data, submits).tolist() == [0, 1, 2, *range(24, 47)]  # not the last, which has no choice


def test_the_leaves_that_differ_are_listed_with_their_decisions() -> None:
    data = made_up_hand_overs(1)[:48]
    tree = tree_of(TREE)
    policy = np.zeros(48, dtype=bool)
    policy[[3, 24 + 21]] = True  # 20 h and 2 h before the end; the tree submits first with 5 h left, at decision 18
    found = leaf_differences(tree, data, policy)
    # reached: 0 to 3, of which the tree differs at 3; and 0 to 21, of which it differs at 18, 19 and 20
    assert found == (
        LeafDifference("submit, as remaining < 6h", 4, 3),
        LeafDifference("wait, as remaining >= 6h", 4 + 18, 1),
    )
    assert leaf_differences(tree, data, tree_submits(tree, data)) == ()


def test_the_windows_that_differ_are_listed_with_leads_gaps_and_costs() -> None:
    data = made_up_hand_overs(3)
    data.outcome_s[:] = 0
    submits = np.zeros(len(data), dtype=bool)
    tree = np.zeros(len(data), dtype=bool)
    first = data.windows()[:3]
    in_policy, in_tree = first + np.array([20, 21, 22]), first + np.array([18, 21, 12])
    submits[in_policy] = True
    tree[in_tree] = True
    data.outcome_s[in_policy] = [2 * HOUR_S, HOUR_S, 0]
    data.outcome_s[in_tree] = [-HOUR_S, HOUR_S, -9 * HOUR_S]
    cost = Cost(3, 1)  # 6 and then 1; 3 twice; nothing and then 9
    assert window_differences(data, submits, tree, cost) == (
        WindowDifference("2023-02-01T12:00Z", 8, 1.0, 11.0, 0.0, -9.0, 9.0),
        WindowDifference("2023-02-01T00:00Z", 8, 3.0, 5.0, 2.0, -1.0, -5.0),
    )
    assert BEGIN_S % DAY_S == 0


def test_no_more_than_five_windows_and_leaves_are_listed() -> None:
    data = made_up_hand_overs(3)
    never, at_once = np.zeros(len(data), dtype=bool), np.ones(len(data), dtype=bool)
    found = window_differences(data, never, at_once, Cost())
    assert len(found) == 5
    costs = [abs(one.cost) for one in found]
    assert costs == sorted(costs, reverse=True)
    edges = data.windows()
    every = np.abs(data.outcome_s[edges[:-1]] / HOUR_S) - np.abs(data.outcome_s[edges[1:] - 1] / HOUR_S)
    assert costs == pytest.approx(np.sort(np.abs(every))[::-1][:5])
