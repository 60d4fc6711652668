"""A small comparison, of windows made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
from mirage.provision.evaluation.evaluation_study import WindowTrial
from tests.support.made_up_windows import four_windows

POLICIES = ("oracle", "lead:4", "average", "reactive", "what-if", "exact-wait", "true-run-times")


def plan(**changes: Any) -> ComparisonPlan:
    settings = {
        "methods": ("correction", "xgboost-2023"),
        "policies": POLICIES,
        "months": ("2023-02",),
        "seeds": (5, 6),
    }
    return ComparisonPlan(**(settings | changes))


def seeds_of(places: tuple[int, ...]) -> tuple[WindowTrial, ...]:
    """Four windows, once for each seed; a method chooses another decision with each."""
    return tuple(
        replace(trial, chosen={"average": 1, "lead:4": 1, **dict.fromkeys(KEYS, place)}, calls={})
        for place in places
        for trial in four_windows()
    )


KEYS = [f"{name}@1:1" for name in ("correction", "xgboost-2023", "what-if", "true-run-times")]
