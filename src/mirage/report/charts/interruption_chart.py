"""Chart of the interruption of whole chains: bars of policies, points of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mirage.chains.chain_evaluation import ChainRow, PlayedChain
from mirage.duration import HOUR_S
from mirage.report.axes import Axis, Tick, numbers
from mirage.report.chart import Band, Chart, Scale, Spot, picture_of, sample
from mirage.report.picture import WIDE, Picture

_ROW_PX, _THICK = 26.0, 0.32
"""Height of a row, and half of the height of its bar as a share of it."""

LONG, SHORT, WINDOW = "gap", "gap pale", "lead-dot"
"""Styles of interruption after long waits, of other interruption, and of a window."""


def interruption_chart(
    rows: Sequence[ChainRow], chains: Mapping[str, Sequence[PlayedChain]], width: float = WIDE
) -> Picture:
    """Draws the mean interruption of each policy, and that of every window.

    Args:
        rows: The policies of one size of link and one cost, from above.
        chains: Chains of each policy, by window.
        width: In pixels.
    """
    marks: list[Band | Spot] = []
    for y, row in zip(_heights(rows), rows):
        for begin, end, style in ((0.0, row.beyond_limit_h, LONG), (row.beyond_limit_h, row.interruption_h, SHORT)):
            if end > begin:
                lower, upper = ([(begin, y + side), (end, y + side)] for side in (-_THICK, _THICK))
                marks.append(Band(lower, upper, style))
        marks += [
            Spot(one.interruption_s / HOUR_S, y, WINDOW, f"{row.policy}, window of {_date(one)}: {_hours(one)}", 3)
            for one in chains[row.policy]
        ]

    def policies(axis: Axis) -> list[Tick]:
        return [(y, f"{row.policy}  {row.availability:.1%}") for y, row in zip(_heights(rows), rows)]

    longest_h = max(one.interruption_s for its in chains.values() for one in its) / HOUR_S
    chart = Chart(
        title="policy, and share of the time alive",
        x=Scale(0.0, max(longest_h * 1.03, 1.0), numbers(), "interruption per chain, h"),
        y=Scale(-0.6, len(rows) - 0.4, policies),
        marks=marks,
        key=[
            (sample(LONG), "after waits longer than a link may run"),
            (sample(SHORT), "other interruption"),
            (sample(WINDOW), "a window"),
        ],
        note="bars are means over windows",
        height=_ROW_PX * len(rows),
    )
    described = "; ".join(f"{row.policy}: {row.interruption_h:.1f} h, alive {row.availability:.1%}" for row in rows)
    return picture_of(f"Interruption per chain. {described}", chart, width=width)


def _heights(rows: Sequence[ChainRow]) -> list[float]:
    return [float(len(rows) - 1 - k) for k in range(len(rows))]


def _date(one: PlayedChain) -> str:
    return f"{datetime.fromtimestamp(one.begin_s, UTC):%Y-%m-%d}"


def _hours(one: PlayedChain) -> str:
    return f"{one.interruption_s / HOUR_S:.1f} h"
