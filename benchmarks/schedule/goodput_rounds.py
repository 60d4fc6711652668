"""Processor time of the rounds of goodput schedulers, and of a fit and a choice.

    python benchmarks/schedule/goodput_rounds.py [--quick] [-o FILE.json]

The workloads are ``sia-pollux/sia_philly`` 1–8 in the folder that MIRAGE_DATA names. Only rounds with at least five
active jobs count; the tests for better batches between rounds do not. The large rounds have 2,048 GPUs of three types,
and 350 or 1,000 of the same jobs within five minutes. The references, in the same run: L-BFGS-B of scipy with our
gradient, to the same minimum, and HiGHS (``scipy.optimize.milp``) for a round of 40 jobs on 64 GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize
from scipy.sparse import csr_array, vstack
from threadpoolctl import threadpool_limits

from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.rounds.goodput import pass_s, step_s
from mirage.schedule.rounds.highs import minimise
from mirage.schedule.rounds.knapsack import choose
from mirage.schedule.rounds.throughput_history import StepMeasurements, fit, loss
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import read_workload

LARGE = GpuCluster(
    (ServerGroup("aws", "aws", 192, 4), ServerGroup("dgx-ext", "dgx-ext", 64, 8), ServerGroup("rtx", "rtx", 96, 8))
)
SCHEDULERS = ("sia", "sia-plus")
LEAST_ACTIVE = 5


def fastest_s(what: Callable[[], object], times: int = 5) -> float:
    """Processor seconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(times):
        began_s = time.process_time()
        what()
        best = min(best, time.process_time() - began_s)
    return best


def rounds_s(simulation: GpuSimulation, least_active: float) -> NDArray[np.float64]:
    """Processor seconds of the rounds with enough active jobs."""
    round_s = simulation.scheduler.round_s
    return np.array([s for now_s, n, s in simulation.policy_s if now_s % round_s < 1e-6 and n >= least_active])


def small_lines(data: Path, workloads: int) -> dict[str, float]:
    """The published workloads."""
    cluster = gpu_cluster("sia64")
    profiles = read_profiles(data / "profiles", cluster)
    found = {}
    for name in SCHEDULERS:
        taken, mean_h = [], []
        for k in range(1, workloads + 1):
            jobs = read_workload(data / "sia_philly" / f"workload-{k}.csv", cluster, profiles).jobs
            simulation = GpuSimulation(cluster, jobs, make_scheduler(name), speeds=profiles.speeds)
            log = simulation.run()
            mean_h.append(float((log.rows.due_s - log.rows.submit_s).mean()) / 3600)
            taken.append(rounds_s(simulation, LEAST_ACTIVE))
        all_s = np.concatenate(taken)
        median, tail = np.median(all_s), np.percentile(all_s, 95)
        print(
            f"philly 1–{workloads} {name:9} median {median * 1e3:5.2f} ms, p95 {tail * 1e3:5.2f} ms; "
            f"mean JCT {np.mean(mean_h):.4f} h",
            flush=True,
        )
        found |= {f"{name} median": median, f"{name} p95": tail, f"{name} mean JCT, h": float(np.mean(mean_h))}
    return found


def large_lines(data: Path) -> dict[str, float]:
    """Rounds with 2,048 GPUs."""
    profiles = read_profiles(data / "profiles", LARGE)
    paths = [data / f"sia_{family}" / f"workload-{k}.csv" for family in ("philly", "saturn") for k in range(1, 5)]
    parts = [read_workload(path, LARGE, profiles).jobs for path in paths]
    found = {}
    for n in (350, 1000):
        columns = {
            f.name: np.concatenate([getattr(part, f.name) for part in parts])[:n]
            for f in fields(GpuJobs)
            if f.name not in ("name", "models")
        }
        columns |= {"id": np.arange(n), "submit_s": np.linspace(0, 300, n)}
        jobs = GpuJobs(**columns, name=tuple(map(str, range(n))), models=parts[0].models)
        for name in SCHEDULERS:
            simulation = GpuSimulation(LARGE, jobs, make_scheduler(name), speeds=profiles.speeds)
            simulation.run(until_s=900.0)
            taken = rounds_s(simulation, 0.9 * n)
            print(f"{n:5,} jobs {name:9} median {np.median(taken):.3f} s, longest {taken.max():.3f} s", flush=True)
            found |= {
                f"{n} jobs {name} median": float(np.median(taken)),
                f"{n} jobs {name} longest": float(taken.max()),
            }
    return found


def fit_line() -> dict[str, float]:
    """One fit of 15 points."""
    rng = np.random.default_rng(1)
    true = np.array([0.05, 0.002, 0.3, 0.02, 0.08, 0.01, 1.7])
    gpus = rng.choice([1, 2, 4, 8, 16, 24], 15)
    gpus[:3] = 1, 4, 16
    servers, local = -(-gpus // 8), rng.integers(16, 256, 15)
    noise = np.exp(0.1 * rng.normal(size=(2, 15)))
    passes = np.array([pass_s(true, m) for m in local]) * noise[0]
    steps = np.array([step_s(true, s, g, m, 0) for s, g, m in zip(servers, gpus, local)]) * noise[1]
    measured = StepMeasurements(servers, gpus, local, passes, np.maximum(steps, passes))
    low, high = np.array([1e-8] * 6 + [1.0]), np.array([np.inf] * 6 + [10.0])

    def both(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope = np.zeros(7)
        return loss(parameters, measured, 0, 15, slope), slope

    def reference() -> float:
        start = np.array([0.1, 0.01] * 3 + [1.001])
        options = {"ftol": 1e-12, "maxiter": 2000}
        with threadpool_limits(1):  # more threads only wait for each other
            found = minimize(both, start, jac=True, bounds=Bounds(low, high), method="L-BFGS-B", options=options)
        return float(found.fun)

    ours, theirs = both(fit(measured))[0], reference()
    if ours > theirs + 1e-3:
        raise SystemExit(f"our fit is worse: {ours} against {theirs}")
    ours_s, theirs_s = fastest_s(lambda: [fit(measured) for _ in range(20)]) / 20, fastest_s(reference)
    print(f"a fit {ours_s * 1e6:.0f} µs, {theirs_s / ours_s:.0f} times as fast as L-BFGS-B", flush=True)
    return {"fit": ours_s, "fit by L-BFGS-B": theirs_s}


def choice_line() -> dict[str, float]:
    """Choices for 40 jobs on 64 GPUs."""
    gpus = np.array([1, 2, 4, 8, 12, 16, 20, 24, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 24])
    kind, capacity, jobs = np.repeat([0, 1, 2], [8, 5, 6]), np.array([24, 16, 24]), 40
    each = csr_array(np.repeat(np.eye(jobs), len(gpus), axis=1))
    rows = vstack([each, csr_array(np.array([np.tile(gpus * (kind == k), jobs) for k in range(3)]))])
    limits = np.concatenate([np.ones(jobs), capacity])
    values = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        goodput = rng.uniform(1, 10, (jobs, 3))[:, kind] * gpus ** rng.uniform(0.4, 1, (jobs, 1))
        values.append(1.1 - np.round((goodput / goodput.min(axis=1, keepdims=True)) ** -0.5, 2))
    choose(values[0], gpus, kind, capacity, 0.0099)
    ours_s = fastest_s(lambda: [choose(value, gpus, kind, capacity, 0.0099) for value in values]) / len(values)
    theirs_s = fastest_s(lambda: [minimise(-value.ravel(), rows, limits) for value in values], 1) / len(values)
    print(f"a choice {ours_s * 1e3:.2f} ms, {theirs_s / ours_s:.0f} times as fast as HiGHS", flush=True)
    return {"choice": ours_s, "choice by HiGHS": theirs_s}


def main() -> None:
    """Run all and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one workload, no large rounds")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/goodput_rounds.json"))
    options = parser.parse_args()
    data = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "sia-pollux"
    figures = fit_line() | choice_line() | small_lines(data, 1 if options.quick else 8)
    if not options.quick:
        figures |= large_lines(data)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
