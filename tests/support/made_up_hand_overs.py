"""Hand-overs of a made-up queue: waits vary over days, and forecasts promise half of them."""

from __future__ import annotations

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS, HandOvers

LEVELS = (0.05, 0.2, 0.5, 0.8, 0.95)
NAMES = ("remaining_h", "pending_jobs", *(f"gap_q{round(100 * level):02d}_h" for level in LEVELS))
STEP_S = HOUR_S
LIMIT_S = 24 * HOUR_S
BEGIN_S = 1_675_209_600  # 2023-02-01


def made_up_hand_overs(days: int = 60, *, seed: int = 0, nodes: int = 8, begin_s: int = BEGIN_S) -> HandOvers:
    """A window every six hours, a decision every hour.

    The wait of a link is ``level × chance``: the level is the queue's and can be observed, the chance cannot. A
    forecast knows the level, and takes it for half of what it is.
    """
    random = np.random.default_rng([seed, nodes])
    hours = days * 24 + 48
    day = np.arange(hours) / 24
    level_h = np.maximum(4 * np.sin(2 * np.pi * day / 5) + 2 * np.sin(2 * np.pi * day / 1.3) + 1, 0)
    chance = random.gamma(9, 1 / 9, hours)
    wait_s = (level_h * chance * HOUR_S).astype(np.int64)
    first = np.arange(0, days * 24, 6)
    k = np.arange(1, LIMIT_S // STEP_S + 1)
    hour = (first[:, None] + k).ravel()
    remaining_s = np.tile(LIMIT_S - k * STEP_S, len(first))
    of_chance = np.quantile(np.random.default_rng(1).gamma(9, 1 / 9, 20_000), LEVELS)
    gap_h = 0.5 * level_h[hour, None] * of_chance - remaining_s[:, None] / HOUR_S
    pending = np.maximum(level_h[hour] * 10 + random.normal(0, 5, len(hour)), 0)
    snapshots = np.zeros((HISTORY + hours * 6, QUEUE_COLUMNS), dtype=np.float32)
    snapshots[HISTORY:, 0] = np.repeat(level_h * 10, 6)
    return HandOvers(
        window_s=np.repeat(begin_s + first * HOUR_S, len(k)),
        link_nodes=np.full(len(hour), nodes, dtype=np.int64),
        link_limit_s=np.full(len(hour), LIMIT_S, dtype=np.int64),
        wait_s=np.zeros(len(hour), dtype=np.int64),
        time_s=begin_s + hour * HOUR_S,
        remaining_s=remaining_s.astype(np.int64),
        outcome_s=wait_s[hour] - remaining_s,
        features=np.column_stack([remaining_s / HOUR_S, pending, gap_h]).astype(np.float32),
        names=NAMES,
        snapshots=snapshots,
        last=(HISTORY + hour * 6).astype(np.int64),
    )


def before_and_after(data: HandOvers, day: int, begin_s: int = BEGIN_S) -> tuple[HandOvers, HandOvers]:
    """The windows before a day, and those from then on."""
    early = data.window_s < begin_s + day * DAY_S
    return data[early], data[~early]
