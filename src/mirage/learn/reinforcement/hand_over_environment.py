"""Hand-overs as an environment: many windows at once, one row of the data at a time.

The data is its own simulator: the outcome of submitting is known for every row, and waiting leads to the next row. A
window's last row is the end of the present link, where the next one is submitted whatever the action.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.network_model import SHARES

WAIT, SUBMIT = 0, 1


class Step(NamedTuple):
    """Result of a step of all environments: ``rewards`` (minus cost, hours) and ended windows."""

    rewards: Floats
    ended: NDArray[np.bool_]


def cost_h(outcome_s: Ints | Floats, share: Floats | float) -> Floats:
    """Cost of outcomes in hours, scaled so that at a share of 0.5 an hour of either costs 1."""
    hours = np.asarray(outcome_s, dtype=np.float64) / HOUR_S
    found: Floats = 2 * (share * np.maximum(hours, 0) + (1 - np.asarray(share)) * np.maximum(-hours, 0))
    return found


def last_rows(data: HandOvers) -> Ints:
    """Shape (n,): the last row of each row's window."""
    edges = data.windows()
    found: Ints = np.repeat(edges[1:] - 1, np.diff(edges))
    return found


def draw_shares(rng: np.random.Generator, count: int) -> Floats:
    """Draws cost shares to learn at.

    The logarithm of their ratio is uniform, and every third is one to one.
    """
    low, high = (np.log(share / (1 - share)) for share in SHARES)
    ratio = np.where(rng.random(count) < 1 / 3, 0.0, rng.uniform(low, high, count))
    found: Floats = 1 / (1 + np.exp(-ratio))
    return found


class HandOverEnv:
    """Windows of a data set, played in parallel; a window that ends is replaced at once.

    Args:
        data: The hand-overs.
        count: Number of windows played at once.
        rng: Draws the start and the cost of each.
        anywhere: Whether a window may begin at any of its rows, so that ends are as frequent as beginnings.
    """

    def __init__(self, data: HandOvers, count: int, rng: np.random.Generator, anywhere: bool = True) -> None:
        self._data, self._rng, self._anywhere = data, rng, anywhere
        self._first, self._last = data.windows()[:-1], last_rows(data)
        self.rows: Ints = np.zeros(count, dtype=np.int64)
        self.shares: Floats = np.zeros(count)
        self._begin(np.arange(count))

    def allowed(self) -> NDArray[np.bool_]:
        """Shape (count, 2): allowed actions; waiting is not allowed at the end of a link."""
        mask = np.ones((len(self.rows), 2), dtype=np.bool_)
        mask[:, WAIT] = self.rows < self._last[self.rows]
        return mask

    def step(self, actions: Ints) -> Step:
        """Waits or submits in every environment."""
        ended = (actions == SUBMIT) | (self.rows == self._last[self.rows])
        cost = cost_h(self._data.outcome_s[self.rows], self.shares)
        self.rows = np.where(ended, self.rows, self.rows + 1)
        self._begin(np.flatnonzero(ended))
        return Step(np.where(ended, -cost, 0.0), ended)

    def _begin(self, which: Ints) -> None:
        if self._anywhere:
            self.rows[which] = self._rng.integers(len(self._data), size=len(which))
        else:
            self.rows[which] = self._first[self._rng.integers(len(self._first), size=len(which))]
        self.shares[which] = draw_shares(self._rng, len(which))


class MeanCosts(NamedTuple):
    """Mean costs in hours over all windows: as decided, reactive, and with all outcomes known."""

    cost_h: float
    reactive_h: float
    best_h: float

    @property
    def closed(self) -> float:
        """Closed share of the gap between reactive and best; 0 where there is no gap."""
        gap = self.reactive_h - self.best_h
        return (self.reactive_h - self.cost_h) / gap if gap > 0 else 0.0


def play(data: HandOvers, submits: NDArray[np.bool_], share: float) -> MeanCosts:
    """Plays every window: submits at the first row that does, or at its end.

    Args:
        data: The hand-overs.
        submits: Shape (n,): the decision at each row.
        share: Share of the cost of interruption.
    """
    edges, last = data.windows(), last_rows(data)
    cost = cost_h(data.outcome_s, share)
    first = np.minimum.reduceat(np.where(submits, np.arange(len(data)), last), edges[:-1])
    best = np.minimum.reduceat(cost, edges[:-1])
    return MeanCosts(float(cost[first].mean()), float(cost[edges[1:] - 1].mean()), float(best.mean()))


def some_windows(data: HandOvers, most_rows: int, every: int) -> HandOvers:
    """Windows evenly chosen, at most ``most_rows`` rows in all.

    Of each window, every ``every``-th decision is used, counted from its end.
    """
    to_end = last_rows(data) - np.arange(len(data))
    thin = data[to_end % every == 0]
    edges = thin.windows()
    windows = len(edges) - 1
    fit = max(int(most_rows * windows / max(len(thin), 1)), 1)
    chosen = np.unique(np.linspace(0, windows - 1, min(fit, windows)).astype(np.int64))
    of_window = np.repeat(np.arange(windows), np.diff(edges))
    return thin[np.isin(of_window, chosen)]
