"""The choice of a policy for links of one size, as ``auto`` makes it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

from mirage.errors import ConfigurationError, reason, shown

ALIKE = 2.0
"""Links whose nodes and limits differ by no more than this factor share a choice."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy, and why it was chosen.

    Attributes:
        policy: Its name.
        reason: The reason as a sentence without a full stop.
        nodes: Nodes of the links that it was chosen for; 0 for any.
        limit_s: Their time limit; 0 for any.
        cost_ratio: Cost of an hour of interruption, in hours of overlap, at which it was chosen; None if overlap is
            free.
        bank_age: Whether the user allows links to be submitted early only to gather age.
    """

    policy: str
    reason: str
    nodes: int = 0
    limit_s: int = 0
    cost_ratio: float | None = 1.0
    bank_age: bool = False

    def distance(self, nodes: int, limit_s: int) -> float:
        """Returns the distance of its links from a size; infinite beyond the factor ``ALIKE``."""
        if min(self.nodes, self.limit_s, nodes, limit_s) < 1:
            return math.inf
        apart = [abs(math.log(a / b)) for a, b in ((self.nodes, nodes), (self.limit_s, limit_s))]
        return sum(apart) if max(apart) <= math.log(ALIKE) + 1e-9 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Returns plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        """Reads back what ``to_json`` returned.

        Raises:
            ConfigurationError: It is something else.
        """
        try:
            ratio = plain["cost_ratio"]
            return cls(
                str(plain["policy"]), str(plain["reason"]), int(plain["nodes"]), int(plain["limit_s"]),
                None if ratio is None else float(ratio), bool(plain["bank_age"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{shown(plain)} is no choice of a policy: {reason(error)}") from error


def nearest_choice(
    choices: Iterable[PolicyChoice], nodes: int, limit_s: int, cost_ratio: float | None, *, bank_age: bool
) -> PolicyChoice | None:
    """Returns the choice for the links most like those of a size; None if none is alike."""
    alike = [one for one in choices if one.bank_age == bank_age and one.cost_ratio == cost_ratio]
    found = min(alike, key=lambda one: one.distance(nodes, limit_s), default=None)
    return None if found is None or math.isinf(found.distance(nodes, limit_s)) else found
