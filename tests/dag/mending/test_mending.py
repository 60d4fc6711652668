"""Mending of a tree: edits as people make them, with effects on other episodes."""

import json
import re

import numpy as np
import pytest

from mirage.dag.distilled.tree_policy import shipped_path
from mirage.dag.distilled.tuning import Episodes, Times
from mirage.dag.mending import line_mending
from mirage.dag.mending.line_mending import Edit, MendingResult, effect_of, mended, mended_of, one_line_edits
from mirage.dag.mending.mending_page import Case, page, verdict
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.generated import generated_templates
from mirage.distill.editing import edited
from mirage.distill.tree import Leaf, Tree
from mirage.distill.units import Unit

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


@pytest.mark.parametrize(
    ("threshold", "others"),
    [
        (80, {20, 40, 60, 70, 100}),  # and no 110, 160 or 320
        (100, {25, 50, 70, 80}),
        (120, {30, 60, 80, 100, 150, 160, 250, 500}),  # it is no part of a whole
    ],
)
def test_a_part_of_a_whole_stays_one(threshold, others):
    head = "tree: 1\nfeatures:\n    work_share: share\nvalues: number\n\n"
    text = f"{head}if work_share < {threshold} %:\n    1\nelse:\n    2\n"
    moved = [re.search(r"-> work_share < (\d+) %$", one) for one in changes(text)]
    assert {int(found[1]) for found in moved if found} == others


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
    assert mended_of(json.loads(json.dumps(found.to_json()))) == found


def test_edits_that_do_best_in_some_episodes_are_tried_on_more(monkeypatch):
    edits = tuple(Edit(str(number), "", Tree((), Unit.NUMBER, Leaf(float(number)))) for number in range(1, 7))
    same = Edit("the same", "", edits[2].tree)
    parts, calls = [], []
    jct_s = {0.0: 50.0, 1.0: 9.0, 2.0: 8.0, 3.0: 7.0, 4.0: 6.0, 5.0: 50.0, 6.0: 1.0}

    def times(tree, episodes, part):
        parts.append((tree.root.value, part))
        late = 100.0 if tree.root.value == 6.0 and part.step == 2 else 0.0  # good in few episodes, bad in more
        return Times(np.full(3, jct_s[tree.root.value] + late), np.zeros(3))

    monkeypatch.setattr(line_mending, "_times", times)
    monkeypatch.setattr(line_mending, "ROUNDS", ((4, 4), (2, 2)))
    first = Tree((), Unit.NUMBER, Leaf(0.0))
    found = line_mending._promising(first, (*edits, same), None, lambda *done: calls.append(done))
    assert [edit.change for edit in found] == ["4", "3"]
    quarter, half = slice(None, None, 4), slice(None, None, 2)
    assert parts[:8] == [(0.0, quarter), *((float(number), quarter) for number in range(1, 7)), (3.0, quarter)]
    assert parts[8:] == [(number, half) for number in (0.0, 6.0, 4.0, 3.0, 2.0)]
    assert calls == [(done, 7 + 4) for done in range(1, 12)]


def test_the_chosen_edit_has_the_shortest_mean_time(monkeypatch):
    """And not the lowest upper end of an interval, which is far above the mean on few seeds."""
    jct_s = {0.0: [10.0, 10.0, 10.0], 1.0: [9.0, 9.1, 9.2], 2.0: [8.5, 9.5, 6.0]}
    names = {1.0: "steady", 2.0: "best"}
    edits = tuple(Edit(name, "", Tree((), Unit.NUMBER, Leaf(value))) for value, name in names.items())
    monkeypatch.setattr(line_mending, "one_line_edits", lambda text: edits)

    def times(tree, episodes, part=slice(None)):
        return made_up(*jct_s[tree.root.value][part])

    monkeypatch.setattr(line_mending, "_times", times)
    found = mended("tree: 1\nfeatures:\n    own: flag\nvalues: number\n\n0\n", None, None)
    assert (found.change, found.chosen.mean_jct.after_s) == ("best", pytest.approx(8.0))
    assert (found.chosen.mean_jct.high_s > 0, found.helps) == (True, False)


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
