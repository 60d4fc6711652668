"""Workloads of Pollux and Sia: a CSV of jobs with model, number of workers and batch."""

from __future__ import annotations

from functools import cache

import numpy as np

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.workload.gpu_jobs import ANY_POOL, GpuJobs
from mirage.schedule.workload.usual_run import usual_run_s
from mirage.schedule.workload.workload_rows import WorkloadRow, row_types

HEADER = ("name", "time", "application", "num_replicas", "batch_size")

MOST_GPUS = 64
"""Largest number of GPUs that the published comparison gives to one job."""

RIGID, SCALE_GPUS, ADAPTIVE = "rigid", "scale-gpus", "adaptive"
"""Kinds of jobs in the optional column ``category``; a rigid job runs only on the number of GPUs that it requests.

Jobs of ``SCALE_GPUS`` change their GPUs but not their batch. The engine cannot hold a batch constant, so they are
refused.
"""


def read_sia_csv(rows: list[WorkloadRow], profiles: Profiles, cluster: GpuCluster) -> GpuJobs:
    """Jobs of a Sia workload; their work follows from their model, not from their request.

    ``run_s`` is the run time of a job alone, with the GPUs and the batch that it requests, packed on its usual type.
    Schedulers by run times use it.

    Raises:
        ConfigurationError: A row cannot be used.
        UnknownName: A row names a model that has no profile.
    """
    if not profiles.models:
        raise ConfigurationError(f"{rows[0].path}: its jobs name models and need their profiles; give --profiles DIR")
    speeds = profiles.speeds
    rows = sorted(rows, key=lambda row: row.number("time", least=0))
    models = np.array([_model(row, profiles.models) for row in rows])
    gpus = np.array([row.integer("num_replicas", least=1) for row in rows])
    batch = np.array([row.integer("batch_size", least=1) for row in rows])
    rigid = np.array([_category(row) == RIGID for row in rows])
    most = np.minimum(speeds.max_batch // speeds.min_local.max(axis=1), MOST_GPUS)[models]

    @cache
    def alone_s(model: int, gpus: int, batch: int) -> float:
        return usual_run_s(profiles, cluster, model, gpus, batch, speed_law.work(speeds, model))

    return GpuJobs(
        id=np.arange(len(rows)),
        name=tuple(row["name"] for row in rows),
        submit_s=np.array([row.number("time") for row in rows]),
        model=models,
        gpus=gpus,
        min_gpus=np.where(rigid, gpus, 1),
        max_gpus=np.where(rigid, gpus, np.maximum(most, gpus)),
        batch=batch,
        work=np.array([speed_law.work(speeds, int(m)) for m in models]),
        run_s=np.array([alone_s(int(m), int(g), int(b)) for m, g, b in zip(models, gpus, batch)]),
        estimate_s=np.full(len(rows), np.nan),
        restart_s=speeds.restart_s[models],
        pool=np.full(len(rows), ANY_POOL),
        types=row_types(rows, cluster),
        save_s=np.zeros(len(rows)),
        checkpoint_s=np.full(len(rows), np.inf),
        epochs=np.zeros(len(rows), np.int64),
        models=profiles.models,
    )


def _category(row: WorkloadRow) -> str:
    category = row.get("category") or ADAPTIVE
    if category not in (RIGID, SCALE_GPUS, ADAPTIVE):
        raise UnknownName(f"category in {row.path}:{row.line}:", category, (RIGID, ADAPTIVE))
    if category == SCALE_GPUS:
        raise ConfigurationError(
            f"{row.path}:{row.line}: category is {SCALE_GPUS}, but a job that changes its GPUs and not its batch "
            f"cannot be played; give {RIGID} or {ADAPTIVE}, or remove the line"
        )
    return category


def _model(row: WorkloadRow, models: tuple[str, ...]) -> int:
    name = row["application"]
    if name not in models:
        raise UnknownName(f"model in {row.path}:{row.line}, which has no profile:", name, models)
    return models.index(name)
