"""Methods of fitting trees, by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mirage.dag.distilled.methods.cart import Cart, Climb
from mirage.dag.distilled.methods.optimal import Unproven, optimal, solver_module
from mirage.dag.distilled.methods.trustee import trustee
from mirage.distill.ranking import Contests
from mirage.distill.tree import Tree
from mirage.errors import UnknownName

Learner = Callable[[Contests, int, np.random.Generator], Tree]
"""From contests and the largest number of leaves to a tree."""

OPTIMAL = "optimal"
METHODS = ("cart", "climb", OPTIMAL, "trustee")
WEIGHTS = ("equal", "margin")
"""Weights of decisions: equal, or the teacher's margin of its favourite over the second."""


MOST_LEARNT = 10_000
"""Decisions, spread over all, to fit a tree to; more give the same tree at proportional cost."""


def learner_of(method: str, weight: str, seed: int, unproven: Unproven = lambda leaves, tree: None) -> Learner:
    """Finds a method by its name.

    Args:
        method: One of ``METHODS``.
        weight: One of ``WEIGHTS``.
        seed: Draws among equal splits of CART.
        unproven: Called with trees that the method has not proven to be the best.

    Raises:
        UnknownName: The method or the weight is unknown.
        ConfigurationError: The method needs a package that is not installed.
    """
    if weight not in WEIGHTS:
        raise UnknownName("weight", weight, WEIGHTS)
    if method == OPTIMAL:
        solver_module()
        learner: Learner = partial(optimal, unproven=unproven)
    elif method == "trustee":
        learner = trustee
    elif method == "cart":
        learner = Cart(seed)
    elif method == "climb":
        learner = Climb(seed)
    else:
        raise UnknownName("method", method, METHODS)
    return _prepared(learner, is_alike=weight == "equal")


def _prepared(learner: Learner, *, is_alike: bool) -> Learner:
    """Applies a learner to some of the contests, with equal weights if wanted."""

    def learn(contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
        n = len(contests.first)
        some = contests.part(np.arange(n) % max(1, -(-n // MOST_LEARNT)) == 0)
        return learner(replace(some, weight=np.ones(len(some.first))) if is_alike else some, leaves, rng)

    return learn


class TimedLearner:
    """A learner that measures its processor time.

    Args:
        learner: The learner to time.
        clock: Seconds of processor time.

    Attributes:
        seconds: By leaves allowed, the sum over rounds.
    """

    def __init__(self, learner: Learner, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: dict[int, float] = {}
        self._learner, self._clock = learner, clock

    def __call__(self, contests: Contests, leaves: int, rng: np.random.Generator) -> Tree:
        """Fits a tree and adds the time."""
        began_s = self._clock()
        tree = self._learner(contests, leaves, rng)
        self.seconds[leaves] = self.seconds.get(leaves, 0.0) + self._clock() - began_s
        return tree
