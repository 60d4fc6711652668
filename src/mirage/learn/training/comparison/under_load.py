"""Gains under load: medium and heavy load together, as shares of the gap.

The gap is the cost of hand-overs of ``reactive`` minus that of the hindsight oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.job_state import Floats
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import oracle, reactive
from mirage.provision.evaluation.policy_score import EvaluationRow, loads, outcome, row_of, submissions_s
from mirage.provision.link_size import LIGHT
from mirage.study.intervals import Interval, Members, Stretches

LOADED = "medium and heavy"


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """Gain of one policy at one link size and one cost.

    Attributes:
        row: Row of the windows of medium and heavy load.
        more: Share of the gap by which it costs less there than the reference policy; None without one.
        more_95: 95 % interval of the saving, paired by window, over the gap of these windows; None with too few.
        more_of_all: The share over all windows, those of light load included.
    """

    row: EvaluationRow
    more: float | None
    more_95: Interval | None
    more_of_all: float | None
    more_of_all_95: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def under_load(
    trials: Sequence[WindowTrial], policies: Sequence[str], against: str | None, costs: Sequence[Cost]
) -> list[UnderLoad]:
    """Gains of policies for one link size: cost × policy; costs without a gap are left out.

    Args:
        trials: Windows of one link size.
        policies: Policies in the order of the results.
        against: The reference policy, if any.
        costs: Costs of hours of interruption and overlap.
    """
    stretches, loaded = Stretches.of(submissions_s(trials)), loads(trials) != LIGHT
    nodes, every = trials[0].episode.link.nodes, np.ones_like(loaded)
    found = []
    for cost in costs:
        bounds = reactive(trials), oracle(trials, cost)
        gap = bounds[0].costs(cost) - bounds[1].costs(cost)
        if gap[loaded].sum() <= 0:
            continue
        base = None if against is None else outcome(against, trials, cost).costs(cost)
        for policy in policies:
            result = outcome(policy, trials, cost)
            less = None if base is None or policy == against else base - result.costs(cost)
            row = row_of(result, bounds, cost, nodes, LOADED, loaded, stretches)
            shares = [_share(stretches, less, gap, members) for members in (loaded, every)]
            found.append(UnderLoad(row, *shares[0], *shares[1]))
    return found


def _share(
    stretches: Stretches, less: Floats | None, gap: Floats, members: Members
) -> tuple[float | None, Interval | None]:
    """A saving as a share of the gap of these windows, and its interval."""
    if less is None:
        return None, None
    mean = float(gap[members].mean())
    interval = stretches.ratio(less, np.ones_like(less), members)
    return float(less[members].mean()) / mean, None if interval is None else (interval[0] / mean, interval[1] / mean)
