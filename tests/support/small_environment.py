"""A small queue with known best decisions: a Markov chain, solved by dynamic programming."""

from __future__ import annotations

import numpy as np

from mirage.duration import HOUR_S
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS, HandOvers
from mirage.learn.reinforcement.hand_over_environment import cost_h

WAIT_S = np.array([0, 1, 2, 6]) * HOUR_S
"""What a link waits at each backlog, on average."""

SPREAD = np.array([0.7, 1.3])
"""It waits this much of that, with equal chances."""

MOVES = np.array(
    [
        [0.76, 0.03, 0.01, 0.20],
        [0.25, 0.55, 0.05, 0.15],
        [0.05, 0.25, 0.50, 0.20],
        [0.06, 0.04, 0.10, 0.80],
    ]
)
"""Chances from backlog to backlog in a step: it comes in bursts, and goes slowly."""

STEP_S, STEPS = HOUR_S, 10
LIMIT_S = 24 * HOUR_S


def stationary() -> np.ndarray:
    found = np.full(len(WAIT_S), 1 / len(WAIT_S))
    for _ in range(1000):
        found = found @ MOVES
    return found


def expected_cost_h(share: float) -> np.ndarray:
    """Of submitting at each backlog and step, shape (backlogs, STEPS + 1)."""
    remaining_s = (STEPS - np.arange(STEPS + 1)) * STEP_S
    outcome_s = WAIT_S[:, None, None] * SPREAD - remaining_s[None, :, None]
    found: np.ndarray = cost_h(outcome_s, share).mean(axis=2)
    return found


def cost_of(submits: np.ndarray, share: float) -> float:
    """Exact expected cost of deciding so, shape (backlogs, STEPS + 1), from the first step on."""
    cost = expected_cost_h(share)
    value = cost[:, -1]
    for k in range(STEPS - 1, -1, -1):
        value = np.where(submits[:, k], cost[:, k], MOVES @ value)
    return float(stationary() @ value)


def best_decisions(share: float) -> np.ndarray:
    """By dynamic programming."""
    cost = expected_cost_h(share)
    value, found = cost[:, -1], np.ones(cost.shape, dtype=bool)
    for k in range(STEPS - 1, -1, -1):
        waiting = MOVES @ value
        found[:, k] = cost[:, k] <= waiting
        value = np.minimum(cost[:, k], waiting)
    return found


def gain(submits: np.ndarray, share: float) -> float:
    """What deciding so gains over submitting at the end, as a share of what is to be gained."""
    reactive = cost_of(np.zeros_like(submits), share)
    return (reactive - cost_of(submits, share)) / (reactive - cost_of(best_decisions(share), share))


def sampled(windows: int, seed: int = 0) -> HandOvers:
    """Hand-overs as they happen."""
    rng = np.random.default_rng(seed)
    backlog = np.empty((windows, STEPS + 1), dtype=np.int64)
    backlog[:, 0] = rng.choice(len(WAIT_S), size=windows, p=stationary())
    for k in range(STEPS):
        moves = MOVES[backlog[:, k]].cumsum(axis=1)
        backlog[:, k + 1] = (rng.random(windows)[:, None] > moves).sum(axis=1).clip(max=len(WAIT_S) - 1)
    waits_s = WAIT_S[backlog] * SPREAD[rng.integers(2, size=backlog.shape)]
    return _hand_overs(backlog, waits_s)


def every_state() -> HandOvers:
    """Every backlog as a window of its own that never leaves it, to read off the decision."""
    backlog = np.repeat(np.arange(len(WAIT_S))[:, None], STEPS + 1, axis=1)
    return _hand_overs(backlog, WAIT_S[backlog].astype(np.float64))


def _hand_overs(backlog: np.ndarray, waits_s: np.ndarray) -> HandOvers:
    windows, rows = backlog.shape
    remaining_s = np.tile((STEPS - np.arange(rows)) * STEP_S, windows)
    begins_s = np.repeat(np.arange(windows) * 10 * LIMIT_S, rows)
    snapshots = np.zeros((windows, HISTORY - 1 + rows, QUEUE_COLUMNS), dtype=np.float32)
    snapshots[:, HISTORY - 1 :, 0] = 10 * backlog
    snapshots[:, : HISTORY - 1, 0] = 10 * backlog[:, :1]
    ends = np.arange(windows)[:, None] * (HISTORY - 1 + rows) + HISTORY - 1 + np.arange(rows)
    return HandOvers(
        window_s=begins_s,
        link_nodes=np.ones(windows * rows, dtype=np.int64),
        link_limit_s=np.full(windows * rows, LIMIT_S),
        wait_s=np.zeros(windows * rows, dtype=np.int64),
        time_s=begins_s + LIMIT_S - remaining_s,
        remaining_s=remaining_s,
        outcome_s=waits_s.reshape(-1).astype(np.int64) - remaining_s,
        features=np.eye(len(WAIT_S), dtype=np.float32)[backlog.reshape(-1)],
        names=tuple(f"backlog_{k}" for k in range(len(WAIT_S))),
        snapshots=snapshots.reshape(-1, QUEUE_COLUMNS),
        last=ends.reshape(-1),
    )
