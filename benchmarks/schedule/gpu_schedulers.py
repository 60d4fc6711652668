"""Processor time of schedulers on 50,000 jobs and 7,704 GPUs, of views and of actions.

    python benchmarks/schedule/gpu_schedulers.py [--quick] [-o FILE.json]

The trace is ``philly/philly_sia.csv.gz`` in the folder that MIRAGE_DATA names. Unchanged, it loads these GPUs to a few
per cent, and no job waits. *busy* is the same trace in a quarter of the time with ten times the run times, none longer
than 20 days. The reference, in the same run, is FIFO in plain Python with a heap of ends, which only counts GPUs. In
ours each job must wait exactly as long, or the benchmark stops.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from mirage.duration import DAY_S
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.plan_rows import plan_rows
from mirage.schedule.gpu_cluster import GpuCluster, gpu_cluster
from mirage.schedule.scheduler_contract import GpuAction, GpuPlan, GpuPreempt, GpuResize, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import read_workload

SCHEDULERS = ("fifo", "sjf", "srtf", "easy", "tiresias")
RUNNING = 4_000


def fastest_s(what: Callable[[], object], times: int) -> float:
    """Processor seconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(times):
        began_s = time.process_time()
        what()
        best = min(best, time.process_time() - began_s)
    return best


def busy(jobs: GpuJobs) -> GpuJobs:
    """The same jobs in a quarter of the time, each ten times as long."""
    run_s = np.minimum(10 * jobs.run_s, 20.0 * DAY_S)
    return replace(jobs, submit_s=jobs.submit_s / 4, run_s=run_s, work=run_s * jobs.gpus)


def plain_fifo_starts(jobs: GpuJobs, gpus: int) -> list[float]:
    """Starts under FIFO, in plain Python."""
    ends: list[tuple[float, int]] = []
    now, free, starts = 0.0, gpus, []
    for submit_s, width, run_s in zip(jobs.submit_s.tolist(), jobs.gpus.tolist(), jobs.run_s.tolist()):
        now = max(now, submit_s)
        while free < width or (ends and ends[0][0] <= now):
            end_s, freed = heapq.heappop(ends)
            now, free = max(now, end_s), free + freed
        starts.append(now)
        free -= width
        heapq.heappush(ends, (now + run_s, width))
    return starts


def scheduler_lines(jobs: GpuJobs, cluster: GpuCluster, name: str, times: int) -> dict[str, float]:
    """Processor seconds of every scheduler, and of the reference."""
    reference_s = fastest_s(lambda: plain_fifo_starts(jobs, cluster.gpus), times)
    starts = np.array(plain_fifo_starts(jobs, cluster.gpus))
    found = {f"{name}, fifo in plain Python": reference_s}
    for scheduler in SCHEDULERS:
        found[f"{name}, {scheduler}"] = seconds = fastest_s(
            lambda scheduler=scheduler: GpuSimulation(cluster, jobs, make_scheduler(scheduler)).run(), times
        )
        log = GpuSimulation(cluster, jobs, make_scheduler(scheduler)).run()
        if scheduler == "fifo" and not np.allclose(log.rows.start_s, starts, atol=0.5):
            raise SystemExit("the schedule is not that of plain Python")
        waits = f"mean wait {log.rows.queued_s.mean():8.0f} s, {len(log.segments):7,} segments"
        print(
            f"{name:10} {scheduler:10} {seconds:6.2f} CPU-s, {seconds / reference_s:5.1f} × plain fifo; {waits}",
            flush=True,
        )
    return found


class Fill:
    """Starts every waiting job that fits."""

    def decide(self, view: GpuView) -> GpuPlan:
        """Start all."""
        return GpuPlan(tuple(GpuStart(int(job)) for job in view.jobs.id[view.jobs.pending]))


def contract_lines(cluster: GpuCluster) -> dict[str, float]:
    """Processor seconds of a view of 4,000 running jobs, and of an action of a plan in Python."""
    widths = np.tile([1, 1, 2, 3], RUNNING // 4)
    jobs = GpuJobs.linear(np.zeros(RUNNING), widths, np.full(RUNNING, 1e6), max_gpus=8)
    simulation = GpuSimulation(cluster, jobs, Fill())
    simulation.run(10.0)
    view_s = fastest_s(lambda: [simulation.view() for _ in range(100)], 7) / 100
    placement_s = fastest_s(lambda: [simulation.view().held for _ in range(100)], 7) / 100
    view = simulation.view()
    ids, held = view.jobs.id.tolist(), view.held
    half = RUNNING // 2
    actions: list[GpuAction] = [GpuPreempt(job) for job in ids[:half]]
    actions += [GpuResize(ids[k], held.of(k), batch=2) for k in range(half, RUNNING)]
    plan = GpuPlan(tuple(actions))
    written_s = fastest_s(lambda: plan_rows(plan, 0), 7) / RUNNING

    class Once:
        def decide(self, view: GpuView) -> GpuPlan:
            return plan if view.now_s == 20.0 else Fill().decide(view)

    def applied_s() -> float:
        simulation = GpuSimulation(cluster, jobs, type("Later", (Once,), {"round_s": 20.0, "called_on": 1})())
        simulation.run(10.0)
        began_s = time.process_time()
        simulation.advance(20.0)
        return (time.process_time() - began_s) / RUNNING

    found = {
        "view": view_s,
        "view and who sits where": placement_s,
        "action written": written_s,
        "action written and applied": min(applied_s() for _ in range(5)),
    }
    for name, seconds in found.items():
        print(f"{name:30} {seconds * 1e6:8.2f} µs", flush=True)
    return found


def main() -> None:
    """Run all and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5,000 jobs, once")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/gpu_schedulers.json"))
    options = parser.parse_args()
    data = Path(os.environ.get("MIRAGE_DATA", "../shared/data"))
    cluster = gpu_cluster("philly7704")
    workload = read_workload(data / "philly" / "philly_sia.csv.gz", cluster, no_profiles(cluster))
    jobs = workload.jobs[: 5_000 if options.quick else 50_000]
    times = 1 if options.quick else 3
    GpuSimulation(cluster, jobs[:10], make_scheduler("fifo")).run()  # kernels are loaded
    figures = scheduler_lines(jobs, cluster, "as it was", times)
    figures |= scheduler_lines(busy(jobs), cluster, "busy", times)
    figures |= contract_lines(cluster)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
