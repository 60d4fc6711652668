"""Workloads of Gavel: a job trace, and measured throughputs by job kind and GPU type."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.speeds.speed_arrays import NO_TABLE, Speeds
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, ANY_POOL, GpuJobs
from mirage.schedule.workload.usual_run import usual_run_s
from mirage.schedule.workload.workload_rows import WorkloadRow, read_text

COLUMNS = ("kind", "command", "folder", "steps_flag", "needs_data", "steps", "scale", "weight", "slo", "time")
"""The ten columns of a trace, which has no header; ``scale`` is the number of workers."""

SPREAD = "_unconsolidated"
"""Suffix of a GPU type's name: workers on several servers."""

RESTART_S = 20.0
"""Seconds that a start or restart costs: an assumption, as no value was published with the traces."""

_Kinds = dict[str, dict[tuple[str, int], float]]


def read_gavel_throughputs(path: str | os.PathLike[str], cluster: GpuCluster) -> Profiles:
    """Speeds from a table of throughputs in steps per second.

    The table is by GPU type, kind of job and number of workers. Each kind with a number of workers is a model of its
    own, which runs on that number of GPUs: ``ResNet-18 (batch size 16) x4``.

    Raises:
        ConfigurationError: The table cannot be read, or has none of the cluster's GPU types.
    """
    table = _read_table(path)
    known = [gpu_type for gpu_type in cluster.gpu_types if gpu_type in table]
    if not known:
        raise ConfigurationError(
            f"{path}: it has {', '.join(_types(table))}; the cluster has {', '.join(cluster.gpu_types)}: name the GPU "
            "types of the cluster as in the table"
        )
    kinds = sorted({kind for gpu_type in known for kind in table[gpu_type]})
    most_gpus = max(gpus for _, gpus in kinds)
    at = np.full((len(kinds), len(cluster.gpu_types), 2, most_gpus), NO_TABLE)
    step_s: list[float] = []
    for k, (name, gpus) in enumerate(kinds):
        for t, gpu_type in enumerate(cluster.gpu_types):
            for spread in range(2):
                rate = table.get(gpu_type + SPREAD * spread, {}).get((name, gpus), 0.0)
                if rate > 0 and gpus > spread:
                    at[k, t, spread, gpus - 1] = len(step_s)
                    step_s.append(1 / rate)
    speeds = _fixed_batch_speeds(at, np.array(step_s), np.array(list(cluster.type_speeds().values())))
    return Profiles(tuple(_model_name(name, gpus) for name, gpus in kinds), speeds)


def types_in_throughputs(path: str | os.PathLike[str]) -> set[str]:
    """The GPU types of a table of throughputs."""
    return set(_types(_read_table(path)))


def read_gavel_trace(rows: list[WorkloadRow], profiles: Profiles, cluster: GpuCluster) -> GpuJobs:
    """Jobs of a Gavel trace; their work is in steps, ``run_s`` its duration on the usual type."""
    if not profiles.models:
        raise ConfigurationError(f"{rows[0].path}: its jobs need throughputs; give --profiles FILE.json")
    rows = sorted(rows, key=lambda row: row.number("time", least=0))
    gpus = np.array([row.integer("scale", least=1) for row in rows])
    models = np.array([_model(row, profiles.models) for row in rows])
    steps = np.array([row.positive("steps") for row in rows])

    @cache
    def step_s(model: int, gpus: int) -> float:
        return usual_run_s(profiles, cluster, model, gpus, gpus, 1.0)

    return GpuJobs(
        id=np.arange(len(rows)),
        name=tuple(str(k) for k in range(len(rows))),
        submit_s=np.array([row.number("time") for row in rows]),
        model=models,
        gpus=gpus,
        min_gpus=gpus,
        max_gpus=gpus,
        batch=gpus.copy(),
        work=steps,
        run_s=steps * np.array([step_s(int(m), int(g)) for m, g in zip(models, gpus)]),
        estimate_s=np.full(len(rows), np.nan),
        restart_s=np.full(len(rows), RESTART_S),
        pool=np.full(len(rows), ANY_POOL),
        types=np.full(len(rows), ALL_TYPES),
        save_s=np.zeros(len(rows)),
        checkpoint_s=np.full(len(rows), np.inf),
        epochs=np.zeros(len(rows), np.int64),
        models=profiles.models,
    )


def _read_table(path: str | os.PathLike[str]) -> _Kinds:
    try:
        table: Any = json.loads(read_text(path))
        return {gpu_type: dict(_alone(kinds)) for gpu_type, kinds in table.items()}
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a table of throughputs ({error}); give Gavel's JSON") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path}: not a table of throughputs, which has for each GPU type the models and their speeds; give "
            "Gavel's JSON"
        ) from error


def _types(table: _Kinds) -> list[str]:
    return [name for name in table if not name.endswith(SPREAD)]


def _alone(kinds: dict[str, dict[str, Any]]) -> list[tuple[tuple[str, int], float]]:
    """Throughput of every kind without another job on its GPUs."""
    found = []
    for label, rates in kinds.items():
        match = re.fullmatch(r"\('(.+)', (\d+)\)", label)
        if match is None:
            raise ValueError(f"{label!r} is not ('KIND', WORKERS)")
        found.append(((match[1], int(match[2])), float(rates["null"])))
    return found


def _model_name(kind: str, gpus: int) -> str:
    return f"{kind} x{gpus}"


def _model(row: WorkloadRow, models: tuple[str, ...]) -> int:
    name = _model_name(row["kind"], row.integer("scale", least=1))
    if name not in models:
        raise UnknownName(f"kind of job in {row.path}:{row.line}, which has no throughput:", name, models)
    return models.index(name)


def _fixed_batch_speeds(at: Any, step_s: Floats, type_speed: Floats) -> Speeds:
    """Speeds of models with one batch per GPU and the same progress at every step."""
    models, types, _, gpus = at.shape
    rows = len(step_s)
    return Speeds(
        type_speed=type_speed,
        rows=at,
        knots=np.ones(rows, dtype=np.int64),
        local_batch=np.ones((rows, 1)),
        step_s=step_s[:, None],
        sync_s=np.zeros((rows, 1)),
        row_max_local=np.ones(rows, dtype=np.int64),
        memory_max_local=np.ones((models, types, gpus), dtype=np.int64),
        min_local=np.ones((models, types), dtype=np.int64),
        max_local=np.ones((models, types), dtype=np.int64),
        one_gpu_rate=np.ones((models, types)),
        init_batch=np.ones(models, dtype=np.int64),
        max_batch=np.full(models, gpus),
        slowdown=np.ones(models),
        restart_s=np.full(models, RESTART_S),
        epochs=np.ones(models, dtype=np.int64),
        epoch_end=np.full((models, 1), np.inf),
        noise_knots=np.ones(models, dtype=np.int64),
        noise_batch=np.ones((models, 1)),
        grad_sqr=np.ones((models, 1, 1)),
        grad_var=np.zeros((models, 1, 1)),
    )
