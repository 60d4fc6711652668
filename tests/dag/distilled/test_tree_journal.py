"""The journal of trees: what an interrupted fit has finished is found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.dag.distilled.methods.tree_journal import TreeJournal
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.units import Unit
from mirage.study.work_journal import WorkJournal

PLAN = {"teacher": "fair", "seeds": [1, 2]}
RULE = ExecutorRule(Cap(0.25, 1.5)).settings()


def tree_of(*shares: float | None) -> Tree:
    """A tree of four leaves with shares of the decisions."""
    leaves = [Leaf(float(number), share=share) for number, share in enumerate(shares)]
    halves = Split("work", 60.0, leaves[0], leaves[1]), Split("holds", 4.0, leaves[2], leaves[3])
    return Tree(FEATURES, Unit.NUMBER, Split("own", 0.5, *halves), RULE)


def test_trees_are_found_again_with_the_shares_of_their_leaves(tmp_path: Path) -> None:
    path, trees = tmp_path / "fit.json", {(4, 0): tree_of(0.1, 0.2, 0.3, 0.4), (32, 1): tree_of(None, 0.5, None, 0.25)}
    journal = TreeJournal(WorkJournal(path, PLAN), "cart")
    for key, tree in trees.items():
        journal[key] = tree
        assert journal[key] is tree
    again = TreeJournal(WorkJournal(path, PLAN), "cart")
    assert dict(again) == trees
    assert [leaf.share for leaf in again[32, 1].leaves] == [None, 0.5, None, 0.25]
    assert again[4, 0].leaves[0] == replace(Leaf(0.0), share=0.1)


def test_trees_of_several_methods_are_in_one_file(tmp_path: Path) -> None:
    path, other = tmp_path / "fit.json", tree_of(0.25, 0.25, 0.25, 0.25)
    work = WorkJournal(path, PLAN)
    cart, climb = TreeJournal(work, "cart"), TreeJournal(work, "climb")
    cart[8, 0] = tree_of(0.1, 0.2, 0.3, 0.4)
    climb[8, 0] = other
    cart[8, 1] = other
    work = WorkJournal(path, PLAN)
    assert set(work.finished) == {"trees by cart", "trees by climb"}
    assert dict(TreeJournal(work, "climb")) == {(8, 0): other}
    assert list(TreeJournal(work, "cart")) == [(8, 0), (8, 1)]
    assert dict(TreeJournal(work, "trustee")) == {}
    assert dict(TreeJournal(WorkJournal(None, PLAN), "cart")) == {}
