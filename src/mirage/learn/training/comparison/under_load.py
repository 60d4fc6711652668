"""What is gained where there is something to gain: medium and heavy load together, as shares of the gap.

The gap is what hand-overs of ``reactive`` cost above those of the hindsight oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.duration import HOUR_S
from mirage.job_state import Floats
from mirage.policy.cost import Cost
from mirage.provision.chain import LIGHT
from mirage.provision.evaluation.interval import Interval, Members, Stretches
from mirage.provision.evaluation.score import (
    cost_ratio,
    gap_interval,
    loads,
    oracle,
    outcome,
    reactive,
    submissions_s,
)
from mirage.provision.evaluation.study import Trial


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """One policy, one size of link, one cost: the windows of medium and heavy load. Means in hours.

    Attributes:
        gap_closed: Share of the gap that it closes there.
        gap_closed_95: 95 % interval of it; None from too few windows, as are the others.
        more: By what share of the gap it costs less there than the policy that all are compared with; None without one.
        more_of_all: The same over all windows, of light load too.
    """

    policy: str
    link_nodes: int
    cost_ratio: float | None
    windows: int
    interruption_h: float
    overlap_h: float
    gap_closed: float
    gap_closed_95: Interval | None
    more: float | None
    more_95: Interval | None
    more_of_all: float | None
    more_of_all_95: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def under_load(
    trials: Sequence[Trial], policies: Sequence[str], against: str | None, costs: Sequence[Cost]
) -> list[UnderLoad]:
    """What policies did for one size of link: cost × policy; nothing where no gap is under load.

    Args:
        trials: By window, all of one size of link.
        policies: In the order wanted.
        against: What all are compared with, if anything.
        costs: What hours of interruption and overlap cost.
    """
    stretches, loaded = Stretches.of(submissions_s(trials)), loads(trials) != LIGHT
    every = np.ones_like(loaded)
    found = []
    for cost in costs:
        worst, best = reactive(trials).costs(cost), oracle(trials, cost).costs(cost)
        gap = worst - best
        if gap[loaded].sum() <= 0:
            continue
        base = None if against is None else outcome(against, trials, cost).costs(cost)
        for policy in policies:
            result = outcome(policy, trials, cost)
            costs_h = result.costs(cost)
            less = None if base is None or policy == against else base - costs_h
            more, more_95 = _share(stretches, less, gap, loaded)
            more_of_all, more_of_all_95 = _share(stretches, less, gap, every)
            found.append(
                UnderLoad(
                    policy=policy,
                    link_nodes=trials[0].episode.link.nodes,
                    cost_ratio=cost_ratio(cost),
                    windows=stretches.windows(loaded),
                    interruption_h=float(result.interruption_s[loaded].mean()) / HOUR_S,
                    overlap_h=float(result.overlap_s[loaded].mean()) / HOUR_S,
                    gap_closed=float((worst - costs_h)[loaded].sum() / gap[loaded].sum()),
                    gap_closed_95=gap_interval(stretches, worst - costs_h, gap, loaded),
                    more=more,
                    more_95=more_95,
                    more_of_all=more_of_all,
                    more_of_all_95=more_of_all_95,
                )
            )
    return found


def _share(
    stretches: Stretches, less: Floats | None, gap: Floats, members: Members
) -> tuple[float | None, Interval | None]:
    """A saving as a share of the gap, and its interval."""
    if less is None:
        return None, None
    return float(less[members].sum() / gap[members].sum()), stretches.ratio(less, gap, members)
