"""Figures as text: shares, numbers, intervals, and a dash for a missing value."""

from __future__ import annotations

from typing import Any


def percent_words(value: float | None) -> str:
    """Formats a share in per cent."""
    return "–" if value is None else f"{value:.1%}"


def number_words(value: float | None) -> str:
    """Formats a number of about one."""
    return "–" if value is None else f"{value:.2f}"


def chain_words(provenance: dict[str, Any]) -> str:
    """Words for the evaluated chain: ``links of a median user, hand-over 5``."""
    owner = provenance["link_user"]
    return f"links of a {owner}{'' if owner == 'newcomer' else ' user'}, hand-over {provenance['hand_over']}"


def links_words(nodes: int) -> str:
    """Formats a link size: ``links of 8 nodes``."""
    return f"links of {nodes} node{'s' if nodes > 1 else ''}"


def interval_words(interval: tuple[float, float] | None) -> str:
    """Formats an interval to follow its figure; empty where there is none."""
    return "" if interval is None else f", {interval[0]:.2f} to {interval[1]:.2f}"
