"""Throughput history: measurements of running jobs, and throughput models fitted to them.

A job learns only from placements on which it, or a job that shares its measurements, has run: a point is a GPU type,
the numbers of servers and GPUs, and the batch of a pass, with the measured seconds. Each new point refits its model.
Rows of ended jobs are reused.

A fit minimises the root mean square errors of the logarithms of the pass and of the step, with two small penalties: on
overlap, and on network time that grows with the GPUs (Pollux, OSDI'21, section 4.1). Terms that the measurements do not
determine are fixed at optimistic values. The gradient is derived by hand. The search is BFGS with bounds, on the
logarithms of the times, in which every term of the gradient is between 0 and 1. (L-BFGS-B of scipy takes a thousand
times as long for these seven numbers; a test compares the fit with its minimum.)
"""

from __future__ import annotations

from math import exp, log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.kernel.compile import kernel
from mirage.schedule.rounds.configurations import JobColumns
from mirage.schedule.rounds.goodput import (
    BETWEEN_S,
    BETWEEN_S_PER_GPU,
    OVERLAP,
    PARAMETERS,
    PASS_S,
    PASS_S_PER_SAMPLE,
    TINY_S,
    WITHIN_S,
    WITHIN_S_PER_GPU,
    network_s,
    pass_s,
)
from mirage.schedule.scheduler_contract import ActiveJobs
from mirage.schedule.speeds.speed_arrays import Speeds
from mirage.schedule.speeds.speed_law import local_batch, measure

MOST_OVERLAP = 10.0
MOST_S = 1e6
OVERLAP_PENALTY = 1e-3
GROWTH_PENALTY = 1e-2
NETWORK_BEYOND_WITHIN = 1.1
"""Minimum ratio of network times between servers to those within one, if no measurement is between servers."""

_STEPS, _HALVINGS, _TOLERANCE = 100, 30, 1e-7

_SCRATCH_ROWS = PARAMETERS + 8
_X, _LOW, _HIGH, _G, _NEXT, _NEXT_G, _WAY, _IMAGE = range(PARAMETERS, PARAMETERS + 8)

_ROWS, _POINTS = 64, 32


class StepMeasurements(NamedTuple):
    """Steps that one job measured on one GPU type.

    Attributes:
        servers: Number of servers of its workers; (points,).
        gpus: Number of workers.
        local_batch: Batch of a pass of one worker.
        pass_s: Seconds of a pass.
        step_s: Seconds of a pass with the averaging of the gradients.
    """

    servers: NDArray[np.int64]
    gpus: NDArray[np.int64]
    local_batch: NDArray[np.int64]
    pass_s: NDArray[np.float64]
    step_s: NDArray[np.float64]


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
        shared_models: Number of models whose jobs share their step times; 0: every job learns from itself only.
    """

    def __init__(self, speeds: Speeds, types: int, jobs: int, shared_models: int = 0) -> None:
        self.speeds, self.types = speeds, types
        self._row_of = np.full(jobs, -1)
        self._free = list(range(_ROWS))[::-1]
        self._room = _POINTS
        self.known = _allocate(_ROWS, types, _POINTS)
        self._scratch = fit_scratch()
        self._last: Ints = np.zeros(0, np.int64)
        self._of_model = self._reserve(shared_models)
        self._earliest: Floats = np.full(shared_models, np.inf)

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

    def observe(self, jobs: JobColumns | ActiveJobs, rows: Ints, runs: Ints) -> None:
        """Add the present measurements of running jobs with measured models.

        Args:
            jobs: All active jobs.
            rows: Row of each job.
            runs: Indices of the running jobs.
        """
        model, gpu_type, servers, gpus = jobs.model[runs], jobs.gpu_type[runs], jobs.servers[runs], jobs.held[runs]
        own, learnt, batch, progress = rows[runs], self.learnt(rows[runs], model), jobs.batch[runs], jobs.progress[runs]
        while self.known.measured[learnt].max(initial=0) + len(own) > self._room:
            self._grow(len(self.known.square), 2 * self._room)
        _observe(self.known, self.speeds, own, learnt, model, gpu_type, servers, gpus, batch, progress, self._scratch)
        if len(self._of_model):
            self._share_noise(jobs, rows, runs)

    def learnt(self, rows: Ints, model: Ints) -> Ints:
        """The rows with the step times of jobs: their own, or one row per model if it is shared."""
        if not len(self._of_model):
            return rows
        shared: Ints = self._of_model[model]
        return shared

    def _share_noise(self, jobs: JobColumns | ActiveJobs, rows: Ints, runs: Ints) -> None:
        """Give new jobs the usual gradient noise: that at the start of a job of their model."""
        known = self.known
        model, progress = jobs.model[runs], jobs.progress[runs]
        for k in np.flatnonzero(progress < self._earliest[model]).tolist():
            m, row = int(model[k]), int(rows[runs[k]])
            if progress[k] < self._earliest[m]:
                self._earliest[m] = progress[k]
                first = self._of_model[m]
                known.square[first], known.variance[first] = known.square[row], known.variance[row]
        unmeasured = np.flatnonzero((jobs.model >= 0) & np.isnan(known.square[rows]))
        first = self._of_model[jobs.model[unmeasured]]
        known.square[rows[unmeasured]], known.variance[rows[unmeasured]] = known.square[first], known.variance[first]
        known.noted[rows[unmeasured]] += 1

    def _reserve(self, rows: int) -> Ints:
        """Rows for data shared by several jobs; they are never assigned to a job."""
        while len(self._free) < rows:
            self._grow(2 * len(self.known.square), self._room)
        return np.array([self._free.pop() for _ in range(rows)], dtype=np.int64)

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


def fit(measured: StepMeasurements) -> NDArray[np.float64]:
    """Parameters of the throughput model fitted to the measurements; at least one point."""
    parameters, scratch = np.zeros(PARAMETERS), fit_scratch()
    fit_into(parameters, measured, 0, len(measured.gpus), scratch)
    return parameters


def fit_scratch() -> NDArray[np.float64]:
    """Scratch memory for one fit."""
    return np.zeros((_SCRATCH_ROWS, PARAMETERS))


@kernel()
def fit_into(parameters: Any, measured: Any, first: int, last: int, scratch: Any) -> None:
    """Fit the model to the points ``first`` to ``last`` and write its parameters."""
    _start(parameters, measured, first, last, scratch)
    x, low, high = scratch[_X], scratch[_LOW], scratch[_HIGH]
    _search(parameters, measured, first, last, scratch)
    for k in range(PARAMETERS):
        x[k] = min(max(x[k], low[k]), high[k])
    _to_parameters(x, parameters)
    several = False
    for i in range(first, last):
        several = several or measured.servers[i] > 1
    if not several:
        parameters[BETWEEN_S] = max(parameters[BETWEEN_S], NETWORK_BEYOND_WITHIN * parameters[WITHIN_S])
        parameters[BETWEEN_S_PER_GPU] = max(
            parameters[BETWEEN_S_PER_GPU], NETWORK_BEYOND_WITHIN * parameters[WITHIN_S_PER_GPU]
        )


@kernel()
def _start(parameters: Any, measured: Any, first: int, last: int, scratch: Any) -> None:
    """Set start and bounds of the search; terms that the points do not determine are fixed."""
    x, low, high = scratch[_X], scratch[_LOW], scratch[_HIGH]
    for k in range(OVERLAP):
        x[k], low[k], high[k] = log(1e-1 if k % 2 == 0 else 1e-2), log(TINY_S), log(MOST_S)
    x[OVERLAP], low[OVERLAP], high[OVERLAP] = 1.001, 1.0, MOST_OVERLAP
    between = within = beyond = several_batches = False
    mean_s = 0.0
    for i in range(first, last):
        between = between or measured.servers[i] > 1
        within = within or (measured.servers[i] == 1 and measured.gpus[i] > 1)
        beyond = beyond or measured.gpus[i] > 2
        several_batches = several_batches or measured.local_batch[i] != measured.local_batch[first]
        mean_s += measured.pass_s[i] / (last - first)
    if not several_batches:  # half of the time is assumed to grow with the batch
        x[PASS_S] = low[PASS_S] = high[PASS_S] = log(mean_s / 2)
    for k, known in (
        (BETWEEN_S, between),
        (BETWEEN_S_PER_GPU, between and beyond),
        (WITHIN_S, within),
        (WITHIN_S_PER_GPU, within and beyond),
    ):
        if not known:
            x[k] = low[k] = high[k] = log(TINY_S)


@kernel()
def _search(parameters: Any, measured: Any, first: int, last: int, scratch: Any) -> None:
    """Minimise by BFGS; a parameter at a bound does not move if the slope points beyond it."""
    x, low, high, slope = scratch[_X], scratch[_LOW], scratch[_HIGH], scratch[_G]
    following, following_slope, way = scratch[_NEXT], scratch[_NEXT_G], scratch[_WAY]
    value = _loss_at(x, parameters, measured, first, last, slope)
    _forget(scratch)
    fresh = True
    for _ in range(_STEPS):
        _direction(scratch)
        descent = 0.0
        for k in range(PARAMETERS):
            descent += way[k] * slope[k]
        if descent >= -1e-12:
            if fresh:
                return
            _forget(scratch)
            fresh = True
            continue
        length, found, accepted = 1.0, value, False
        for _ in range(_HALVINGS):
            for k in range(PARAMETERS):
                following[k] = min(max(x[k] + length * way[k], low[k]), high[k])
            found = _loss_at(following, parameters, measured, first, last, following_slope)
            if found <= value + 1e-4 * length * descent:
                accepted = True
                break
            length *= 0.4
        if not accepted:
            if fresh:
                return
            _forget(scratch)
            fresh = True
            continue
        done = value - found <= _TOLERANCE * max(abs(value), abs(found), 1e-3)
        _learn(scratch)
        for k in range(PARAMETERS):
            x[k], slope[k] = following[k], following_slope[k]
        value = found
        if done:
            return
        fresh = False


@kernel()
def _forget(scratch: Any) -> None:
    for j in range(PARAMETERS):
        for k in range(PARAMETERS):
            scratch[j, k] = 1.0 if j == k else 0.0


@kernel()
def _direction(scratch: Any) -> None:
    """The descent direction by the inverse curvature, among the parameters that can move."""
    x, low, high, slope, way = scratch[_X], scratch[_LOW], scratch[_HIGH], scratch[_G], scratch[_WAY]
    for j in range(PARAMETERS):
        way[j] = 0.0
        if (x[j] <= low[j] and slope[j] >= 0) or (x[j] >= high[j] and slope[j] <= 0):
            continue
        for k in range(PARAMETERS):
            if not ((x[k] <= low[k] and slope[k] >= 0) or (x[k] >= high[k] and slope[k] <= 0)):
                way[j] -= scratch[j, k] * slope[k]
    longest = 0.0
    for j in range(PARAMETERS):
        longest = max(longest, abs(way[j]))
    if longest > 2.0:  # the model is far from quadratic beyond a factor of e² in one time
        for j in range(PARAMETERS):
            way[j] *= 2.0 / longest


@kernel()
def _loss_at(x: Any, parameters: Any, measured: Any, first: int, last: int, slope: Any) -> float:
    """The loss and its gradient by the logarithms of the times."""
    _to_parameters(x, parameters)
    found = loss(parameters, measured, first, last, slope)
    for k in range(OVERLAP):
        slope[k] *= parameters[k]
    return found


@kernel()
def loss(parameters: Any, measured: Any, first: int, last: int, slope: Any) -> float:
    """The loss of a fit over the points ``first`` to ``last``.

    Its gradient by the parameters is written into ``slope``.
    """
    n = last - first
    overlap = parameters[OVERLAP]
    pass_square = step_square = 0.0
    for k in range(PARAMETERS):
        slope[k] = 0.0
    for i in range(first, last):
        compute_s = pass_s(parameters, measured.local_batch[i])
        transfer_s = network_s(parameters, measured.servers[i], measured.gpus[i])
        pass_square += (log(compute_s) - log(measured.pass_s[i])) ** 2
        step_square += (_log_step(overlap, log(compute_s), log(transfer_s)) - log(measured.step_s[i])) ** 2
    pass_error, step_error = sqrt(pass_square / n), sqrt(step_square / n)
    for i in range(first, last):
        local, gpus, servers = measured.local_batch[i], measured.gpus[i], measured.servers[i]
        compute_s, transfer_s = pass_s(parameters, local), network_s(parameters, servers, gpus)
        log_compute, log_transfer = log(compute_s), log(transfer_s)
        log_step = _log_step(overlap, log_compute, log_transfer)
        by_compute = exp(overlap * (log_compute - log_step))  # derivative of log_step by log_compute
        of_pass = (log_compute - log(measured.pass_s[i])) / (n * pass_error) if pass_error > 0 else 0.0
        of_step = (log_step - log(measured.step_s[i])) / (n * step_error) if step_error > 0 else 0.0
        along = (of_pass + of_step * by_compute) / compute_s
        slope[PASS_S] += along
        slope[PASS_S_PER_SAMPLE] += along * local
        mean = by_compute * log_compute + (1 - by_compute) * log_transfer
        slope[OVERLAP] += of_step * (mean - log_step) / overlap
        if gpus > 1:
            across = of_step * (1 - by_compute) / transfer_s
            slope[BETWEEN_S if servers > 1 else WITHIN_S] += across
            slope[BETWEEN_S_PER_GPU if servers > 1 else WITHIN_S_PER_GPU] += across * max(gpus - 2.0, TINY_S)
    found = float(pass_error + step_error + OVERLAP_PENALTY * (overlap - 1) ** 2)
    slope[OVERLAP] += 2 * OVERLAP_PENALTY * (overlap - 1)
    for fixed, growing in ((BETWEEN_S, BETWEEN_S_PER_GPU), (WITHIN_S, WITHIN_S_PER_GPU)):
        ratio = parameters[growing] / parameters[fixed]
        found += GROWTH_PENALTY * ratio**2
        slope[growing] += 2 * GROWTH_PENALTY * ratio / parameters[fixed]
        slope[fixed] -= 2 * GROWTH_PENALTY * ratio**2 / parameters[fixed]
    return found


@kernel()
def _log_step(overlap: float, log_compute: float, log_transfer: float) -> float:
    apart = overlap * abs(log_compute - log_transfer)
    return max(log_compute, log_transfer) + log1p(exp(-apart)) / overlap


@kernel()
def _learn(scratch: Any) -> None:
    """Update the inverse curvature by a step and the change of the slope along it."""
    x, slope, image = scratch[_X], scratch[_G], scratch[_IMAGE]
    following, following_slope = scratch[_NEXT], scratch[_NEXT_G]
    along = 0.0
    for k in range(PARAMETERS):
        along += (following[k] - x[k]) * (following_slope[k] - slope[k])
    if along <= 1e-10:
        return
    turned = 0.0
    for j in range(PARAMETERS):
        image[j] = 0.0
        for k in range(PARAMETERS):
            image[j] += scratch[j, k] * (following_slope[k] - slope[k])
        turned += image[j] * (following_slope[j] - slope[j])
    for j in range(PARAMETERS):
        for k in range(PARAMETERS):
            sj, sk = following[j] - x[j], following[k] - x[k]
            scratch[j, k] += (1 + turned / along) * sj * sk / along - (image[j] * sk + sj * image[k]) / along


@kernel()
def _to_parameters(x: Any, parameters: Any) -> None:
    for k in range(OVERLAP):
        parameters[k] = exp(x[k])
    parameters[OVERLAP] = x[OVERLAP]
