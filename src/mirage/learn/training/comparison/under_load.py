"""What is gained where there is something to gain: medium and heavy load together, as shares of the gap.

The gap is what hand-overs of ``reactive`` cost above those of the hindsight oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.job_state import Floats
from mirage.policy.cost import Cost
from mirage.provision.chain import LIGHT
from mirage.provision.evaluation.interval import Interval, Members, Stretches
from mirage.provision.evaluation.score import Row, loads, oracle, outcome, reactive, row_of, submissions_s
from mirage.provision.evaluation.study import Trial

LOADED = "medium and heavy"


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """One policy, one size of link, one cost.

    Attributes:
        row: Of the windows of medium and heavy load.
        more: By what share of the gap it costs less there than the policy that all are compared with; None without one.
        more_95: 95 % interval of the saving, paired by window, over the gap of these windows; None from too few.
        more_of_all: The same over all windows, of light load too.
    """

    row: Row
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
