"""Choice by link size: ``what-if``, unless a learned method is better beyond doubt.

A method is chosen only where, over all test months together, it is better in a paired comparison that is corrected for
the number of methods, at every cost ratio. Among such methods, the one that saves most is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirage.learn.training.trained_policy import WHAT_IF
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import ALL


@dataclass(frozen=True, slots=True)
class MethodResult:
    """Result of a method against ``what-if`` at one cost ratio; negative where it is better.

    It covers all months.

    Attributes:
        interval: 95 % of the mean difference, paired by window; None with too few windows.
        verdict: ``better`` or ``worse`` beyond doubt; otherwise empty.
    """

    method: str
    cost_ratio: float | None
    windows: int
    cost: float
    interval: tuple[float, float] | None
    verdict: str

    @property
    def words(self) -> str:
        """The result in words, in hours a hand-over."""
        ratio = "free overlap" if self.cost_ratio is None else f"{self.cost_ratio:g}:1"
        between = "no interval" if self.interval is None else f"{self.interval[0]:+.2f} … {self.interval[1]:+.2f}"
        return f"{self.cost:+.2f} ({between}) at {ratio}"


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """The method chosen for one link size, and the reason.

    Attributes:
        method: The method, or ``what-if``.
        reason: In words.
        tried: Results of every method at every cost ratio.
    """

    link_nodes: int
    method: str
    reason: str
    tried: tuple[MethodResult, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def choose(link_nodes: int, differences: Sequence[Difference], methods: Sequence[str]) -> MethodChoice:
    """Chooses the method of one link size.

    Args:
        link_nodes: The size.
        differences: Differences of everything from ``what-if``, by size, load, month and cost ratio.
        methods: The methods that may be chosen.
    """
    tried = tuple(
        MethodResult(found.policy, found.cost_ratio, found.windows, found.cost, found.cost_95, found.verdict)
        for found in differences
        if found.link_nodes == link_nodes and found.load == ALL and found.month == ALL and found.policy in methods
    )
    of_method = {method: [each for each in tried if each.method == method] for method in methods}
    sure = [method for method, each in of_method.items() if each and all(one.verdict == "better" for one in each)]
    if sure:
        best = min(sure, key=lambda method: sum(one.cost for one in of_method[method]))
        words = ", ".join(one.words for one in of_method[best])
        return MethodChoice(link_nodes, best, f"costs less than {WHAT_IF} beyond doubt: {words}", tried)
    if not tried:
        return MethodChoice(link_nodes, WHAT_IF, "nothing was tried", tried)
    near = min(of_method, key=lambda method: sum(one.cost for one in of_method[method]) if of_method[method] else 0.0)
    words = ", ".join(one.words for one in of_method[near])
    return MethodChoice(
        link_nodes, WHAT_IF, f"no learned method costs less beyond doubt; nearest is {near}: {words}", tried
    )
