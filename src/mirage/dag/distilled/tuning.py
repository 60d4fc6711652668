"""Tuning of a tree in closed loop: small changes are retained where jobs end sooner.

Fidelity to a teacher measures imitation; the goal is early ends of jobs. Each change is tried on some episodes first
and on all of them only if it did not do badly there; all use the same episodes, so that differences are paired. A
student tests much that matters to its teacher but not to completion times: pruning removes the conditions that do not
make jobs end sooner. Seeds to tune on, to choose on and to report on must be different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats
from mirage.dag.distilled.small_changes import changed
from mirage.dag.distilled.tree_decider import decide_by_tree
from mirage.dag.distilled.tree_policy import parameters_of
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_event_loop import ENDED, run
from mirage.dag.simulator.dag_world import DagCluster, initial_state, make_world
from mirage.dag.workload.dag_arrivals import DagArrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.distill.tree import Leaf, Node, Tree, merged
from mirage.errors import ContractBroken

FIRST_PART = 5
"""One in this number of episodes is tried first."""

SLACK = 0.003
"""A change is dropped if it is worse by this part in the first episodes."""


LEAF_PRICE = 0.0005
"""Relative reduction of the mean times that pruning requires of a leaf."""


@dataclass(frozen=True, slots=True)
class Times:
    """Completion times of jobs in some episodes.

    Attributes:
        mean_jct_s: Mean time from arrival to end, of each episode.
        makespan_s: From the first arrival to the last end, of each episode.
    """

    mean_jct_s: Floats
    makespan_s: Floats


class Episodes:
    """Episodes of one setting, prepared once and run many times.

    Args:
        templates: Kinds of jobs.
        arrivals: Of each episode.
        cluster: The executors.
        seeds: Of the durations of each episode.
    """

    def __init__(
        self,
        templates: Sequence[JobTemplate],
        arrivals: Sequence[DagArrivals],
        cluster: DagCluster,
        seeds: Sequence[int],
    ) -> None:
        self.worlds = [make_world(templates, each, cluster, seed) for each, seed in zip(arrivals, seeds, strict=True)]

    @classmethod
    def drawn(
        cls, templates: Sequence[JobTemplate], setting: EpisodeSetting, cluster: DagCluster, seeds: Sequence[int]
    ) -> Episodes:
        """The episodes of some seeds.

        Args:
            templates: The usual kinds of jobs.
            setting: Executors, jobs, and the mix of jobs.
            cluster: Everything else about the cluster; its number of executors is not used.
            seeds: Of arrivals and durations.
        """
        arrivals = [setting.arrivals(seed, len(templates)) for seed in seeds]
        return cls(setting.templates(templates), arrivals, replace(cluster, executors=setting.executors), seeds)

    def mean_jct_s(self, decider: Callable[..., int], parameters: Floats, which: slice = slice(None)) -> Floats:
        """The mean time from arrival to end, of each episode; see ``times``."""
        return self.times(decider, parameters, which).mean_jct_s

    def times(self, decider: Callable[..., int], parameters: Floats, which: slice = slice(None)) -> Times:
        """The completion times of each episode.

        Args:
            decider: A compiled scheduler.
            parameters: Its parameters; copied in each episode.
            which: The episodes to run.

        Raises:
            ContractBroken: The scheduler left jobs without executors.
        """
        played = self.worlds[which]
        found = Times(np.zeros(len(played)), np.zeros(len(played)))
        for k, world in enumerate(played):
            state, arrival_ms = initial_state(world), world.jobs.arrival_ms
            if run(world, state, decider, parameters.copy(), 1) != ENDED:
                raise ContractBroken("the scheduler left jobs without executors although no event was left; pick one")
            found.mean_jct_s[k] = float((state.jobs.end_ms - arrival_ms).mean()) / 1000
            found.makespan_s[k] = float(state.jobs.end_ms.max() - arrival_ms[0]) / 1000
        return found


@dataclass(frozen=True, slots=True)
class TuningResult:
    """A tuned tree.

    Attributes:
        tree: The best one.
        cost: Mean over settings of its mean times, relative to the first tree's.
        tried: Number of changes that were tried.
        accepted: Number of changes that were retained.
    """

    tree: Tree
    cost: float
    tried: int
    accepted: int


def tuned(
    tree: Tree,
    settings: Sequence[Episodes],
    values: Floats,
    rng: np.random.Generator,
    *,
    may_continue: Callable[[int], bool],
    most_leaves: int = 32,
    may_grow: bool = True,
    begun: TuningResult | None = None,
    report: Callable[[TuningResult], None] = lambda _: None,
    store: Callable[[TuningResult], None] = lambda _: None,
) -> TuningResult:
    """Tunes a tree so that jobs end sooner on average, over all settings together.

    Args:
        tree: The first tree.
        settings: Episodes to tune on; all settings count equally.
        values: Shape (rows, features), observed candidates, with all features of ``columns``.
        rng: Draws the changes.
        may_continue: Called with the number of changes tried; whether to try another.
        most_leaves: Most leaves of the tree.
        may_grow: Whether conditions may be added, exchanged and removed; new ones may test any feature of ``columns``.
        begun: The last value that an earlier call with the same tree, settings and values passed to ``store``, to
            resume from; the generator must be in the state that it had then.
        report: Called with each better tree.
        store: Called with the best tree after each change that was tried.
    """
    reference = [episodes.mean_jct_s(decide_by_tree, parameters_of(tree)) for episodes in settings]
    best = TuningResult(tree, 1.0, 0, 0) if begun is None else begun
    now = reference
    if begun is not None:
        now = [episodes.mean_jct_s(decide_by_tree, parameters_of(best.tree)) for episodes in settings]
    while may_continue(best.tried):
        best = replace(best, tried=best.tried + 1)
        other = changed(best.tree, values, most_leaves, rng, may_grow=may_grow)
        times = _tried(other, settings, now, reference)
        if times is not None:
            cost = _relative(times, reference, 1)
            shorter = len(other.leaves) < len(best.tree.leaves)
            if cost < best.cost or (shorter and cost <= best.cost):
                now, best = times, TuningResult(other, cost, best.tried, best.accepted + 1)
                report(best)
        store(best)
    return best


def _tried(
    tree: Tree, settings: Sequence[Episodes], now: Sequence[Floats], reference: Sequence[Floats]
) -> list[Floats] | None:
    """Mean times under a tree; None if it is no better in the first episodes."""
    parameters = parameters_of(tree)
    few = [episodes.mean_jct_s(decide_by_tree, parameters, slice(None, None, FIRST_PART)) for episodes in settings]
    before = [times[::FIRST_PART] for times in now]
    if _relative(few, reference, FIRST_PART) > _relative(before, reference, FIRST_PART) + SLACK:
        return None
    return [episodes.mean_jct_s(decide_by_tree, parameters) for episodes in settings]


def _relative(times: Sequence[Floats], reference: Sequence[Floats], step: int) -> float:
    """Mean times relative to the reference's, averaged over settings."""
    return float(np.mean([one.mean() / base[::step].mean() for one, base in zip(times, reference, strict=True)]))


def shortened(
    tree: Tree, settings: Sequence[Episodes], report: Callable[[float, Tree], None] = lambda _, __: None
) -> Tree:
    """Removes the conditions of a tree that are not worth a leaf; settings count equally.

    Each condition in turn is replaced by one of its two sides, the tree that gains most is retained, and so on.

    Args:
        tree: The first tree.
        settings: Episodes to evaluate on.
        report: Called with each shorter tree, and its mean times relative to the first tree's.
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
        report(now, tree)


def _means(tree: Tree, settings: Sequence[Episodes]) -> Floats:
    parameters = parameters_of(tree)
    return np.array([float(each.mean_jct_s(decide_by_tree, parameters).mean()) for each in settings])


def _shorter_trees(tree: Tree) -> Iterator[Tree]:
    """Trees in which one condition is replaced by one of its two sides."""
    for root in _shorter(tree.root):
        yield merged(replace(tree, root=root))


def _shorter(node: Node) -> Iterator[Node]:
    if isinstance(node, Leaf):
        return
    yield node.below
    yield node.above
    yield from (replace(node, below=below) for below in _shorter(node.below))
    yield from (replace(node, above=above) for above in _shorter(node.above))
