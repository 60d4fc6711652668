"""Cells of the tables of results, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import EvaluationRow
from mirage.report.figures import LOWEST_GAP
from mirage.study.intervals import Interval


def markdown(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def both(row: EvaluationRow) -> str:
    """Formats interruption and overlap, in hours."""
    return f"{row.interruption_h:.2f} / {row.overlap_h:.2f}"


def with_interval(value: float, interval: Interval | None) -> str:
    """Formats a mean and its interval."""
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f} … {interval[1]:.2f})"


def gap(row: EvaluationRow) -> str:
    """Formats the gap closed between the reactive chain and the oracle; a dash if unknown."""
    if row.gap_closed is None or row.gap_closed_95 is None or row.gap_closed_95[0] < LOWEST_GAP:
        return "–"
    return share(row.gap_closed, row.gap_closed_95)


def difference(one: Difference | None) -> str:
    """Formats a paired difference of the cost, bold where it is beyond doubt."""
    if one is None:
        return ""
    if one.cost_95 is None:
        return f"{one.cost:+.2f}"
    text = f"{one.cost:+.2f} ({one.cost_95[0]:+.2f} … {one.cost_95[1]:+.2f})"
    return f"**{text}**" if one.verdict else text


def points(value: float | None, interval: Interval | None, verdict: str) -> str:
    """Formats a difference of shares in points, bold where it is beyond doubt."""
    if value is None:
        return ""
    if interval is None:
        return f"{100 * value:+.1f}"
    low, high = interval
    text = f"{100 * value:+.1f} ({100 * low:+.1f} … {100 * high:+.1f})"
    return f"**{text}**" if verdict else text


def share(value: float, interval: Interval | None) -> str:
    """Formats a share in per cent, and its interval."""
    return percent(value) if interval is None else f"{percent(value)} ({_span(*interval)})"


def percent(value: float) -> str:
    """Formats a share in per cent."""
    return f"{100 * value:.0f} %"


def named(group: Sequence[str]) -> str:
    """Lists policies that share a row."""
    return ", ".join(f"`{name}`" for name in group)


def at(ratio: float | None) -> str:
    """Formats a cost ratio: ``at 3 : 1``."""
    return "with free overlap" if ratio is None else f"at {ratio:g} : 1"


def _span(low: float, high: float) -> str:
    return f"{100 * low:.0f} … {100 * high:.0f}"
