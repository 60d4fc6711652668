"""Shutdowns: hours in which the machine is nearly empty though jobs wait that would fit.

A maintenance is known in advance: jobs that would run into it are not started, so the machine empties as limits allow,
and no job that ran before could have lasted beyond its beginning. A failure is not known in advance: limits of jobs
that ran reach far into it. Accounts contain both the ends of the jobs and their limits, so they distinguish the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.sim.cluster import CapacityChange, Reservation
from mirage.trace.table import JobTable

SHORTEST_S = 2 * HOUR_S
"""A shorter stretch may be due to chance."""

LEFT = 0.1
"""Share of the machine that may be in use: some nodes are repaired or reserved separately."""

SLACK_S = HOUR_S
"""Time by which limits of jobs may reach into a maintenance: it began later than the last of them ended."""

RUNS_BEFORE_S = 12 * HOUR_S
"""Jobs that ended at most this long before show by their limits whether it was known."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """A stretch in which nearly all nodes were out of use.

    Attributes:
        start_s: When it began, according to limits.
        end_s: When jobs ran again.
        left: Maximum number of nodes that were in use nevertheless.
        known: Whether it was known in advance.
        waiting: Number of jobs that waited all the time and would have fitted.
    """

    start_s: int
    end_s: int
    left: int
    known: bool
    waiting: int


def shutdowns(jobs: JobTable) -> tuple[Shutdown, ...]:
    """Returns the shutdowns of a machine, in order.

    Args:
        jobs: Jobs that were in the queue, by submission.
    """
    ends_s = np.where(jobs.limit_s > 0, jobs.start_s + jobs.limit_s, jobs.end_s)
    times_s = np.unique(np.concatenate([jobs.start_s, jobs.end_s]))
    busy = _busy(jobs, times_s)
    most = int(busy.max())
    low = busy <= LEFT * most
    first = np.flatnonzero(low & ~np.concatenate([[False], low[:-1]]))
    last = np.flatnonzero(low & ~np.concatenate([low[1:], [False]]))
    found = []
    for k, m in zip(first, last):
        if m + 1 == len(times_s) or times_s[m + 1] - times_s[k] < SHORTEST_S:
            continue
        from_s, to_s, left = int(times_s[k]), int(times_s[m + 1]), int(busy[k : m + 1].max())
        waits = (jobs.submit_s <= from_s) & (jobs.start_s >= to_s) & (jobs.nodes <= most - left)
        if waits.any():
            ran = (jobs.start_s < from_s) & (jobs.end_s <= from_s) & (jobs.end_s > from_s - RUNS_BEFORE_S)
            planned_s = int(ends_s[ran].max(initial=from_s))
            known = planned_s <= from_s + SLACK_S
            found.append(Shutdown(planned_s if known else from_s, to_s, left, known, int(waits.sum())))
    return tuple(found)


def _busy(jobs: JobTable, times_s: Ints) -> Ints:
    """Nodes in use from each time on."""
    change = np.zeros(len(times_s), dtype=np.int64)
    np.add.at(change, np.searchsorted(times_s, jobs.start_s), jobs.nodes)
    np.subtract.at(change, np.searchsorted(times_s, jobs.end_s), jobs.nodes)
    return np.cumsum(change)


def bridged(times_s: Ints, busy: Ints, over: tuple[Shutdown, ...], around_s: int) -> Ints:
    """Returns the level of nodes in use without shutdowns.

    Within and before each shutdown, it is the maximum around it.

    Args:
        times_s: Shape (n,), rising.
        busy: Shape (n,), nodes in use.
        over: The shutdowns.
        around_s: Longest time for which the machine empties before a maintenance.
    """
    level = busy.copy()
    for one in over:
        near = (times_s >= one.start_s - around_s) & (times_s < one.end_s + around_s)
        within = (times_s >= one.start_s - around_s) & (times_s <= one.end_s)
        level[within] = np.maximum(level[within], busy[near].max(initial=0))
    return level


def out_of_use(
    found: tuple[Shutdown, ...], group: str, times_s: Ints, nodes: Ints
) -> tuple[tuple[CapacityChange, ...], tuple[Reservation, ...]]:
    """Returns shutdowns as unannounced capacity changes and as reservations.

    Args:
        found: The shutdowns.
        group: The node group.
        times_s: Shape (n,), begin of each level of ``nodes``.
        nodes: Shape (n,), nodes of the cluster without shutdowns.
    """
    changes: list[CapacityChange] = []
    reserved: list[Reservation] = []
    for one in found:
        first, last = np.searchsorted(times_s, (one.start_s, one.end_s - 1), side="right")
        away = int(nodes[max(first - 1, 0) : max(last, 1)].min()) - one.left
        if away <= 0:
            continue
        if one.known:
            reserved.append(Reservation(one.start_s, one.end_s, group, away))
        else:
            changes += [CapacityChange(one.start_s, group, -away), CapacityChange(one.end_s, group, away)]
    return tuple(changes), tuple(reserved)
