"""The schedule of a simulation: starts and ends of jobs, and metrics to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.kernel.record_arrays import Records
from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class Schedule:
    """Starts and ends of the jobs of a trace.

    Attributes:
        table: The jobs, by submit time; n rows.
        start_s: Shape (n,), first start; ``MISSING`` for a job that did not start.
        end_s: Shape (n,), last end; ``MISSING`` for a job that did not end.
        segments: SEGMENT records in order of their end, injected jobs included.
        nodes: Nodes of the machine.
        shared: Where jobs share nodes: CPUs and GPUs that each segment holds, shape (segments,), and that the machine
            has.
    """

    table: JobTable
    start_s: Ints
    end_s: Ints
    segments: Records
    nodes: int
    shared: tuple[tuple[Ints, int], ...] = ()

    @classmethod
    def of(cls, table: JobTable, segments: Records, nodes: int, shared: tuple[tuple[Ints, int], ...] = ()) -> Schedule:
        """Combine segments into jobs."""
        n = len(table)
        start_s, end_s = np.full(n, np.iinfo(np.int64).max), np.full(n, MISSING)
        ours = segments.id < n
        ours = segments if ours.all() else segments[ours]
        np.minimum.at(start_s, ours.id, ours.start_s)
        np.maximum.at(end_s, ours.id, ours.end_s)
        start_s[end_s == MISSING] = MISSING
        return cls(table, start_s, end_s, segments, nodes, shared)

    @property
    def wait_s(self) -> Ints:
        """Seconds from submission to first start, of the jobs that started."""
        started = self.start_s != MISSING
        waits: Ints = (self.start_s - self.table.submit_s)[started]
        return waits

    @property
    def never_started(self) -> int:
        """Jobs that never start: their dependencies are never met, or their nodes never free."""
        return int((self.start_s == MISSING).sum())

    def busy_nodes(self) -> tuple[Ints, Ints]:
        """Nodes in use as a step function: (times, level from each time on)."""
        s = self.segments
        times = np.concatenate([s.start_s, s.end_s])
        change = np.concatenate([s.width, -s.width])
        order = np.argsort(times, kind="stable")
        instants, first = np.unique(times[order], return_index=True)
        level = np.cumsum(np.add.reduceat(change[order], first)) if len(first) else np.zeros(0, np.int64)
        return instants, level

    def bounded_slowdown(self, floor_s: int = 10) -> NDArray[np.float64]:
        """max(1, (wait + run) / max(run, floor)) of each finished job (Feitelson et al. 1997)."""
        done = self.end_s != MISSING
        run_s = np.maximum((self.end_s - self.start_s)[done], floor_s)
        turnaround_s = (self.end_s - self.table.submit_s)[done]
        slowdown: NDArray[np.float64] = np.maximum(1.0, turnaround_s / run_s)
        return slowdown

    def metrics(self) -> dict[str, Any]:
        """Counts of started and never started jobs, waits (s), makespan, utilisation, slowdown.

        The makespan begins with the first submission. The utilisation is that of the nodes; where jobs share nodes, of
        their CPUs or GPUs, whichever are used more.
        """
        waits = self.wait_s
        never = {"never_started": self.never_started}
        if len(waits) == 0:
            return {"jobs": 0, **never, "mean_wait_s": 0.0, "max_wait_s": 0, "makespan_s": 0, "utilisation": 0.0}
        makespan_s = int(self.end_s.max() - self.table.submit_s.min())
        held_s = self.segments.end_s - self.segments.start_s
        kinds = self.shared or ((self.segments.width, self.nodes),)
        used_s = max(float(held @ held_s) / there for held, there in kinds)
        return {
            "jobs": len(waits),
            **never,
            "mean_wait_s": float(waits.mean()),
            "median_wait_s": float(np.median(waits)),
            "p95_wait_s": float(np.percentile(waits, 95)),
            "max_wait_s": int(waits.max()),
            "mean_bounded_slowdown": float(self.bounded_slowdown().mean()),
            "makespan_s": makespan_s,
            "utilisation": used_s / makespan_s if makespan_s else 0.0,
        }
