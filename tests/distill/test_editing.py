"""A change in words alters one line of a tree, and is refused where it could mean another."""

import pytest

from mirage.distill.editing import difference, edited
from mirage.errors import ConfigurationError

TEXT = """tree: 1
features:
    work: duration
    jobs: number
values: number
settings:
    cap: 0.25 1.5

if work < 20min:
    3  # 40 % of examples
else:
    if jobs < 4:
        1
    else:
        3
"""


def test_a_threshold_is_changed_and_the_difference_is_two_lines():
    after, tree = edited(TEXT, ["work < 20min -> work < 30min"])
    assert tree.root.threshold == 1_800.0
    assert [line for line in difference(TEXT, after, "t").splitlines() if line[0] in "+-"] == [
        "--- t",
        "+++ t (edited)",
        "-if work < 20min:",
        "+if work < 30min:",
    ]


def test_a_leaf_is_named_by_its_line_and_a_setting_by_its_words():
    after, tree = edited(TEXT, ["15: 3 -> 5", "cap: 0.25 1.5 -> cap: 0.5 2"])
    assert [leaf.value for leaf in tree.leaves] == [3.0, 1.0, 5.0]
    assert tree.settings == (("cap", "0.5 2"),)
    assert after.count("\n") == TEXT.count("\n")


def test_only_whole_words_are_changed():
    text = TEXT.replace("    3  #", "    33  #")
    _, tree = edited(text, ["3 -> 7"])
    assert [leaf.value for leaf in tree.leaves] == [33.0, 1.0, 7.0]


def test_a_number_has_its_sign():
    text = TEXT.replace("        1\n", "        -1\n")
    _, tree = edited(text, ["-1 -> 2"])
    assert [leaf.value for leaf in tree.leaves] == [3.0, 2.0, 3.0]
    with pytest.raises(ConfigurationError, match="line 13 is '-1' and does not contain '1'"):
        edited(text, ["13: 1 -> 2"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("0: 3 -> 7", "there is no line 0; the tree has 15 lines"),
        ("99: 3 -> 7", "there is no line 99; the tree has 15 lines"),
        ("3 -> 7", "'3' is in the lines 10, 15; give the line, as in '10: 3 -> 7'$"),
        ("work < 5min -> work < 6min", "is in no line"),
        ("10: jobs < 4 -> jobs < 5", "line 10 is '3' and does not contain 'jobs < 4'"),
        ("work < 20min", "is not a change"),
        ("jobs < 4 -> jobs < 4h", "t:12:15:"),
        ("jobs < 4 -> job < 4", "no feature named 'job'|unknown feature 'job'"),
    ],
)
def test_what_could_mean_something_else_is_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        edited(TEXT, [change], "t")


def test_remarks_of_people_stay_and_counts_of_a_changed_leaf_go():
    text = TEXT.replace("cap: 0.25 1.5", "cap: 0.25 1.5   # power, factor").replace("jobs < 4:", "jobs < 4: # few")
    after, _ = edited(text, ["cap: 0.25 1.5 -> cap: 0.5 2", "jobs < 4 -> jobs < 40000000", "10: 3 -> 2"])
    assert after.splitlines()[6] == "    cap: 0.5 2      # power, factor"
    assert after.splitlines()[11] == "    if jobs < 40000000: # few"
    assert after.splitlines()[9] == "    2"
    longer, _ = edited(text, ["cap: 0.25 1.5 -> cap: 0.123456789 1.5"])
    assert longer.splitlines()[6] == "    cap: 0.123456789 1.5  # power, factor"


def test_a_change_to_the_same_changes_nothing():
    assert edited(TEXT, ["10: 3 -> 3", "cap: 0.25 1.5 -> cap: 0.25 1.5"])[0] == TEXT
