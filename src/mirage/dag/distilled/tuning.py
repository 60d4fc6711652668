"""Tuning of a tree in closed loop: small changes are tried on episodes, and kept where jobs end sooner.

Fidelity to a teacher says how well a tree imitates; what counts is when jobs end. Each change is tried on some episodes
first and on all of them only if it did not do badly there; the same episodes for all, so that differences are paired.
A student asks much that its teacher minds and completion times do not: pruning leaves out the questions under which
jobs do not end sooner. Seeds to tune on, to choose on and to report on must be different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.tree_decider import decide_by_tree
from mirage.dag.distilled.tree_policy import parameters_of
from mirage.dag.setting import Setting
from mirage.dag.simulator.engine import ENDED, run
from mirage.dag.simulator.world import DagCluster, initial_state, make_world
from mirage.dag.workload.arrivals import Arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.distill.tree import Leaf, Node, Tree, merged
from mirage.errors import ContractBroken
from mirage.job_state import Floats

FIRST_PART = 5
"""One in so many episodes is tried first."""

SLACK = 0.003
"""A change is dropped that is worse by this part in the first episodes."""


LEAF_PRICE = 0.0005
"""Part of the mean times by which pruning wants a leaf to shorten them."""


@dataclass(frozen=True, slots=True)
class Times:
    """When jobs end in some episodes.

    Attributes:
        mean_jct_s: Mean time from arrival to end, of each episode.
        makespan_s: From the first arrival to the last end, of each episode.
    """

    mean_jct_s: Floats
    makespan_s: Floats


class Episodes:
    """Episodes of one setting, made once and played many times.

    Args:
        templates: Kinds of jobs.
        arrivals: Of each episode.
        cluster: The executors.
        seeds: Of the durations of each episode.
    """

    def __init__(
        self, templates: Sequence[JobTemplate], arrivals: Sequence[Arrivals], cluster: DagCluster, seeds: Sequence[int]
    ) -> None:
        self.worlds = [make_world(templates, each, cluster, seed) for each, seed in zip(arrivals, seeds, strict=True)]

    @classmethod
    def drawn(
        cls, templates: Sequence[JobTemplate], setting: Setting, cluster: DagCluster, seeds: Sequence[int]
    ) -> Episodes:
        """The episodes of some seeds.

        Args:
            templates: The usual kinds of jobs.
            setting: Executors, jobs, and which jobs come.
            cluster: Everything else about the cluster; its number of executors is not used.
            seeds: Of arrivals and durations.
        """
        arrivals = [setting.arrivals(seed, len(templates)) for seed in seeds]
        return cls(setting.templates(templates), arrivals, replace(cluster, executors=setting.executors), seeds)

    def mean_jct_s(self, decider: Callable[..., int], parameters: Floats, which: slice = slice(None)) -> Floats:
        """Mean time from arrival to end, of each episode; as ``times`` has it."""
        return self.times(decider, parameters, which).mean_jct_s

    def times(self, decider: Callable[..., int], parameters: Floats, which: slice = slice(None)) -> Times:
        """When jobs end, in each episode.

        Args:
            decider: A compiled scheduler.
            parameters: What it is handed; a copy of it in each episode.
            which: The episodes to play.

        Raises:
            ContractBroken: The scheduler left jobs standing.
        """
        played = self.worlds[which]
        found = Times(np.zeros(len(played)), np.zeros(len(played)))
        for k, world in enumerate(played):
            state, arrival_ms = initial_state(world), world.jobs.arrival_ms
            if run(world, state, decider, parameters.copy(), 1) != ENDED:
                raise ContractBroken("the scheduler left jobs standing; it must pick one where nothing else happens")
            found.mean_jct_s[k] = float((state.jobs.end_ms - arrival_ms).mean()) / 1000
            found.makespan_s[k] = float(state.jobs.end_ms.max() - arrival_ms[0]) / 1000
        return found


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned tree.

    Attributes:
        tree: The best one.
        cost: Mean over settings of its mean times in parts of the first tree's.
        tried: Changes that were tried,
        kept: and those that were kept.
    """

    tree: Tree
    cost: float
    tried: int
    kept: int


def tuned(
    tree: Tree,
    settings: Sequence[Episodes],
    values: Floats,
    rng: np.random.Generator,
    *,
    goes_on: Callable[[int], bool],
    most_leaves: int = 32,
    may_grow: bool = True,
    begun: Tuned | None = None,
    tell: Callable[[Tuned], None] = lambda _: None,
    keep: Callable[[Tuned], None] = lambda _: None,
) -> Tuned:
    """A tree under which jobs end sooner on average, in all settings taken together.

    Args:
        tree: Where to begin.
        settings: Episodes to tune on; each setting counts alike.
        values: Shape (rows, features), candidates that were met, with all features of ``columns``.
        rng: Draws the changes.
        goes_on: Asked with the number of changes tried whether to try another.
        most_leaves: The tree has no more.
        may_grow: Whether questions may be added, exchanged and removed; new ones may ask any feature of ``columns``.
        begun: What an earlier call with the same tree, settings and values handed to ``keep`` last, to go on from; the
            generator must be as it was then.
        tell: Is told of each better tree.
        keep: Is told the best tree after each change that was tried.
    """
    reference = [episodes.mean_jct_s(decide_by_tree, parameters_of(tree)) for episodes in settings]
    best = Tuned(tree, 1.0, 0, 0) if begun is None else begun
    now = reference
    if begun is not None:
        now = [episodes.mean_jct_s(decide_by_tree, parameters_of(best.tree)) for episodes in settings]
    while goes_on(best.tried):
        best = replace(best, tried=best.tried + 1)
        other = changed(best.tree, values, most_leaves, rng, may_grow=may_grow)
        times = _tried(other, settings, now, reference)
        if times is not None:
            cost = _relative(times, reference, 1)
            shorter = len(other.leaves) < len(best.tree.leaves)
            if cost < best.cost or (shorter and cost <= best.cost):
                now, best = times, Tuned(other, cost, best.tried, best.kept + 1)
                tell(best)
        keep(best)
    return best


def _tried(
    tree: Tree, settings: Sequence[Episodes], now: Sequence[Floats], reference: Sequence[Floats]
) -> list[Floats] | None:
    """Mean times under a tree; None where the first episodes say that it is no better."""
    parameters = parameters_of(tree)
    few = [episodes.mean_jct_s(decide_by_tree, parameters, slice(None, None, FIRST_PART)) for episodes in settings]
    told = [times[::FIRST_PART] for times in now]
    if _relative(few, reference, FIRST_PART) > _relative(told, reference, FIRST_PART) + SLACK:
        return None
    return [episodes.mean_jct_s(decide_by_tree, parameters) for episodes in settings]


def _relative(times: Sequence[Floats], reference: Sequence[Floats], step: int) -> float:
    """Mean times in parts of the reference's, averaged over settings."""
    return float(np.mean([one.mean() / base[::step].mean() for one, base in zip(times, reference, strict=True)]))


def shortened(
    tree: Tree, settings: Sequence[Episodes], tell: Callable[[float, Tree], None] = lambda _, __: None
) -> Tree:
    """A tree without the questions that are not worth a leaf; each setting counts alike.

    Each question in turn is replaced by one of its two sides, the tree that gains most is kept, and so on.

    Args:
        tree: Where to begin.
        settings: Episodes to judge by.
        tell: Is told each shorter tree, with its mean times in parts of the first tree's.
    """
    reference = _means(tree, settings)

    def cost(one: Tree) -> float:
        return float(np.mean(_means(one, settings) / reference))

    now = 1.0
    while True:
        tried = {other.root: other for other in _shorter_trees(tree)}.values()
        priced = [(cost(other), other) for other in tried]
        if not priced:
            return tree
        found, best = min(priced, key=lambda pair: pair[0] + LEAF_PRICE * len(pair[1].leaves))
        if found + LEAF_PRICE * len(best.leaves) >= now + LEAF_PRICE * len(tree.leaves):
            return tree
        now, tree = found, best
        tell(now, tree)


def _means(tree: Tree, settings: Sequence[Episodes]) -> Floats:
    parameters = parameters_of(tree)
    return np.array([float(each.mean_jct_s(decide_by_tree, parameters).mean()) for each in settings])


def _shorter_trees(tree: Tree) -> Iterator[Tree]:
    """A tree for each question and each of its two sides, which stands in its place."""
    for root in _shorter(tree.root):
        yield merged(replace(tree, root=root))


def _shorter(node: Node) -> Iterator[Node]:
    if isinstance(node, Leaf):
        return
    yield node.below
    yield node.above
    yield from (replace(node, below=below) for below in _shorter(node.below))
    yield from (replace(node, above=above) for above in _shorter(node.above))
