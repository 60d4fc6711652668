"""Cells of the tables of results, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.provision.evaluation.interval import Interval
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.score import Row

_TOO_WIDE = -20.0
"""A gap whose interval reaches below this says nothing."""


def markdown(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def both(row: Row) -> str:
    """Interruption and overlap, hours."""
    return f"{row.interruption_h:.2f} / {row.overlap_h:.2f}"


def with_interval(value: float, interval: Interval | None) -> str:
    """A mean and its interval."""
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f} … {interval[1]:.2f})"


def gap(row: Row) -> str:
    """Gap closed between the reactive chain and the oracle, per cent."""
    if row.gap_closed is None:
        return "–"
    if row.gap_closed_95 is None:
        return percent(row.gap_closed)
    low, high = row.gap_closed_95
    return f"{percent(row.gap_closed)} ({'no telling' if low < _TOO_WIDE else _span(low, high)})"


def difference(one: Difference | None) -> str:
    """A paired difference of the cost, bold where its interval leaves out zero."""
    if one is None:
        return ""
    if one.cost_95 is None:
        return f"{one.cost:+.2f}"
    told = f"{one.cost:+.2f} ({one.cost_95[0]:+.2f} … {one.cost_95[1]:+.2f})"
    return f"**{told}**" if one.verdict else told


def points(value: float | None, interval: Interval | None) -> str:
    """A difference of two shares in percentage points, bold where its interval leaves out zero."""
    if value is None:
        return ""
    if interval is None:
        return f"{100 * value:+.1f}"
    low, high = interval
    told = f"{100 * value:+.1f} ({100 * low:+.1f} … {100 * high:+.1f})"
    return told if low <= 0 <= high else f"**{told}**"


def share(value: float, interval: Interval | None) -> str:
    """A share in per cent, and its interval."""
    return percent(value) if interval is None else f"{percent(value)} ({_span(*interval)})"


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.0f} %"


def named(group: Sequence[str]) -> str:
    """Policies that share a row."""
    return ", ".join(f"`{name}`" for name in group)


def at(ratio: float | None) -> str:
    """``at 3 : 1``."""
    return "with free overlap" if ratio is None else f"at {ratio:g} : 1"


def _span(low: float, high: float) -> str:
    return f"{100 * low:.0f} … {100 * high:.0f}"
