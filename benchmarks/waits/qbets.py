"""QBETS: a bound on the waits of a queue from its history, with change-point detection.

Nurmi, Brevik and Wolski, "QBETS: Queue Bounds Estimation from Time Series" (JSSPP 2007). Of n past waits, the k-th
smallest is an upper bound on quantile q with confidence c for the smallest k with sum over j < k of
C(n, j) q^j (1 − q)^(n − j) ≥ c. If too many waits in a row are above the bound to be chance, the queue has changed:
all but the newest waits are dropped.
"""

from __future__ import annotations

import math

import numpy as np

from mirage.array_types import Floats
from mirage.provision.policies.lead_rules import binomial_rank


class Qbets:
    """The bound on one queue and size class; waits are added in the order they became known.

    Args:
        quantile: The quantile of waits that the bound must be above.
        confidence: The confidence of the bound.
    """

    def __init__(self, quantile: float = 0.95, confidence: float = 0.95) -> None:
        self.quantile, self.confidence = quantile, confidence
        self.history: list[float] = []
        self._exceeded = 0
        self._fewest = next(n for n in range(1, 100_000) if binomial_rank(n, quantile, confidence) is not None)
        # this number of waits in a row above a correct bound is rarer than once in twenty
        self._too_many = max(1 + math.ceil(math.log(1.0 - confidence) / math.log(1.0 - quantile)), 3)
        self._ranks: dict[int, int] = {}

    def bound(self) -> float:
        """Returns the bound; infinite if too few waits are known."""
        n = len(self.history)
        if n < self._fewest:
            return math.inf
        rank = self._ranks.get(n)
        if rank is None:
            rank = self._ranks.setdefault(n, binomial_rank(n, self.quantile, self.confidence) or n)
        return float(np.partition(np.asarray(self.history), rank - 1)[rank - 1])

    def learn(self, waits: Floats) -> None:
        """Add waits that became known since the last bound, in their order."""
        bound = self.bound()
        for wait in waits:
            self.history.append(float(wait))
            self._exceeded = self._exceeded + 1 if wait > bound else 0
            if self._exceeded >= self._too_many:
                self.history = self.history[-self._fewest :]
                self._exceeded, bound = 0, self.bound()
