"""Choice by size of link: ``what-if``, unless something that is learnt is better beyond doubt.

A method takes its place only where, over all test months together, the 95 % interval of the paired difference in cost
leaves out every loss, at every ratio of the costs. Among those that do, the one that saves most is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirage.learn.training.trained import WHAT_IF
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.score import ALL


@dataclass(frozen=True, slots=True)
class Tried:
    """How a method did against ``what-if`` at one ratio of the costs, over all months; negative where it did better.

    Attributes:
        interval: 95 % of the mean difference, paired by window; None from too few windows.
    """

    method: str
    cost_ratio: float | None
    windows: int
    cost: float
    interval: tuple[float, float] | None

    @property
    def excludes_a_loss(self) -> bool:
        """Whether the interval leaves out every loss."""
        return self.interval is not None and self.interval[1] < 0

    @property
    def words(self) -> str:
        """In words, hours a hand-over."""
        ratio = "free overlap" if self.cost_ratio is None else f"{self.cost_ratio:g}:1"
        between = "no interval" if self.interval is None else f"{self.interval[0]:+.2f} … {self.interval[1]:+.2f}"
        return f"{self.cost:+.2f} ({between}) at {ratio}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for one size of link, and why.

    Attributes:
        method: The method, or ``what-if``.
        reason: In words.
        tried: How every method did at every ratio.
    """

    link_nodes: int
    method: str
    reason: str
    tried: tuple[Tried, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def choose(link_nodes: int, differences: Sequence[Difference], methods: Sequence[str]) -> Choice:
    """The method of one size of link.

    Args:
        link_nodes: The size.
        differences: Of everything that was tried against ``what-if``, by size, load, month and ratio.
        methods: Those that may be chosen.
    """
    tried = tuple(
        Tried(found.policy, found.cost_ratio, found.windows, found.cost, found.cost_95)
        for found in differences
        if found.link_nodes == link_nodes and found.load == ALL and found.month == ALL and found.policy in methods
    )
    of_method = {method: [each for each in tried if each.method == method] for method in methods}
    sure = [method for method, each in of_method.items() if each and all(one.excludes_a_loss for one in each)]
    if sure:
        best = min(sure, key=lambda method: sum(one.cost for one in of_method[method]))
        words = ", ".join(one.words for one in of_method[best])
        return Choice(link_nodes, best, f"costs less than {WHAT_IF} beyond doubt: {words}", tried)
    if not tried:
        return Choice(link_nodes, WHAT_IF, "nothing was tried", tried)
    near = min(of_method, key=lambda method: sum(one.cost for one in of_method[method]) if of_method[method] else 0.0)
    words = ", ".join(one.words for one in of_method[near])
    return Choice(
        link_nodes, WHAT_IF, f"nothing that is learnt costs less beyond doubt; nearest is {near}: {words}", tried
    )
