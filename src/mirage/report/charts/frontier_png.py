"""Chart of the frontier as a bitmap, drawn by matplotlib.

Needs the extra ``plot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirage.provision.evaluation.frontier import Frontier, Point
from mirage.report.charts.picture_file import new_figure, write_figure
from mirage.report.figures import links_words
from mirage.report.theme import LIGHT, SERIES


def draw_with_matplotlib(shown: Sequence[Frontier], path: str, source: str) -> None:
    """Draws frontiers side by side.

    Args:
        source: Their source, for the title.

    Raises:
        ConfigurationError: matplotlib cannot write there.
    """
    figure = new_figure(7 * len(shown), 5, layout="constrained")
    figure.suptitle(source, fontsize=9)
    for axes, frontier in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown):
        _draw(axes, frontier)
    write_figure(figure, path)


def _draw(axes: Any, frontier: Frontier) -> None:
    axes.set_title(f"{links_words(frontier.link_nodes)}, {frontier.windows} windows")
    axes.set_xlabel("overlap, h")
    axes.set_ylabel("interruption, h")
    axes.grid(color=LIGHT["faint"])
    near = [lead for lead in frontier.leads if lead.interruption_h > 0.1 * frontier.leads[0].interruption_h]
    shown = near or frontier.leads[:1]
    axes.plot(*_columns(shown), "o-", color=LIGHT["muted"], markerfacecolor="white", label="constant lead", zorder=1)
    for lead in shown:
        name = "reactive" if lead is frontier.leads[0] else lead.label
        axes.annotate(
            name, (lead.overlap_h, lead.interruption_h), xytext=(5, 5), textcoords="offset points", fontsize=8
        )
    for k, series in enumerate(frontier.series):
        colour = LIGHT[f"series-{k % SERIES + 1}"]
        for point in series.points:
            _bars(axes, point, colour)
        axes.plot(*_columns(series.points), "o-", color=colour, label=series.policy, zorder=3)
    if frontier.oracle is not None:
        axes.plot(*_columns(frontier.oracle.points), "D", color=LIGHT["ink"], markerfacecolor="white", label="oracle")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [point.overlap_h for point in points], [point.interruption_h for point in points]


def _bars(axes: Any, point: Point, colour: str) -> None:
    if point.overlap_95 is not None:
        axes.plot(point.overlap_95, (point.interruption_h, point.interruption_h), color=colour, alpha=0.5)
    if point.interruption_95 is not None:
        axes.plot((point.overlap_h, point.overlap_h), point.interruption_95, color=colour, alpha=0.5)
