"""Explanation of a policy: a tree that imitates it, its fidelity, and its cost.

The tree and its size are fitted to windows that are over by a moment, and judged on later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats
from mirage.distill.pruning import FitSettings
from mirage.distill.tree import Tree
from mirage.distill.tree_fit import fitted
from mirage.errors import ConfigurationError
from mirage.learn.dataset.read_data_set import known_by
from mirage.learn.explain.policy_examples import PolicyExamples, examples_of
from mirage.learn.explain.tree_fidelity import (
    HandOverFidelity,
    LeafDifference,
    WindowDifference,
    day,
    fidelity_of,
    leaf_differences,
    tree_rows,
    window_differences,
)
from mirage.learn.explain.tree_rule import ANSWERS, COST_KEY, FUTURES_KEY, POLICY_KEY, SUBMIT
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Flags
from mirage.learn.training.method_trials import submitted_rows, trials_from
from mirage.learn.training.trained_policy import WHAT_IF
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import ORACLE
from mirage.provision.evaluation.evaluate import Evaluation, assess
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE

MOST_LEAVES = 32
TREE = "its tree"
"""Name of the tree in tables."""

HELD_OUT_SHARE = 1 / 3
"""Share of the windows, the last ones, that are held out by default."""


@dataclass(frozen=True, slots=True, eq=False)
class Behaviour:
    """Behaviour of a policy in the windows of a data set.

    Attributes:
        policy: Its name.
        cost: The cost it weighed.
        submits: Shape (n,), where it submits.
        at_costs: Candidate's key → where it submits when it weighs other costs; empty for a policy that was played, as
            its hand-overs are in ``played``.
        played: Nodes of a link → submission of the present link → the window as policies played it; None if none was
            played.
        futures: Futures of the forecasts in the data; 0 without forecasts.
        outside_share: Share of its decisions that are not read off its model.
    """

    policy: str
    cost: Cost
    submits: Flags
    at_costs: Mapping[str, Flags]
    played: Mapping[int, Mapping[int, WindowTrial]] | None
    futures: int = 0
    outside_share: float = 0.0


@dataclass(frozen=True, slots=True)
class SizePoint:
    """Fidelity and cost of a tree of one size on held-out windows.

    Attributes:
        leaves: Number of leaves.
        equal_decisions: Share of decisions that equal the policy's.
        equal_hand_overs: Share of windows in which it submits at the policy's decision.
        near_hand_overs: Share of windows in which it submits at most one step apart.
        cost: Mean cost of a hand-over.
    """

    leaves: int
    equal_decisions: float
    equal_hand_overs: float
    near_hand_overs: float
    cost: float


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """A policy as a tree.

    Attributes:
        policy: Its name.
        cost: The cost it weighed.
        until_s: The tree was fitted to windows that were over by this time, and judged on later ones.
        fitted_windows: Number of windows it was fitted to.
        choice_windows: Number of them, the last ones, that chose its size.
        tree: The tree; its text runs.
        fidelity: Fidelity on held-out windows.
        by_month: Fidelity by calendar month.
        sizes: Trees of several sizes, this one included.
        evaluation: The policy, the tree and others on the held-out windows; differences are from the policy.
        leaves: Leaves that disagree most with the policy.
        windows: Windows in which the tree did worst or best against the policy.
        outside_share: See ``Behaviour``.
    """

    policy: str
    cost: Cost
    until_s: int
    fitted_windows: int
    choice_windows: int
    tree: Tree
    fidelity: HandOverFidelity
    by_month: tuple[tuple[str, HandOverFidelity], ...]
    sizes: tuple[SizePoint, ...]
    evaluation: Evaluation
    leaves: tuple[LeafDifference, ...]
    windows: tuple[WindowDifference, ...]
    outside_share: float


def explain(
    data: HandOvers,
    behaviour: Behaviour,
    costs: Sequence[Cost],
    until_s: int,
    *,
    max_leaves: int = MOST_LEAVES,
    seed: int = 0,
) -> Explanation:
    """Fits the tree that imitates a policy, and judges it.

    Args:
        data: Ordered by window, link size and time.
        behaviour: Behaviour of the policy in the data.
        costs: Costs that hand-overs are judged by; the policy's own is one of them.
        until_s: The tree is fitted to windows that are over by this time, and judged on later ones.
        max_leaves: Largest number of leaves.
        seed: Chooses among splits that are equally good.

    Raises:
        ConfigurationError: No windows to fit the tree to, or none to judge it on, or a package is missing.
    """
    examples = examples_of(data, behaviour.submits)
    is_later = data.window_s >= until_s
    if not is_later.any():
        raise ConfigurationError(
            f"no window of the data starts on {day(until_s)} or later, to judge the tree; windows begin "
            f"{day(int(data.window_s.min()))} to {day(int(data.window_s.max()))}"
        )
    several = fitted_trees(data, examples, behaviour.submits, behaviour.cost, until_s, max_leaves, seed)
    tree = replace(several.tree, settings=_settings(behaviour))
    later, by_policy = data[is_later], behaviour.submits[is_later]
    submits_by_key = {TREE: tree_submits(tree, later)} | {
        key: flags[is_later] for key, flags in behaviour.at_costs.items()
    }
    return Explanation(
        policy=behaviour.policy,
        cost=behaviour.cost,
        until_s=until_s,
        fitted_windows=len(data[known_by(data, until_s)].windows()) - 1,
        choice_windows=several.choice_windows,
        tree=tree,
        fidelity=fidelity_of(later, by_policy, submits_by_key[TREE]),
        by_month=tuple(_by_month(later, by_policy, submits_by_key[TREE])),
        sizes=tuple(_curve(several.trees, later, by_policy, behaviour.cost)),
        evaluation=_evaluated(later, submits_by_key, behaviour, costs),
        leaves=leaf_differences(tree, later, by_policy),
        windows=window_differences(later, by_policy, submits_by_key[TREE], behaviour.cost),
        outside_share=behaviour.outside_share,
    )


LEAST_SHARE = 0.0005
"""Smallest share of decisions in a leaf: first submissions of a policy are few among all possible decisions."""

MAY_MOVE = 0.0005
"""Share of the decisions at a condition that rounding may move to its other side: each may be a hand-over's moment."""

CHOICE_SHARE = 1 / 3
"""Share of the windows that are over, the last ones, that choose the number of leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedTrees:
    """Trees of several sizes, grown on all windows that are over.

    Attributes:
        trees: By rising bound on their leaves, in powers of two up to the largest.
        chosen: Index of the best one.
        choice_windows: Number of hand-overs that it was chosen on.
    """

    trees: tuple[Tree, ...]
    chosen: int
    choice_windows: int

    @property
    def tree(self) -> Tree:
        """The best tree."""
        return self.trees[self.chosen]


def fitted_trees(
    data: HandOvers, examples: PolicyExamples, by_policy: Flags, cost: Cost, until_s: int, max_leaves: int, seed: int
) -> FittedTrees:
    """Fits trees of several sizes that imitate a policy.

    Args:
        data: Ordered by window, link size and time.
        examples: The examples in them.
        by_policy: Shape (n,), whether the policy submits.
        cost: Cost of hours of interruption and overlap.
        until_s: Only windows that are over by this time are used.
        max_leaves: Largest number of leaves of a tree.
        seed: Chooses among splits that are equally good.

    Raises:
        ConfigurationError: There are too few windows, or a package is missing.
    """
    known = known_by(data, until_s)
    windows_s = np.unique(data.window_s[known])
    choice_s = int(windows_s[-max(round(len(windows_s) * CHOICE_SHARE), 1)]) if len(windows_s) else until_s
    early, choice = known_by(data, choice_s), known & (data.window_s >= choice_s)
    if not early.any():
        first_s, last_s = int(data.window_s.min()), int(data.window_s.max())
        raise ConfigurationError(
            f"too few windows of the data are over by {day(until_s)}: a tree needs some to fit, and later ones to "
            f"choose its size; windows begin {day(first_s)} to {day(last_s)}; give a later --until, or make a data set "
            "of more windows"
        )
    sizes = [*(2**k for k in range(max_leaves.bit_length()) if 2**k < max_leaves), max_leaves]
    part, submits = data[choice], by_policy[choice]
    answers = [tree_submits(_grown(examples, early, n, seed), part) for n in sizes]
    apart = [(round(cost_apart(part, submits, found, cost), 9), _moved(part, submits, found)) for found in answers]
    trees = tuple(_grown(examples, known, n, seed) for n in sizes)
    return FittedTrees(trees, apart.index(min(apart)), len(part.windows()) - 1)


def tree_submits(tree: Tree, data: HandOvers) -> Flags:
    """Shape (n,): where a tree submits."""
    found: Flags = tree.codes(tree_rows(tree, data)) == ANSWERS.index(SUBMIT)
    return found


def cost_apart(data: HandOvers, by_policy: Flags, by_tree: Flags, cost: Cost) -> float:
    """Mean absolute difference between the costs of a policy's hand-overs and a tree's."""
    policy, tree = (_costs(data, submits, cost) for submits in (by_policy, by_tree))
    return float(np.abs(policy - tree).mean())


def _moved(data: HandOvers, by_policy: Flags, by_tree: Flags) -> int:
    """Number of hand-overs at different decisions, to choose among sizes of equal cost."""
    return int((submitted_rows(by_policy, data) != submitted_rows(by_tree, data)).sum())


def _costs(data: HandOvers, submits: Flags, cost: Cost) -> Floats:
    return np.asarray(cost.of(data.outcome_s[submitted_rows(submits, data)].astype(np.float64)), dtype=np.float64)


def _grown(examples: PolicyExamples, known: Flags, leaves: int, seed: int) -> Tree:
    """Grows a tree with at most ``leaves`` leaves on the rows of some decisions."""
    settings = FitSettings(max_leaves=leaves, folds=0, least_share=LEAST_SHARE, may_move=MAY_MOVE)
    return fitted(examples.choices, ~known[examples.where], np.random.default_rng(seed), settings).tree


def default_until_s(data: HandOvers) -> int:
    """The start of the last third of the windows.

    Raises:
        ConfigurationError: There are too few windows.
    """
    windows_s = np.unique(data.window_s)
    held_out = round(len(windows_s) * HELD_OUT_SHARE)
    if not 0 < held_out < len(windows_s):
        raise ConfigurationError(f"the data have {len(windows_s)} windows; a tree needs some to fit and some to judge")
    return int(windows_s[-held_out])


def _settings(behaviour: Behaviour) -> tuple[tuple[str, str], ...]:
    """The settings in the text of the tree."""
    name = behaviour.policy
    is_plain = name.isprintable() and name == name.strip() and "#" not in name
    ratio = f"{behaviour.cost.interruption:g}:{behaviour.cost.overlap:g}"
    found = [(POLICY_KEY, name)] if is_plain else []
    found.append((COST_KEY, ratio))
    return (*found, *([(FUTURES_KEY, str(behaviour.futures))] if behaviour.futures else []))


def _evaluated(
    later: HandOvers, submits_by_key: Mapping[str, Flags], behaviour: Behaviour, costs: Sequence[Cost]
) -> Evaluation:
    """The policy, its tree and the bounds in the held-out windows; ``what-if`` if played."""
    trials = {}
    for nodes in map(int, np.unique(later.link_nodes)):
        of_size = later.link_nodes == nodes
        data = later[of_size]
        chosen = {key: submitted_rows(flags[of_size], data) for key, flags in submits_by_key.items()}
        windows = None if behaviour.played is None else behaviour.played.get(nodes, {})
        trials[nodes] = tuple(trials_from(data, chosen, windows))
    what_if = [] if behaviour.played is None else [WHAT_IF]
    shown = dict.fromkeys([REACTIVE, *what_if, behaviour.policy, TREE, ORACLE])
    return assess(trials, list(shown), costs, against=behaviour.policy)


def _by_month(later: HandOvers, by_policy: Flags, by_tree: Flags) -> Iterator[tuple[str, HandOverFidelity]]:
    """Fidelity in every calendar month."""
    months = np.array([day(time_s)[:7] for time_s in later.window_s.tolist()])
    for month in np.unique(months).tolist():
        of = months == month
        yield month, fidelity_of(later[of], by_policy[of], by_tree[of])


def _curve(several: Sequence[Tree], later: HandOvers, by_policy: Flags, cost: Cost) -> Iterator[SizePoint]:
    """Trees of several sizes on the held-out windows; the last of equal size counts."""
    for leaves, tree in {len(tree.leaves): tree for tree in several}.items():
        submits = tree_submits(tree, later)
        agrees = fidelity_of(later, by_policy, submits)
        spent = cost.of(later.outcome_s[submitted_rows(submits, later)].astype(np.float64))
        shares = (agrees.equal_decisions, agrees.equal_hand_overs, agrees.near_hand_overs)
        yield SizePoint(leaves, *shares, float(spent.mean()))
