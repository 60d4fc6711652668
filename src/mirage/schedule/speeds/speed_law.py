"""The law of speed: progress from step times (placement) and efficiency (gradient noise).

The engine calls ``speed`` and ``next_phase``; ``measure`` gives what a running job can measure itself. After Pollux
(OSDI'21, section 3): a batch n times as large as the first needs at best 1/n of the steps, and gains less if the noise
is smaller.
"""

from __future__ import annotations

import math

from mirage.kernel.compile import kernel
from mirage.schedule.speeds.speed_arrays import NO_TABLE, Speeds

SLACK = 1e-9
"""Progress this close to the end of an epoch, as a share of it, has reached it."""

BATCH_SLACK = 1e-8
"""Share of a sample that rounding may have added."""


@kernel()
def speed(speeds: Speeds, model: int, gpu_type: int, servers: int, gpus: int, batch: int, progress: float) -> float:
    """Work that a job does in a second now; 0 if it cannot run.

    Args:
        model: The job's model, ``LINEAR`` for none: then the work is in GPU-seconds.
        gpu_type: Type of the GPUs it holds.
        servers: Number of servers with these GPUs.
        gpus: GPUs it holds.
        batch: Samples between two updates, over all GPUs; 0 for the smallest usual batch.
        progress: Work done so far.
    """
    if model < 0:
        return float(gpus * speeds.type_speed[gpu_type])
    row = table_row(speeds, model, gpu_type, servers, gpus)
    if row == NO_TABLE:
        return 0.0
    local, steps = local_batch(speeds, model, gpu_type, servers, gpus, batch)
    step_s, sync_s = step_times(speeds, row, local)
    scale = gpus * local * steps / speeds.init_batch[model]
    sqr, var = gradient(speeds, model, gpus * local * steps, progress)
    gain = (var + sqr) / (var / scale + sqr)
    return float(gain / (step_s + (step_s - sync_s) * (steps - 1)) / speeds.slowdown[model])


@kernel()
def next_phase(speeds: Speeds, model: int, progress: float) -> float:
    """Progress at the end of the epoch, where the speed may change; infinite in the last.

    It is also infinite under the linear law.
    """
    if model < 0:
        return math.inf
    epoch = epoch_of(speeds, model, progress)
    if epoch >= speeds.epochs[model] - 1:
        return math.inf
    return float(speeds.epoch_end[model, epoch])


@kernel()
def work(speeds: Speeds, model: int) -> float:
    """All work of a job of this model: the end of its last epoch; NaN under the linear law."""
    if model < 0:
        return math.nan
    return float(speeds.epoch_end[model, speeds.epochs[model] - 1])


@kernel()
def measure(
    speeds: Speeds, model: int, gpu_type: int, servers: int, gpus: int, batch: int, progress: float
) -> tuple[float, float, float, float]:
    """Measurements of a running job: step time, exchange time, gradient square and variance.

    Times are in seconds, from the tables, for one local batch and without the model's slowdown. The gradient square is
    the squared norm of the gradient. All values are NaN if the model cannot run on the placement.
    """
    row = table_row(speeds, model, gpu_type, servers, gpus)
    if row == NO_TABLE:
        return math.nan, math.nan, math.nan, math.nan
    local, steps = local_batch(speeds, model, gpu_type, servers, gpus, batch)
    step_s, sync_s = step_times(speeds, row, local)
    sqr, var = gradient(speeds, model, gpus * local * steps, progress)
    return step_s, sync_s, sqr, var


@kernel()
def table_row(speeds: Speeds, model: int, gpu_type: int, servers: int, gpus: int) -> int:
    """The row of a placement; ``NO_TABLE`` if the model cannot run on it.

    Numbers of servers or GPUs above the largest in the tables count as the largest.
    """
    if model < 0 or servers < 1 or gpus < servers:
        return NO_TABLE
    gpus = min(gpus, speeds.rows.shape[3])
    servers = min(servers, speeds.rows.shape[2], gpus)
    return int(speeds.rows[model, gpu_type, servers - 1, gpus - 1])


@kernel()
def max_local(speeds: Speeds, model: int, gpu_type: int, servers: int, gpus: int) -> int:
    """The maximum local batch on a placement; 0 if the model cannot run on it."""
    row = table_row(speeds, model, gpu_type, servers, gpus)
    return int(speeds.row_max_local[row]) if row != NO_TABLE else 0


@kernel()
def local_batch(speeds: Speeds, model: int, gpu_type: int, servers: int, gpus: int, batch: int) -> tuple[int, int]:
    """The local batch, and the number of steps between two updates.

    If the memory of a GPU cannot hold its share of the batch, the GPU takes several steps and accumulates their
    gradients. A single GPU takes at least two steps for batches above the first one, as the noise cannot be estimated
    from one step.
    """
    first = speeds.init_batch[model]
    if batch <= 0:
        batch = max(first, speeds.min_local[model, gpu_type] * gpus)
    most = max_local(speeds, model, gpu_type, servers, gpus)
    share = math.ceil(batch / gpus - BATCH_SLACK)
    steps = max(math.ceil(share / most - BATCH_SLACK), 1)
    if gpus == 1 and batch > first:
        steps = max(steps, 2)
    local = math.ceil(share / steps - BATCH_SLACK)
    held = speeds.memory_max_local[model, gpu_type, min(gpus, speeds.memory_max_local.shape[2]) - 1]
    local = min(local, held, speeds.max_batch[model] // (gpus * steps))
    return int(max(local, 1)), int(steps)


@kernel()
def step_times(speeds: Speeds, row: int, local: int) -> tuple[float, float]:
    """Seconds of a step and of its exchange of gradients, interpolated over local batches.

    Outside the measured local batches, the nearest one counts.
    """
    n = speeds.knots[row]
    knots = speeds.local_batch[row]
    if local <= knots[0]:
        return speeds.step_s[row, 0], speeds.sync_s[row, 0]
    for k in range(1, n):
        if local <= knots[k]:
            share = (local - knots[k - 1]) / (knots[k] - knots[k - 1])
            step_s = speeds.step_s[row, k - 1] + share * (speeds.step_s[row, k] - speeds.step_s[row, k - 1])
            sync_s = speeds.sync_s[row, k - 1] + share * (speeds.sync_s[row, k] - speeds.sync_s[row, k - 1])
            return step_s, sync_s
    return speeds.step_s[row, n - 1], speeds.sync_s[row, n - 1]


@kernel()
def gradient(speeds: Speeds, model: int, batch: int, progress: float) -> tuple[float, float]:
    """Squared norm and variance of the gradient in this epoch, interpolated over batches."""
    epoch = min(epoch_of(speeds, model, progress), speeds.epochs[model] - 1)
    n = speeds.noise_knots[model]
    knots = speeds.noise_batch[model]
    sqr, var = speeds.grad_sqr[model], speeds.grad_var[model]
    if batch <= knots[0]:
        return sqr[0, epoch], var[0, epoch]
    for k in range(1, n):
        if batch <= knots[k]:
            share = (batch - knots[k - 1]) / (knots[k] - knots[k - 1])
            return (
                sqr[k - 1, epoch] + share * (sqr[k, epoch] - sqr[k - 1, epoch]),
                var[k - 1, epoch] + share * (var[k, epoch] - var[k - 1, epoch]),
            )
    return sqr[n - 1, epoch], var[n - 1, epoch]


@kernel()
def epoch_of(speeds: Speeds, model: int, progress: float) -> int:
    """Number of completed epochs."""
    reached = progress * (1 + SLACK)
    low, high = 0, speeds.epochs[model]
    while low < high:
        middle = (low + high) // 2
        if speeds.epoch_end[model, middle] <= reached:
            low = middle + 1
        else:
            high = middle
    return low
