"""Workloads of Microsoft's Philly trace: submission, run time, GPUs and virtual cluster."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from mirage.errors import TraceError, shown
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.workload_rows import WorkloadRow, row_types

HEADER = ("timestamp", "duration", "num_gpus")


def read_philly_csv(rows: list[WorkloadRow], cluster: GpuCluster) -> tuple[GpuJobs, dict[str, int]]:
    """Jobs of a Philly trace, and the number left out by reason; time starts at the first.

    An optional column ``gpu_types`` names the types that a job may run on.
    """
    ran = [row for row in rows if row.number("duration", least=0) > 0 and row.number("num_gpus") >= 1]
    if not ran:
        raise TraceError(f"{rows[0].path}: none of its {len(rows)} jobs has a run time and a GPU; check the file")
    submit_s = np.array([_time_s(row) for row in ran])
    jobs = GpuJobs.linear(
        submit_s - submit_s.min(),
        np.array([row.integer("num_gpus", least=1) for row in ran]),
        np.array([row.number("duration") for row in ran]),
        types=row_types(ran, cluster),
    )
    left_out = len(rows) - len(ran)
    return jobs, {"no run time or no GPU": left_out} if left_out else {}


def _time_s(row: WorkloadRow) -> float:
    """Seconds since 1970; a timestamp without a time zone is UTC, as only differences matter."""
    text = row["timestamp"]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TraceError(f"{row.path}:{row.line}: timestamp is {shown(text)}; give 2017-10-09 07:01:55") from error
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
