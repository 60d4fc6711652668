"""Trees combined by load: in its range each decides as it does alone."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from mirage.cli.commands.distill import distill
from mirage.dag.distilled.candidate_columns import FEATURES, candidate_rows
from mirage.dag.distilled.combining import combined
from mirage.dag.distilled.decisions import Teacher, decisions_of
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule, rule_of
from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.tree_decider import decide_by_tree, uses_usual_work
from mirage.dag.distilled.tree_policy import parameters_of, read_tree, scheduler_of, shipped_tree
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.simulator.stage_decision import executors_of, stage_of
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.distill.ranking import agreement
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError

CAP = Cap(0.4, 1.8, 0.9, 1.35, 0.8, 1.0, 0.8)
WAITS = Split("ready", FLAG_THRESHOLD, Leaf(-1.0), Split("work_share", 0.3, Leaf(2.0), Leaf(1.0)))


def tree_with(root, rule):
    return Tree(FEATURES, Unit.NUMBER, root, rule.settings())


QUIET = tree_with(WAITS, ExecutorRule(CAP, ((0.3, Cap(-0.5, 1.2, spare=False)),)))
BUSY = tree_with(Split("crowding", 0.2, Leaf(9.0), Leaf(1.0)), ExecutorRule(Cap(factor=3.0, even=True, usual=True)))
FULL = tree_with(Split("smaller", 1.0, Leaf(0.0), Leaf(1.0)), ExecutorRule(CAP, ((0.1, Cap(0.0, 1.1, usual=True)),)))


def simulation(seed=1, executors=10, jobs=12):
    templates = generated_templates()
    arrivals = poisson_arrivals(jobs, seed, templates=len(templates))
    return DagSimulation(templates, arrivals, DagCluster(executors), seed=seed)


@pytest.mark.parametrize(
    ("trees", "loads"), [((QUIET, BUSY), (0.4,)), ((QUIET, BUSY, FULL), (0.3, 0.6)), ((BUSY, QUIET), (0.2,))]
)
def test_each_tree_decides_in_its_range_as_it_does_alone(trees, loads):
    whole = tree_of(text_of(combined(trees, loads)))
    alone, together = [parameters_of(tree) for tree in trees], parameters_of(whole)
    served, differ = [0] * len(trees), 0
    for seed in (1, 2):
        now = simulation(seed)
        has_next = now.advance()
        while has_next:
            crowding = now.state.clock[0].n_active / 10
            decisions = [int(decide_by_tree(now.world, now.state, one)) for one in alone]
            turn = int(np.searchsorted(loads, crowding, side="right"))
            decided = int(decide_by_tree(now.world, now.state, together))
            assert decided == decisions[turn]
            assert uses_usual_work(together, crowding) == uses_usual_work(alone[turn], crowding)
            served[turn] += 1
            differ += len(set(decisions)) > 1
            has_next = (
                now.decide(int(stage_of(decided)), int(executors_of(decided))) if decided >= 0 else now.decide_nothing()
            )
    assert min(served) > 10
    assert differ > 50


def test_conditions_for_other_loads_are_left_out():
    whole = combined((shipped_tree(), BUSY), (0.1,))
    assert "drains_in < 2min" not in text_of(whole)
    assert [load for load, _ in rule_of(dict(whole.settings)).crowded] == [0.1]
    assert combined((shipped_tree(), shipped_tree()), (0.5,)).settings == shipped_tree().settings
    assert dict(whole.settings)["spare"] == "yes"
    assert "crowded_work" not in dict(whole.settings)


def test_rows_measure_work_as_the_tree_of_that_load_does():
    drains = Split("drains_in", 30.0, Leaf(0.0), Leaf(1.0))
    both = combined([tree_with(drains, ExecutorRule(Cap(usual=usual))) for usual in (False, True)], (0.4,))
    plays = scheduler_of(both, "both")
    measured = decisions_of(Teacher(plays), [simulation(seed).world for seed in (1, 2)], states_of=plays, tree=plays)
    assert agreement(both, measured.contests) == 1


def test_a_tree_of_several_loads_is_tuned_at_all_of_them():
    now, rng = simulation(), np.random.default_rng(3)
    now.advance()
    rows = np.zeros((400, len(FEATURES)))
    values = rows[: candidate_rows(now.world, now.state, rows, np.zeros(400, np.int64))]
    tree, moved = combined((QUIET, BUSY, FULL), (0.3, 0.6)), set()
    before = dict(tree.settings)
    for _ in range(300):
        other = changed(tree, values, 32, rng, may_grow=False)
        parameters_of(other)
        moved |= {key for key, text in other.settings if before.get(key) != text}
    loads = {"crowded_from", "crowded2_from"}
    assert moved >= {"cap", "even", "work", "crowded_cap", "crowded2_cap"} | loads


@pytest.mark.parametrize(
    ("trees", "loads", "message"),
    [
        ((QUIET,), (), "trees: 1, loads: 0"),
        ((QUIET, BUSY), (0.2, 0.4), "trees: 2, loads: 2"),
        ((QUIET, BUSY, FULL), (0.4, 0.2), "the loads are 40 %, 20 %; each must be above the previous one"),
        ((QUIET, BUSY), (0.0,), "the first above 0 %"),
        ((QUIET, Tree(FEATURES, ("wait", "submit"), Leaf("wait"))), (0.2,), "values: number"),
        ((QUIET, BUSY) * 5, tuple(k / 10 for k in range(1, 10)), "ranges of load; give up to 8"),
    ],
)
def test_trees_that_cannot_be_combined_are_refused(trees, loads, message):
    with pytest.raises(ConfigurationError, match=message):
        combined(trees, loads)


def test_a_combined_tree_is_shown_edited_checked_drawn_and_run(tmp_path, monkeypatch):
    def message(*words):
        return CliRunner().invoke(distill, words, catch_exceptions=False).stdout

    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiet.txt").write_text(text_of(QUIET))
    (tmp_path / "full.txt").write_text(text_of(FULL))
    measured = message("combine", "quiet.txt", "tree", "full.txt", "--above", "15 %,150 %", "-o", "both.txt")
    again = json.loads(message("combine", "quiet.txt", "tree", "--above", "15 %", "-o", "two.txt", "--json"))
    assert again["parts"] == [{"tree": "quiet.txt", "from": 0}, {"tree": "tree", "from": 0.15}]
    whole = read_tree(tmp_path / "both.txt")[1]
    assert whole == combined((QUIET, shipped_tree(), FULL), (0.15, 1.5))
    ranges = "below 15 % quiet.txt, from 15 % on tree, from 150 % on full.txt"
    assert measured == f"both.txt: {len(whole.leaves)} leaves; {ranges}\n"
    assert message("show", "both.txt").count("if crowding < 15 %:") == 1
    assert "+    crowded2_cap: 0.1 5\n" in message("edit", "both.txt", "crowded2_cap: 0.1 7 -> crowded2_cap: 0.1 5")
    assert "crowded3_cap 0 1.1" in message("check", "both.txt")
    message("draw", "both.txt", "-o", "both.svg")
    assert "from 150 % on" in (tmp_path / "both.svg").read_text()
    measured = json.loads(
        message("run", "both.txt", "--policies", "tree", "--setting", "10/5", "--seeds", "1-2", "--json")
    )
    assert measured["rows"][0]["policy"] == "both.txt"
