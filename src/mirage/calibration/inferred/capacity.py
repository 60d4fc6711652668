"""Capacity over time, inferred from running jobs and from waits without starts.

A cluster has at least the nodes in use. On a busy cluster the level of nodes in use repeatedly reaches the capacity, so
the capacity is this level with its dips filled in (a morphological closing: the running maximum over ``dip_s``, then
the running minimum of that). A dip that lasts longer counts as unavailable nodes. An outage is detected in another
way: for hours no job starts, although jobs wait for which there is room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.calibration.inferred.shutdowns import Shutdown, bridged
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import TraceError
from mirage.sim.cluster import CapacityChange
from mirage.trace.table import JobTable

STEP_S = 10 * MINUTE_S
"""Sampling interval of the level of nodes in use."""

DRAIN_S = DAY_S
"""Longest time for which the machine empties before a shutdown: the longest usual time limit."""

OUTAGE_S = 3 * HOUR_S
"""Shortest time without a start that counts as an outage."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Nodes over time.

    Attributes:
        times_s: Shape (n,), begin of each level, rising.
        nodes: Shape (n,).
    """

    times_s: Ints
    nodes: Ints

    @property
    def first(self) -> int:
        """Nodes at the beginning."""
        return int(self.nodes[0])

    def changes(self, group: str) -> tuple[CapacityChange, ...]:
        """Returns the levels as capacity changes of a node group."""
        return tuple(
            CapacityChange(int(at_s), group, int(step)) for at_s, step in zip(self.times_s[1:], np.diff(self.nodes))
        )


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """A stretch in which no job started, although there was room for jobs that waited.

    Attributes:
        start_s: The last start before it.
        end_s: The first start after it.
        nodes: Nodes in use until its end.
        waiting: Number of jobs that waited from before it to its end, and would have fitted.
    """

    start_s: int
    end_s: int
    nodes: int
    waiting: int


def levels(times_s: Ints, from_s: Ints, until_s: Ints, weights: Ints) -> Ints:
    """Returns the sum of the weights of the intervals that contain each time.

    Intervals are half open; the result has the shape of ``times_s``.
    """
    begun = np.concatenate([[0], np.cumsum(weights[np.argsort(from_s, kind="stable")])])
    over = np.concatenate([[0], np.cumsum(weights[np.argsort(until_s, kind="stable")])])
    level: Ints = (
        begun[np.searchsorted(np.sort(from_s), times_s, side="right")]
        - over[np.searchsorted(np.sort(until_s), times_s, side="right")]
    )
    return level


def queued(table: JobTable) -> JobTable:
    """Returns the jobs of a trace that were in the queue, by submission.

    Jobs that never ran are included.

    Raises:
        TraceError: No job ran, or the trace has no starts.
    """
    known = (table.start_s >= table.submit_s) & (table.submit_s >= 0) & (table.end_s >= table.start_s)
    found = table[known & (table.nodes > 0)].sorted_by_submit()
    if not ran(found).any():
        missing = "a number of nodes" if ran(table[known]).any() else "a submission, a start and an end"
        raise TraceError(f"no job of the trace has {missing}: there is nothing to calibrate with")
    return found


def ran(jobs: JobTable) -> NDArray[np.bool_]:
    """Returns which jobs ran at all, shape (n,).

    Slurm's accounts give a job that is cancelled while it waits this second as start and end, and the exit code 0:0:
    its wait is not a wait for a start.
    """
    found: NDArray[np.bool_] = jobs.end_s > jobs.start_s
    return found


def capacity_over_time(jobs: JobTable, dip_s: int, besides: tuple[Shutdown, ...] = ()) -> Capacity:
    """Returns the level of nodes in use, with short dips filled in and outages removed.

    Args:
        jobs: Jobs that were in the queue, by submission.
        dip_s: Dips up to this long are filled in; a longer dip counts as unavailable nodes.
        besides: Shutdowns that are modelled separately: there the level is that around them, and no outage is detected.
    """
    first_s = int(jobs.start_s.min())
    last_s = max(int(jobs.submit_s[-1]), first_s)  # after that, running jobs only end
    times_s = np.arange(first_s // STEP_S * STEP_S, last_s + 1, STEP_S)
    busy = levels(times_s, jobs.start_s, jobs.end_s, jobs.nodes)
    width = max(dip_s // STEP_S, 1) | 1
    nodes = bridged(times_s, busy, besides, DRAIN_S)
    nodes = -_running_maximum(-_running_maximum(nodes, width), width)
    for outage in outages(jobs, times_s, nodes):
        if any(one.start_s < outage.end_s and outage.start_s < one.end_s for one in besides):
            continue
        away = (times_s >= outage.start_s) & (times_s < outage.end_s)
        nodes[away] = np.minimum(nodes[away], np.maximum(busy[away], 1))
    nodes = np.maximum(nodes, 1)
    changed = np.concatenate([[True], np.diff(nodes) != 0])
    return Capacity(times_s[changed], nodes[changed])


def _running_maximum(levels: Ints, width: int) -> Ints:
    """Running maximum over ``width`` neighbours, an odd number; edge levels are extended.

    Within blocks of ``width``, it is the larger of a prefix maximum and a suffix maximum (van Herk, 1992).
    """
    padded = np.pad(levels, width // 2, mode="edge")
    blocks = np.pad(padded, (0, -len(padded) % width), mode="edge").reshape(-1, width)
    so_far = np.maximum.accumulate(blocks, axis=1).ravel()
    from_here = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    found: Ints = np.maximum(from_here[: len(levels)], so_far[width - 1 : width - 1 + len(levels)])
    return found


def outages(jobs: JobTable, times_s: Ints, nodes: Ints) -> tuple[NodeOutage, ...]:
    """Returns stretches without a start though most nodes were free and small jobs waited.

    They last at least ``OUTAGE_S``. A job that is cancelled while it waits does not start, although its account has a
    start.

    Args:
        jobs: Jobs that were in the queue, by submission.
        times_s: Shape (n,), instants, rising.
        nodes: Shape (n,), capacity from each instant on, without outages.
    """
    starts_s = np.unique(jobs.start_s[ran(jobs)])
    found = []
    for k in np.flatnonzero(np.diff(starts_s) >= OUTAGE_S):
        from_s, to_s = int(starts_s[k]), int(starts_s[k + 1])
        there = int(nodes[np.searchsorted(times_s, from_s, side="right") - 1])
        busy = int(jobs.nodes[(jobs.start_s < to_s) & (jobs.end_s >= to_s)].sum())
        idle = there - busy
        waits = (jobs.submit_s <= from_s) & (jobs.start_s >= to_s)
        drains = (jobs.nodes[waits] > idle).any()  # nodes stay free for a large job
        if idle >= there / 2 and waits.any() and not drains:
            found.append(NodeOutage(from_s, to_s, busy, int(waits.sum())))
    return tuple(found)
