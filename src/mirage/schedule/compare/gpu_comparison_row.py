"""Rows of a comparison: measures of a scheduler on a workload, and means over workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

MEAN = "mean"
"""Workload name in a row with the mean over all workloads."""

BUSY_JOBS = 5
"""Decisions with fewer active jobs say little about a policy's time; they count only if there are no others."""


@dataclass(frozen=True, slots=True)
class GpuComparisonRow:
    """Measures of one scheduler on one workload.

    Attributes:
        workload: Name of the workload, ``MEAN`` for the mean over all.
        scheduler: The scheduler as the caller wrote it.
        mean_jct_s: Mean of the time from submission to completion.
        p99_jct_s: Its 99th percentile.
        mean_wait_s: Mean of the total time in the queue.
        makespan_s: From the first submission to the last completion.
        gpu_h: GPU-hours held.
        preemptions: Number of times that a job had to leave its GPUs.
        restarts: Starts after the first, and changes of size or location.
        lost_gpu_h: GPU-hours of work that was done again.
        overhead_gpu_h: GPU-hours held without work: starts, restarts, changes of size, saving.
        policy_ms: Median processor time of a decision with ``BUSY_JOBS`` active jobs; None for compiled schedulers.
        policy_p95_ms: Its 95th percentile.
        lent_server_h: Server-hours lent to other pools.
        breaches: Loans that were not returned in time.
        unmet_server_h: Server-hours of inference demand without an available server.
        late_requests: Share of the requests to inference that waited longer than the target; None without requests.
        late_unlent: The same if no server had been lent.
    """

    workload: str
    scheduler: str
    mean_jct_s: float
    p99_jct_s: float
    mean_wait_s: float
    makespan_s: float
    gpu_h: float
    preemptions: float
    lost_gpu_h: float
    policy_ms: float | None
    policy_p95_ms: float | None
    restarts: float = 0.0
    overhead_gpu_h: float = 0.0
    jobs: float = 0.0
    lent_server_h: float = 0.0
    breaches: float = 0.0
    unmet_server_h: float = 0.0
    late_requests: float | None = None
    late_unlent: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)


def policy_times_ms(
    policy_s: Sequence[tuple[float, int, float]], round_s: float | None = None
) -> tuple[float | None, float | None]:
    """Median and 95th percentile of a policy's processor time, in ms; None without decisions.

    Args:
        policy_s: For every decision the simulated time, the number of active jobs and the processor seconds.
        round_s: Seconds between rounds, if the policy has rounds. Then only decisions at rounds count, not those
            between them.
    """
    counted = [entry for entry in policy_s if round_s is None or entry[0] % round_s == 0]
    busy = [seconds for _, jobs, seconds in counted if jobs >= BUSY_JOBS] or [seconds for *_, seconds in counted]
    if not busy:
        return None, None
    return float(np.median(busy)) * 1e3, float(np.percentile(busy, 95)) * 1e3


def mean_rows(rows: Sequence[GpuComparisonRow], workloads: int) -> list[GpuComparisonRow]:
    """A row per scheduler with the mean over all workloads; empty for a single workload.

    A scheduler without a row for some workload gets no mean, as it could not be compared.

    Args:
        rows: The rows of all trials.
        workloads: Number of workloads to be played under every scheduler.
    """
    if workloads < 2:
        return []
    schedulers = dict.fromkeys(row.scheduler for row in rows)
    played = [[row for row in rows if row.scheduler == scheduler] for scheduler in schedulers]
    return [_mean(of_one) for of_one in played if len(of_one) == workloads]


def _mean(rows: Sequence[GpuComparisonRow]) -> GpuComparisonRow:
    names = [f.name for f in fields(GpuComparisonRow) if f.name not in ("workload", "scheduler")]
    means: dict[str, Any] = {}
    for name in names:
        values = [getattr(row, name) for row in rows]
        known = [value for value in values if value is not None]
        means[name] = float(np.mean(known)) if known else None
    return GpuComparisonRow(workload=MEAN, scheduler=rows[0].scheduler, **means)
