"""Workloads from any job table that ``mirage.trace`` reads."""

from __future__ import annotations

import os

import numpy as np

from mirage.duration import UNLIMITED_S
from mirage.errors import TraceError, UnknownFormat
from mirage.schedule.workload import philly_csv, sia_csv
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable


def read_job_table(path: str | os.PathLike[str]) -> tuple[GpuJobs, dict[str, int]]:
    """Jobs of a trace, and the number left out by reason; time starts at the first job.

    A job requests its GPUs. If no job of the trace has GPUs, it requests one GPU per node, or per CPU if no job has
    nodes. Its time limit is the run time that its user expects. Traces made by ``mirage trace generate`` also work.

    Raises:
        TraceError: The file cannot be read, or no job has a run time.
    """
    table = _read(path)
    widths = [column for column in (table.gpus, table.nodes, table.cpus) if (column > 0).any()]
    gpus = widths[0] if widths else np.zeros(len(table), dtype=np.int64)
    reasons = {
        "no time of submission": table.submit_s < 0,
        "no run time": table.run_s <= 0,
        "no GPU": gpus <= 0,
    }
    if not len(table):
        raise TraceError(f"{path}: it has no jobs; check the command that wrote it")
    bad = np.logical_or.reduce(list(reasons.values()))
    if bad.all():
        counts = ", ".join(f"{int(where.sum())} {reason}" for reason, where in reasons.items() if where.any())
        raise TraceError(f"{path}: none of its {len(table)} jobs can be run: {counts}; give a trace with run times")
    ran = table[~bad]
    limited = (ran.limit_s > 0) & (ran.limit_s < UNLIMITED_S)
    jobs = GpuJobs.linear(
        ran.submit_s - ran.submit_s.min(),
        gpus[~bad],
        ran.run_s,
        estimate_s=np.where(limited, ran.limit_s, np.nan),
        name=tuple(str(name) for name in ran.job_id),
    )
    return jobs, {reason: int(where.sum()) for reason, where in reasons.items() if where.any()}


def _read(path: str | os.PathLike[str]) -> JobTable:
    try:
        return read_trace(path).table
    except UnknownFormat as error:
        raise TraceError(
            f"{path}:1: this is not a workload: a CSV begins with {','.join(sia_csv.HEADER)}, or with "
            f"{','.join(philly_csv.HEADER)}; 'mirage trace convert --columns' makes a job table from any other file"
        ) from error
