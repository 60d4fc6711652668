"""The arrays of a world's speeds: measured step times, gradient noise, limits of batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LINEAR = -1
"""The model of a job without measurements: its work is in GPU-seconds, and all its GPUs do equal work."""

NO_TABLE = -1
"""The row of a placement on which a model cannot run."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Speeds(NamedTuple):
    """Speeds of all models on all GPU types of one cluster.

    A *row* holds the step times of one model on one placement, a number of GPUs of one type on a number of servers, by
    *local batch*: the samples that one GPU processes at once. A *batch* is the samples of all GPUs between two updates
    of the model.
    """

    type_speed: Floats  # (types,): speed of one GPU under the linear law
    rows: Ints  # (models, types, servers, GPUs): the row of a placement; servers and GPUs count from 1
    knots: Ints  # (rows,): local batches measured
    local_batch: Floats  # (rows, knots), ascending
    step_s: Floats  # (rows, knots): seconds of a step, the exchange of gradients included
    sync_s: Floats  # (rows, knots): seconds of a step in which gradients are exchanged
    row_max_local: Ints  # (rows,): maximum local batch on this placement
    memory_max_local: Ints  # (models, types, GPUs): the same by number of GPUs only; no limit without measurements
    min_local: Ints  # (models, types)
    max_local: Ints  # (models, types): maximum local batch on any placement
    one_gpu_rate: Floats  # (models, types): approximate maximum of samples/s on one GPU; used as a ratio of types
    init_batch: Ints  # (models,)
    max_batch: Ints  # (models,)
    slowdown: Floats  # (models,): real step time over measured step time
    restart_s: Floats  # (models,): expected seconds lost at a start, a restart or a resize
    epochs: Ints  # (models,)
    epoch_end: Floats  # (models, epochs): progress at the end of each epoch; inf beyond the last
    noise_knots: Ints  # (models,): number of batches with measured gradient noise
    noise_batch: Floats  # (models, knots), ascending
    grad_sqr: Floats  # (models, knots, epochs): squared norm of the gradient
    grad_var: Floats  # (models, knots, epochs): variance of the gradient at the first batch


def runs_on(speeds: Speeds, model: Ints) -> NDArray[np.bool_]:
    """Whether jobs of these models can run on each GPU type, shape (jobs, types).

    Jobs under the linear law run on all types.
    """
    measured = (speeds.rows != NO_TABLE).any(axis=(2, 3))
    linear = np.ones((1, len(speeds.type_speed)), np.bool_)
    return np.concatenate([measured, linear])[model]


def linear_speeds(type_speed: Floats) -> Speeds:
    """Speeds of a world without measurements.

    Args:
        type_speed: Speed of one GPU of every type, shape (types,).
    """
    types = len(type_speed)
    i, f = np.int64, np.float64
    return Speeds(
        type_speed=np.asarray(type_speed, dtype=f),
        rows=np.full((0, types, 1, 1), NO_TABLE, i),
        knots=np.zeros(0, i),
        local_batch=np.zeros((0, 1), f),
        step_s=np.zeros((0, 1), f),
        sync_s=np.zeros((0, 1), f),
        row_max_local=np.zeros(0, i),
        memory_max_local=np.zeros((0, types, 1), i),
        min_local=np.zeros((0, types), i),
        max_local=np.zeros((0, types), i),
        one_gpu_rate=np.zeros((0, types), f),
        init_batch=np.zeros(0, i),
        max_batch=np.zeros(0, i),
        slowdown=np.zeros(0, f),
        restart_s=np.zeros(0, f),
        epochs=np.zeros(0, i),
        epoch_end=np.zeros((0, 1), f),
        noise_knots=np.zeros(0, i),
        noise_batch=np.zeros((0, 1), f),
        grad_sqr=np.zeros((0, 1, 1), f),
        grad_var=np.zeros((0, 1, 1), f),
    )
