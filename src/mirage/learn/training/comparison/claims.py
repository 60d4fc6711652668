"""The claims of the paper, tested on the windows that were played.

Its abstract (Mirage, SC'23) claims that provisioning cuts interruption by 17 to 100 %, and that 23 to 76 % of jobs have
none, over load levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import reactive
from mirage.provision.evaluation.policy_score import classes, outcome, submissions_s
from mirage.study.intervals import Interval, Stretches

LEAST_LESS, LEAST_WITHOUT = 0.17, 0.23
"""The lower bounds of both claims: the cut of interruption, and the share of hand-overs without any."""

HOLDS, FAILS, OPEN = "holds", "fails", "open"


_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Claim:
    """Result of one policy for one link size and one load class; means over windows, in hours.

    Attributes:
        reactive_h: Interruption of the reactive chain.
        less: The share by which interruption was cut; None where the reactive chain had none.
        less_95: 95 % interval of it; None with too few windows.
        without: Share of hand-overs without interruption; that of the reactive chain is ``reactive_without``.
    """

    policy: str
    link_nodes: int
    load: str
    windows: int
    reactive_h: float
    interruption_h: float
    overlap_h: float
    less: float | None
    less_95: Interval | None
    without: float
    without_95: Interval | None
    reactive_without: float

    @property
    def less_verdict(self) -> str:
        """Whether interruption is cut by the claimed minimum: ``holds``, ``fails``, ``open``."""
        return _verdict(self.less_95, LEAST_LESS)

    @property
    def without_verdict(self) -> str:
        """Whether hand-overs without interruption reach the claimed minimum."""
        return _verdict(self.without_95, LEAST_WITHOUT)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"less_verdict": self.less_verdict, "without_verdict": self.without_verdict}


def claims(trials: Sequence[WindowTrial], policies: Sequence[str], cost: Cost) -> list[Claim]:
    """Results of policies for one link size: policy × load class.

    Args:
        cost: The cost for policies that weigh one.
    """
    stretches, base = Stretches.of(submissions_s(trials)), reactive(trials)
    found = []
    for policy in policies:
        result = outcome(policy, trials, cost)
        free = (result.interruption_s == 0).astype(float)
        for load, members in classes(trials):
            before_s, after_s = base.interruption_s, result.interruption_s
            total_s = float(before_s[members].sum())
            less_95 = stretches.ratio(before_s - after_s, before_s, members) if total_s else None
            without_95 = stretches.mean(free, members)
            found.append(
                Claim(
                    policy=policy,
                    link_nodes=trials[0].episode.link.nodes,
                    load=load,
                    windows=stretches.windows(members),
                    reactive_h=float(before_s[members].mean()) / HOUR_S,
                    interruption_h=float(after_s[members].mean()) / HOUR_S,
                    overlap_h=float(result.overlap_s[members].mean()) / HOUR_S,
                    less=float((before_s - after_s)[members].sum()) / total_s if total_s else None,
                    less_95=_capped(less_95),
                    without=float(free[members].mean()),
                    without_95=_capped(without_95),
                    reactive_without=float((base.interruption_s[members] == 0).mean()),
                )
            )
    return found


def _capped(interval: Interval | None) -> Interval | None:
    """Caps the interval of a share at one; None for an interval without width.

    A share that is equal in all stretches of time has no known spread.
    """
    if interval is None or interval[1] - interval[0] < _NOTHING:
        return None
    return interval[0], min(interval[1], 1.0)


def _verdict(interval: Interval | None, least: float) -> str:
    if interval is None:
        return OPEN
    return HOLDS if interval[0] >= least else FAILS if interval[1] < least else OPEN
