"""Waits and completion times with loans and elastic jobs, under the assumptions of Aryl.

    python benchmarks/schedule/loans_and_elastic_jobs.py [--scale 1] [--seeds 3] [--workloads DIR] [-o FILE.json]

The references are ``fifo`` and Aryl without loans and elastic jobs, which is ``sjf``, in the same run. The workload is
generated: jobs of 1 to 64 GPUs, 46 % of the GPU time in gangs of 16 and more, log-normal run times with a limit of
three days, on a scaled ``aryl7704`` for 15 days; jobs of days 3 to 13 are measured. The load is such that jobs wait
about 3,000 s under ``fifo``. A preemption and a change of size cost 63 s, and work is saved.

With ``--workloads`` nothing is compared: the cluster and the workloads are written into a folder, as ``cluster.toml``
and ``seed-1.csv`` and so on, for ``mirage schedule sensitivity``.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, LifeCosts
from mirage.schedule.engine.measures import measures
from mirage.schedule.gpu_cluster import BUILTIN, GpuCluster
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

DAYS, JOBS, TRAINING = 15, 50_000, 0
WINDOW_S = (3 * DAY_S, 13 * DAY_S)
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
WIDTH_SHARES = (0.436, 0.12, 0.14, 0.21, 0.055, 0.027, 0.012)
MEDIAN_S, SIGMA, LONGEST_S = 700.0, 2.2, 3 * DAY_S
RESIZE_S = 63.0

OWN = "aryl without loans and elastic jobs"
BASE = ["elastic_jobs=0.05", "fungible=0.21"]
THREE = [*BASE, "t4_per_v100=3"]
TWICE = ["elastic_gpu_time=0.36", "fungible=0.21", "t4_per_v100=3"]
FOURFOLD = [*TWICE, "elastic_max=4"]
RUNS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "fifo": ("fifo", {}, []),
    OWN: ("aryl", {"loans": False, "elastic": False}, []),
    "5 % of jobs elastic ×2, 21 % fungible, one T4 for one V100": ("aryl", {}, BASE),
    "the former with aryl-plus": ("aryl-plus", {}, BASE),
    "the former in the order of aryl": ("aryl-plus", {"width_power": 0.0}, BASE),
    "aryl-plus without loans and elastic jobs": ("aryl-plus", {"loans": False, "elastic": False}, BASE),
    "aryl-plus without loans": ("aryl-plus", {"loans": False}, BASE),
    "aryl-plus without elastic jobs": ("aryl-plus", {"elastic": False}, BASE),
    "aryl, 5 % of jobs elastic, three T4 for one": ("aryl", {}, THREE),
    "36 % of GPU time elastic ×2, three T4 for one": ("aryl", {}, TWICE),
    "the same with aryl-plus": ("aryl-plus", {}, TWICE),
    "36 % of GPU time elastic ×4, three T4 for one": ("aryl", {}, FOURFOLD),
    "the same with aryl-plus, ×4": ("aryl-plus", {}, FOURFOLD),
    "the same, without loans": ("aryl", {"loans": False}, FOURFOLD),
    "the same, without loans, with aryl-plus": ("aryl-plus", {"loans": False}, FOURFOLD),
}
"""Name → scheduler, its parameters, assumptions."""


def scaled(scale: float) -> GpuCluster:
    """A part of ``aryl7704``."""
    return GpuCluster(
        tuple(replace(group, servers=max(round(group.servers * scale), 1)) for group in BUILTIN["aryl7704"].groups)
    )


def gang_jobs(jobs: int, stretch: float, seed: int) -> GpuJobs:
    """A workload with gangs.

    Args:
        jobs: Number of jobs.
        stretch: Factor of all run times.
        seed: Seed of the workload.
    """
    random = np.random.default_rng(seed)
    hour = np.arange(0, DAYS * 24)
    rate = 1 + 0.5 * np.cos(2 * np.pi * (hour - 15) / 24)
    in_hour = random.choice(hour, jobs, p=rate / rate.sum())
    submit_s = np.sort((in_hour + random.random(jobs)) * 3600)
    gpus = random.choice(WIDTHS, jobs, p=WIDTH_SHARES)
    run_s = np.clip(MEDIAN_S * np.exp(SIGMA * random.standard_normal(jobs)) * stretch, 30, LONGEST_S)
    return GpuJobs.linear(submit_s, gpus, run_s, restart_s=RESIZE_S, pool=TRAINING)


def played(
    cluster: GpuCluster, jobs: GpuJobs, demand: tuple[Demand, ...], name: str, parameters: dict[str, Any]
) -> dict[str, float]:
    """Measures of one run."""
    began_s = time.process_time()
    log = GpuSimulation(
        cluster,
        jobs,
        make_scheduler(name, **parameters),
        demand=demand,
        known="run-time",
        costs=LifeCosts.of(jobs, first_start_s=0.0),
        strict=True,
    ).run()
    cpu_s = time.process_time() - began_s
    found = measures(log, WINDOW_S)
    return {
        "mean_wait_s": found.mean_wait_s,
        "mean_jct_s": found.mean_jct_s,
        "preemptions": found.preemptions,
        "restarts": found.restarts,
        "overhead_gpu_h": found.overhead_gpu_h,
        "lent_server_h": found.lent_server_h,
        "breaches": found.breaches,
        "unmet_server_h": found.unmet_server_h,
        "cpu_s": cpu_s,
    }


def shortest_jct_s(jobs: GpuJobs) -> float:
    """A bound of the mean JCT: no job waits, and each always has all GPUs it can use."""
    chosen = (jobs.submit_s >= WINDOW_S[0]) & (jobs.submit_s < WINDOW_S[1])
    return float((jobs.run_s * jobs.gpus / jobs.max_gpus)[chosen].mean())


def calibrated(cluster: GpuCluster, jobs: int, wait_s: float, seed: int) -> float:
    """The factor of run times with which ``fifo`` has this mean wait, on one seed."""
    low, high = 0.5, 6.0
    for _ in range(9):
        middle = (low + high) / 2
        if played(cluster, gang_jobs(jobs, middle, seed), (), "fifo", {})["mean_wait_s"] < wait_s:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def write_workloads(folder: Path, cluster: GpuCluster, workloads: dict[int, GpuJobs]) -> None:
    """Write a cluster and workloads by seed as files."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        f'[[servers]]\nname = "{g.name}"\ngpu_type = "{g.gpu_type}"\nservers = {g.servers}\n'
        f'gpus_per_server = {g.gpus_per_server}\npool = "{g.pool}"\nspeed = {g.speed!r}\n'
        for g in cluster.groups
    ]
    (folder / "cluster.toml").write_text("\n".join(tables))
    for seed, jobs in workloads.items():
        columns = zip(jobs.name, jobs.submit_s.tolist(), jobs.run_s.tolist(), jobs.gpus.tolist())
        rows = [f"{name},{submit_s!r},{run_s!r},{gpus}" for name, submit_s, run_s, gpus in columns]
        (folder / f"seed-{seed}.csv").write_text("\n".join(["job_id,submit_s,run_s,gpus", *rows, ""]))


def main() -> None:
    """Play, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the servers and of the jobs.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--wait-s", type=float, default=3000.0, help="Mean wait under fifo to calibrate to.")
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/loans_and_elastic_jobs.json"))
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--workloads", type=Path, help="Only write the workloads into this folder.")
    options = parser.parse_args()
    cluster, jobs = scaled(options.scale), round(JOBS * options.scale)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    stretches = []
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.workloads is not None:
        made = {seed: gang_jobs(jobs, calibrated(cluster, jobs, options.wait_s, seed), seed) for seed in seeds}
        write_workloads(options.workloads, cluster, made)
        return
    for seed in seeds:
        stretches.append(calibrated(cluster, jobs, options.wait_s, seed))
        workload = gang_jobs(jobs, stretches[-1], seed)
        for name, (scheduler, parameters, pairs) in RUNS.items():
            assumptions = Assumptions.of(pairs)
            assumed = assumptions.cluster(cluster)
            demand = assumptions.daily_demand().over(assumed, (DAYS + 10) * DAY_S, seed)
            chosen = assumptions.jobs(workload, assumed, seed)
            found[name].append(played(assumed, chosen, demand, scheduler, parameters))
            found[name][-1]["shortest_jct_s"] = shortest_jct_s(chosen)
    rows = {name: {key: float(np.mean([run[key] for run in runs])) for key in runs[0]} for name, runs in found.items()}
    for row in rows.values():
        for key, reference in (("fifo", rows["fifo"]), ("own", rows[OWN])):
            row[f"wait_ratio_{key}"] = reference["mean_wait_s"] / max(row["mean_wait_s"], 1e-9)
            row[f"jct_ratio_{key}"] = reference["mean_jct_s"] / row["mean_jct_s"]
            row[f"best_jct_ratio_{key}"] = reference["mean_jct_s"] / row["shortest_jct_s"]
    print(f"{cluster.gpus} GPUs, {jobs} jobs, run times ×{np.mean(stretches):.2f}, mean of {options.seeds} seeds")
    print(
        "wait s | JCT s | wait ÷ own, fifo | JCT ÷ own, fifo | bound of these | preempted | restarts | breaches | "
        "unmet h | CPU s"
    )
    for name, row in rows.items():
        print(
            f"{name}: {row['mean_wait_s']:,.0f} | {row['mean_jct_s']:,.0f} | {row['wait_ratio_own']:.2f}, "
            f"{row['wait_ratio_fifo']:.2f} | {row['jct_ratio_own']:.3f}, {row['jct_ratio_fifo']:.3f} | "
            f"{row['best_jct_ratio_own']:.3f}, {row['best_jct_ratio_fifo']:.3f} | "
            f"{row['preemptions']:,.0f} | {row['restarts']:,.0f} | {row['breaches']:.0f} | "
            f"{row['unmet_server_h']:.2f} | {row['cpu_s']:.1f}"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rows": rows, "runs": found, "stretches": stretches}, indent=2) + "\n")


if __name__ == "__main__":
    main()
