"""The arrays of a world's speeds: measured step times, gradient noise, limits of batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LINEAR = -1
"""The model of a job of which nothing was measured: its work is in GPU-seconds, and every GPU does as much."""

NO_TABLE = -1
"""The row of a placement on which a model cannot run."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Speeds(NamedTuple):
    """Speeds of all models on all GPU types of one cluster.

    A *row* holds the step times of one model on so many GPUs of one type in so many servers, by *local batch*, the
    samples that one GPU takes at once. A *batch* is what all GPUs take between two updates of the model.
    """

    type_speed: Floats  # (types,): of one GPU under the linear law
    rows: Ints  # (models, types, servers, GPUs): the row of a placement; servers and GPUs count from 1
    knots: Ints  # (rows,): local batches measured
    local_batch: Floats  # (rows, knots), ascending
    step_s: Floats  # (rows, knots): seconds of a step, the exchange of gradients included
    sync_s: Floats  # (rows, knots): seconds of a step in which gradients are exchanged
    row_max_local: Ints  # (rows,): the most samples a GPU takes at once on this placement
    memory_max_local: Ints  # (models, types, GPUs): the same by GPUs alone; no limit where nothing was measured
    min_local: Ints  # (models, types)
    max_local: Ints  # (models, types): the most samples on any placement
    one_gpu_rate: Floats  # (models, types): most samples a second on one GPU, roughly; between types, a ratio
    init_batch: Ints  # (models,)
    max_batch: Ints  # (models,)
    slowdown: Floats  # (models,): how much slower a real run is than its measured steps
    restart_s: Floats  # (models,): expected seconds lost at a start, a restart or a resize
    epochs: Ints  # (models,)
    epoch_end: Floats  # (models, epochs): progress at the end of each epoch; inf beyond the last
    noise_knots: Ints  # (models,): batches whose gradient noise was measured
    noise_batch: Floats  # (models, knots), ascending
    grad_sqr: Floats  # (models, knots, epochs): squared norm of the gradient
    grad_var: Floats  # (models, knots, epochs): variance of the gradient at the first batch


def runs_on(speeds: Speeds, model: Ints) -> NDArray[np.bool_]:
    """Whether jobs of these models can run on each GPU type, shape (jobs, types); under the linear law on all."""
    measured = (speeds.rows != NO_TABLE).any(axis=(2, 3))
    linear = np.ones((1, len(speeds.type_speed)), np.bool_)
    return np.concatenate([measured, linear])[model]


def linear_speeds(type_speed: Floats) -> Speeds:
    """Speeds of a world in which nothing was measured.

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
