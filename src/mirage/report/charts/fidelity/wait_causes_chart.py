"""Chart of the causes of waits: as recorded, and in a replay in which all are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage.calibration.mechanism_shares import WaitCauseShares
from mirage.calibration.wait_causes import CAUSES, LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.report.charts.fidelity.panel import Panel
from mirage.report.svg import MIDDLE, WIDE, box, label

COLOURS = {NODES: "s6", LIMIT: "s3", ORDER: "s2", UNEXPLAINED: "gap"}
"""The class of each cause's colour."""

_ROW, _BAR, _NAME_PX, _TOP = 30.0, 16.0, 18.0, 6.0
_NAMES_LEFT_PX, _VALUE_PX = 150.0, 130.0


def wait_causes_chart(waited: Sequence[WaitCauseShares], names: Sequence[str], width: float = WIDE) -> Panel:
    """Draws a bar for every history, divided among the causes.

    Args:
        waited: Causes of waits of the jobs of some slices.
        names: Names of the slices.
        width: In pixels.
    """
    bars = [
        (f"{name}, {which}", shares)
        for one, name in zip(waited, names)
        for which, shares in (("recorded", one.recorded), ("replayed", one.replayed))
    ]
    names_left = width >= MIDDLE
    row = _ROW if names_left else _ROW + _NAME_PX
    parts: list[str] = []
    for k, (name, shares) in enumerate(bars):
        top = _TOP + k * row
        left = _NAMES_LEFT_PX if names_left else 0.0
        parts.append(label(name, 0, top + 12, class_="ink"))
        parts += _bar(name, shares, left, width - _VALUE_PX, top + (0 if names_left else _NAME_PX))
    description = "; ".join(
        f"{name}: {', '.join(f'{shares.get(cause, 0.0):.0%} {cause}' for cause in CAUSES)}" for name, shares in bars
    )
    return Panel(width, _TOP + row * len(bars), parts, f"Causes of waits. {description}.")


def _bar(name: str, shares: Mapping[str, float], left: float, right: float, top: float) -> list[str]:
    """Draws the shares of a history in one bar, with the unexplained share at its end."""
    parts, begin = [], left
    for cause in CAUSES:
        wide = shares.get(cause, 0.0) * (right - left)
        parts.append(box(begin, top, wide, _BAR, COLOURS[cause], f"{name}: {shares.get(cause, 0.0):.1%} {cause}"))
        begin += wide
    words = f"{shares.get(UNEXPLAINED, 0.0):.0%} {UNEXPLAINED}"
    return [*parts, label(words, right + 8, top + _BAR - 4)]
