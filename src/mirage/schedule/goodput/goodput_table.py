"""Goodput table: the goodput of each job in each configuration, from its measurements.

A type on which a job has not run is estimated from one on which it has: throughput(N, A) = throughput(1, A) /
throughput(1, B) · throughput(N, B), the first two from profiles of one GPU (Sia, SOSP'23, section 3.2). A job may at
most double the largest number of GPUs on which it has run. A job that has not run yet is offered its smallest number of
GPUs of every type on which it can run, all with equal goodput.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.kernel.compile import kernel
from mirage.schedule.goodput.best_batch import best_batch
from mirage.schedule.goodput.configurations import Configurations
from mirage.schedule.goodput.throughput_history import ThroughputHistory
from mirage.schedule.speeds.speed_arrays import NO_TABLE, Speeds
from mirage.schedule.speeds.speed_law import max_local, table_row

BLIND = -1.0
"""Value in a row of a job without measurements, for configurations in which it could run."""


class GoodputTable:
    """Goodput by job and configuration; computed again only for jobs with new data.

    Args:
        history: Throughput history of the jobs.
        shapes: The configurations.
        most_gpus: No job gets more GPUs, unless its minimum is larger.
        bounded_by_user: Whether batches above the one that the user requested count as impossible, as in the published
            scheduler; the running job always chooses among all batches that its model allows.
    """

    def __init__(
        self, history: ThroughputHistory, shapes: Configurations, most_gpus: int, bounded_by_user: bool
    ) -> None:
        self._history, self._shapes = history, shapes
        self._most_gpus, self._bounded_by_user = most_gpus, bounded_by_user
        self._forget(0)
        per_server = np.ones(history.types, np.int64)
        np.maximum.at(per_server, shapes.gpu_type, shapes.gpus_per_server)
        self._per_server = per_server

    def goodput(
        self, rows: Ints, model: Ints, user_batch: Ints, learnt: Ints, min_gpus: Ints, max_gpus: Ints
    ) -> Floats:
        """Goodput of each job in each configuration, shape (jobs, configurations).

        It is 0 where a job cannot or may not run, and ``BLIND`` on its smallest number of GPUs if nothing is known.

        Args:
            rows: Rows of the jobs in the throughput history.
            model: Model of each job.
            user_batch: Total batch that the user requested.
            learnt: Rows with the throughput models that apply to the jobs.
            min_gpus: Smallest number of GPUs of each job.
            max_gpus: Largest number of GPUs of each job.
        """
        known, shapes = self._history.known, self._shapes
        if len(self._table) < len(known.square):
            self._forget(len(known.square))
        most_batch = user_batch if self._bounded_by_user else self._history.speeds.max_batch[model]
        _goodput(
            known,
            self._history.speeds,
            rows,
            learnt,
            model,
            most_batch,
            min_gpus,
            max_gpus,
            shapes.gpu_type[shapes.kind],
            shapes.servers,
            shapes.gpus,
            self._per_server,
            self._most_gpus,
            self._table,
            self._versions,
        )
        return self._table[rows]

    def _forget(self, rows: int) -> None:
        self._table = np.zeros((rows, len(self._shapes)))
        self._versions = np.zeros((rows, 3), np.int64)

    def batches(self, rows: Ints, learnt: Ints, model: Ints, gpu_type: Ints, servers: Ints, gpus: Ints) -> Ints:
        """The total batch with the best goodput of each job on its placement.

        It is the smallest usual one if nothing is known.
        """
        batch = np.zeros(len(rows), np.int64)
        history = self._history
        _batches(history.known, history.speeds, rows, learnt, model, gpu_type, servers, gpus, batch)
        return batch


@kernel()
def _goodput(
    known: Any,
    speeds: Speeds,
    rows: Any,
    learnt: Any,
    model: Any,
    most_batch: Any,
    min_gpus: Any,
    max_gpus: Any,
    gpu_type: Any,
    servers: Any,
    gpus: Any,
    per_server: Any,
    most_gpus: int,
    table: Any,
    versions: Any,
) -> None:
    types = known.measured.shape[1]
    for i in range(len(rows)):
        r, w, m = rows[i], learnt[i], model[i]
        if versions[r, 0] == known.noted[r] and versions[r, 1] == known.version[w] and versions[r, 2] == w + 1:
            continue
        versions[r, 0], versions[r, 1], versions[r, 2] = known.noted[r], known.version[w], w + 1
        source = -1
        most = 0
        fewest = min_gpus[i]
        for t in range(types):
            if speeds.max_local[m, t] == 0:  # it was not measured there
                continue
            if known.measured[w, t] > 0 and source < 0:
                source = t
            allowed = min(max(2 * known.most_gpus[w], fewest), speeds.max_batch[m] // speeds.min_local[m, t])
            most = max(most, min(allowed, max(most_gpus, fewest), max_gpus[i]))
        for c in range(len(gpus)):
            here = gpu_type[c]
            table[r, c] = 0.0
            if table_row(speeds, m, here, servers[c], gpus[c]) == NO_TABLE:
                continue
            if source < 0 or not known.square[r] > 0:
                table[r, c] = BLIND if gpus[c] == fewest else 0.0
                continue
            if gpus[c] < fewest or gpus[c] > most:
                continue
            there = here if known.measured[w, here] > 0 else source
            spread = servers[c] if here == there else -(-gpus[c] // per_server[there])
            found, _, _ = best_batch(
                known.parameters[w, there],
                known.square[r],
                known.variance[r],
                spread,
                gpus[c],
                speeds.init_batch[m],
                float(most_batch[i]),
                speeds.min_local[m, there],
                speeds.max_local[m, there],
            )
            table[r, c] = found * speeds.one_gpu_rate[m, here] / speeds.one_gpu_rate[m, there]


@kernel()
def _batches(
    known: Any, speeds: Speeds, rows: Any, learnt: Any, model: Any, gpu_type: Any, servers: Any, gpus: Any, batch: Any
) -> None:
    for i in range(len(rows)):
        r, w, m, t = rows[i], learnt[i], model[i], gpu_type[i]
        first, least = speeds.init_batch[m], speeds.min_local[m, t]
        batch[i] = max(first, least * gpus[i])
        if known.measured[w, t] == 0 or not known.square[r] > 0:
            continue
        found, local, passes = best_batch(
            known.parameters[w, t],
            known.square[r],
            known.variance[r],
            servers[i],
            gpus[i],
            first,
            float(speeds.max_batch[m]),
            least,
            max_local(speeds, m, t, servers[i], gpus[i]),
        )
        if found > 0:
            batch[i] = gpus[i] * local * (passes + 1)
