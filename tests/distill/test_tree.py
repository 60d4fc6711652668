"""A tree answers rows, gives reasons, and refuses unreadable names."""

import numpy as np
import pytest
from hypothesis import given, settings

from mirage.distill.tree import DEEPEST, Condition, Leaf, Split, Tree, TreeFeature, merged
from mirage.distill.tree_text import reason
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, UnknownName
from tests.support.small_trees import FEATURES, SMALL, trees_and_rows

ROWS = np.array([[21_599.0, 0.9, 1], [21_600, 0.79, 0], [21_600, 0.8, 0], [1e6, 1, 1]])


def named(row):
    return dict(zip([feature.name for feature in FEATURES], row, strict=True))


def test_a_value_at_the_threshold_is_above_it():
    assert [SMALL.leaf_of(named(row)).value for row in ROWS] == ["submit", "wait", "wait", "submit"]
    assert SMALL.leaf_numbers(ROWS).tolist() == [0, 1, 2, 3]
    assert SMALL.codes(ROWS).tolist() == [1, 0, 0, 1]


def test_leaves_depth_and_tested_features():
    assert (len(SMALL.leaves), SMALL.depth) == (4, 3)
    assert SMALL.tested == ("remaining", "load", "weekend")
    only = Tree(FEATURES, ("wait",), Leaf("wait"))
    assert (len(only.leaves), only.depth, only.tested) == (1, 0, ())
    assert only.codes(ROWS).tolist() == [0, 0, 0, 0]


def test_the_path_is_what_led_to_the_answer():
    assert SMALL.path_of(named(ROWS[1])) == (
        Condition("remaining", 21_600, False),
        Condition("load", 0.8, True),
    )
    assert reason(SMALL, named(ROWS[3])) == "submit, as remaining >= 6h and load >= 80 % and weekend"
    assert reason(Tree((), ("wait",), Leaf("wait")), {}) == "wait, whatever the row"


def test_a_reason_gives_the_nearest_bound_of_a_feature():
    nested = Split("nodes", 9, Split("nodes", 4, Leaf(0.0), Split("nodes", 6, Leaf(1.0), Leaf(2.5))), Leaf(3.0))
    tree = Tree((TreeFeature("nodes"),), Unit.NUMBER, nested)
    assert reason(tree, {"nodes": 7}) == "2.5, as nodes < 9 and nodes >= 6"
    assert tree.values(np.array([[3.0], [5], [6], [9]])).tolist() == [0, 1, 2.5, 3]


def test_splits_that_decide_nothing_are_merged():
    below = Split("a", 7, Leaf("x", 0.1, 1.0), Leaf("y"))  # a < 5 has answered it
    above = Split("b", 0, Leaf("x", 0.3, 0.5), Leaf("x", 0.1, 0.9))
    tree = merged(Tree((TreeFeature("a"), TreeFeature("b")), ("x", "y"), Split("a", 5, below, above)))
    assert tree.root == Leaf("x", pytest.approx(0.5), pytest.approx(0.68))


@settings(max_examples=25)
@given(trees_and_rows())
def test_one_row_many_rows_and_a_merged_tree_answer_alike(case):
    tree, rows = case
    names = [feature.name for feature in tree.features]
    one_by_one = [tree.leaf_of(dict(zip(names, row, strict=True))).value for row in rows]
    assert [tree.answers[code] for code in tree.codes(rows)] == one_by_one
    assert merged(tree).codes(rows).tolist() == tree.codes(rows).tolist()


def deep(splits):
    node = Leaf(0.0)
    for _ in range(splits):
        node = Split("a", 1, node, Leaf(1.0))
    return Tree((TreeFeature("a"),), Unit.NUMBER, node)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TreeFeature("not"),
            "'not' is not a name for features; use letters, digits, _ . and -, a letter first, and",
        ),
        (lambda: Tree((), ("a", "a"), Leaf("a")), "answer 'a' is named twice; name it once"),
        (lambda: Tree((), ("wait",), Leaf("wiat")), "unknown answer 'wiat'. Did you mean 'wait'? Known: wait."),
        (lambda: Tree((), Unit.SHARE, Leaf(float("nan"))), "the answer nan is not a finite number"),
        (
            lambda: Tree((TreeFeature("a"),), ("x",), Split("b", 1, Leaf("x"), Leaf("x"))),
            "unknown feature 'b'. Known: a.",
        ),
        (
            lambda: Tree((TreeFeature("a"),), ("x",), Split("a", np.inf, Leaf("x"), Leaf("x"))),
            "the threshold inf of 'a' is not finite; give a number",
        ),
        (
            lambda: Tree((TreeFeature("a", Unit.FLAG),), ("x",), Split("a", 1.0, Leaf("x"), Leaf("x"))),
            "the threshold 1.0 of 'a' is not 0.5: it is a flag, 0 or 1",
        ),
        (
            lambda: Tree((), ("x",), Leaf("x"), (("key", "a # b"),)),
            "setting 'key' is 'a # b'; give one line without # and without spaces around it",
        ),
        (lambda: deep(DEEPEST + 1), "the tree is deeper than 64 splits; make it smaller"),
        (lambda: SMALL.leaf_of({"load": 1}), "feature 'remaining' is absent, but the tree tests it; give its value"),
        (
            lambda: SMALL.path_of({"remaining": float("nan")}),
            "feature 'remaining' is not a number, but the tree tests it; give its value",
        ),
        (lambda: SMALL.codes(ROWS[:, :2]), "rows have the shape (4, 2); give one column for each of 3 features"),
        (
            lambda: SMALL.codes(np.where(ROWS == 0.8, np.nan, ROWS)),
            "feature 'load' is not a number in some row; leave such rows out",
        ),
        (lambda: SMALL.values(ROWS), "this tree answers labels, not numbers; call codes instead of values"),
        (lambda: deep(1).codes(ROWS), "this tree answers numbers, not labels; call values instead of codes"),
    ],
)
def test_invalid_trees_are_refused(make, message):
    with pytest.raises((ConfigurationError, UnknownName)) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_the_deepest_tree_is_one():
    assert deep(DEEPEST).depth == DEEPEST
