"""Paired differences: every policy against one of them, window by window.

Windows that are bad for one policy are bad for most, so two overlapping intervals mean little. Instead, the difference
in every window is compared. A policy is better or worse if the p-value of the difference, corrected for the number of
policies in the table, is below 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import BOUNDS, HINDSIGHT
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import reactive
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import ALL, by_month, classes, outcome, submissions_s
from mirage.provision.link_size import longest_wait_s
from mirage.study.intervals import Interval, Members, Stretches
from mirage.study.paired_test import ERROR, PairedTest, PossibleLoss, corrected, paired_test

VERDICTS_NOTE = (
    "better, worse: the 95 % interval of the difference excludes zero, also with a rare loss that the windows may have "
    "missed, and after a correction for the policies of the table (Benjamini and Hochberg)"
)
"""What a verdict means, for a note with a table."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One policy minus another over the same windows: mean hours, negative if it is better.

    Attributes:
        against: The other policy.
        month: ``2023-03``, by submission of the predecessor, UTC; ``all`` for every window.
        cost_95: 95 % interval of the mean difference, like the other two; None from too few windows.
        p_value: P-value of equal costs, below 0.05 where ``cost_95`` excludes zero; None from too few windows.
        p_corrected: The same, corrected for the number of policies in the table.
    """

    policy: str
    against: str
    link_nodes: int
    load: str
    month: str
    cost_ratio: float | None
    windows: int
    cost: float
    interruption_h: float
    overlap_h: float
    cost_95: Interval | None
    interruption_95: Interval | None
    overlap_95: Interval | None
    p_value: float | None
    p_corrected: float | None

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` beyond doubt; otherwise empty."""
        return verdict_of(self.cost, self.p_corrected)

    def to_json(self) -> dict[str, Any]:
        """Returns the difference as plain values."""
        return asdict(self) | {"verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class ComparedWindows:
    """Windows of one table.

    Attributes:
        trials: All windows, for the stretches; of one size of link.
        members: Shape (windows,), which of them count.
        load: Load class of the members; ``all`` for several.
    """

    trials: Sequence[WindowTrial]
    members: Members
    stretches: Stretches
    load: str = ALL
    month: str = ALL

    @classmethod
    def of_all(cls, trials: Sequence[WindowTrial], month: str = ALL) -> Self:
        """Returns the table of all of these windows."""
        return cls(trials, np.full(len(trials), True), Stretches.of(submissions_s(trials)), month=month)

    def test(self, result: PolicyOutcome, base: PolicyOutcome, cost: Cost) -> PairedTest | None:
        """Tests whether a policy differs from another; None from too few windows."""
        losses = self.possible_loss(result, base, cost), self.possible_loss(base, result, cost)
        return paired_test(result.costs(cost) - base.costs(cost), *losses, self.members, self.stretches)

    def possible_loss(self, result: PolicyOutcome, other: PolicyOutcome, cost: Cost) -> PossibleLoss:
        """What a policy could have lost in each window, and in the worst that there can be.

        It is no later than a reactive chain, and no earlier than its lead. The worst wait of a reactive chain is the
        limit of a link, or less in a load class. It is no loss against a policy that waited like that chain in every
        window. Bounds in hindsight lose nothing.
        """
        costs = result.costs(cost)
        if result.policy in HINDSIGHT:
            return PossibleLoss(np.zeros_like(costs), 0.0, 0.0)
        latest_s = reactive(self.trials).interruption_s
        dearest = np.maximum(cost.total(latest_s, 0.0), cost.total(0.0, result.lead_s))
        is_reactive = latest_s.any() and np.array_equal(other.interruption_s - other.overlap_s, latest_s)
        worst_s = 0.0 if is_reactive else longest_wait_s(self.load, self.trials[0].episode.link.limit_s)
        beyond_s = max(worst_s - float(latest_s[self.members].max()), 0.0)
        worst, beyond = (float(cost.total(wait_s, 0.0)) for wait_s in (worst_s, beyond_s))
        return PossibleLoss(np.maximum(dearest - costs, 0.0), worst, beyond)


def differences(
    trials: Sequence[WindowTrial], policies: Sequence[str], against: str, costs: Sequence[Cost]
) -> list[Difference]:
    """Differences of one size of link: cost × (load classes, then months) × policy.

    Args:
        trials: By window, all of one size of link.
        policies: In the order requested; ``against`` itself is left out.
        costs: Cost of an hour of interruption and of overlap.
    """
    others = [policy for policy in policies if policy != against]
    every = Stretches.of(submissions_s(trials))
    tables = [ComparedWindows(trials, members, every, load=load) for load, members in classes(trials)]
    tables += [ComparedWindows.of_all(of, month) for month, of in by_month(trials).items()]
    found = []
    for cost in costs:
        for table in tables:
            base = outcome(against, table.trials, cost)
            results = [outcome(policy, table.trials, cost) for policy in others]
            rows = [_difference(result, base, cost, table) for result in results]
            p_corrected = corrected_in_table([(r, row.p_value) for r, row in zip(results, rows)])
            found += [replace(row, p_corrected=p) for row, p in zip(rows, p_corrected)]
    return found


def corrected_in_table(tested: Sequence[tuple[PolicyOutcome, float | None]]) -> list[float | None]:
    """P-values corrected for the number of policies in a table.

    Policies with the same hand-overs and leads count once; a longer lead could have lost more, so the p-value differs.
    Bounds are no policies: theirs are not corrected, and do not count.
    """
    keys = [b"".join(part.tobytes() for part in (o.interruption_s, o.overlap_s, o.lead_s)) for o, _ in tested]
    counted = {k: p for k, (o, p) in zip(keys, tested) if p is not None and o.policy not in BOUNDS}
    after = dict(zip(counted, corrected(list(counted.values()))))
    return [p if p is None or o.policy in BOUNDS else after[k] for k, (o, p) in zip(keys, tested)]


def verdict_of(difference: float, p_corrected: float | None) -> str:
    """Returns ``better`` or ``worse`` for a difference of costs; empty without proof."""
    if p_corrected is None or p_corrected >= ERROR:
        return ""
    return "better" if difference < 0 else "worse"


def _difference(result: PolicyOutcome, base: PolicyOutcome, cost: Cost, table: ComparedWindows) -> Difference:
    members = table.members
    costs = result.costs(cost) - base.costs(cost)
    interruption = (result.interruption_s - base.interruption_s) / HOUR_S
    overlap = (result.overlap_s - base.overlap_s) / HOUR_S
    tested, late, early = (table.test(result, base, each) for each in (cost, Cost(1.0, 0.0), Cost(0.0, 1.0)))
    return Difference(
        policy=result.policy,
        against=base.policy,
        link_nodes=table.trials[0].episode.link.nodes,
        load=table.load,
        month=table.month,
        cost_ratio=cost.ratio,
        windows=table.stretches.windows(members),
        cost=float(costs[members].mean()),
        interruption_h=float(interruption[members].mean()),
        overlap_h=float(overlap[members].mean()),
        cost_95=tested.interval if tested else None,
        interruption_95=late.interval if late else None,
        overlap_95=early.interval if early else None,
        p_value=tested.p_value if tested else None,
        p_corrected=None,
    )
