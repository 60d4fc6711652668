"""GPUs in use over time, by pool and by GPU type, from a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.schedule.engine.gpu_log import GpuLog


@dataclass(frozen=True, slots=True)
class UseOverTime:
    """GPUs in use on the servers of one kind, as steps.

    Attributes:
        name: Name of the pool or the GPU type.
        gpus: Total number of GPUs.
        time_s: When the number in use changes, ascending; it begins with 0.
        held: Number in use from then on.
    """

    name: str
    gpus: int
    time_s: Floats
    held: Ints

    @property
    def mean_share(self) -> float:
        """Mean share in use from the first moment to the last."""
        lengths = np.diff(self.time_s)
        total = float(lengths.sum())
        return float((self.held[:-1] * lengths).sum()) / total / self.gpus if total > 0 else 0.0


def use_by_type(log: GpuLog) -> list[UseOverTime]:
    """Returns the use of every GPU type."""
    return _use(log, log.cluster.gpu_types, log.cluster.gpu_type_of)


def use_by_pool(log: GpuLog) -> list[UseOverTime]:
    """Returns the use of every pool; servers count in the pool that owns them."""
    return _use(log, log.cluster.pools, log.cluster.pool_of)


def _use(log: GpuLog, names: tuple[str, ...], kind_of: Ints) -> list[UseOverTime]:
    segment = log.placement_segments()
    start_s, end_s = log.segments.start_s[segment], np.minimum(log.segments.end_s[segment], log.now_s)
    kind = kind_of[log.placement_rows.server] if len(log.placement_rows) else np.zeros(0, np.int64)
    found = []
    for k, name in enumerate(names):
        here = kind == k
        changes_s = np.concatenate([start_s[here], end_s[here]])
        changes = np.concatenate([log.placement_rows.gpus[here], -log.placement_rows.gpus[here]])
        time_s, first = np.unique(np.concatenate([[0.0], changes_s, [log.now_s]]), return_inverse=True)
        held = np.zeros(len(time_s), dtype=np.int64)
        np.add.at(held, first[1:-1], changes)
        gpus = int(log.cluster.gpus_of[kind_of == k].sum())
        found.append(UseOverTime(name, gpus, time_s, np.cumsum(held)))
    return found
