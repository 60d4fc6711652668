"""Run times of jobs with measured models: alone and packed on their usual GPU type.

They have the GPUs and the batch that they request. The usual type of a job is the type with the most GPUs in the
cluster, among those on which its model runs in this way.
"""

from __future__ import annotations

import math

import numpy as np

from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds import speed_law
from mirage.schedule.speeds.profiles import Profiles


def usual_run_s(profiles: Profiles, cluster: GpuCluster, model: int, gpus: int, batch: int, work: float) -> float:
    """Run time of a job alone on its usual type, in seconds; infinite if it runs on none."""
    in_all = np.bincount(cluster.gpu_type_of, cluster.gpus_of)
    for gpu_type in np.argsort(-in_all, kind="stable").tolist():
        per_server = int(cluster.gpus_of[cluster.gpu_type_of == gpu_type].max())
        run_s = run_alone_s(profiles, model, gpu_type, -(-gpus // per_server), gpus, batch, work)
        if math.isfinite(run_s):
            return run_s
    return math.inf


def run_alone_s(
    profiles: Profiles, model: int, gpu_type: int, servers: int, gpus: int, batch: int, work: float
) -> float:
    """Duration of the work on one placement, in seconds; infinite if the model cannot run."""
    speeds, progress, seconds = profiles.speeds, 0.0, 0.0
    while progress < work:
        rate = speed_law.speed(speeds, model, gpu_type, servers, gpus, batch, progress)
        if rate <= 0:
            return math.inf
        until = min(speed_law.next_phase(speeds, model, progress), work)
        seconds += (until - progress) / rate
        progress = until
    return seconds
