"""Trees in the manner of TRUSTEE: grown on samples and errors, pruned by branches.

The loops are those of Jacobs and others 2022, "AI/ML for Network Security: The Emperor has no Clothes", CCS. The inner
one samples, grows, adds the decisions that the tree got wrong, and retains the most faithful tree. Top-k pruning
retains the branches that most samples take. The outer loop repeats this, and the result is the tree that agrees most
with those of the other repetitions. Differences: samples are decisions with all their candidates, trees rank them,
and k is the largest with which the tree has no more leaves than allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.distilled.methods.cart import LEAST_SHARE, one_in
from mirage.distill.pruning import FitSettings
from mirage.distill.ranking import Contests, agreement, ordered
from mirage.distill.tree import Leaf, Node, Split, Tree, merged
from mirage.distill.tree_examples import Flags
from mirage.distill.tree_fit import fitted

JUDGED = 4
"""One in this number of episodes evaluates the trees of the inner loop."""


@dataclass(frozen=True, slots=True)
class TrusteeSettings:
    """The sizes of the loops.

    Attributes:
        repetitions: Of the outer loop.
        turns: Of the inner loop.
        sample: Share of the decisions that a turn samples.
        grown: The tree is grown to this multiple of the leaves that it may have in the end.
    """

    repetitions: int = 3
    turns: int = 4
    sample: float = 0.2
    grown: int = 4


DEFAULTS = TrusteeSettings()


def trustee(contests: Contests, leaves: int, rng: np.random.Generator, settings: TrusteeSettings = DEFAULTS) -> Tree:
    """The tree that agrees most with those of other repetitions.

    Args:
        contests: What to learn from.
        leaves: Most leaves of the tree.
        rng: Draws samples.
        settings: The sizes of the loops.
    """
    judges = one_in(contests, JUDGED)
    learnt, others = contests.part(~judges), contests.part(judges)
    found = [
        ordered(top_branches(_most_faithful(learnt, others, leaves, rng, settings), learnt, leaves), learnt)
        for _ in range(settings.repetitions)
    ]
    return found[int(np.argmax(mean_agreement(found, others)))]


def mean_agreement(trees: list[Tree], contests: Contests) -> Floats:
    """Shape (trees,), the mean share of contests in which each agrees with the other trees."""
    winners = [contests.winners(tree.values(contests.rows)) for tree in trees]
    alike = np.array([[float((one == other).mean()) for other in winners] for one in winners])
    return np.asarray((alike.sum(axis=1) - 1) / max(len(trees) - 1, 1), dtype=np.float64)


def top_branches(tree: Tree, contests: Contests, leaves: int) -> Tree:
    """The tree with the heaviest branches, as many as the number of leaves allows.

    A subtree without such a branch becomes one leaf, with the mean of its targets.
    """
    examples = contests.amounts()
    number = tree.leaf_numbers(examples.rows)
    count = len(tree.leaves)
    weight = np.bincount(number, examples.stake, count).astype(np.float64)
    total = np.bincount(number, examples.stake * examples.value, count).astype(np.float64)
    order = np.argsort(-weight, kind="stable")
    best = replace(tree, root=Leaf(1.0))
    for k in range(1, count + 1):
        retained = np.zeros(count, dtype=np.bool_)
        retained[order[:k]] = True
        pruned = replace(tree, root=_reduced(tree.root, iter(range(count)), retained, weight, total)[0])
        if len(pruned.leaves) > leaves:
            break
        best = pruned
    return merged(best)


def _reduced(node: Node, numbers: Iterator[int], retained: Flags, weight: Floats, total: Floats) -> tuple[Node, Ints]:
    """A node reduced to the retained branches, and the numbers of its former leaves."""
    if isinstance(node, Leaf):
        number = np.array([next(numbers)], dtype=np.int64)
        return Leaf(_mean(number, weight, total)), number
    below, under = _reduced(node.below, numbers, retained, weight, total)
    above, over = _reduced(node.above, numbers, retained, weight, total)
    both = np.concatenate([under, over])
    if not retained[both].any():
        return Leaf(_mean(both, weight, total)), both
    return Split(node.feature, node.threshold, below, above), both


def _mean(leaves: Ints, weight: Floats, total: Floats) -> float:
    there = float(weight[leaves].sum())
    return float(total[leaves].sum()) / there if there else 0.0


def _most_faithful(
    learnt: Contests, others: Contests, leaves: int, rng: np.random.Generator, settings: TrusteeSettings
) -> Tree:
    """The inner loop: decisions that a tree gets wrong are added to the sample of the next."""
    n = len(learnt.first)
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[rng.choice(n, size=max(2, round(settings.sample * n)), replace=False)] = True
    best: tuple[float, Tree] | None = None
    for _ in range(settings.turns):
        tree = _grown(learnt.part(chosen), leaves * settings.grown, rng)
        fidelity = agreement(tree, others)
        if best is None or fidelity > best[0]:
            best = fidelity, tree
        checked = rng.choice(n, size=max(1, round(settings.sample * n)), replace=False)
        wrong = learnt.winners(tree.values(learnt.rows)) != learnt.winners(learnt.liking)
        chosen[checked[wrong[checked]]] = True
    assert best is not None
    return best[1]


def _grown(contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
    """A large tree of all rows but the last, with the means of its leaves as scores."""
    amounts = contests.amounts()
    last = np.zeros(len(amounts.rows), dtype=np.bool_)
    last[-1] = True
    settings = FitSettings(max_leaves=leaves, folds=0, least_share=LEAST_SHARE, may_move=0.0)
    return fitted(amounts, last, rng, settings).tree
