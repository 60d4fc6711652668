"""A tree and its text are equivalent; errors in a text name their position."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.distill.tree import Leaf, Split, Tree, TreeFeature
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import per_cent, text_of
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError
from tests.support.small_trees import NUMBERS, SMALL, trees_and_rows

TEXT = """\
tree: 1
features:
    remaining: duration
    load: share
    weekend: flag
answers: wait, submit
settings:
    horizon: 6h
    made_from: weeks 1 to 8, by hand

if remaining < 6h:
    submit  # 25 % of examples, 97 % certain
else:
    if load < 80 %:
        wait  # 70 % of examples, 100 % certain
    else:
        if not weekend:
            wait  # 5 % of examples
        else:
            submit  # under 1 % of examples, 99 % certain
"""


def without_remarks(node):
    if isinstance(node, Leaf):
        return Leaf(node.value)
    return Split(node.feature, node.threshold, without_remarks(node.below), without_remarks(node.above))


def test_the_text_of_a_small_tree():
    assert text_of(SMALL) == TEXT


def test_a_tree_from_its_text_lacks_only_the_remarks():
    read = tree_of(TEXT)
    assert read == Tree(SMALL.features, SMALL.answers, without_remarks(SMALL.root), SMALL.settings)


@settings(max_examples=25)
@given(trees_and_rows())
def test_any_tree_decides_alike_after_its_text_was_read(case):
    tree, rows = case
    read = tree_of(text_of(tree))
    assert read.root == without_remarks(tree.root)
    assert read.codes(rows).tolist() == tree.codes(rows).tolist()


@given(st.sampled_from(list(Unit)), NUMBERS)
def test_answers_that_are_numbers_are_read_as_they_were(unit, number):
    tree = Tree((), unit, Leaf(number))
    assert tree_of(text_of(tree)) == tree


def test_what_people_write_otherwise_is_understood():
    written = """
# any remark
tree: 1
features:
  n : number
  weekend: flag
values: duration
if n>=  1.2e1 :  # the other way round
      if weekend:
        90min
      else:
        1d 4h 0.5s
else :
  -2h
"""
    tree = tree_of(written)
    weekend = Split("weekend", 0.5, Leaf(100_800.5), Leaf(5_400.0))
    assert tree.root == Split("n", 12.0, Leaf(-7_200.0), weekend)
    assert tree_of(text_of(tree)) == tree


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        (
            "remaining <",
            "remainig <",
            "11:4: unknown feature 'remainig'. Did you mean 'remaining'? Known: load, remaining, weekend.",
        ),
        (
            "not weekend",
            "not weekday",
            "17:16: unknown feature 'weekday'. Did you mean 'weekend'? Known: load, remaining, weekend.",
        ),
        (
            "not weekend",
            "weekend < 3",
            "17:12: 'weekend' is a flag and cannot be compared; write 'if weekend:' or 'if not weekend:'",
        ),
        ("load <", "load <=", "14:13: operator '<=' is unknown; write '<' or '>='"),
        ("80 %", "0.8", "14:15: '0.8' is not a share; write it in per cent, as 80 %"),
        ("6h:", "6:", "11:16: '6' is not a duration; write it as 6h, 30min, 45s or 1d 4h"),
        ("6h:", "6 horses:", "11:16: '6 horses' is not a duration; write it as 6h, 30min, 45s or 1d 4h"),
        ("6h:", "6h", "11:18: the condition does not end with ':'; add it"),
        ("load < 80 %:", "load:", "14:8: 'load' is not a flag; write 'load < threshold'"),
        ("load < 80 %:", ":", "14:8: '' is not a condition; write 'feature < threshold'"),
        (
            "if load",
            "elif load",
            "14:5: found 'elif' where 'if' or an answer is expected; after 'else:', write 'if' in a new line",
        ),
        ("submit  # 25", "sumbit  # 25", "12:5: unknown answer 'sumbit'. Did you mean 'submit'? Known: submit, wait."),
        (
            "        wait  # 70",
            "    wait  # 70",
            "15:5: what follows from the condition is expected here, indented more than line 14",
        ),
        (
            "            submit  # under",
            "submit # ",
            "20:1: what follows otherwise is expected here, indented more than line 19",
        ),
        ("\n    if load", "\n\tif load", "14:1: the indent contains another character than a space; use four spaces"),
        (
            "\n    else:",
            "\n   else:",
            "16:4: found 'else:' where 'else:' of line 14 is expected, indented by 4; each condition has one answer "
            "or one condition on either side",
        ),
        ("if remaining", "  if remaining", "11:3: the line is indented by 2, but line 8 by 4"),
        (
            "tree: 1\n",
            "",
            "1:1: found 'features:' where 'tree: 1' is expected; a tree begins with this line, then 'features:', then "
            "'answers:' or 'values:'",
        ),
        ("tree: 1", "tree: 2", "1:7: version '2' is unknown; this Mirage reads version 1"),
        ("features:", "feature:", "2:1: found 'feature:' where 'features:' is expected"),
        (
            "load: share",
            "load: shear",
            "4:11: unknown unit 'shear'. Did you mean 'share'? Known: duration, flag, number, share.",
        ),
        ("load: share", "load", "4:5: 'load' is not a feature; write its name and unit, as in 'remaining: duration'"),
        ("load: share", " load: share", "4:6: the line is indented by 5, but line 3 by 4"),
        ("weekend: flag", "load: flag", "5:5: feature 'load' is already in line 4; name it once"),
        ("made_from:", "horizon:", "9:5: setting 'horizon' is already in line 8; name it once"),
        ("horizon: 6h", "horizon:", "8:5: 'horizon:' is not a setting; write 'key: value'"),
        ("wait, submit", "wait, wait", "6:10: answer 'wait' is named twice; name it once"),
        ("answers: wait, submit", "values: time", "6:9: unknown unit 'time'. Known: duration, flag, number, share."),
    ],
)
def test_a_wrong_text_is_answered_with_its_place(there, instead, message):
    assert there in TEXT
    with pytest.raises(ConfigurationError) as raised:
        tree_of(TEXT.replace(there, instead, 1), "policy.tree")
    assert str(raised.value) == f"policy.tree:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tree:1:1: the text ends before 'tree: 1'; add it"),
        (
            TEXT.partition("\n    if load")[0],
            "tree:14:1: the text ends before what follows otherwise; add it",
        ),
        (TEXT + "wait\n", "tree:21:1: the tree is complete here; remove this line, or indent it below a condition"),
        (
            "tree: 1\nfeatures:\nvalues: number\n  3",
            "tree:4:3: the tree must start without spaces before it; remove them",
        ),
        (
            TEXT.partition("\nif")[0],
            "tree:10:1: the text ends before the first condition or an answer; add it",
        ),
    ],
)
def test_a_text_that_ends_early_or_late(text, message):
    with pytest.raises(ConfigurationError) as raised:
        tree_of(text)
    assert str(raised.value) == message


def test_a_text_that_is_too_deep_is_refused():
    lines = [f"{'  ' * k}if a < 1:" for k in range(100)]
    with pytest.raises(ConfigurationError, match="tree:70:131: the tree is deeper than 64 conditions"):
        tree_of("tree: 1\nfeatures:\n  a: number\nvalues: number\n" + "\n".join(lines))


def test_remarks_in_per_cent_are_not_none_or_all_of_what_is_neither():
    assert [per_cent(share) for share in (0, 0.004, 0.01, 0.5, 0.996, 1)] == [
        "0 %", "under 1 %", "1 %", "50 %", "99 %", "100 %",
    ]  # fmt: skip


def test_a_name_of_any_form_that_is_allowed_can_be_read():
    features = tuple(TreeFeature(name, Unit.FLAG) for name in ("if-x", "else.y", "not-z"))
    root = Split("if-x", 0.5, Split("not-z", 0.5, Leaf("else-a"), Leaf("if-b")), Leaf("else-a"))
    tree = Tree(features, ("else-a", "if-b"), root)
    assert tree_of(text_of(tree)) == tree
