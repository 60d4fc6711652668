"""Figures in words: shares, numbers, intervals, and a dash where there is none."""

from __future__ import annotations


def percent_words(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{value:.1%}"


def number_words(value: float | None) -> str:
    """A number of about one."""
    return "–" if value is None else f"{value:.2f}"


def links_words(nodes: int) -> str:
    """``links of 8 nodes``."""
    return f"links of {nodes} node{'s' if nodes > 1 else ''}"


def interval_words(interval: tuple[float, float] | None) -> str:
    """An interval, to stand behind what it is of; empty where there is none."""
    return "" if interval is None else f", {interval[0]:.2f} to {interval[1]:.2f}"
