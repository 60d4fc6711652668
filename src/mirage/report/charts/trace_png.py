"""Picture of a trace: busy nodes over time, and the distribution of waits.

Needs the extra ``plot``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.duration import HOUR_S
from mirage.report.charts.picture_file import new_figure, write_figure
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.summary import TraceStatistics
from mirage.trace.statistics.utilization import covered_s
from mirage.trace.table import JobTable

_COLUMNS = 1_500
"""More means than a screen has pixels would only enlarge the file."""


def plot_trace(table: JobTable, statistics: TraceStatistics, path: str) -> None:
    """Draws a trace into a file.

    Args:
        table: The jobs.
        statistics: Statistics of the same jobs.
        path: The picture; its suffix (.png, .pdf, .svg) selects the kind.

    Raises:
        ConfigurationError: matplotlib is not installed, or cannot write this kind of picture here.
    """
    figure = new_figure(11, 7, layout="constrained")
    over_time, waits = figure.subplots(2, 1)
    _draw_busy(over_time, table, statistics)
    _draw_waits(waits, table)
    write_figure(figure, path)


def _draw_busy(axes: Any, table: JobTable, statistics: TraceStatistics) -> None:
    axes.set_ylabel("busy nodes")
    if statistics.busy is None:
        axes.set_title("no starts recorded: busy nodes are not known")
        return
    occupancy = Occupancy.of(table)
    first_s, last_s = covered_s(table, occupancy)
    edge_s = np.linspace(first_s, last_s, min(_COLUMNS, last_s - first_s) + 1).round().astype(np.int64)
    dates = edge_s.astype("datetime64[s]")
    axes.stairs(occupancy.mean(edge_s), _as_days(edge_s), fill=True, alpha=0.4, label="busy")
    weeks = statistics.busy.weeks
    edges = _as_days(np.array([*(week.begin_s for week in weeks), last_s]))
    axes.stairs([week.mean_nodes for week in weeks], edges, baseline=None, linewidth=1.5, label="weekly mean")
    capacity = statistics.busy.capacity
    axes.axhline(capacity, linestyle="--", linewidth=1, color="black", label=f"inferred capacity, {capacity:,}")
    axes.xaxis_date()
    axes.set_xlim(dates[0], dates[-1])
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right")


def _as_days(instant_s: Any) -> Any:
    """Returns dates of matplotlib: days since 1970."""
    return np.asarray(instant_s) / (24 * HOUR_S)


def _draw_waits(axes: Any, table: JobTable) -> None:
    axes.set_xlabel("wait (h)")
    axes.set_ylabel("share of jobs that waited no longer")
    wait_s = np.sort(table.wait_s[table.wait_s >= 0])
    if not len(wait_s):
        axes.set_title("no waits recorded")
        return
    share = np.arange(1, len(wait_s) + 1) / len(wait_s)
    axes.step(np.maximum(wait_s, 1) / HOUR_S, share, where="post")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
