"""Workloads of gangs: a CSV of GPU jobs with epochs and costs of preemption.

Times are in seconds, and ``run_s`` is the run time on the requested GPUs at speed 1. A job writes a checkpoint at the
end of every epoch: ``checkpoint_every_s`` is the length of an epoch, by default ``run_s`` divided by ``epochs``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from mirage.errors import TraceError, shown
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.workload_rows import WorkloadRow, row_types
from mirage.trace.formats.job_table_csv import COLUMNS as JOB_TABLE_COLUMNS

HEADER = ("job_id", "submit_s", "run_s", "gpus")

OPTIONAL = (
    "gpus_min", "gpus_max", "gpu_types", "model", "epochs", "checkpoint_every_s", "save_s", "restart_s", "limit_s",
)  # fmt: skip


def read_gang_csv(rows: list[WorkloadRow], cluster: GpuCluster) -> GpuJobs:
    """Jobs of a gang workload.

    An empty cell has the default of its column: no elasticity, no regular checkpoint, no cost, no time limit. The time
    limit is the run time that the user of a job expects.

    Raises:
        TraceError: A column is missing or unknown, or a row cannot be used; the message begins with ``file:line:``.
    """
    _check_columns(rows[0])
    _refuse_twice(rows)
    rows = sorted(rows, key=lambda row: row.number("submit_s", least=0))
    gpus = [row.integer("gpus", least=1) for row in rows]
    return GpuJobs.linear(
        [row.number("submit_s", least=0) for row in rows],
        gpus,
        [row.positive("run_s") for row in rows],
        min_gpus=[_width(row, "gpus_min", 1, given) for row, given in zip(rows, gpus)],
        max_gpus=[_width(row, "gpus_max", given, given) for row, given in zip(rows, gpus)],
        estimate_s=[_limit_s(row) for row in rows],
        restart_s=[_cost_s(row, "restart_s") for row in rows],
        save_s=[_cost_s(row, "save_s") for row in rows],
        checkpoint_s=[_checkpoint_s(row) for row in rows],
        epochs=[_epochs(row) for row in rows],
        types=row_types(rows, cluster),
        name=tuple(row["job_id"] for row in rows),
    )


def is_gang_header(columns: Collection[str]) -> bool:
    """Whether columns are those of a gang workload, though some may be missing."""
    found = set(columns)
    return set(HEADER) <= found or len(found & {*HEADER, *OPTIONAL}) > max(2, len(found & set(JOB_TABLE_COLUMNS)))


def _check_columns(row: WorkloadRow) -> None:
    """Refuse missing columns, and those that would be ignored, such as ``save_ms``."""
    known: Sequence[str] = (*HEADER, *OPTIONAL)
    missing = [column for column in HEADER if column not in row.cells]
    unknown = [column for column in row.cells if column not in known]
    if missing:
        renamed = f"; rename {shown(unknown[0])} if it is that column" if len(missing) == len(unknown) == 1 else ""
        raise TraceError(
            f"{row.path}:1: no column {' and no column '.join(missing)}, which GPU jobs need{renamed or '; add it'}"
        )
    if unknown:
        raise TraceError(
            f"{row.path}:1: unknown column {shown(unknown[0])}; the columns are {', '.join(known)}, all times in "
            "seconds: rename or remove it"
        )


def _refuse_twice(rows: Sequence[WorkloadRow]) -> None:
    lines: dict[str, int] = {}
    for row in rows:
        first = lines.setdefault(row["job_id"], row.line)
        if first != row.line:
            raise TraceError(
                f"{row.path}:{row.line}: job_id is {shown(row['job_id'])}, as in line {first}; give each job its own"
            )


def _width(row: WorkloadRow, column: str, least: int, default: int) -> int:
    if not row.get(column):
        return default
    width, gpus = row.integer(column, least), row.integer("gpus", least=1)
    if column == "gpus_min" and width > gpus:
        raise TraceError(
            f"{row.path}:{row.line}: gpus_min is {width}, but the job requests {gpus}; give {gpus} or less"
        )
    return width


def _cost_s(row: WorkloadRow, column: str) -> float:
    return row.number(column, least=0) if row.get(column) else 0.0


def _limit_s(row: WorkloadRow) -> float:
    if not row.get("limit_s"):
        return math.nan
    limit_s, run_s = row.positive("limit_s"), row.positive("run_s")
    if limit_s < run_s:
        raise TraceError(
            f"{row.path}:{row.line}: limit_s is {limit_s:g}, but the job runs for {run_s:g} s; give both in seconds"
        )
    return limit_s


def _epochs(row: WorkloadRow) -> int:
    return row.integer("epochs", least=1) if row.get("epochs") else 0


def _checkpoint_s(row: WorkloadRow) -> float:
    """Run time between two checkpoints; infinite without epochs."""
    run_s = row.positive("run_s")
    epochs = _epochs(row)
    if not row.get("checkpoint_every_s"):
        return run_s / epochs if epochs else math.inf
    every_s = row.positive("checkpoint_every_s")
    if epochs and not (epochs - 1) * every_s < run_s < (epochs + 1) * every_s:
        raise TraceError(
            f"{row.path}:{row.line}: {epochs} epochs of checkpoint_every_s {every_s:g} are not run_s {run_s:g}; give "
            "both in seconds, or leave one of the columns empty"
        )
    return every_s
