"""Utilization by month and week, and the size the machine must have had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, WEEK_S
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.table import JobTable

CAPACITY_SHARE = 0.95
"""The inferred number of nodes was not exceeded for this share of the time: a few hours of borrowed nodes, or of
overlapping records, do not count as a larger machine."""

_FIRST_MONDAY_S = 4 * DAY_S
"""1970-01-05 was a Monday."""


@dataclass(frozen=True, slots=True)
class Period:
    """A calendar month or week (from Monday), UTC, as far as the trace covers it.

    Attributes:
        begin_s: Its first second within the trace.
        mean_nodes: Mean of busy nodes.
        peak_nodes: Most nodes busy at once.
    """

    begin_s: int
    mean_nodes: float
    peak_nodes: int


@dataclass(frozen=True, slots=True)
class BusyNodes:
    """Busy nodes of a trace.

    Attributes:
        mean: Busy nodes, mean over the span the trace covers, see ``covered_s``.
        peak: Most nodes busy at once.
        capacity: Number of nodes that the machine must have had, see ``inferred_capacity``.
        months: Month by month.
        weeks: Week by week.
    """

    mean: float
    peak: int
    capacity: int
    months: tuple[Period, ...]
    weeks: tuple[Period, ...]


def busy_nodes(table: JobTable) -> BusyNodes | None:
    """Returns the busy nodes of a trace, ``None`` if it does not record when jobs held nodes."""
    occupancy = Occupancy.of(table)
    if not occupancy:
        return None
    first_s, last_s = covered_s(table, occupancy)
    whole = np.array([first_s, last_s])
    return BusyNodes(
        mean=float(occupancy.mean(whole)[0]),
        peak=int(occupancy.busy.max()),
        capacity=inferred_capacity(table, occupancy),
        months=_periods(occupancy, _month_edges_s(first_s, last_s)),
        weeks=_periods(occupancy, _week_edges_s(first_s, last_s)),
    )


def covered_s(table: JobTable, occupancy: Occupancy) -> tuple[int, int]:
    """Returns the span a trace covers: from the first submission (else start) to the last.

    It is at least a second.

    Jobs that run on after the last submission do not show the whole machine, only the part in the trace:
    that time is left out, unless it is most of the work, as in a trace of one burst.
    """
    for instants in (table.submit_s, table.start_s):
        known = instants[instants >= 0]
        if len(known):
            first_s, last_s = int(known.min()), int(known.max())
            if occupancy and last_s < occupancy.time_s[-1]:
                end_s = int(occupancy.time_s[-1])
                so_far, in_all = occupancy.node_seconds_until(np.array([last_s, end_s]))
                last_s = last_s if so_far >= in_all / 2 else end_s
            return first_s, max(last_s, first_s + 1)
    return 0, 1


def inferred_capacity(table: JobTable, occupancy: Occupancy | None = None) -> int:
    """Infers the nodes that the machine must have had; 0 if the trace lacks the data.

    This is the number of nodes that was not exceeded for 95 % of the time, and at least that of the largest job that
    ran. If a machine was never full for 5 % of the time, this is what was used, not what existed.
    """
    occupancy = occupancy or Occupancy.of(table)
    if not occupancy:
        return 0
    ran = (table.start_s >= 0) & (table.end_s > table.start_s)
    return max(occupancy.quantile(CAPACITY_SHARE), int(table.nodes[ran].max()))


def _periods(occupancy: Occupancy, edge_s: Ints) -> tuple[Period, ...]:
    columns = (edge_s[:-1], occupancy.mean(edge_s), occupancy.peak(edge_s))
    return tuple(Period(*row) for row in zip(*(column.tolist() for column in columns)))


def _month_edges_s(first_s: int, last_s: int) -> Ints:
    months = np.array([first_s, last_s], dtype="datetime64[s]").astype("datetime64[M]")
    begins = np.arange(months[0] + 1, months[1] + 1).astype("datetime64[s]").astype(np.int64)
    return _edges_s(first_s, begins, last_s)


def _week_edges_s(first_s: int, last_s: int) -> Ints:
    first, last = ((instant - _FIRST_MONDAY_S) // WEEK_S for instant in (first_s, last_s))
    return _edges_s(first_s, np.arange(first + 1, last + 1) * WEEK_S + _FIRST_MONDAY_S, last_s)


def _edges_s(first_s: int, begins: Ints, last_s: int) -> Ints:
    return np.concatenate([[first_s], begins[(begins > first_s) & (begins < last_s)], [last_s]])
