"""A fit finds the rule of the examples, weighs errors by cost, has held-out figures."""

import builtins
import sys

import numpy as np
import pytest

from mirage.distill.pruning import FitSettings
from mirage.distill.tree import Leaf, Split, Tree, TreeFeature
from mirage.distill.tree_examples import Amounts, Choices
from mirage.distill.tree_fit import counted, figures, fitted, snapped_threshold
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install

FEATURES = (
    TreeFeature("remaining", Unit.DURATION),
    TreeFeature("nodes"),
    TreeFeature("load", Unit.SHARE),
    TreeFeature("weekend", Unit.FLAG),
)
RULE = tree_of("""
tree: 1
features:
    remaining: duration
    nodes: number
    load: share
    weekend: flag
answers: wait, submit
if remaining < 6h:
    submit
else:
    if load < 80 %:
        if nodes < 17:
            submit
        else:
            wait
    else:
        submit
""")


def groups_apart(group, share, rng):
    """Selects rows to hold out: all rows of about a share of the groups.

    Raises:
        ConfigurationError: That would be no group, or all groups.
    """
    names, number = np.unique(group, return_inverse=True)
    count = round(share * len(names))
    if not 0 < count < len(names):
        raise ConfigurationError(f"a share of {share} of {len(names)} groups is {count}; hold out some, and not all")
    return np.asarray(rng.permutation(len(names))[number] < count)


def rows_of(n, rng):
    return np.column_stack(
        [rng.uniform(0, 86_400, n), rng.integers(1, 129, n), rng.random(n), rng.integers(0, 2, n)]
    ).astype(float)


def undecorated(node):
    if isinstance(node, Leaf):
        return Leaf(node.value)
    return Split(node.feature, node.threshold, undecorated(node.below), undecorated(node.above))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_rule_that_made_the_examples_is_found(noise):
    rng = np.random.default_rng(1)
    rows = rows_of(4_000, rng)
    right = RULE.codes(rows)
    code = np.where(rng.random(len(rows)) < noise, 1 - right, right)
    examples = Choices.of_labels(FEATURES, rows, RULE.answers, [RULE.answers[k] for k in code])
    held_out = groups_apart(examples.group, 0.25, rng)
    fit = fitted(examples, held_out, rng)
    assert undecorated(fit.tree.root) == RULE.root
    assert fit.held_out == figures(RULE, examples.part(held_out))
    assert (fit.held_out.rows, fit.held_out.leaves, fit.held_out.depth) == (1_000, 4, 3)
    assert fit.held_out.fidelity == float((code == right)[held_out].mean())
    assert sum(leaf.share for leaf in fit.tree.leaves) == pytest.approx(1)
    assert all(leaf.certainty == pytest.approx(1 - noise, abs=0.05) for leaf in fit.tree.leaves)
    assert undecorated(tree_of(text_of(fit.tree)).root) == RULE.root


def test_costs_and_not_the_share_of_equal_answers_decide():
    """Waiting is best in 70 % of a day's rows, and costs ten times as much in the others."""
    rng = np.random.default_rng(2)
    rows = rows_of(2_000, rng)
    is_weekday, is_calm = rows[:, 3] == 0, rng.random(2_000) < 0.7
    wait = np.where(is_weekday & ~is_calm, 10.0, 0.0)
    submit = np.where(is_weekday & ~is_calm, 0.0, 1.0)
    examples = Choices(FEATURES, rows, ("wait", "submit"), np.column_stack([wait, submit]), np.arange(2_000))
    fit = fitted(examples, groups_apart(examples.group, 0.25, rng), rng)
    assert undecorated(fit.tree.root) == Split("weekend", 0.5, Leaf("submit"), Leaf("wait"))
    assert fit.held_out.fidelity == pytest.approx(0.65, abs=0.05)
    assert fit.held_out.weighted_fidelity == pytest.approx((0.5 + 0.5 * 3) / (0.5 + 0.5 * 3.7), abs=0.04)
    assert fit.held_out.cost == pytest.approx(0.5 * 0.7, abs=0.04)
    assert (fit.held_out.least_cost, fit.held_out.constant_cost) == (0, pytest.approx(0.85, abs=0.04))


def test_several_answers_with_costs():
    """The middle answer is never best at low load, yet the cheapest one for all these rows."""
    rng = np.random.default_rng(3)
    rows = rows_of(2_000, rng)
    is_low, coin = rows[:, 2] < 0.3, rng.random(2_000) < 0.5
    small, large = np.where(coin, 0.0, 9.0), np.where(coin, 9.0, 0.0)
    costs = np.where(is_low[:, None], np.column_stack([small, np.full(2_000, 2.0), large]), np.array([0.0, 3.0, 5.0]))
    examples = Choices(FEATURES, rows, ("small", "middle", "large"), costs + 100, np.arange(2_000))
    fit = fitted(examples, groups_apart(examples.group, 0.25, rng), rng)
    near = pytest.approx(0.3, abs=0.01)
    assert undecorated(fit.tree.root) == Split("load", near, Leaf("middle"), Leaf("small"))
    assert [leaf.certainty for leaf in fit.tree.leaves] == [0, pytest.approx(1, abs=0.01)]
    assert fit.held_out.least_cost == 100
    assert fit.held_out.fidelity == pytest.approx(0.7, abs=0.05)


def test_numbers_are_fitted_no_finer_than_they_are_known():
    rng = np.random.default_rng(4)
    rows = rows_of(1_000, rng)
    value = np.where(rows[:, 0] < 6 * 3_600, 3_600.0, 7_200.0) + rng.normal(0, 300, 1_000)
    examples = Amounts(FEATURES, rows, Unit.DURATION, value, np.ones(1_000), np.arange(1_000))
    fit = fitted(examples, groups_apart(examples.group, 0.25, rng), rng, FitSettings(max_leaves=4))
    assert undecorated(fit.tree.root) == Split("remaining", 21_600, Leaf(3_600.0), Leaf(7_200.0))
    assert fit.tree.leaves[0].certainty is None
    assert fit.held_out.cost == pytest.approx(300**2, rel=0.15)
    assert fit.held_out.fidelity == pytest.approx(1 - 300**2 / np.var(value), abs=0.01)


def test_there_are_never_more_leaves_than_wanted():
    rng = np.random.default_rng(5)
    rows = rows_of(1_000, rng)
    examples = Amounts(FEATURES, rows, Unit.NUMBER, rows[:, 2], np.ones(1_000), np.arange(1_000))
    fit = fitted(examples, groups_apart(examples.group, 0.2, rng), rng, FitSettings(max_leaves=5))
    assert len(fit.tree.leaves) == 5
    assert fit.held_out.fidelity > 0.9


def test_a_threshold_is_rounded_within_its_gap_and_past_few_examples():
    values, stake = np.arange(1.0, 1_001.0), np.ones(1_000)
    assert snapped_threshold(values, stake, 16.5, Unit.NUMBER, 0.0) == 17
    assert snapped_threshold(values, stake, 16.5, Unit.NUMBER, 0.005) == 17  # easy enough
    assert snapped_threshold(values, stake, 452.5, Unit.NUMBER, 0.0) == 453
    assert snapped_threshold(values, stake, 452.5, Unit.NUMBER, 0.005) == 450  # three examples move
    assert snapped_threshold(values, stake, 456.5, Unit.NUMBER, 0.001) == 456  # one may move
    matters = np.where(values == 452, 100.0, 1.0)
    assert snapped_threshold(values, matters, 452.5, Unit.NUMBER, 0.005) == 455
    matters = np.where(values == 457, 100.0, 1.0)
    assert snapped_threshold(values, matters, 456.5, Unit.NUMBER, 0.005) == 455
    matters = np.where(abs(values - 452) < 40, 0.0, 1.0)  # a gap where nothing matters
    assert snapped_threshold(values, matters, 452.5, Unit.NUMBER, 0.0) == 450


def test_an_edited_tree_is_counted_and_judged():
    rows = np.array([[0.0, 1, 0.1, 0], [0, 1, 0.2, 1], [90_000, 1, 0.3, 0], [90_000, 60, 0.4, 1]])
    examples = Choices.of_labels(FEATURES, rows, RULE.answers, ["submit"] * 3 + ["wait"], np.array([1.0, 2, 3, 4]))
    edited = Tree(FEATURES, RULE.answers, Split("remaining", 3_600, Leaf("submit"), Leaf("wait")))
    assert counted(edited, examples).leaves == (Leaf("submit", 0.5, 1.0), Leaf("wait", 0.5, 0.5))
    assert (figures(edited, examples).fidelity, figures(edited, examples).weighted_fidelity) == (0.75, 0.7)
    never = Tree(FEATURES, RULE.answers, Split("nodes", 0, Leaf("wait"), Leaf("submit")))
    assert counted(never, examples).leaves[0] == Leaf("wait", 0.0, None)
    with pytest.raises(ConfigurationError, match="different features or answers, or in another order"):
        figures(Tree(FEATURES[::-1], RULE.answers, Leaf("wait")), examples)


def test_groups_are_held_out_as_a_whole():
    group = np.arange(1_000) // 10
    held_out = groups_apart(group, 0.2, np.random.default_rng(0))
    assert held_out.reshape(100, 10).all(axis=1).sum() == held_out.sum() / 10 == 20
    with pytest.raises(ConfigurationError, match=r"a share of 0\.001 of 100 groups is 0; hold out some, and not all"):
        groups_apart(group, 0.001, np.random.default_rng(0))


ROWS = np.zeros((2, 4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choices.of_labels(FEATURES, ROWS, ("a", "b"), ["a", "c"]), "unknown answer 'c'. Known: a, b."),
        (
            lambda: Choices.of_labels(FEATURES, ROWS, ("a", "b"), ["a"]),
            "weights have the shape (2,); give one for each of 1 labels",
        ),
        (
            lambda: Choices(FEATURES, ROWS, ("a", "b"), np.zeros((2, 3)), np.arange(2)),
            "costs have the shape (2, 3); give a finite one for each of 2 rows and 2 answers",
        ),
        (
            lambda: Choices(FEATURES, ROWS[:, :3], ("a",), np.zeros((2, 1)), np.arange(2)),
            "rows have the shape (2, 3); give one column for each of 4 features",
        ),
        (
            lambda: Choices(FEATURES, ROWS + np.inf, ("a",), np.zeros((2, 1)), np.arange(2)),
            "feature 'remaining' is not finite in some row; leave such rows out",
        ),
        (
            lambda: Choices(FEATURES, ROWS + 2, ("a",), np.zeros((2, 1)), np.arange(2)),
            "feature 'weekend' is a flag, but not 0 or 1 in some row; give 0 or 1",
        ),
        (
            lambda: Amounts(FEATURES, ROWS, Unit.NUMBER, np.zeros(2), np.array([1.0, -1]), np.arange(2)),
            "a weight is -1.0; give 0 or more",
        ),
        (
            lambda: Amounts(FEATURES, ROWS, Unit.NUMBER, np.zeros(2), np.ones(2), np.arange(3)),
            "groups have the shape (3,); give one for each of 2 rows",
        ),
        (
            lambda: fitted(
                Choices(FEATURES, ROWS, ("a",), np.zeros((2, 1)), np.arange(2)),
                np.zeros(2, dtype=bool),
                np.random.default_rng(0),
            ),
            "0 of 2 rows are held out; hold out some, and not all",
        ),
    ],
)
def test_examples_that_cannot_be(make, message):
    with pytest.raises((ConfigurationError, UnknownName)) as raised:
        make()
    assert str(raised.value) == message


def test_without_scikit_learn_the_error_names_the_remedy(monkeypatch):
    examples = Choices.of_labels(FEATURES, np.zeros((4, 4)), ("a", "b"), ["a", "b", "a", "b"])
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    with pytest.raises(ConfigurationError) as raised:
        fitted(examples, np.array([True, False, False, False]), np.random.default_rng(0), FitSettings(folds=2))
    assert f"{install('learn')}" in str(raised.value)
