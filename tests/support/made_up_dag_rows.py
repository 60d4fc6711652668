"""Rows and differences of a comparison of stage schedulers, made by hand."""

from __future__ import annotations

from typing import Any

from mirage.dag.compare.dag_comparison_rows import ComparisonRow, PairedDifference


def row(policy: str, setting: str, mean_jct_s: float, **known: Any) -> ComparisonRow:
    """A row of three episodes."""
    figures: dict[str, Any] = {
        "seeds": 3, "mean_jct_low_s": 40.0, "mean_jct_high_s": 60.0, "p95_jct_s": 1234.56, "makespan_s": 2345.6,
        "makespan_bound_s": 1999.6, "moves": 1017.4, "idle_share": 0.1237, "decisions": 400.0, "decision_us": 1.234,
        "peak_jobs": 9, "unseen_jobs": 0,
    }  # fmt: skip
    return ComparisonRow(policy=policy, setting=setting, mean_jct_s=mean_jct_s, **figures | known)


def less(policy: str, setting: str, **known: Any) -> PairedDifference:
    """A difference from ``fifo``."""
    figures: dict[str, Any] = {
        "mean_jct_s": -1012.34, "low_s": -2000.44, "high_s": -24.5, "percent": -12.34, "better_seeds": 2,
        "makespan_s": 5.25, "makespan_low_s": -1.0, "makespan_high_s": 11.5, "makespan_percent": 0.2,
        "no_interval": None,
    }  # fmt: skip
    return PairedDifference(policy=policy, against="fifo", setting=setting, **figures | known)
