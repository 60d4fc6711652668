"""Mending of a tree: edits as people make them, with effects on other episodes."""

import json

import numpy as np
import pytest

from mirage.dag.distilled.tree_policy import shipped_path
from mirage.dag.distilled.tuning import Episodes, Times
from mirage.dag.mending.line_mending import MendingResult, effect_of, mended, mended_of, one_line_edits
from mirage.dag.mending.mending_page import Case, page, verdict
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.generated import generated_templates
from mirage.distill.editing import edited

BAD = """tree: 1
features:
    own: flag
    drains_in: duration
values: number
settings:
    cap: 0 0.5  # far too tight
    spare: no

if own:
    1
else:
    if drains_in < 40s:
        0
    else:
        1
"""


def changes(text):
    return [edit.change for edit in one_line_edits(text)]


def test_every_number_and_word_of_a_tree_is_moved():
    found = changes(BAD)
    assert [one for one in found if one.startswith("cap: 0 0.5 -> ")][:2] == [
        "cap: 0 0.5 -> cap: -0.1 0.5",
        "cap: 0 0.5 -> cap: 0.1 0.5",
    ]
    for wanted in (
        "cap: 0 0.5 -> cap: 0 1",
        "spare: no -> spare: yes",
        "if own: -> if not own:",
        "drains_in < 40s -> drains_in < 20s",
        "11: 1 -> 0",  # a score that stands twice is named by its line
        "16: 1 -> 0.5",
        "14: 0 -> 1",
    ):
        assert wanted in found
    assert not any("features" in one or "own: flag" in one for one in found)


def test_a_share_is_moved_to_no_more_than_the_whole():
    found = changes(shipped_path().read_text())
    observed = [one.split()[-2:] for one in found if one.startswith("work_share < 45 % -> ")]
    assert ["100", "%"] in observed
    assert max(float(number) for number, _ in observed) == 100


@pytest.mark.parametrize("text", [BAD, shipped_path().read_text()])
def test_an_edit_is_one_line_as_its_words_describe(text):
    edits = one_line_edits(text)
    assert len({edit.text for edit in edits}) == len(edits)
    for edit in edits:
        lines = zip(text.splitlines(), edit.text.splitlines(), strict=True)
        assert sum(one != other for one, other in lines) == 1
        assert edited(text, [edit.change]) == (edit.text, edit.tree)


def episodes(seeds, executors=8, jobs=8):
    return Episodes.drawn(generated_templates(), EpisodeSetting(executors, jobs), DagCluster(), seeds)


def test_the_best_edit_of_a_bad_tree_helps_on_other_seeds():
    stored = []
    found = mended(BAD, episodes(range(6)), episodes(range(10, 16)), lambda *done: stored.append(done))
    assert found.change.startswith("cap: 0 0.5 -> ") or found.change == "spare: no -> spare: yes"
    assert (found.tried, found.helps) == (len(changes(BAD)), True)
    assert stored == [(k + 1, stored[0][1]) for k in range(len(stored))]
    one = found.reported.mean_jct
    assert one.after_s - one.before_s == pytest.approx(one.difference_s)
    assert one.low_s <= one.difference_s <= one.high_s < 0
    assert (one.seeds, found.chosen.mean_jct.seeds) == (6, 6)
    assert found.reported.makespan.before_s > one.before_s
    assert mended_of(json.loads(json.dumps(found.to_json()))) == found


def test_an_edit_that_changes_nothing_is_no_edit():
    alone = "tree: 1\nfeatures:\n    own: flag\nvalues: number\n\nif own:\n    1\nelse:\n    1\n"
    found = mended(alone, episodes([1, 2], 1, 1), episodes([3, 4], 1, 1))
    assert found.tried > 0
    assert (found.change, found.helps) == (None, False)
    assert verdict(found).startswith("Nothing to mend: no edit changes anything")


def made_up(*jct_s):
    return Times(np.array(jct_s), 2 * np.array(jct_s))


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        ((9.0, 18.5, 29.0), "The edit helps."),
        ((9.0, 21.5, 29.0), "no better than chance"),
        ((11.0, 21.0, 31.5), "is worse on others"),
    ],
)
def test_an_edit_helps_where_the_whole_interval_is_below_0(after_s, expected):
    effect = effect_of(made_up(10.0, 20.0, 30.0), made_up(*after_s))
    found = MendingResult(7, "1 -> 2", effect, effect)
    assert found.helps == (expected == "The edit helps.")
    stored = page("tree.txt", [Case("gap-15", "5/4", found, "-1\n+2\n")], command="mend", seeds="0", report_seeds="1",
                jobs="built-in jobs")  # fmt: skip
    assert expected in stored
    assert ("**" in stored) == found.helps
    assert "```diff\n-1\n+2\n```" in stored
