"""Methods other than plain CART, on decisions with a known rule."""

import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from mirage.dag.distilled.candidate_columns import FEATURES as ALL_FEATURES
from mirage.dag.distilled.methods.cart import LEVELS, Cart, climbed, one_in
from mirage.dag.distilled.methods.optimal import OptimalSettings, drawn, optimal, optimal_tree, thresholds
from mirage.dag.distilled.methods.tree_methods import METHODS, TimedLearner, learner_of
from mirage.dag.distilled.methods.trustee import TrusteeSettings, mean_agreement, top_branches, trustee
from mirage.distill.ranking import Contests, agreement
from mirage.distill.tree import Leaf, Split, Tree, TreeFeature
from mirage.distill.tree_examples import Amounts
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install

FEATURES = (TreeFeature("work", Unit.DURATION), TreeFeature("ready", Unit.FLAG), TreeFeature("holds"))


def contests_of(m, seed, *, noise=0.0, plain=False):
    """Contests of 2 to 5 candidates with a known favourite.

    Short ones are liked where ready, long ones where not; in a plain rule, ready ones
    first, and of these short ones.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, m)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    n = sizes.sum()
    rows = np.column_stack([rng.uniform(0, 3_600, n), rng.integers(0, 2, n), rng.integers(0, 9, n)]).astype(float)
    is_short, is_ready = rows[:, 0] < 1_200, rows[:, 1] == 1
    liking = is_ready + 0.4 * is_short if plain else 2.0 * (is_short == is_ready) + rng.normal(0, noise, n)
    return Contests(FEATURES, rows, first, liking, np.ones(m), np.arange(m) * 20 // m)


@pytest.mark.slow
def test_a_larger_budget_is_never_less_faithful_in_the_episodes_that_choose():
    contests = contests_of(120, 0, noise=2.0)
    others, cart = contests.part(one_in(contests, 4)), Cart(0)
    trees = [cart(contests, budget, np.random.default_rng(budget)) for budget in (2, 3, 5)]
    assert [len(tree.leaves) <= budget for tree, budget in zip(trees, (2, 3, 5), strict=True)] == [True] * 3
    fidelity = [agreement(tree, others) for tree in trees]
    assert fidelity == sorted(fidelity)
    levels = list(cart.levels(contests, 5))
    assert [level.most_leaves for level in levels] == [level for level in LEVELS if level <= 5]
    assert fidelity[-1] == max(level.fidelity for level in levels)


def test_episodes_that_choose_are_whole():
    contests = contests_of(200, 1)
    chosen = one_in(contests, 4)
    assert set(contests.group[chosen]).isdisjoint(contests.group[~chosen])
    assert chosen.mean() == pytest.approx(0.25)
    alone = replace(contests, group=np.zeros(200, dtype=np.int64))
    assert one_in(alone, 4).mean() == pytest.approx(0.25)
    four = replace(contests, group=np.arange(200) // 50 * 5)  # as many episodes as parts
    assert one_in(four, 4).tolist() == (four.group == 15).tolist()
    three = one_in(replace(contests, group=np.arange(200) % 3), 4)
    assert three.tolist() == (np.arange(200) % 4 == 3).tolist()  # fewer: decisions are taken by turns
    with pytest.raises(ConfigurationError, match=r"^there are 3 decisions; a tree needs at least 4$"):
        one_in(contests.part(np.arange(200) < 3), 4)
    assert one_in(contests.part(np.arange(200) < 4), 4).tolist() == [False, False, False, True]


def test_allowed_questions_cut_apart_and_are_none_twice():
    rows = contests_of(100, 2).rows
    questions = thresholds(FEATURES, rows, 3)
    assert (1, 0.5) in questions
    sides = [tuple(rows[:, column] >= threshold) for column, threshold in questions]
    assert len(set(sides)) == len(sides) == 7
    assert all(0 < sum(side) < len(rows) for side in sides)
    rows[:, 2] = rows[:, 1]
    assert [column for column, _ in thresholds(FEATURES, rows, 3)] == [0, 0, 0, 1]
    with pytest.raises(ConfigurationError, match="distinguishes candidates"):
        thresholds(FEATURES, np.ones((5, 3)), 3)


def test_small_steps_find_what_no_single_condition_shows():
    few = contests_of(100, 7)
    rows = np.zeros((len(few.rows), len(ALL_FEATURES)))
    for column, feature in enumerate(ALL_FEATURES):
        if feature.name in ("work", "ready"):
            rows[:, column] = few.rows[:, [one.name for one in FEATURES].index(feature.name)]
    contests = replace(few, features=ALL_FEATURES, rows=rows)
    blank = Tree(ALL_FEATURES, Unit.NUMBER, Leaf(1.0), (("cap", "0.25 1.5"),))
    tree = climbed(blank, contests, 4, np.random.default_rng(0), 800)
    # an exclusive or: neither of its halves says anything alone
    assert agreement(blank, contests) < 0.7
    assert agreement(tree, contests) > 0.8
    assert len(tree.leaves) <= 4
    assert min(leaf.value for leaf in tree.leaves) == 1.0
    assert tree.settings == blank.settings
    assert climbed(blank, contests, 4, np.random.default_rng(0), 800) == tree


def test_no_tree_of_its_size_has_less_error_than_the_optimal_one():
    pytest.importorskip("pystreed", reason="pip install mirage-hpc[distill]")
    contests, settings = contests_of(400, 3), OptimalSettings(quantiles=5, drawn=1_500)
    two, four = (optimal_tree(contests, leaves, np.random.default_rng(0), settings) for leaves in (2, 4))
    assert two.is_proven
    assert four.is_proven
    rows, value = drawn(contests.amounts(), 1_500, np.random.default_rng(0))
    sides = [rows[:, column] >= threshold for column, threshold in thresholds(FEATURES, rows, 5)]
    least = min(sum(value[side].var() * side.mean() for side in (above, ~above)) for above in sides)
    assert two.squared_error == pytest.approx(least)
    # neither half of an exclusive or says anything alone: only a search that looks ahead finds the first question
    assert (four.tree.depth, len(four.tree.leaves), set(four.tree.tested)) == (2, 4, {"work", "ready"})
    assert four.squared_error < 0.8 * two.squared_error
    assert agreement(four.tree, contests) > 0.95
    reported = []
    optimal(contests, 2, np.random.default_rng(0), unproven=lambda *one: reported.append(one))
    assert reported == []
    assert optimal_tree(contests, 1, np.random.default_rng(0)).tree.depth == 0
    few = contests.part(np.arange(400) < 2)
    with pytest.raises(
        ConfigurationError, match="candidates to learn from, but a leaf has at least 10; give more jobs"
    ):
        optimal_tree(few, 2, np.random.default_rng(0))
    assert optimal_tree(contests.part(np.arange(400) < 4), 2, np.random.default_rng(0)).tree.leaves


@pytest.mark.slow
def test_a_solver_that_gets_little_of_the_processor_is_given_more_time():
    pytest.importorskip("pystreed", reason="pip install mirage-hpc[distill]")
    contests, settings = contests_of(400, 3, noise=2.0), OptimalSettings(quantiles=60, drawn=2_000, limit_s=1.0)
    clock = iter([0.0, 0.4, 10.0, 11.0])  # two fifths of the first second, then enough
    began_s = time.monotonic()
    optimal_tree(contests, 32, np.random.default_rng(0), settings, clock.__next__)
    assert time.monotonic() - began_s > 1.5  # the solver counts whole seconds
    assert next(clock, None) is None


def test_the_branches_with_most_weight_are_retained():
    short, less, long, busy = [10.0, 0.0, 1.0], [600.0, 0.0, 1.0], [2_000.0, 0.0, 1.0], [2_000.0, 0.0, 8.0]
    rows = np.array([short, long] * 8 + [long, busy] * 2 + [less, long])
    contests = Contests(FEATURES, rows, np.arange(0, 22, 2), np.tile([1.0, 0.0], 11), np.ones(11), np.zeros(11, int))
    halves = Split("work", 60.0, Leaf(9.0), Leaf(8.0)), Split("holds", 4.0, Leaf(7.0), Leaf(6.0))
    tree = Tree(FEATURES, Unit.NUMBER, Split("work", 1_000.0, *halves))
    assert top_branches(tree, contests, 2).tested == ()
    pruned = top_branches(tree, contests, 3)
    assert pruned.tested == ("work", "holds")
    assert [leaf.value for leaf in pruned.leaves] == pytest.approx([0.5, (2 - 9) / 22, -0.5])


def test_of_repetitions_the_one_is_taken_that_agrees_most():
    contests = contests_of(100, 4)
    by_work = Tree(FEATURES, Unit.NUMBER, Split("work", 1_200.0, Leaf(2.0), Leaf(1.0)))
    likewise = Tree(FEATURES, Unit.NUMBER, Split("work", 1_300.0, Leaf(2.0), Leaf(1.0)))
    apart = Tree(FEATURES, Unit.NUMBER, Split("holds", 4.0, Leaf(2.0), Leaf(1.0)))
    alike = mean_agreement([by_work, apart, likewise], contests)
    assert np.argmin(alike) == 1
    assert mean_agreement([by_work], contests).tolist() == [0.0]


@pytest.mark.slow
def test_loops_of_trustee_find_a_rule():
    contests = contests_of(400, 5, plain=True)
    tree = trustee(contests, 8, np.random.default_rng(0), TrusteeSettings(repetitions=2, turns=3))
    assert len(tree.leaves) <= 8
    assert agreement(tree, contests) > 0.8
    again = trustee(contests, 8, np.random.default_rng(0), TrusteeSettings(repetitions=2, turns=3))
    assert again == tree


def test_methods_are_found_by_name(monkeypatch):
    assert METHODS == ("cart", "climb", "optimal", "trustee")
    with pytest.raises(UnknownName, match=r"cart, climb, optimal, trustee"):
        learner_of("forest", "equal", 0)
    with pytest.raises(UnknownName, match=r"equal, margin"):
        learner_of("cart", "heavy", 0)
    monkeypatch.setitem(sys.modules, "pystreed", None)
    with pytest.raises(ConfigurationError, match=re.escape(install("distill"))):
        learner_of("optimal", "equal", 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_learner_is_of_the_method_that_is_named(method, monkeypatch):
    module, made = "mirage.dag.distilled.methods.tree_methods", []
    monkeypatch.setattr(f"{module}.solver_module", lambda: None)
    for kind in ("Cart", "Climb"):
        monkeypatch.setattr(f"{module}.{kind}", lambda seed, kind=kind: lambda *given: made.append((kind, seed)))
    for name in ("optimal", "trustee"):
        monkeypatch.setattr(f"{module}.{name}", lambda *given, name=name, **more: made.append((name, more)))

    def report(leaves, tree):
        """Of trees that are not proven."""

    learner_of(method, "equal", 7, report)(contests_of(8, 6), 3, np.random.default_rng(0))
    expected = {"cart": 7, "climb": 7, "optimal": {"unproven": report}, "trustee": {}}
    assert made == [(method.capitalize() if method in ("cart", "climb") else method, expected[method])]


def test_a_learner_gets_a_part_of_many_decisions(monkeypatch):
    monkeypatch.setattr("mirage.dag.distilled.methods.tree_methods.MOST_LEARNT", 3)
    observed = []
    monkeypatch.setattr(
        "mirage.dag.distilled.methods.tree_methods.trustee", lambda given, *rest: observed.append(given)
    )
    learn, contests = learner_of("trustee", "margin", 0), replace(contests_of(8, 6), weight=np.arange(8.0))
    learn(contests, 3, np.random.default_rng(0))
    assert [one.weight.tolist() for one in observed] == [[0, 3, 6]]


def test_candidates_are_drawn_by_their_weight():
    rows, value = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    examples = Amounts(FEATURES[::2], rows, Unit.NUMBER, value, np.where(value < 4, 3.0, 0.0), np.zeros(10, int))
    drawn_rows, drawn_value = drawn(examples, 6, np.random.default_rng(1))
    assert drawn_rows.shape == (6, 2)
    assert (drawn_rows[:, 0] == 2 * drawn_value).all()
    assert set(drawn_value) <= {0, 1, 2, 3}
    assert len(drawn(examples, 99, np.random.default_rng(1))[0]) == 10


def test_decisions_weigh_alike_unless_margins_are_requested():
    contests = replace(contests_of(8, 6), weight=np.arange(1.0, 9.0))
    observed = []

    def learn(given, leaves, rng):
        observed.append((given.weight.tolist(), leaves))
        return Tree(FEATURES, Unit.NUMBER, Leaf(1.0))

    for weight in ("equal", "margin"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("mirage.dag.distilled.methods.tree_methods.trustee", learn)
            timed = TimedLearner(learner_of("trustee", weight, 0), iter([0.0, 2.0, 5.0, 8.0]).__next__)
            timed(contests, 3, np.random.default_rng(0))
            timed(contests, 3, np.random.default_rng(0))
            assert timed.seconds == {3: 5.0}
    assert [weight for weight, _ in observed] == [[1.0] * 8] * 2 + [contests.weight.tolist()] * 2
