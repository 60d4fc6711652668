"""Splits that are worth nothing on other rows are pruned, those that cost least first."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from mirage.distill.pruning import MOST_BLOCKS, FitSettings, blocks_of, pruned
from mirage.distill.tree import TreeFeature
from mirage.distill.tree_examples import Amounts, Choices
from mirage.distill.tree_growth import LEAF, GrownTree, collapse_prices, grown, leaves_at
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError

AB = (TreeFeature("a"), TreeFeature("b"))

# Costs by hand: the root 40; below it node 1, 12, with leaves of 5 and 4; above it node 4, 20, with leaves of 2 and 3.
BY_HAND = GrownTree(
    feature=np.array([0, 1, LEAF, LEAF, 1, LEAF, LEAF]),
    low=np.zeros(7),
    high=np.ones(7),
    above=np.array([4, 3, 0, 0, 6, 0, 0]),
    end=np.array([7, 4, 3, 4, 7, 6, 7]),
    answer=np.zeros(7),
    cost=np.array([40.0, 12, 5, 4, 20, 2, 3]),
)


def test_the_weakest_link_goes_first():
    collapse = collapse_prices(BY_HAND)
    assert collapse[[1, 4, 0]].tolist() == [3, 11.5, 11.5]  # 12 − 9; then (40 − 12 − 5) ÷ 2 before 20 − 5
    leaves = {price: np.flatnonzero(leaves_at(BY_HAND, collapse, price)).tolist() for price in (0, 3, 11.4, 11.5)}
    assert leaves == {0: [2, 3, 5, 6], 3: [1, 5, 6], 11.4: [1, 5, 6], 11.5: [0]}


def noisy(n, rng):
    rows = rng.random((n, 2))
    wrong = rng.random(n) < 0.2
    label = np.where((rows[:, 0] < 0.5) != wrong, "x", "y")
    return Choices.of_labels(AB, rows, ("x", "y"), list(label))


def test_noise_is_pruned_and_the_rule_is_left():
    rng = np.random.default_rng(3)
    whole, is_leaf, sizes = pruned(noisy(600, rng), FitSettings(max_leaves=16), rng)
    assert (whole.feature != LEAF).sum() > 10
    assert np.flatnonzero(is_leaf).tolist() == [1, whole.above[0]]
    assert whole.feature[0] == 0
    assert max(size.leaves for size in sizes) <= 16
    assert [size.leaves for size in sizes] == sorted((size.leaves for size in sizes), reverse=True)
    two = next(size for size in sizes if size.leaves == 2)
    assert two.cost == pytest.approx(0.2, abs=0.05)
    assert two.error == 0 or two.cost - min(size.cost for size in sizes) <= two.error


def test_no_leaf_is_left_where_nothing_can_be_learned():
    rng = np.random.default_rng(5)
    label = rng.choice(["x", "y"], 300)
    _, is_leaf, _ = pruned(Choices.of_labels(AB, rng.random((300, 2)), ("x", "y"), list(label)), FitSettings(), rng)
    assert np.flatnonzero(is_leaf).tolist() == [0]


def test_a_group_is_never_on_both_sides():
    """Rows of a group are alike and have one random label: one row reveals the others."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(40), 20)
    rows, label = rng.random((40, 2))[group], rng.choice(["x", "y"], 40)[group]
    leaves = []
    for known in (group, np.arange(800)):
        examples = Choices.of_labels(AB, rows, ("x", "y"), list(label), group=known)
        leaves.append(int(pruned(examples, FitSettings(least_share=0.0), np.random.default_rng(2))[1].sum()))
    assert leaves[0] <= 3
    assert leaves[1] >= 10


def test_blocks_do_not_divide_groups():
    group = np.arange(3_000) // 3
    block = blocks_of(group, 5, np.random.default_rng(0))
    assert all(len(set(block[group == g])) == 1 for g in range(0, 1_000, 97))
    assert np.unique(block).tolist() == list(range(MOST_BLOCKS))
    with pytest.raises(ConfigurationError, match="the examples come from 3 groups, and there are 5 folds; use fewer"):
        blocks_of(np.array([7, 7, 8, 9]), 5, np.random.default_rng(0))


def test_the_grown_tree_is_that_of_scikit_learn():
    rng = np.random.default_rng(8)
    examples = noisy(300, rng)
    ours = grown(examples, 20, 0.0, 4)
    theirs = DecisionTreeClassifier(max_leaf_nodes=20, random_state=4)
    right = examples.costs.argmin(axis=1)
    theirs.fit(examples.rows, right)
    ends = [where for where, column in zip(ours.rows_of_nodes(examples.rows), ours.feature, strict=True) if column < 0]
    assert len(ends) == theirs.get_n_leaves()
    leaf = theirs.apply(examples.rows)
    assert {frozenset(np.flatnonzero(leaf == k)) for k in set(leaf)} == {frozenset(where) for where in ends}
    assert ours.cost[0] == min((right == 0).sum(), (right == 1).sum())


def test_growth_tests_first_what_costs_most():
    """The label follows feature a in most rows, and feature b in the few that are dear."""
    rows = np.array([[0.0, 0]] * 9 + [[1, 0]] * 9 + [[0, 1]] * 3)
    label = ["x"] * 9 + ["y"] * 9 + ["y"] * 3
    for dear, column in ((1.0, 0), (50.0, 1)):
        weight = np.repeat([1.0, dear], [18, 3])
        examples = Choices.of_labels(AB, rows, ("x", "y"), label, weight)
        assert grown(examples, 2, 0.0, 0).feature[0] == column


def test_seconds_since_1970_stay_apart():
    """As 32-bit floats, which scikit-learn stores, these values are equal."""
    start = 1_700_000_000.0
    rows = start + np.arange(40.0)[:, None]
    value = np.where(rows[:, 0] < start + 17, 1.0, 2.0)
    examples = Amounts(AB[:1], rows, Unit.NUMBER, value, np.ones(40), np.arange(40))
    tree = grown(examples, 8, 0.0, 0)
    assert (tree.low[0], tree.high[0], tree.cost.tolist()) == (start + 16, start + 17, [pytest.approx(9.775), 0, 0])


def test_nothing_to_learn_is_refused():
    same = Choices(AB, np.zeros((4, 2)), ("x", "y"), np.ones((4, 2)), np.arange(4))
    with pytest.raises(ConfigurationError, match="no example distinguishes the answers, all cost the same; give some"):
        grown(same, 8, 0.0, 0)


@pytest.mark.parametrize("wrong", [{"max_leaves": 0}, {"folds": 1}, {"least_share": 0.5}, {"may_move": -0.1}])
def test_settings_that_cannot_be(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigurationError, match=f"{name} is {value}"):
        FitSettings(**wrong)


@pytest.mark.parametrize("errors", [0.0, 1.0, 1e9])
def test_fewer_leaves_may_cost_more_by_a_number_of_standard_errors(errors):
    rng = np.random.default_rng(4)
    rows = rng.random((300, 2))
    step = np.floor(rows[:, 0] * 8) % 2 == 0
    examples = Choices.of_labels(AB, rows, ("x", "y"), list(np.where(step ^ (rng.random(300) < 0.3), "x", "y")))
    _, is_leaf, sizes = pruned(examples, FitSettings(max_leaves=16, errors=errors), rng)
    least = min(size.cost for size in sizes)
    enough = min(size.leaves for size in sizes if size.cost <= least * (1 + 1e-9) + errors * size.error)
    assert is_leaf.sum() == enough
    assert is_leaf.sum() == 1 if errors > 1 else is_leaf.sum() > 1


def test_without_folds_it_is_the_largest_of_the_nested_trees_that_it_may_have():
    rng = np.random.default_rng(5)
    rows = rng.random((600, 2))
    label = np.array(["x", "y"])[(np.floor(rows[:, 0] * 8) % 2).astype(int)]
    examples = Choices.of_labels(AB, rows, ("x", "y"), list(label))
    for most, leaves in ((2, 2), (7, 2), (32, 8)):
        whole, is_leaf, (size,) = pruned(examples, FitSettings(max_leaves=most, folds=0), rng)
        assert int(is_leaf.sum()) == size.leaves == leaves
        assert size.cost == pytest.approx(whole.cost[is_leaf].sum() / 600)
