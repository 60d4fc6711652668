"""Fidelity: how well a tree imitates a policy, and where they differ most.

Only decisions that the policy reaches count: those of a window up to its submission.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.distill.tree import Tree
from mirage.distill.tree_text import reason
from mirage.duration import HOUR_S
from mirage.learn.explain.readable_columns import columns_named, rows_of
from mirage.learn.explain.tree_rule import ANSWERS, SUBMIT
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Flags, step_of
from mirage.learn.training.method_trials import submitted_rows
from mirage.policy.cost import Cost

MOST_SHOWN = 5
"""Largest number of leaves and windows that are listed."""


@dataclass(frozen=True, slots=True)
class HandOverFidelity:
    """Agreement of a tree with a policy.

    Attributes:
        windows: Number of windows.
        decisions: Number of decisions that the policy reaches and that have a choice.
        equal_decisions: Share of them at which the tree decides alike.
        equal_hand_overs: Share of windows in which both submit at the same decision.
        near_hand_overs: Share of windows in which their submissions are at most a step apart.
        apart_h: Mean time between their submissions.
        waits: Share of the decisions at which the policy waits: the agreement of a tree that always waits.
    """

    windows: int
    decisions: int
    equal_decisions: float
    equal_hand_overs: float
    near_hand_overs: float
    apart_h: float
    waits: float


@dataclass(frozen=True, slots=True)
class LeafDifference:
    """A leaf that disagrees with the policy.

    Attributes:
        answer: The answer of the leaf, and the conditions that lead to it.
        decisions: Number of decisions that reach it.
        apart: Number of them that the policy decides differently.
    """

    answer: str
    decisions: int
    apart: int


@dataclass(frozen=True, slots=True)
class WindowDifference:
    """A window in which the tree's hand-over differs from the policy's.

    Attributes:
        window: Submission of the present link, ISO-8601 UTC.
        policy_lead_h: Time from the policy's submission to the end of the present link.
        policy_gap_h: Start of the next link minus end of the present one.
        cost: Cost of the tree's hand-over minus that of the policy's.
    """

    window: str
    link_nodes: int
    policy_lead_h: float
    tree_lead_h: float
    policy_gap_h: float
    tree_gap_h: float
    cost: float


def fidelity_of(data: HandOvers, by_policy: Flags, by_tree: Flags) -> HandOverFidelity:
    """Agreement of a tree with a policy.

    Args:
        data: Decisions, n rows.
        by_policy: Shape (n,), whether the policy submits.
        by_tree: Shape (n,), whether the tree submits.
    """
    reached = reached_rows(data, by_policy)
    same = (by_policy == by_tree)[reached]
    policy, tree = submitted_rows(by_policy, data), submitted_rows(by_tree, data)
    apart_s = np.abs(data.time_s[policy] - data.time_s[tree])
    return HandOverFidelity(
        windows=len(policy),
        decisions=len(reached),
        equal_decisions=float(same.mean()) if len(same) else 1.0,
        equal_hand_overs=float((policy == tree).mean()),
        near_hand_overs=float((apart_s <= step_of(data)).mean()),
        apart_h=float(apart_s.mean() / HOUR_S),
        waits=float((~by_policy[reached]).mean()) if len(same) else 1.0,
    )


def reached_rows(data: HandOvers, by_policy: Flags) -> Ints:
    """Decisions with a choice that a policy reaches."""
    edges = data.windows()
    submitted = np.repeat(submitted_rows(by_policy, data), np.diff(edges))
    found: Ints = np.flatnonzero((np.arange(len(data)) <= submitted) & (data.remaining_s > 0))
    return found


def tree_rows(tree: Tree, data: HandOvers) -> Floats:
    """Shape (n, features): the inputs of a tree at the decisions of a data set."""
    return rows_of(columns_named(tree.features), data.features, data.names, data.remaining_s)


def leaf_differences(tree: Tree, data: HandOvers, by_policy: Flags) -> tuple[LeafDifference, ...]:
    """The leaves that disagree most often with a policy, the worst first."""
    reached = reached_rows(data, by_policy)
    rows = tree_rows(tree, data)[reached]
    if not len(rows):
        return ()
    leaf = tree.leaf_numbers(rows)
    apart = by_policy[reached] != (tree.codes(rows) == ANSWERS.index(SUBMIT))
    came, wrong = np.bincount(leaf), np.bincount(leaf, apart)
    names = [feature.name for feature in tree.features]
    found = []
    for number in np.argsort(-wrong, kind="stable")[:MOST_SHOWN].tolist():
        if wrong[number]:
            example = rows[int(np.flatnonzero(leaf == number)[0])].tolist()
            answer = reason(tree, dict(zip(names, example)))
            found.append(LeafDifference(answer, int(came[number]), int(wrong[number])))
    return tuple(found)


def window_differences(data: HandOvers, by_policy: Flags, by_tree: Flags, cost: Cost) -> tuple[WindowDifference, ...]:
    """The windows in which a tree's hand-over cost most more or less than the policy's."""
    policy, tree = submitted_rows(by_policy, data), submitted_rows(by_tree, data)
    outcome_s = data.outcome_s.astype(np.float64)
    more = cost.of(outcome_s[tree]) - cost.of(outcome_s[policy])
    found = []
    for window in np.argsort(-np.abs(more), kind="stable")[:MOST_SHOWN].tolist():
        ours, theirs = int(policy[window]), int(tree[window])
        if more[window]:
            found.append(
                WindowDifference(
                    window=f"{datetime.fromtimestamp(int(data.window_s[ours]), UTC):%Y-%m-%dT%H:%MZ}",
                    link_nodes=int(data.link_nodes[ours]),
                    policy_lead_h=float(data.remaining_s[ours] / HOUR_S),
                    tree_lead_h=float(data.remaining_s[theirs] / HOUR_S),
                    policy_gap_h=float(outcome_s[ours] / HOUR_S),
                    tree_gap_h=float(outcome_s[theirs] / HOUR_S),
                    cost=float(more[window]),
                )
            )
    return tuple(found)


def day(time_s: int) -> str:
    """The day of a moment, UTC, as 2023-03-01."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d}"
