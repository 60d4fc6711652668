"""Windows written by hand, so that figures can be checked with a pencil."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.provision.evaluation.episode import Episode
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.link_size import LinkSize

MONDAY_S = 4 * DAY_S + 2000 * WEEK_S
LIMIT_H, STEP_H = 12, 4


def trial(window: int, outcome_h: list[float], chosen: dict[str, int] | None = None, nodes: int = 2) -> WindowTrial:
    """A window with decisions 8, 4 and 0 hours before the end, and their outcomes."""
    submitted_s = MONDAY_S + window * WEEK_S + window * HOUR_S
    started_s = submitted_s + (window + 1) * HOUR_S
    ends_s = started_s + LIMIT_H * HOUR_S
    decisions_s = np.arange(started_s + STEP_H * HOUR_S, ends_s + 1, STEP_H * HOUR_S)
    outcome_s = np.array([round(hours * HOUR_S) for hours in outcome_h], dtype=np.int64)
    link = LinkSize(nodes, LIMIT_H * HOUR_S)
    episode = Episode(window, link, submitted_s, started_s, ends_s, decisions_s, outcome_s)
    return WindowTrial(episode, chosen or {}, dict.fromkeys(chosen or {}, 1))


def at(trial: WindowTrial, submitted_s: int) -> WindowTrial:
    """The same window at another time."""
    later_s = submitted_s - trial.episode.submitted_s
    times = ("submitted_s", "started_s", "ends_s", "decisions_s")
    changed = {name: getattr(trial.episode, name) + later_s for name in times}
    return replace(trial, episode=replace(trial.episode, **changed))


def four_windows(nodes: int = 2) -> list[WindowTrial]:
    """Two light windows, a medium and a heavy one, with the decisions of ``early``."""
    return [
        trial(0, [-6, -2, 1], {"early": 1, "told": 2, "told@3:1": 0}, nodes),
        trial(1, [-3, 2, 5], {"early": 1, "told": 2, "told@3:1": 0}, nodes),
        trial(2, [1, 4, 13], {"early": 0, "told": 2, "told@3:1": 0}, nodes),
        trial(3, [-8, -4, 0], {"early": 0, "told": 2, "told@3:1": 1}, nodes),
    ]
