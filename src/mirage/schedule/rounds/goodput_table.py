"""Goodput table: goodput and value of each configuration for each job.

A type on which a job has not run is estimated from one on which it has: throughput(N, A) = throughput(1, A) /
throughput(1, B) · throughput(N, B), the first two from profiles of one GPU (Sia, SOSP'23, section 3.2). A job may at
most double the largest number of GPUs on which it has run. A job that has not run yet is offered its smallest number of
GPUs of every type on which it can run, all with equal goodput.

The value of a configuration is λ − G^p, where G is the job's goodput over its smallest possible goodput, less in
configurations other than the present one: they cost a restart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.kernel.compile import kernel
from mirage.schedule.rounds.configurations import Configurations, JobColumns
from mirage.schedule.rounds.goodput import best_batch
from mirage.schedule.rounds.throughput_history import ThroughputHistory
from mirage.schedule.speeds.speed_arrays import NO_TABLE, Speeds
from mirage.schedule.speeds.speed_law import max_local, table_row

BLIND = -1.0
"""Value in a row of a job without measurements, for configurations in which it could run."""

NOTHING = 1e-4
"""Goodput that represents none."""

_LARGEST_COST = 3000.0
_LEAST_AGE_S = 1e-6


class GoodputTable:
    """Goodput by job and configuration; computed again only for jobs with new data.

    Args:
        history: Throughput history of the jobs.
        most_gpus: No job gets more GPUs, unless its minimum is larger.
        bounded_by_user: Whether batches above the one that the user requested count as impossible, as in the published
            scheduler; the running job always chooses among all batches that its model allows.
        fairness: The power p of goodputs.
        waiting: λ, the cost of a job without GPUs.
        decimals: Digits to which powers of goodput are rounded; None for all.
    """

    def __init__(
        self,
        history: ThroughputHistory,
        most_gpus: int,
        bounded_by_user: bool,
        fairness: float,
        waiting: float,
        decimals: int | None,
    ) -> None:
        self._history, self._most_gpus, self._bounded_by_user = history, most_gpus, bounded_by_user
        self._fairness, self._waiting, self._decimals = fairness, waiting, decimals
        self._shapes: Configurations | None = None
        self._table: Floats

    def configuration_values(
        self,
        jobs: JobColumns,
        rows: Ints,
        user_batch: Ints,
        shapes: Configurations,
        present: Ints,
        age_s: Floats,
        restart_s: Floats,
    ) -> Floats:
        """Value of each configuration for each job, relative to none; (jobs, configurations).

        Args:
            jobs: All active jobs.
            rows: Rows of the jobs in the throughput history.
            user_batch: Total batch that the user requested.
            shapes: The configurations.
            present: Present configuration of each job; −1 for none.
            age_s: Time since the submission of each job.
            restart_s: Assumed cost of a restart of each job.
        """
        relative = self.relative_goodput(jobs, rows, user_batch, shapes)
        # the assumed share of goodput that remains to a job if it restarts now
        share = np.maximum(age_s - jobs.restarts * restart_s, 0.0) / np.maximum(age_s + restart_s, _LEAST_AGE_S)
        share = np.where(age_s < restart_s, 1.0, share)
        held = np.flatnonzero(present >= 0)
        stays = relative[held, present[held]].copy()
        relative[held] *= share[held, None]
        relative[held, present[held]] = stays
        np.maximum(relative, 1e-12, out=relative)
        cost = relative**self._fairness
        if self._decimals is not None:
            cost = np.round(cost, self._decimals)
        value: Floats = self._waiting - np.minimum(cost, _LARGEST_COST)
        return value

    def relative_goodput(self, jobs: JobColumns, rows: Ints, user_batch: Ints, shapes: Configurations) -> Floats:
        """Goodput of each job over its smallest possible goodput.

        If nothing is known, it is 1 per GPU on the smallest number of GPUs.
        """
        measured = jobs.model >= 0
        goodput = np.zeros((len(jobs.id), len(shapes)))
        goodput[measured] = self.goodput(
            rows[measured],
            jobs.model[measured],
            user_batch[measured],
            jobs.min_gpus[measured],
            jobs.max_gpus[measured],
            shapes,
        )
        linear = np.flatnonzero(~measured)
        if len(linear):
            fits = (shapes.gpus >= jobs.min_gpus[linear, None]) & (shapes.gpus <= jobs.max_gpus[linear, None])
            rate = shapes.gpus * self._history.speeds.type_speed[shapes.gpu_type[shapes.kind]]
            goodput[linear] = np.where(fits, rate, 0.0)
        elsewhere = (jobs.pool[:, None] >= 0) & (shapes.pool[shapes.kind] != jobs.pool[:, None])
        goodput[elsewhere] = 0.0
        blind: NDArray[np.bool_] = np.any(goodput < 0, axis=1)
        least: Floats = np.where(goodput > NOTHING, goodput, np.inf).min(axis=1)
        least = np.where(np.isinf(least), 1.0, least)
        # the smallest goodput of a job that needs n GPUs counts as n
        least /= jobs.min_gpus
        unmeasured = np.where(goodput < 0, jobs.min_gpus[:, None], NOTHING)
        relative: Floats = np.where(blind[:, None], unmeasured, goodput / least[:, None])
        return np.maximum(relative, NOTHING)

    def goodput(
        self, rows: Ints, model: Ints, user_batch: Ints, min_gpus: Ints, max_gpus: Ints, shapes: Configurations
    ) -> Floats:
        """Goodput of each job in each configuration, shape (jobs, configurations).

        It is 0 where a job cannot or may not run, and ``BLIND`` on its smallest number of GPUs if nothing is known.

        Args:
            rows: Rows of the jobs in the throughput history.
            model: Model of each job.
            user_batch: Total batch that the user requested.
            min_gpus: Smallest number of GPUs of each job.
            max_gpus: Largest number of GPUs of each job.
            shapes: The configurations.
        """
        known = self._history.known
        if shapes is not self._shapes:
            self._per_server = np.ones(self._history.types, np.int64)
            np.maximum.at(self._per_server, shapes.gpu_type, shapes.gpus_per_server)
        if shapes is not self._shapes or len(self._table) < len(known.square):
            self._shapes = shapes
            self._table = np.zeros((len(known.square), len(shapes)))
            self._versions = np.zeros((len(known.square), 3), np.int64)
        most_batch = user_batch if self._bounded_by_user else self._history.speeds.max_batch[model]
        _goodput(
            known,
            self._history.speeds,
            rows,
            self._history.learnt(rows, model),
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

    def batches(self, rows: Ints, model: Ints, gpu_type: Ints, servers: Ints, gpus: Ints) -> Ints:
        """The total batch with the best goodput of each job on its placement.

        It is the smallest usual one if nothing is known.
        """
        batch = np.zeros(len(rows), np.int64)
        history = self._history
        learnt = history.learnt(rows, model)
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
