"""The fit of the throughput model to step times that a job has measured.

It minimises the root mean square errors of the logarithms of the pass and of the step, with two small penalties: on
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

from mirage.kernel.compile import kernel
from mirage.schedule.goodput.throughput_model import (
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

MOST_OVERLAP = 10.0
MOST_S = 1e6
OVERLAP_PENALTY = 1e-3
GROWTH_PENALTY = 1e-2
NETWORK_BEYOND_WITHIN = 1.1
"""Minimum ratio of network times between servers to those within one, if no measurement is between servers."""

_STEPS, _HALVINGS, _TOLERANCE = 100, 30, 1e-7

_ROWS = PARAMETERS + 8
_X, _LOW, _HIGH, _G, _NEXT, _NEXT_G, _WAY, _IMAGE = range(PARAMETERS, PARAMETERS + 8)


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


def fit(measured: StepMeasurements) -> NDArray[np.float64]:
    """Parameters of the throughput model fitted to the measurements; at least one point."""
    parameters, scratch = np.zeros(PARAMETERS), fit_scratch()
    fit_into(parameters, measured, 0, len(measured.gpus), scratch)
    return parameters


def fit_scratch() -> NDArray[np.float64]:
    """Scratch memory for one fit."""
    return np.zeros((_ROWS, PARAMETERS))


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
def _log_step(overlap: float, log_compute: float, log_transfer: float) -> float:
    apart = overlap * abs(log_compute - log_transfer)
    return max(log_compute, log_transfer) + log1p(exp(-apart)) / overlap


@kernel()
def _to_parameters(x: Any, parameters: Any) -> None:
    for k in range(OVERLAP):
        parameters[k] = exp(x[k])
    parameters[OVERLAP] = x[OVERLAP]


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
def _loss_at(x: Any, parameters: Any, measured: Any, first: int, last: int, slope: Any) -> float:
    """The loss and its gradient by the logarithms of the times."""
    _to_parameters(x, parameters)
    found = loss(parameters, measured, first, last, slope)
    for k in range(OVERLAP):
        slope[k] *= parameters[k]
    return found


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
