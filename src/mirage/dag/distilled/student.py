"""A student of a teacher: DAgger with margin weights, and the frontier of fidelity and completion times.

The teacher's decisions are collected in states that the teacher reaches, a tree is fitted, and then those in states
that the tree reaches are added, as often as asked for. Of all these trees the one under which jobs end soonest is kept
(VIPER, Bastani, Pu and Solar-Lezama 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.dag.distilled.columns import FEATURES
from mirage.dag.distilled.decisions import Decisions, Fidelity, Teacher, decisions_of, fidelity
from mirage.dag.distilled.executor_rule import ExecutorRule
from mirage.dag.distilled.tree_policy import scheduler_of
from mirage.dag.distilled.tuning import Episodes
from mirage.distill.pruning import FitSettings
from mirage.distill.ranking import Contests, joined, ranking_tree
from mirage.distill.tree import Leaf, Tree
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError

HELD_OUT = 0.25
"""Share of the episodes whose states are only judged."""

LEAST_SHARE = 0.0005
"""A leaf has at least this share of the candidates' weight."""


@dataclass(frozen=True, slots=True)
class Student:
    """A tree with how faithful it is.

    Attributes:
        tree: With the executor rule beside it.
        on_teacher: Its fidelity in states that the teacher reaches, in episodes that it did not learn of.
        on_own: The same in states that it reaches itself.
        mean_jct_s: Mean time from arrival to end under it, of each setting, in these episodes.
    """

    tree: Tree
    on_teacher: Fidelity
    on_own: Fidelity
    mean_jct_s: tuple[float, ...]


def students(
    teacher: Teacher,
    settings: Sequence[Episodes],
    rng: np.random.Generator,
    *,
    leaves: Sequence[int] = (32,),
    rounds: int = 2,
    rule: ExecutorRule = ExecutorRule(),  # noqa: B008
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Student, ...]:
    """A tree for each number of leaves, fitted to the same decisions of a teacher.

    Args:
        teacher: Whose decisions are learnt.
        settings: Episodes; the last quarter of each setting's is only judged.
        rng: Draws among equal splits.
        leaves: How many leaves each tree may have.
        rounds: How often states that a tree reaches are added.
        rule: The executor rule beside each tree.
        tell: Is told what is done.

    Raises:
        ConfigurationError: A setting has fewer than two episodes, or the extra ``learn`` is not installed.
    """
    cuts = [len(each.worlds) - max(1, round(HELD_OUT * len(each.worlds))) for each in settings]
    if min(cuts, default=0) < 1:
        raise ConfigurationError("a student needs two episodes of each setting, one of them to be judged in")
    blank = Tree(FEATURES, Unit.NUMBER, Leaf(0.0), rule.settings())
    tell("the teacher's decisions")
    told = [_decisions(teacher, each, slice(0, cut), blank, None) for each, cut in zip(settings, cuts, strict=True)]
    best: list[tuple[float, Tree] | None] = [None] * len(leaves)
    for turn in range(rounds + 1):
        gathered = _numbered([one.contests for one in told])
        for k, most in enumerate(leaves):
            tell(f"round {turn}: a tree of {most} leaves")
            tree = replace(_fitted(gathered, most, rng), settings=rule.settings())
            cost = sum(float(np.log(each.mean_jct_s(*_run(tree), slice(0, cut)).mean()))
                       for each, cut in zip(settings, cuts, strict=True))  # fmt: skip
            before = best[k]
            if before is None or cost < before[0]:
                best[k] = cost, tree
        if turn < rounds:
            tell(f"round {turn}: what the teacher says to the states of the tree")
            told += [
                _decisions(teacher, each, slice(0, cut), tree, tree) for each, cut in zip(settings, cuts, strict=True)
            ]
    tell("fidelity")
    return tuple(
        judged(teacher, found[1], settings, [slice(cut, None) for cut in cuts]) for found in best if found is not None
    )


def judged(teacher: Teacher, tree: Tree, settings: Sequence[Episodes], parts: Sequence[slice]) -> Student:
    """How faithful a tree is to a teacher, and how soon jobs end under it.

    Args:
        teacher: Whose decisions count.
        tree: Is judged.
        settings: Episodes.
        parts: Which of each setting's.
    """
    pairs = list(zip(settings, parts, strict=True))
    return Student(
        tree,
        fidelity(_together([_decisions(teacher, each, part, tree, None) for each, part in pairs])),
        fidelity(_together([_decisions(teacher, each, part, tree, tree) for each, part in pairs])),
        tuple(float(each.mean_jct_s(*_run(tree), part).mean()) for each, part in pairs),
    )


def _run(tree: Tree) -> tuple[Callable[..., int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    scheduler = scheduler_of(tree, "student")
    return scheduler.decider, scheduler.parameters


def _decisions(teacher: Teacher, episodes: Episodes, part: slice, judge: Tree, plays: Tree | None) -> Decisions:
    tree = scheduler_of(judge, "student")
    return decisions_of(
        teacher, episodes.worlds[part], states_of=teacher.scheduler if plays is None else tree, tree=tree
    )


def _fitted(contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
    """A ranking tree of all contests; none is held out but the last, as judging comes later, in episodes of its own."""
    last = np.zeros(len(contests.first), dtype=np.bool_)
    last[-1] = True
    return ranking_tree(contests, last, rng, FitSettings(max_leaves=leaves, folds=0, least_share=LEAST_SHARE))


def _numbered(parts: list[Contests]) -> Contests:
    """Contests of several collections, each of whose episodes has a number of its own."""
    shifted, before = [], 0
    for part in parts:
        shifted.append(replace(part, group=part.group + before))
        before += int(part.group.max()) + 1
    return joined(shifted)


def _together(parts: list[Decisions]) -> Decisions:
    return Decisions(
        _numbered([part.contests for part in parts]),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("job", "executors", "picked", "given")),
    )
