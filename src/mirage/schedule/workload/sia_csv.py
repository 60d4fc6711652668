"""Workloads of Pollux and Sia: a CSV of jobs, each a model, a number of workers and a batch."""

from __future__ import annotations

from functools import cache

import numpy as np

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.cluster import GpuCluster
from mirage.schedule.speeds import law
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.workload.jobs import ANY_POOL, GpuJobs
from mirage.schedule.workload.rows import Row
from mirage.schedule.workload.usual_run import usual_run_s

HEADER = ("name", "time", "application", "num_replicas", "batch_size")

MOST_GPUS = 64
"""The most GPUs that the published comparison gives one job."""

RIGID, SCALE_GPUS, ADAPTIVE = "rigid", "scale-gpus", "adaptive"
"""Kinds of jobs in the optional column ``category``; a rigid job runs on the GPUs it asks for alone.

Jobs of ``SCALE_GPUS`` keep their batch, which nothing here can hold them to; they are refused.
"""


def read_sia_csv(rows: list[Row], profiles: Profiles, cluster: GpuCluster) -> GpuJobs:
    """Jobs of a Sia workload. Their work follows from their model, whatever they ask for.

    ``run_s`` is the time that a job takes alone, at the GPUs and the batch that it asks for, packed on its usual type:
    what a scheduler by run times can go by.

    Raises:
        ConfigurationError: A row cannot be used.
        UnknownName: A row names a model that has no profile.
    """
    if not profiles.models:
        raise ConfigurationError(f"{rows[0].path}: its jobs name models; where are their profiles? --profiles DIR")
    speeds = profiles.speeds
    rows = sorted(rows, key=lambda row: row.number("time", least=0))
    models = np.array([_model(row, profiles.models) for row in rows], dtype=np.int64)
    gpus = np.array([row.integer("num_replicas", least=1) for row in rows], dtype=np.int64)
    batch = np.array([row.integer("batch_size", least=1) for row in rows], dtype=np.int64)
    rigid = np.array([_category(row) == RIGID for row in rows], dtype=np.bool_)
    most = np.minimum(speeds.max_batch // speeds.min_local.max(axis=1), MOST_GPUS)[models]

    @cache
    def alone_s(model: int, gpus: int, batch: int) -> float:
        return usual_run_s(profiles, cluster, model, gpus, batch, law.work(speeds, model))

    return GpuJobs(
        id=np.arange(len(rows), dtype=np.int64),
        name=tuple(row["name"] for row in rows),
        submit_s=np.array([row.number("time") for row in rows]),
        model=models,
        gpus=gpus,
        min_gpus=np.where(rigid, gpus, 1),
        max_gpus=np.where(rigid, gpus, np.maximum(most, gpus)),
        batch=batch,
        work=np.array([law.work(speeds, int(m)) for m in models]),
        run_s=np.array([alone_s(int(m), int(g), int(b)) for m, g, b in zip(models, gpus, batch, strict=True)]),
        estimate_s=np.full(len(rows), np.nan),
        restart_s=speeds.restart_s[models],
        pool=np.full(len(rows), ANY_POOL, dtype=np.int64),
        models=profiles.models,
    )


def _category(row: Row) -> str:
    category = row.get("category") or ADAPTIVE
    if category not in (RIGID, SCALE_GPUS, ADAPTIVE):
        raise UnknownName(f"category in {row.path}:{row.line}:", category, (RIGID, ADAPTIVE))
    if category == SCALE_GPUS:
        raise ConfigurationError(
            f"{row.path}:{row.line}: category is {SCALE_GPUS}, and a job that changes its GPUs but keeps its batch "
            f"cannot be played; give {RIGID} or {ADAPTIVE}, or remove the line"
        )
    return category


def _model(row: Row, models: tuple[str, ...]) -> int:
    name = row["application"]
    if name not in models:
        raise UnknownName(f"model in {row.path}:{row.line}, which has no profile:", name, models)
    return models.index(name)
