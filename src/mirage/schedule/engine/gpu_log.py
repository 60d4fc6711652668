"""The log of a GPU cluster: GPUs of jobs over time, speeds, decisions and their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ContractBroken
from mirage.kernel.record_arrays import Records
from mirage.schedule.engine.kernel.gpu_arrays import NO_SEGMENT, GpuState, GpuWorld
from mirage.schedule.engine.kernel.python_calls import settle_now
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.gpu_jobs import GpuJobs

INTERVAL = np.dtype(
    [("server", np.int64), ("gpu", np.int64), ("job", np.int64), ("start_s", np.float64), ("end_s", np.float64)]
)


@dataclass(frozen=True, slots=True)
class GpuLog:
    """All events of a simulation so far.

    Attributes:
        now_s: The time of the log.
        rows: JOB records by id, with the amounts at ``now_s``; a job that has ended has its end in ``due_s``.
        segments: SEGMENT records in order of their start; a segment that has not ended has an infinite end.
        placement_rows: PLACE records, to which segments refer: the GPUs of each segment by server.
        phases: PHASE records in order of time: the speeds of jobs.
        decisions: DECISION records in order of time: every action, refused ones included.
        loans: LOAN records in order of their start.
        reasons: Texts of the reasons of decisions, by number.
        breaches: Number of loans whose server was still used when it was due, or which inference took by force.
        unmet_server_s: Server-seconds of inference demand without an available server.
    """

    cluster: GpuCluster
    jobs: GpuJobs
    now_s: float
    rows: Records
    segments: Records
    placement_rows: Records
    phases: Records
    decisions: Records
    loans: Records
    reasons: Sequence[str]
    breaches: int
    unmet_server_s: float

    @classmethod
    def of(cls, cluster: GpuCluster, jobs: GpuJobs, world: GpuWorld, state: GpuState, reasons: Sequence[str]) -> GpuLog:
        """Copy the logs from a state."""
        clock = state.clock[0]
        rows = state.ended.copy()
        live = state.live[: int(clock["n_live"])].copy()
        settle_now(live, float(clock["now_s"]))
        rows[live["id"]] = live
        unmet_s = clock["unmet_server_s"] + clock["unmet"] * (clock["now_s"] - clock["unmet_since_s"])
        return cls(
            cluster=cluster,
            jobs=jobs,
            now_s=float(clock["now_s"]),
            rows=rows,
            segments=state.segments[: int(clock["n_segments"])].copy(),
            placement_rows=state.placement_rows[: int(clock["n_placement_rows"])].copy(),
            phases=state.phases[: int(clock["n_phases"])].copy(),
            decisions=state.decisions[: int(clock["n_decisions"])].copy(),
            loans=state.loans[: int(clock["n_loans"])].copy(),
            reasons=tuple(reasons),
            breaches=int(clock["breaches"]),
            unmet_server_s=float(unmet_s),
        )

    def places(self, segment: int) -> dict[int, int]:
        """Server → GPUs of a segment."""
        row = self.segments[segment]
        placement_rows = self.placement_rows[int(row.first) : int(row.first + row.places)]
        return dict(zip(placement_rows.server.tolist(), placement_rows.gpus.tolist()))

    def placement_segments(self) -> Ints:
        """The segment of every placement row."""
        of_row = np.full(len(self.placement_rows), NO_SEGMENT)
        of_row[self.segments.first] = np.arange(len(self.segments))
        filled: Ints = np.maximum.accumulate(of_row)
        return filled

    def gpu_intervals(self) -> Records:
        """One row for every GPU of every segment: server, GPU from 0, job, start and end.

        The engine only counts the GPUs of a server; each interval gets the lowest GPU number that is free at its start.

        Raises:
            ContractBroken: More GPUs of a server are held at one time than it has.
        """
        return _numbered(self.segments, self.placement_rows, self.placement_segments(), self.cluster.gpus_of)


def _numbered(segments: Any, placement_rows: Any, segment_of_row: Any, gpus_of: Any) -> Any:
    """INTERVAL records by server and start.

    Raises:
        ContractBroken: More GPUs of a server are held at one time than it has.
    """
    start_s, end_s = segments.start_s[segment_of_row], segments.end_s[segment_of_row]
    used = np.flatnonzero(end_s > start_s)
    rows: list[tuple[int, int, int, float, float]] = []
    free: list[int] = []
    held: list[tuple[float, int]] = []
    server = -1
    for row in used[np.lexsort((start_s[used], placement_rows.server[used]))].tolist():
        if placement_rows.server[row] != server:
            server, held = int(placement_rows.server[row]), []
            free = list(range(int(gpus_of[server])))
        while held and held[0][0] <= start_s[row]:
            heappush(free, heappop(held)[1])
        job = int(segments.id[segment_of_row[row]])
        for _ in range(int(placement_rows.gpus[row])):
            if not free:
                raise ContractBroken(
                    f"server {server} has {gpus_of[server]} GPUs; more are held at {start_s[row]} s, by job {job} too"
                )
            gpu = heappop(free)
            rows.append((server, gpu, job, float(start_s[row]), float(end_s[row])))
            heappush(held, (float(end_s[row]), gpu))
    return np.array(rows, dtype=INTERVAL).view(np.recarray)
