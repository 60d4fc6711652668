"""Scores of evaluated policies: interruption, overlap, cost, and the gap to the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import EXACT_WAIT, ORACLE, ORACLE_HOLDS, Candidate
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE, exact_wait, oracle, oracle_holds, reactive
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.link_size import LOADS
from mirage.study.intervals import Interval, Stretches

ALL = "all"
CLASSES = (ALL, *LOADS)


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """Means over windows, in hours: one policy, size of link, load class and cost.

    Attributes:
        cost_ratio: Cost of an hour of interruption, in hours of overlap; None if overlap is free.
        lead_h: Time from submission to the end of the link.
        zero_share: Share of windows without interruption.
        cost: Mean cost of a hand-over.
        gap_closed: (cost of reactive − cost) / (cost of reactive − cost of the oracle); None if these costs are equal.
        interruption_95: 95 % interval of the mean, as are ``overlap_95`` and ``cost_95``; None from too few stretches.
        gap_closed_95: 95 % interval of ``gap_closed``.
        month: ``2023-03``, by submission of the predecessor, UTC; ``all`` for every window.
    """

    policy: str
    link_nodes: int
    load: str
    cost_ratio: float | None
    windows: int
    interruption_h: float
    overlap_h: float
    interruption_median_h: float
    overlap_median_h: float
    interruption_p95_h: float
    overlap_p95_h: float
    lead_h: float
    zero_share: float
    cost: float
    gap_closed: float | None
    interruption_95: Interval | None
    overlap_95: Interval | None
    cost_95: Interval | None
    gap_closed_95: Interval | None
    month: str = ALL

    def to_json(self) -> dict[str, Any]:
        """Returns the row as plain values."""
        return asdict(self)


def outcome(policy: str, trials: Sequence[WindowTrial], cost: Cost) -> PolicyOutcome:
    """Outcome of a policy in the windows, at this cost if it weighs one."""
    if policy == ORACLE:
        return oracle(trials, cost)
    if policy == REACTIVE:
        return reactive(trials)
    if policy == ORACLE_HOLDS:
        return oracle_holds(trials, cost)
    if policy == EXACT_WAIT:
        return exact_wait(trials)
    with_cost, without = Candidate(policy, cost).key, Candidate(policy).key
    keys = [with_cost if with_cost in trial.chosen else without for trial in trials]
    return PolicyOutcome.of_keys(policy, keys, trials)


def loads(trials: Sequence[WindowTrial]) -> NDArray[np.str_]:
    """Load class of every window."""
    return np.array([trial.episode.load for trial in trials], dtype=np.str_)


def submissions_s(trials: Sequence[WindowTrial]) -> Ints:
    """Submission time of each window's predecessor."""
    return np.array([trial.episode.submitted_s for trial in trials], dtype=np.int64)


def score(trials: Sequence[WindowTrial], policies: Sequence[str], costs: Sequence[Cost]) -> list[EvaluationRow]:
    """Returns the rows of one size of link: every policy × load class × cost.

    Args:
        trials: By window, all of one size of link.
        policies: In the order requested.
        costs: Cost of an hour of interruption and of overlap.
    """
    stretches = Stretches.of(submissions_s(trials))
    rows = []
    for cost in costs:
        bounds = reactive(trials), oracle(trials, cost)
        outcomes = [outcome(policy, trials, cost) for policy in policies]
        for load, members in classes(trials):
            nodes = trials[0].episode.link.nodes
            rows += [row_of(o, bounds, cost, nodes, load, members, stretches) for o in outcomes]
    return rows


def score_by_month(
    trials: Sequence[WindowTrial], policies: Sequence[str], costs: Sequence[Cost]
) -> list[EvaluationRow]:
    """Returns the rows of all loads for every calendar month: month × cost × policy.

    Intervals come from the month alone.
    """
    return [
        replace(row, month=month)
        for month, of_month in by_month(trials).items()
        for row in score(of_month, policies, costs)
        if row.load == ALL
    ]


def by_month(trials: Sequence[WindowTrial]) -> dict[str, list[WindowTrial]]:
    """``2023-03`` → windows of that month (predecessor's submission, UTC), in order of time."""
    found: dict[str, list[WindowTrial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.episode.submitted_s):
        month = datetime.fromtimestamp(trial.episode.submitted_s, UTC).strftime("%Y-%m")
        found.setdefault(month, []).append(trial)
    return found


def classes(trials: Sequence[WindowTrial]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Load classes that have windows, ``all`` first, and their windows."""
    of_load = loads(trials)
    members = [(load, np.full(len(trials), True) if load == ALL else of_load == load) for load in CLASSES]
    return [(load, which) for load, which in members if which.any()]


def row_of(
    result: PolicyOutcome,
    bounds: tuple[PolicyOutcome, PolicyOutcome],
    cost: Cost,
    nodes: int,
    load: str,
    members: NDArray[np.bool_],
    stretches: Stretches,
) -> EvaluationRow:
    """Returns the row of some windows.

    Args:
        bounds: Bounds of the gap: the reactive chain and the oracle.
        load: Label of the windows.
        members: Shape (windows,), which of them count.
    """
    interruption, overlap = result.interruption_s / HOUR_S, result.overlap_s / HOUR_S
    costs = result.costs(cost)
    worst, best = (bound.costs(cost) for bound in bounds)
    gap = float((worst - best)[members].sum())
    return EvaluationRow(
        policy=result.policy,
        link_nodes=nodes,
        load=load,
        cost_ratio=cost.ratio,
        windows=stretches.windows(members),
        interruption_h=float(interruption[members].mean()),
        overlap_h=float(overlap[members].mean()),
        interruption_median_h=float(np.median(interruption[members])),
        overlap_median_h=float(np.median(overlap[members])),
        interruption_p95_h=float(np.percentile(interruption[members], 95)),
        overlap_p95_h=float(np.percentile(overlap[members], 95)),
        lead_h=float(result.lead_s[members].mean() / HOUR_S),
        zero_share=float((result.interruption_s[members] == 0).mean()),
        cost=float(costs[members].mean()),
        gap_closed=float((worst - costs)[members].sum()) / gap if gap > 1e-9 else None,
        interruption_95=stretches.mean(interruption, members),
        overlap_95=stretches.mean(overlap, members),
        cost_95=stretches.mean(costs, members),
        gap_closed_95=stretches.gap_closed(worst - costs, worst - best, members),
    )
