"""Students of a teacher: DAgger with margin weights; fidelity and completion times.

The teacher's decisions are collected in states that the teacher reaches, a tree is fitted, and then those in states
that the tree reaches are added, for a number of rounds. Of all these trees the result is the one under which jobs end
soonest (VIPER, Bastani, Pu and Solar-Lezama 2018), or the one that is most faithful in its own states. Students of
several sizes share the teacher's decisions in its own states; the added states of trees are separate for each.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.decisions import Decisions, StudentFidelity, Teacher, decisions_of, fidelity
from mirage.dag.distilled.executor_rule import ExecutorRule
from mirage.dag.distilled.methods.cart import Cart
from mirage.dag.distilled.tree_policy import scheduler_of
from mirage.dag.distilled.tuning import Episodes
from mirage.distill.ranking import Contests, joined
from mirage.distill.tree import Leaf, Tree
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, UnknownName

HELD_OUT = 0.25
"""Share of the episodes that are only used for evaluation."""

SOONEST, FAITHFUL = "soonest", "faithful"
SELECTIONS = (SOONEST, FAITHFUL)
"""Selection among the trees of all rounds: jobs end soonest, or most faithful in its own states."""

_EACH = ("job", "meant", "executors", "picked", "given")
"""Data of decisions apart from the contests."""


@dataclass(frozen=True, slots=True)
class Student:
    """A tree with its fidelity.

    Attributes:
        tree: With its executor rule.
        on_teacher: Its fidelity in states that the teacher reaches, in episodes that it did not learn from.
        on_own: The same in states that it reaches itself.
        mean_jct_s: Mean time from arrival to end under it, of each setting, in these episodes.
        makespan_s: Mean time from the first arrival to the last end, of each setting, in these episodes.
    """

    tree: Tree
    on_teacher: StudentFidelity
    on_own: StudentFidelity
    mean_jct_s: tuple[float, ...]
    makespan_s: tuple[float, ...]


def students(
    teacher: Teacher,
    settings: Sequence[Episodes],
    rng: np.random.Generator,
    *,
    leaves: Sequence[int] = (32,),
    rounds: int = 2,
    select_by: str = SOONEST,
    rule: ExecutorRule = ExecutorRule(),  # noqa: B008
    fitted: MutableMapping[tuple[int, int], Tree] | None = None,
    learn: Callable[[Contests, int, np.random.Generator], Tree] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Student, ...]:
    """A tree for each number of leaves, with rounds of its own.

    Args:
        teacher: The scheduler to learn from.
        settings: Episodes; the last quarter of each setting's is only used for evaluation.
        rng: Draws among equal splits.
        leaves: Most leaves of each tree.
        rounds: Number of times that states that a tree reaches are added.
        select_by: One of ``SELECTIONS``, applied to the episodes to learn from.
        rule: The executor rule of each tree.
        fitted: By leaves and round, trees that an earlier call with the same teacher, settings, generator and rule
            fitted; they are not fitted again, and new ones are added.
        learn: Fits a tree with a largest number of leaves; CART where absent.
        report: Called with progress messages.

    Raises:
        ConfigurationError: A setting has fewer than two episodes, or the extra ``learn`` is not installed.
        UnknownName: ``select_by`` is not in ``SELECTIONS``.
    """
    if select_by not in SELECTIONS:
        raise UnknownName("selection of a tree", select_by, SELECTIONS)
    cuts = [len(each.worlds) - max(1, round(HELD_OUT * len(each.worlds))) for each in settings]
    if min(cuts, default=0) < 1:
        raise ConfigurationError(
            "a tree needs two episodes of each setting, one of them for evaluation; give two seeds or more (--seeds)"
        )
    learn = Cart(0) if learn is None else learn
    lessons = _Lessons(teacher, settings, [slice(0, cut) for cut in cuts], rule, report)
    trees = {} if fitted is None else fitted
    seed = int(rng.integers(2**62))
    found = []
    for most in leaves:
        best: tuple[float, Tree] | None = None
        for turn in range(rounds + 1):
            if (most, turn) not in trees:
                contests = lessons.contests([trees[most, earlier] for earlier in range(turn)])
                report(f"{most} leaves, round {turn} of {rounds}: a tree")
                tree = learn(contests, most, np.random.default_rng([seed, most, turn]))
                trees[most, turn] = replace(tree, settings=rule.settings())
            so_far = [trees[most, earlier] for earlier in range(turn + 1)]
            cost = lessons.cost(so_far[-1]) if select_by == SOONEST else lessons.unfaithful(so_far)
            if best is None or cost < best[0]:
                best = cost, trees[most, turn]
        assert best is not None
        report(f"{most} leaves: fidelity")
        found.append(judged(teacher, best[1], settings, [slice(cut, None) for cut in cuts]))
        lessons.forget_trees()
    return tuple(found)


class _Lessons:
    """A teacher's decisions in some episodes, collected on demand.

    Args:
        teacher: The scheduler to learn from.
        settings: Episodes.
        parts: The part of each setting's episodes to use.
        rule: The executor rule of each tree.
        report: Called with progress messages.
    """

    def __init__(
        self,
        teacher: Teacher,
        settings: Sequence[Episodes],
        parts: Sequence[slice],
        rule: ExecutorRule,
        report: Callable[[str], None],
    ) -> None:
        self._teacher, self._pairs, self._report = teacher, list(zip(settings, parts, strict=True)), report
        self._blank = Tree(FEATURES, Unit.NUMBER, Leaf(0.0), rule.settings())
        self._of_teacher: list[Contests] = []
        self._of_trees: list[list[Decisions]] = []

    def contests(self, trees: Sequence[Tree]) -> Contests:
        """The contests in the teacher's own states and in those of trees, some collected before."""
        if not self._of_teacher:
            self._report("the teacher's decisions")
            self._of_teacher = [one.contests for one in self._collected(self._blank, None)]
        self._collect_for(trees)
        return joined([*self._of_teacher, *(one.contests for each in self._of_trees[: len(trees)] for one in each)])

    def unfaithful(self, trees: Sequence[Tree]) -> float:
        """The share of decisions in its own states in which the last tree picks another stage."""
        self._collect_for(trees)
        return 1.0 - fidelity(_together(self._of_trees[len(trees) - 1])).stage

    def _collect_for(self, trees: Sequence[Tree]) -> None:
        """Collects the teacher's decisions in the states of trees not collected before."""
        for tree in trees[len(self._of_trees) :]:
            self._report(f"the teacher's decisions in the states of a tree of {len(tree.leaves)} leaves")
            self._of_trees.append(self._collected(tree, tree))

    def forget_trees(self) -> None:
        """Discards the teacher's decisions in the states of trees, before others come."""
        self._of_trees = []

    def cost(self, tree: Tree) -> float:
        """A cost that rises with the mean completion times, over all settings equally."""
        return sum(float(np.log(each.mean_jct_s(*_run(tree), part).mean())) for each, part in self._pairs)

    def _collected(self, judge: Tree, plays: Tree | None) -> list[Decisions]:
        """Decisions in each setting; an episode has one number, whatever reaches the states."""
        found, before = [], 0
        for each, part in self._pairs:
            one = _decisions(self._teacher, each, part, judge, plays)
            found.append(replace(one, contests=replace(one.contests, group=one.contests.group + before)))
            before += len(each.worlds[part])
        return found


def judged(teacher: Teacher, tree: Tree, settings: Sequence[Episodes], parts: Sequence[slice]) -> Student:
    """Evaluates a tree: its fidelity to a teacher, and the completion times under it.

    Args:
        teacher: The scheduler to compare with.
        tree: The tree to evaluate.
        settings: Episodes.
        parts: The part of each setting's episodes to use.
    """
    pairs = list(zip(settings, parts, strict=True))
    times = [each.times(*_run(tree), part) for each, part in pairs]
    return Student(
        tree,
        fidelity(_together([_decisions(teacher, each, part, tree, None) for each, part in pairs])),
        fidelity(_together([_decisions(teacher, each, part, tree, tree) for each, part in pairs])),
        tuple(float(each.mean_jct_s.mean()) for each in times),
        tuple(float(each.makespan_s.mean()) for each in times),
    )


def _run(tree: Tree) -> tuple[Callable[..., int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    scheduler = scheduler_of(tree, "student")
    return scheduler.decider, scheduler.parameters


def _decisions(teacher: Teacher, episodes: Episodes, part: slice, judge: Tree, plays: Tree | None) -> Decisions:
    tree = scheduler_of(judge, "student")
    return decisions_of(
        teacher, episodes.worlds[part], states_of=teacher.scheduler if plays is None else tree, tree=tree
    )


def _together(parts: list[Decisions]) -> Decisions:
    return Decisions(
        joined([part.contests for part in parts]),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _EACH),
    )
