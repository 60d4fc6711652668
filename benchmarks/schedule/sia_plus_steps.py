"""Mean completion time after each difference between ``sia`` and ``sia-plus``.

    python benchmarks/schedule/sia_plus_steps.py WORKLOAD.csv ... --profiles DIR [-o FILE.json]

The reference is ``sia`` in the same run, on the same workloads of Pollux or Sia (cluster ``sia64``).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.measures import measures
from mirage.schedule.gpu_cluster import gpu_cluster
from mirage.schedule.schedulers.sia import Sia, SiaPlus
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.workload.gpu_workload import read_workload

HOUR_S = 3600


class FineSia(Sia):
    """Sia with goodput over all batches of the model, and powers that are not rounded."""

    decimals = None
    bounded_by_user = False


class PooledSia(SiaPlus):
    """FineSia with measurements shared by all jobs of a model; restarts cost as in Sia."""

    knows_restart_s = False


STEPS = {"sia": Sia, "all batches, no rounding": FineSia, "shared step times": PooledSia, "sia-plus": SiaPlus}
"""Each has what the one before it has, and one thing more; the last one, true costs of restarts."""


def main() -> None:
    """Play, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", type=Path)
    parser.add_argument("--profiles", required=True, type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/sia_plus_steps.json"))
    options = parser.parse_args()
    cluster = gpu_cluster("sia64")
    profiles = read_profiles(options.profiles, cluster)
    workloads = [read_workload(path, cluster, profiles) for path in options.workloads]
    found = {}
    for name, kind in STEPS.items():
        logs = [
            GpuSimulation(cluster, workload.jobs, kind(), speeds=workload.profiles.speeds).run()
            for workload in workloads
        ]
        figures = [measures(log) for log in logs]
        found[name] = {
            "mean_jct_h": float(np.mean([each.mean_jct_s for each in figures])) / HOUR_S,
            "restarts": float(np.mean([each.restarts for each in figures])),
        }
        of_sia = found[name]["mean_jct_h"] / found["sia"]["mean_jct_h"]
        print(
            f"{name:26} mean JCT {found[name]['mean_jct_h']:.4f} h, {of_sia:.3f} of sia; "
            f"{found[name]['restarts']:.0f} restarts",
            flush=True,
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
