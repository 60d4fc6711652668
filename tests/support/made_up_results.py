"""Rows, differences and claims of a comparison, made by hand."""

from __future__ import annotations

from typing import Any

from mirage.learn.training.comparison.claims import Claim
from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import EvaluationRow
from tests.support.method_comparison import plan


def row(policy: str, cost: float, ratio: float | None = 2.0, nodes: int = 8, **known: Any) -> EvaluationRow:
    """A row over all loads of 30 windows with links of eight nodes."""
    figures: dict[str, Any] = {
        "load": "all", "windows": 30, "interruption_h": 1.5, "overlap_h": 0.25, "interruption_median_h": 1.0,
        "overlap_median_h": 0.0, "interruption_p95_h": 4.0, "overlap_p95_h": 1.0, "lead_h": 6.5, "zero_share": 0.625,
        "gap_closed": 0.345, "interruption_95": None, "overlap_95": None, "cost_95": None, "gap_closed_95": (0.3, 0.4),
    }  # fmt: skip
    return EvaluationRow(policy=policy, link_nodes=nodes, cost_ratio=ratio, cost=cost, **figures | known)


def less(policy: str, cost: float, half: float | None, ratio: float | None = 2.0, **known: Any) -> Difference:
    """A difference in cost with an interval of this half width, and its p-values."""
    interval = None if half is None else (cost - half, cost + half)
    p_value = None if half is None else 0.01 if abs(cost) > half else 0.25
    figures: dict[str, Any] = {
        "against": "what-if", "link_nodes": 8, "load": "all", "month": "all", "windows": 30, "interruption_h": 0.0,
        "overlap_h": 0.0, "interruption_95": None, "overlap_95": None, "p_value": p_value, "p_corrected": p_value,
    }  # fmt: skip
    return Difference(policy=policy, cost_ratio=ratio, cost=cost, cost_95=interval, **figures | known)


def claim(policy: str, load: str, less: float | None, without: float, **known: Any) -> Claim:
    """A claim about ten windows with links of eight nodes."""
    figures: dict[str, Any] = {
        "link_nodes": 8, "windows": 10, "reactive_h": 6.0, "interruption_h": 2.0, "overlap_h": 0.75, "less_95": None,
        "without_95": None, "reactive_without": 0.125,
    }  # fmt: skip
    return Claim(policy=policy, load=load, less=less, without=without, **figures | known)


def compared(
    *differences: Difference,
    rows: tuple[EvaluationRow, ...] = (),
    reactive: tuple[Difference, ...] = (),
    claims: tuple[Claim, ...] = (),
) -> MethodComparison:
    """A comparison for links of eight nodes and of one."""
    evaluation = Evaluation(
        trials={8: (), 1: ()}, rows=rows, policies=(), costs=(Cost(2, 1),), reused=0, intervals="",
        differences=differences,
    )  # fmt: skip
    return MethodComparison(plan(), evaluation, reactive, {}, claims, {}, ())
