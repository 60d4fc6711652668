"""Inference demand over time: servers from a file, or with a daily shape."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.gpu_cluster import INFERENCE, TRAINING, GpuCluster
from mirage.schedule.workload.workload_rows import WorkloadRow, read_text, table_rows

HEADER = ("time_s", "pool", "servers")
"""Columns of a file of demand; ``announced_s`` and ``announced`` are optional."""

DAILY = "daily"
"""The demand with a daily shape, in place of a file."""

NOTICE_S = 300.0
"""Seconds before a change of demand at which it is announced."""

PEAK_S = 14 * 3600.0
"""Time of day of the largest demand, from the start of the workload."""


def read_demand(path: str | os.PathLike[str], cluster: GpuCluster) -> tuple[Demand, ...]:
    """Demand from a CSV with a header ``time_s,pool,servers``, in order of time.

    Raises:
        TraceError: A line cannot be used, or a column is missing; the message begins with the file.
        ConfigurationError: The file cannot be read.
    """
    file = os.fspath(path)
    rows = table_rows(file, read_text(file))
    missing = [name for name in HEADER if name not in rows[0].cells]
    if "announced" in rows[0].cells and "announced_s" not in rows[0].cells:
        raise TraceError(f"{file}:1: announced needs a column announced_s, the time of the announcement; add it")
    if missing:
        raise TraceError(f"{file}:1: no column {', '.join(missing)}; a demand begins with {','.join(HEADER)}")
    found = [
        Demand(
            row.number("time_s", least=0),
            row_pool(row, cluster),
            row.integer("servers", least=0),
            row.number("announced_s", least=0) if row.get("announced_s") else None,
            row.integer("announced", least=0) if row.get("announced") else None,
        )
        for row in rows
    ]
    known = set()
    for row, change in zip(rows, found):
        if (change.time_s, change.pool) in known:
            raise TraceError(
                f"{file}:{row.line}: pool {row['pool']} has a demand at {row['time_s']} s already; leave one"
            )
        known.add((change.time_s, change.pool))
    return tuple(sorted(found, key=lambda change: (change.time_s, change.pool)))


def row_pool(row: WorkloadRow, cluster: GpuCluster) -> int:
    """Number of the pool that a row of a file names.

    Raises:
        TraceError: The cluster has no such pool.
    """
    if row["pool"] not in cluster.pools:
        raise TraceError(f"{row.path}:{row.line}: {UnknownName('pool', row['pool'], cluster.pools)}")
    return cluster.pools.index(row["pool"])


def demand_of_servers(
    time_s: ArrayLike,
    servers: ArrayLike,
    pool: int,
    most: int,
    *,
    notice_s: float = 0.0,
    error: float = 0.0,
    seed: int = 0,
) -> tuple[Demand, ...]:
    """Demand from numbers of servers over time; times without a change are left out.

    Args:
        time_s: Times in ascending order.
        servers: Servers from each time on.
        pool: The pool.
        most: Servers of the pool; no more are announced.
        notice_s: Seconds before a change at which it is announced.
        error: Standard deviation of the announced numbers, as a share of the true ones.
        seed: Seed of these errors.
    """
    times, numbers = np.asarray(time_s, dtype=np.float64), np.asarray(servers, dtype=np.int64)
    changes = np.flatnonzero(np.append(True, np.diff(numbers) != 0))
    announced_s: Floats = np.maximum(times - notice_s, 0.0)
    factor = 1.0 + error * np.random.default_rng(seed).standard_normal(len(numbers))
    announced = np.clip(np.round(numbers * factor), 0, most).astype(np.int64)
    return tuple(
        Demand(float(times[k]), pool, int(numbers[k]), float(announced_s[k]), int(announced[k]))
        for k in changes.tolist()
    )


@dataclass(frozen=True, slots=True)
class DailyDemand:
    """Demand with a daily shape: low for most of the day, with one peak.

    Demand is ``low + (high − low)·((1 + cos φ) / 2)²`` of the servers, φ being the time of day from the peak.

    Attributes:
        low: Share of the pool's servers at the lowest demand.
        high: The same at the highest demand.
        step_s: Seconds between two changes.
        notice_s: Seconds before a change at which it is announced.
        error: Standard deviation of the announced numbers, as a share of the true ones.
    """

    low: float = 0.35
    high: float = 0.95
    step_s: float = 300.0
    notice_s: float = NOTICE_S
    error: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ConfigurationError(
                f"the demand is from {self.low} to {self.high} of the servers; give shares from 0 to 1 in this order"
            )
        if not (self.step_s > 0 and self.notice_s >= 0 and self.error >= 0):
            raise ConfigurationError(
                f"step_s is {self.step_s}, notice_s {self.notice_s} and error {self.error}; give numbers of 0 or more, "
                "and a step above 0"
            )

    def over(self, cluster: GpuCluster, duration_s: float, seed: int) -> tuple[Demand, ...]:
        """The demand of the pool ``inference`` for a duration; afterwards it does not change.

        Raises:
            ConfigurationError: The cluster has no such pool.
        """
        if INFERENCE not in cluster.pools:
            raise ConfigurationError(
                f"the cluster has the pools {', '.join(cluster.pools)}; give the servers of inference pool = "
                f'"{INFERENCE}"'
            )
        pool = cluster.pools.index(INFERENCE)
        servers = int((cluster.pool_of == pool).sum())
        times = np.arange(0.0, duration_s + self.step_s, self.step_s)
        shape = ((1 + np.cos(2 * np.pi * (times - PEAK_S) / DAY_S)) / 2) ** 2
        numbers = np.ceil((self.low + (self.high - self.low) * shape) * servers - 1e-9)
        return demand_of_servers(times, numbers, pool, servers, notice_s=self.notice_s, error=self.error, seed=seed)


def pool_of_jobs(cluster: GpuCluster, demand: Sequence[Demand]) -> int:
    """The pool of the jobs, if inference demand is for other pools.

    Raises:
        ConfigurationError: It is not clear which pool this is.
    """
    served = {change.pool for change in demand}
    left = [pool for pool in range(len(cluster.pools)) if pool not in served]
    if len(left) > 1:
        left = [pool for pool in left if cluster.pools[pool] == TRAINING]
    if len(left) != 1:
        raise ConfigurationError(
            f"the pools are {', '.join(cluster.pools)}, with inference demand for "
            f"{', '.join(cluster.pools[pool] for pool in sorted(served))}; leave one pool to the jobs, or name it "
            f"{TRAINING}"
        )
    return left[0]
