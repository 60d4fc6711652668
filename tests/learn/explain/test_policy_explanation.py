"""Explanations: a policy that is a tree is recovered; results of others are correct."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from mirage.distill.tree_reading import tree_of
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.learn.explain.policy_examples import covers, examples_of, model_submits
from mirage.learn.explain.policy_explanation import (
    TREE,
    Behaviour,
    cost_apart,
    default_until_s,
    explain,
    fitted_trees,
    tree_submits,
)
from mirage.learn.explain.tree_fidelity import fidelity_of
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings, inputs_at
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy
from mirage.learn.training.trained_policy import LinkSizeModel
from mirage.policy.cost import Cost
from mirage.report.training.explanation_text import explanation_json, print_explanation, tree_file
from tests.support.made_up_hand_overs import BEGIN_S, made_up_hand_overs

pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")

UNTIL_S = BEGIN_S + 40 * DAY_S
RULE = """\
tree: 1
features:
    remaining: duration
    spare_p80: duration
    pending_jobs: number
answers: wait, submit

if spare_p80 < 2h:
    submit
else:
    if pending_jobs < 60:
        wait
    else:
        if remaining < 12h:
            submit
        else:
            wait
"""


@pytest.fixture(scope="module")
def data() -> HandOvers:
    return made_up_hand_overs(60)


def behaviour(submits, **more) -> Behaviour:
    return Behaviour("ours", Cost(), submits, {"ours": submits}, None, **more)


@pytest.fixture(scope="module")
def found_again(data):
    submits = tree_submits(tree_of(RULE), data)
    return explain(data, behaviour(submits, futures=8), [Cost()], UNTIL_S, max_leaves=8)


def test_a_policy_that_is_a_tree_is_found_again(found_again, data):
    agrees = found_again.fidelity
    assert agrees.equal_decisions > 0.999
    assert 0.98 < agrees.equal_hand_overs <= agrees.near_hand_overs == 1
    assert agrees.apart_h < 0.02
    assert 4 <= len(found_again.tree.leaves) <= 8
    assert sum(leaf.apart for leaf in found_again.leaves) <= 1
    by_policy = {row.policy: row for row in found_again.evaluation.rows if row.load == "all"}
    assert by_policy[TREE].cost == pytest.approx(by_policy["ours"].cost, rel=0.02)
    assert by_policy["oracle"].cost <= by_policy[TREE].cost < by_policy["reactive"].cost


def test_smaller_trees_are_reported_down_to_one_answer(found_again):
    sizes = found_again.sizes
    assert [size.leaves for size in sizes] == sorted({size.leaves for size in sizes})
    assert (sizes[0].leaves, sizes[-1].leaves) == (1, len(found_again.tree.leaves))
    assert sizes[0].equal_decisions == pytest.approx(found_again.fidelity.waits)
    assert sizes[0].equal_hand_overs < 0.5 < 0.98 < sizes[-1].equal_hand_overs
    assert sizes[0].near_hand_overs < sizes[-1].near_hand_overs == 1


def test_its_text_is_the_tree_with_what_it_was_made_of(found_again, data):
    text = tree_file(found_again)
    first, judged, agrees, costs = text.splitlines()[:4]
    assert (first, judged.partition(" on,")[0]) == ("tree: 1", "# Judged on 80 hand-overs from 2023-03-13")
    assert agrees.startswith(
        "# 99.9 % of the decisions (always waiting: 95.2 %), 98.8 % of the hand-overs, 100 % within"
    )
    cost = {row.policy: row.cost for row in found_again.evaluation.rows if row.load == "all"}
    expected = f"tree {cost[TREE]:.2f}, policy {cost['ours']:.2f} (difference "
    assert costs.startswith(f"# Cost of a hand-over, links of 8 nodes: {expected}")
    assert costs.endswith(f"), reactive {cost['reactive']:.2f}.")
    assert "    spare_p80: duration   # remaining minus wait_p80" in text.splitlines()
    read = tree_of(text)
    assert read.settings == (("policy", "ours"), ("cost", "1:1"), ("futures", "8"))
    assert (tree_submits(read, data) == tree_submits(found_again.tree, data)).all()


def test_a_policy_that_is_no_tree_is_distinguished(data):
    random = np.random.default_rng(2)
    submits = tree_submits(tree_of(RULE), data) ^ (random.random(len(data)) < 0.05)
    found = explain(data, behaviour(submits), [Cost()], UNTIL_S, max_leaves=4)
    assert 0.5 < found.fidelity.equal_decisions < 1
    assert 0 < found.fidelity.equal_hand_overs < 1
    assert found.leaves[0].answer.startswith(("wait, as ", "submit, as "))
    assert sum(leaf.apart for leaf in found.leaves) <= round(
        found.fidelity.decisions * (1 - found.fidelity.equal_decisions)
    )
    assert [abs(one.cost) for one in found.windows] == sorted((abs(one.cost) for one in found.windows), reverse=True)
    against = {d.policy: d for d in found.evaluation.differences if (d.load, d.month) == ("all", "all")}
    assert against[TREE].against == "ours"
    cost = {row.policy: f"{row.cost:.2f}" for row in found.evaluation.rows if row.load == "all"}
    assert cost[TREE] != cost["ours"]
    assert f"tree {cost[TREE]}, policy {cost['ours']} (difference " in tree_file(found)
    assert [month for month, _ in found.by_month] == ["2023-03", "2023-04"]
    by_tree = tree_submits(found.tree, data)
    in_march = (data.window_s >= UNTIL_S) & (data.window_s < BEGIN_S + 59 * DAY_S)  # February and March have 59 days
    assert found.by_month[0][1] == fidelity_of(data[in_march], submits[in_march], by_tree[in_march])
    assert [agrees.windows for _, agrees in found.by_month] == [4 * 19, 4]


def test_all_of_it_is_printed(found_again):
    printed = io.StringIO()
    print_explanation(found_again, ["a note"], Console(file=printed, width=140, highlight=False))
    text = printed.getvalue()
    assert tree_file(found_again) in text
    assert f"ours at 1:1: {len(found_again.tree.leaves)} leaves, fitted to 157 hand-overs completed by" in text
    assert "(the last 52 selected its size)" in text
    assert "links of 8 nodes, difference from ours, window by window: 80 windows" in text
    assert "a note" in text
    plain = json.loads(json.dumps(explanation_json(found_again, {"seed": 0})))
    assert (plain["leaves"], plain["seed"]) == (len(found_again.tree.leaves), 0)
    assert plain["tree"] == tree_file(found_again)
    assert [month["month"] for month in plain["months"]] == ["2023-03", "2023-04"]


def test_a_model_is_read_off_the_data_where_it_decides_about_every_size(data):
    pytest.importorskip("xgboost", reason="pip install mirage-hpc[learn]")
    slices = Slices(BEGIN_S + 14 * DAY_S, BEGIN_S + 20 * DAY_S)
    settings = TrainingSettings(rounds=4, most_rows=500)
    trained = train_policy({8: "correction"}, data, slices, CardDetails("made-up", 8), settings)
    assert covers(trained, data)
    for cost in (Cost(), Cost(5, 1)):
        expected = trained.parts[8].model.submits(inputs_at(data), cost)
        assert (model_submits(trained, data, cost) == expected).all()
    assert not covers(replace(trained, parts={8: LinkSizeModel("what-if")}), data)
    assert not covers(replace(trained, parts={1: trained.parts[8]}), data)


def test_fidelity_counts_what_the_policy_comes_to(data):
    one = data[: data.windows()[1]]
    policy, tree = np.zeros(len(one), dtype=bool), np.zeros(len(one), dtype=bool)
    policy[9:], tree[12:] = True, True
    agrees = fidelity_of(one, policy, tree)
    assert (agrees.windows, agrees.decisions, agrees.equal_hand_overs) == (1, 10, 0)
    assert (agrees.equal_decisions, agrees.waits, agrees.apart_h, agrees.near_hand_overs) == (0.9, 0.9, 3, 0)
    tree[10] = True
    agrees = fidelity_of(one, policy, tree)
    assert (agrees.equal_hand_overs, agrees.near_hand_overs, agrees.apart_h) == (0, 1, 1)


def test_every_decision_with_a_choice_has_equal_weight_also_after_the_submission(data):
    two = data[: data.windows()[2]]
    submits = np.zeros(len(two), dtype=bool)
    submits[[3, 7]] = True
    examples = examples_of(two, submits)
    assert examples.where.tolist() == np.flatnonzero(two.remaining_s > 0).tolist()
    assert (examples.choices.stake == 1).all()
    assert np.flatnonzero(examples.choices.costs[:, 1] == 0).tolist() == [3, 7]
    assert examples.choices.rows[:, 0].tolist() == two.remaining_s[examples.where].tolist()


def test_the_size_is_chosen_on_the_last_windows_before_the_moment_and_nothing_later_matters(data):
    submits = tree_submits(tree_of(RULE), data)
    is_later = data.window_s >= UNTIL_S
    random = np.random.default_rng(1)
    noisy = submits ^ ((random.random(len(data)) < 0.3) & is_later)
    found, same = (
        fitted_trees(data, examples_of(data, flags), flags, Cost(), UNTIL_S, 4, 0) for flags in (submits, noisy)
    )
    assert (found.trees, found.chosen) == (same.trees, same.chosen)
    assert found.choice_windows == 52
    assert [len(tree.leaves) for tree in found.trees] == [1, 2, 4]
    assert found.tree is found.trees[2]


def test_where_all_moments_cost_the_same_the_size_is_chosen_by_the_moments(data):
    equal = replace(data, outcome_s=np.zeros_like(data.outcome_s))
    submits = tree_submits(tree_of(RULE), equal)
    assert fitted_trees(equal, examples_of(equal, submits), submits, Cost(), UNTIL_S, 4, 0).chosen == 2


def test_costs_apart_count_either_way(data):
    three = data[: data.windows()[3]]
    edges = three.windows()
    at_end, early = np.zeros(len(three), dtype=bool), np.zeros(len(three), dtype=bool)
    early[edges[:-1]] = True
    outcome_s = three.outcome_s.astype(float)
    expected = np.abs(Cost(3).of(outcome_s[edges[1:] - 1]) - Cost(3).of(outcome_s[edges[:-1]])).mean()
    assert cost_apart(three, at_end, early, Cost(3)) == cost_apart(three, early, at_end, Cost(3)) == expected > 0


def test_the_last_third_is_held_out_and_too_little_is_refused(data):
    assert default_until_s(data) == BEGIN_S + 40 * DAY_S
    submits = np.zeros(len(data), dtype=bool)
    with pytest.raises(
        ConfigurationError,
        match="no window of the data starts on 2024-01-01 or later, to judge the tree",
    ):
        explain(data, behaviour(submits), [Cost()], 1_704_067_200)
    with pytest.raises(ConfigurationError, match="too few windows of the data are over by 2023-02-01"):
        explain(data, behaviour(submits), [Cost()], BEGIN_S + HOUR_S)
    labels = replace(data, names=(), features=np.zeros((len(data), 0), dtype=np.float32))
    with pytest.raises(ConfigurationError, match="the data set has labels only; make it again without --labels-only"):
        explain(labels, behaviour(submits), [Cost()], UNTIL_S)
