"""Paired differences: every policy against one of them, window by window.

Windows that are bad for one policy are bad for most, so two overlapping intervals mean little. Instead, the difference
in every window is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import PolicyOutcome
from mirage.provision.evaluation.policy_score import ALL, by_month, classes, outcome, submissions_s
from mirage.study.intervals import Interval, Stretches


@dataclass(frozen=True, slots=True)
class Difference:
    """One policy minus another over the same windows: mean hours, negative if it is better.

    Attributes:
        against: The other policy.
        month: ``2023-03``, by submission of the predecessor, UTC; ``all`` for every window.
        cost_95: 95 % interval of the mean difference, like the other two; None from too few windows.
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

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` if the interval of the cost excludes zero; otherwise empty."""
        if self.cost_95 is None or self.cost_95[0] <= 0 <= self.cost_95[1]:
            return ""
        return "better" if self.cost < 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Returns the difference as plain values."""
        return asdict(self) | {"verdict": self.verdict}


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
    groups = [(list(trials), load, ALL, members) for load, members in classes(trials)]
    groups += [(of, ALL, month, np.full(len(of), True)) for month, of in by_month(trials).items()]
    found = []
    for cost in costs:
        for of_group, load, month, members in groups:
            stretches, base = Stretches.of(submissions_s(of_group)), outcome(against, of_group, cost)
            for policy in others:
                result = outcome(policy, of_group, cost)
                found.append(_difference(result, base, cost, of_group[0], load, month, members, stretches))
    return found


def _difference(
    result: PolicyOutcome,
    base: PolicyOutcome,
    cost: Cost,
    example: WindowTrial,
    load: str,
    month: str,
    members: NDArray[np.bool_],
    stretches: Stretches,
) -> Difference:
    one = np.ones_like(result.lead_s)
    costs = result.costs(cost) - base.costs(cost)
    interruption = (result.interruption_s - base.interruption_s) / HOUR_S
    overlap = (result.overlap_s - base.overlap_s) / HOUR_S
    return Difference(
        policy=result.policy,
        against=base.policy,
        link_nodes=example.episode.link.nodes,
        load=load,
        month=month,
        cost_ratio=cost.ratio,
        windows=stretches.windows(members),
        cost=float(costs[members].mean()),
        interruption_h=float(interruption[members].mean()),
        overlap_h=float(overlap[members].mean()),
        cost_95=stretches.ratio(costs, one, members),
        interruption_95=stretches.ratio(interruption, one, members),
        overlap_95=stretches.ratio(overlap, one, members),
    )
