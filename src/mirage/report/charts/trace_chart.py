"""Picture of a trace: busy nodes over time, and the distribution of waits."""

from __future__ import annotations

import numpy as np

from mirage.duration import HOUR_S
from mirage.report.axes import dates, numbers, scaled_waits, wait_ticks
from mirage.report.chart import MOST_POINTS, Chart, Curve, Level, Scale, picture_of, shares_within, steps, styled_key
from mirage.report.picture import Picture, stacked
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.summary import TraceStatistics
from mirage.trace.statistics.utilization import covered_s
from mirage.trace.table import JobTable

_NO_AXIS = Scale(0, 1, numbers())


def trace_chart(table: JobTable, statistics: TraceStatistics) -> Picture:
    """Draws busy nodes with their weekly means, and the distribution of waits.

    Args:
        table: The jobs.
        statistics: Statistics of the same jobs.
    """
    description = "Busy nodes over time, and the distribution of waits."
    drawn = picture_of(description, _busy_chart(table, statistics), _waits_chart(table))
    return stacked([("", drawn)], "Busy nodes and waits", [f"{len(table):,} jobs"])


def _busy_chart(table: JobTable, statistics: TraceStatistics) -> Chart:
    if statistics.busy is None:
        empty = "no starts recorded: busy nodes are not known"
        return Chart(title="busy nodes", x=_NO_AXIS, y=_NO_AXIS, empty=empty)
    occupancy = Occupancy.of(table)
    first_s, last_s = covered_s(table, occupancy)
    edge_s = np.linspace(first_s, last_s, min(MOST_POINTS, last_s - first_s) + 1).round().astype(np.int64)
    weeks, capacity = statistics.busy.weeks, statistics.busy.capacity
    week_edge_s = np.array([*(week.begin_s for week in weeks), last_s])
    mean = steps(week_edge_s, [week.mean_nodes for week in weeks])
    busy = occupancy.mean(edge_s)
    return Chart(
        title="busy nodes",
        x=Scale(first_s, last_s, dates),
        y=Scale(0, max(capacity, *busy.tolist()) * 1.05 or 1.0, numbers(5)),
        marks=[
            Curve(steps(edge_s, busy), "edge fine", area="area"),
            Curve(mean, "queue"),
            Level(capacity),
        ],
        key=styled_key(("area", "busy"), ("queue", "weekly mean"), ("limit", f"inferred capacity, {capacity:,}")),
        height=240,
    )


def _waits_chart(table: JobTable) -> Chart:
    wait_s = table.wait_s[table.wait_s >= 0]
    title = "share of jobs that waited no longer"
    if not len(wait_s):
        return Chart(title=title, x=_NO_AXIS, y=_NO_AXIS, empty="no waits recorded")
    waits = scaled_waits(wait_s)
    longest = max(float(waits.max()), float(scaled_waits([HOUR_S])[0]))
    return Chart(
        title=title,
        x=Scale(0, longest, wait_ticks, "wait"),
        y=Scale(0, 102, numbers(5, " %")),
        marks=[Curve([*shares_within(waits), (longest, 100.0)], "median")],
        height=240,
    )
