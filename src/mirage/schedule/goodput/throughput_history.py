"""Throughput history: measurements of running jobs, and throughput models fitted to them.

A job learns only from placements on which it has run: a point is a GPU type, the numbers of servers and GPUs, and the
batch of a pass, with the measured seconds. Each new point refits its model. Rows of ended jobs are reused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.kernel.compile import kernel
from mirage.schedule.goodput.throughput_fit import StepMeasurements, fit_into, fit_scratch
from mirage.schedule.goodput.throughput_model import PARAMETERS
from mirage.schedule.speeds.speed_arrays import Speeds
from mirage.schedule.speeds.speed_law import local_batch, measure

_ROWS, _POINTS = 64, 32


class ThroughputData(NamedTuple):
    """Data of the jobs; one row each.

    Attributes:
        points: Measured points; those of row r and type t begin at ``(r·types + t)·room``.
        measured: Number of points of each row and type.
        parameters: Parameters of the throughput model; (rows, types, 7).
        square: Squared norm of the mean gradient, as last observed; NaN before.
        variance: Variance of the gradients.
        most_gpus: Largest number of GPUs on which the job has run.
        version: Increases with every fit.
        noted: Increases with every change of the gradients.
    """

    points: StepMeasurements
    measured: Ints
    parameters: Floats
    square: Floats
    variance: Floats
    most_gpus: Ints
    version: Ints
    noted: Ints


class ThroughputHistory:
    """The throughput history of all active jobs.

    Args:
        speeds: The world's speeds, from which jobs measure.
        types: Number of GPU types.
        jobs: Number of jobs of the workload.
    """

    def __init__(self, speeds: Speeds, types: int, jobs: int) -> None:
        self.speeds, self.types = speeds, types
        self._row_of = np.full(jobs, -1, np.int64)
        self._free = list(range(_ROWS))[::-1]
        self._room = _POINTS
        self.known = _allocate(_ROWS, types, _POINTS)
        self._scratch = fit_scratch()
        self._last: Ints = np.zeros(0, np.int64)

    def rows(self, jobs: Ints) -> Ints:
        """The rows of the active jobs; rows of jobs that are no longer active are reused.

        Args:
            jobs: All active jobs, by id.
        """
        rows: Ints = self._row_of[jobs]
        if len(jobs) == len(self._last) and (rows >= 0).all():
            return rows
        still = np.zeros(len(self._row_of), np.bool_)
        still[jobs] = True
        for job in self._last[~still[self._last]].tolist():
            self._free.append(int(self._row_of[job]))
            self._row_of[job] = -1
        for job in jobs[rows < 0].tolist():
            if not self._free:
                self._grow(2 * len(self.known.square), self._room)
            row = self._free.pop()
            self._row_of[job] = row
            self.known.measured[row] = self.known.most_gpus[row] = 0
            self.known.square[row] = np.nan
            self.known.version[row] += 1
            self.known.noted[row] += 1
        self._last = jobs.copy()
        rows = self._row_of[jobs]
        return rows

    def reserve(self, rows: int) -> Ints:
        """Rows for data shared by several jobs; they are never assigned to a job."""
        while len(self._free) < rows:
            self._grow(2 * len(self.known.square), self._room)
        return np.array([self._free.pop() for _ in range(rows)], dtype=np.int64)

    def observe(
        self,
        rows: Ints,
        model: Ints,
        gpu_type: Ints,
        servers: Ints,
        gpus: Ints,
        batch: Ints,
        progress: Floats,
        learnt: Ints,
    ) -> None:
        """Add the present measurements of running jobs with measured models, one value each.

        Step times are stored in the rows ``learnt``.
        """
        while self.known.measured[learnt].max(initial=0) + len(rows) > self._room:
            self._grow(len(self.known.square), 2 * self._room)
        _observe(self.known, self.speeds, rows, learnt, model, gpu_type, servers, gpus, batch, progress, self._scratch)

    def _grow(self, rows: int, room: int) -> None:
        old, before = self.known, len(self.known.square)
        self.known = _allocate(rows, self.types, room)
        for name in ("measured", "parameters", "square", "variance", "most_gpus", "version", "noted"):
            getattr(self.known, name)[:before] = getattr(old, name)
        for stored, grown in zip(old.points, self.known.points):
            shape = (before, self.types, self._room)
            grown.reshape(rows, self.types, room)[:before, :, : self._room] = stored.reshape(shape)
        self._free = list(range(before, rows))[::-1] + self._free
        self._room = room


def _allocate(rows: int, types: int, room: int) -> ThroughputData:
    n = rows * types * room

    def i() -> Ints:
        return np.zeros(n, np.int64)

    return ThroughputData(
        points=StepMeasurements(i(), i(), i(), np.zeros(n), np.zeros(n)),
        measured=np.zeros((rows, types), np.int64),
        parameters=np.zeros((rows, types, PARAMETERS)),
        square=np.full(rows, np.nan),
        variance=np.zeros(rows),
        most_gpus=np.zeros(rows, np.int64),
        version=np.ones(rows, np.int64),
        noted=np.ones(rows, np.int64),
    )


@kernel()
def _observe(
    known: Any,
    speeds: Any,
    rows: Any,
    learnt: Any,
    model: Any,
    gpu_type: Any,
    servers: Any,
    gpus: Any,
    batch: Any,
    progress: Any,
    scratch: Any,
) -> None:
    points = known.points
    types = known.measured.shape[1]
    room = len(points.gpus) // (known.measured.shape[0] * types)
    for i in range(len(rows)):
        r, w, t, m = rows[i], learnt[i], gpu_type[i], model[i]
        step_s, sync_s, square, variance = measure(speeds, m, t, servers[i], gpus[i], batch[i], progress[i])
        if not step_s > 0:
            continue
        local, _ = local_batch(speeds, m, t, servers[i], gpus[i], batch[i])
        if square != known.square[r] or variance != known.variance[r]:
            known.square[r], known.variance[r] = square, variance
            known.noted[r] += 1
        first = (w * types + t) * room
        last = first + known.measured[w, t]
        is_measured = False
        for p in range(first, last):
            same = points.servers[p] == servers[i] and points.gpus[p] == gpus[i] and points.local_batch[p] == local
            is_measured = is_measured or same
        if is_measured:
            continue
        points.servers[last], points.gpus[last], points.local_batch[last] = servers[i], gpus[i], local
        points.pass_s[last], points.step_s[last] = step_s - sync_s, step_s
        known.measured[w, t] += 1
        known.most_gpus[w] = max(known.most_gpus[w], gpus[i])
        known.version[w] += 1
        fit_into(known.parameters[w, t], points, first, last + 1, scratch)
