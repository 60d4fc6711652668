"""The log of a GPU cluster: GPUs of jobs over time, speeds, decisions and their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.job_state import Ints
from mirage.schedule.cluster import GpuCluster
from mirage.schedule.engine.gpu_numbers import numbered
from mirage.schedule.engine.kernel.arrays import NOBODY, Records, State, World
from mirage.schedule.engine.kernel.calls import settle_now
from mirage.schedule.workload.jobs import GpuJobs


@dataclass(frozen=True, slots=True)
class GpuLog:
    """All events of a simulation so far.

    Attributes:
        now_s: The time of the log.
        rows: JOB records by id, with the amounts at ``now_s``; a job that has ended has its end in ``due_s``.
        segments: SEGMENT records in order of their start; a segment that has not ended has an infinite end.
        seats: PLACE records, to which segments refer: the GPUs of each segment by server.
        phases: PHASE records in order of time: the speeds of jobs.
        decisions: DECISION records in order of time: every action, refused ones included.
        loans: LOAN records in order of their start.
        reasons: Texts of the reasons of decisions, by number.
        breaches: Number of loans whose server was still used when it was due.
        unmet_server_s: Server-seconds of inference demand without an available server.
    """

    cluster: GpuCluster
    jobs: GpuJobs
    now_s: float
    rows: Records
    segments: Records
    seats: Records
    phases: Records
    decisions: Records
    loans: Records
    reasons: Sequence[str]
    breaches: int
    unmet_server_s: float

    @classmethod
    def of(cls, cluster: GpuCluster, jobs: GpuJobs, world: World, state: State, reasons: Sequence[str]) -> GpuLog:
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
            seats=state.seats[: int(clock["n_seats"])].copy(),
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
        seats = self.seats[int(row.first) : int(row.first + row.places)]
        return dict(zip(seats.server.tolist(), seats.gpus.tolist()))

    def seat_segments(self) -> Ints:
        """The segment of every placement row."""
        of_seat = np.full(len(self.seats), NOBODY, np.int64)
        of_seat[self.segments.first] = np.arange(len(self.segments))
        filled: Ints = np.maximum.accumulate(of_seat)
        return filled

    def gpu_intervals(self) -> Records:
        """One row for every GPU of every segment: server, GPU from 0, job, start and end.

        The engine only counts the GPUs of a server; each interval gets the lowest GPU number that is free at its start.

        Raises:
            ContractBroken: More GPUs of a server are held at one time than it has.
        """
        return numbered(self.segments, self.seats, self.seat_segments(), self.cluster.gpus_of)

    def of_job(self, job: int) -> dict[str, Any]:
        """Segments, phases and decisions of one job."""
        return {
            "segments": self.segments[self.segments.id == job],
            "phases": self.phases[self.phases.id == job],
            "decisions": self.decisions[(self.decisions.id == job) & (self.decisions.kind < 4)],
        }
