"""Figures as text: shares, numbers, intervals, and a dash for a missing value."""

from __future__ import annotations

from typing import Any

from mirage.duration import format_duration
from mirage.provision.link_size import LIGHT
from mirage.study.intervals import Interval

LOWEST_GAP = -20.0
"""A gap closed is unknown where its interval extends below this."""

LOAD_WORDS = {LIGHT: "reactive up to 2 h", "medium": "2 to 12 h", "heavy": "more than 12 h"}
"""The load classes by the interruption of a reactive chain."""


def percent_words(value: float | None) -> str:
    """Formats a share in per cent."""
    return "–" if value is None else f"{value:.1%}"


def number_words(value: float | None) -> str:
    """Formats a number of about one."""
    return "–" if value is None else f"{value:.2f}"


def chain_words(provenance: dict[str, Any]) -> str:
    """Words for the evaluated chain: ``links of a median user, hand-over 5``."""
    words = owner_words(provenance["link_user"])
    hidden = ", jobs of other users hidden" if provenance.get("private_jobs") else ""
    if "link_limit_s" in provenance:
        nodes = provenance["link_nodes"]
        size = f"{', '.join(map(str, nodes))} node{'s' if nodes != [1] else ''}"
        words += f", {size} for {format_duration(provenance['link_limit_s'])}"
    return f"links of {words}, hand-over {provenance['hand_over']}{hidden}"


def owner_words(link_user: str) -> str:
    """Formats the owner of links: ``a median user``, ``user ada``."""
    if ":" in link_user:
        return link_user.replace(":", " ", 1)
    return f"a {link_user}{'' if link_user == 'newcomer' else ' user'}"


def links_words(nodes: int) -> str:
    """Formats a link size: ``links of 8 nodes``."""
    return f"links of {nodes} node{'s' if nodes > 1 else ''}"


def mean_words(mean: float, interval: Interval | None) -> str:
    """Formats a mean with its interval, where there is one."""
    return f"{mean:.2f}" if interval is None else f"{mean:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def gap_words(closed: float | None, interval: Interval | None) -> str:
    """Formats the gap closed in per cent with its interval; a dash where it is unknown."""
    if closed is None or interval is None or interval[0] < LOWEST_GAP:
        return "-"
    return f"{closed:.0%} [{interval[0]:.0%}, {interval[1]:.0%}]"


def interval_words(interval: tuple[float, float] | None) -> str:
    """Formats an interval to follow its figure; empty where there is none."""
    return "" if interval is None else f", {interval[0]:.2f} to {interval[1]:.2f}"
