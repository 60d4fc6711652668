"""Figures as text: shares, numbers, intervals, and a dash for a missing value."""

from __future__ import annotations


def percent_words(value: float | None) -> str:
    """Formats a share in per cent."""
    return "–" if value is None else f"{value:.1%}"


def number_words(value: float | None) -> str:
    """Formats a number of about one."""
    return "–" if value is None else f"{value:.2f}"


def links_words(nodes: int) -> str:
    """Formats a link size: ``links of 8 nodes``."""
    return f"links of {nodes} node{'s' if nodes > 1 else ''}"


def interval_words(interval: tuple[float, float] | None) -> str:
    """Formats an interval to follow its figure; empty where there is none."""
    return "" if interval is None else f", {interval[0]:.2f} to {interval[1]:.2f}"
