"""Frontier of interruption and overlap: every policy against all constant leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.provision.evaluation.candidate import BOUNDS, ORACLE
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE, constant_lead
from mirage.provision.evaluation.policy_score import EvaluationRow, loads, submissions_s
from mirage.study.intervals import Interval

LEADS_H = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 18.0, 24.0)


@dataclass(frozen=True, slots=True)
class Point:
    """Mean hours per hand-over.

    Attributes:
        label: A lead (``4 h``), or the cost ratios of this point (``2:1, 5:1``; ``free`` if overlap costs nothing).
    """

    label: str
    overlap_h: float
    interruption_h: float
    overlap_95: Interval | None = None
    interruption_95: Interval | None = None


@dataclass(frozen=True, slots=True)
class PolicySeries:
    """One policy, over the cost ratios."""

    policy: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Frontier:
    """Interruption and overlap of policies and constant leads, with one size of link.

    Attributes:
        leads: Every constant lead of ``LEADS_H``; the first is the reactive chain.
        series: The policies that are neither constant leads nor bounds.
        oracle: The best in hindsight, by cost ratio; None if it was not requested.
    """

    link_nodes: int
    load: str
    windows: int
    leads: tuple[Point, ...]
    series: tuple[PolicySeries, ...]
    oracle: PolicySeries | None


def frontiers(evaluation: Evaluation, load: str = "all") -> tuple[Frontier, ...]:
    """One frontier for each size of link that has windows of the load class."""
    found = []
    for nodes, trials in evaluation.trials.items():
        members = np.full(len(trials), True) if load == "all" else loads(trials) == load
        rows = [row for row in evaluation.rows if row.link_nodes == nodes and row.load == load]
        if not members.any():
            continue
        named = {policy: _series(policy, rows) for policy in evaluation.policies}
        shown = tuple(s for p, s in named.items() if p not in (REACTIVE, *BOUNDS) and not p.startswith("lead:"))
        leads = tuple(_lead(trials, members, hours) for hours in LEADS_H)
        windows = len(np.unique(submissions_s(trials)[members]))
        found.append(Frontier(nodes, load, windows, leads, shown, named.get(ORACLE)))
    return tuple(found)


def _series(policy: str, rows: Sequence[EvaluationRow]) -> PolicySeries:
    """Points of a policy by ascending cost ratio; ratios with equal results share one."""
    points: dict[tuple[float, float], Point] = {}
    of_policy = [row for row in rows if row.policy == policy]
    for row in sorted(of_policy, key=lambda row: math.inf if row.cost_ratio is None else row.cost_ratio):
        at = row.overlap_h, row.interruption_h
        label = "free" if row.cost_ratio is None else f"{row.cost_ratio:g}:1"
        label = f"{points[at].label}, {label}" if at in points else label
        points[at] = Point(label, *at, row.overlap_95, row.interruption_95)
    return PolicySeries(policy, tuple(points.values()))


def _lead(trials: Sequence[WindowTrial], members: NDArray[np.bool_], hours: float) -> Point:
    found = constant_lead(trials, hours)
    overlap_h, interruption_h = (float(of[members].mean() / HOUR_S) for of in (found.overlap_s, found.interruption_s))
    return Point(f"{hours:g} h", overlap_h, interruption_h)
