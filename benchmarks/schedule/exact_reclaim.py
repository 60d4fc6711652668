"""Reclaims of lent servers: two greedy rules against the exact optimum.

    python benchmarks/schedule/exact_reclaim.py [--scale 1] [--seed 101] [--stretch 5] [-o FILE.json]

``aryl-plus:reclaim=exact`` plays a generated workload of ``loans_and_elastic_jobs.py`` in which all jobs may run on
lent servers, and run so long that these are full when demand rises. At every reclaim of servers with jobs, the two
greedy rules choose from the same servers. The loss of a choice is the sum over its preempted jobs of GPU-seconds
held without work, or of work that is done again. The reference is the exact optimum.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from loans_and_elastic_jobs import JOBS, gang_jobs, scaled
from mirage.duration import DAY_S
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.schedulers.aryl_memory import BASE, CHOICE, LOSS, MISSING
from mirage.schedule.schedulers.exact_reclaim import answer, least_loss_servers, problem_of
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.schedulers.server_reclaim import CHOSEN, choose_servers


def greedy(world: Any, state: Any, buffer: Any, wanted: int, weighs_loss: bool) -> np.ndarray:
    """The servers that a greedy rule chooses."""
    choice, loss = buffer.ranks[CHOICE].copy(), buffer.memory[LOSS].copy()
    if not weighs_loss:
        loss[:] = 1.0
    scratch, preempted = np.zeros(len(choice)), np.zeros(len(choice), np.int64)
    choose_servers(
        state, world.gpus_of, wanted, choice, scratch, buffer.ranks[BASE], preempted, loss, weighs_loss
    )  # fmt: skip
    return np.flatnonzero(choice == CHOSEN)


def main() -> None:
    """Play, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the servers and of the jobs.")
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--stretch", type=float, default=5.0, help="Factor of run times.")
    parser.add_argument("--days", type=float, default=4.0, help="Submissions of the first days only.")
    parser.add_argument("--checkpoint-s", type=float, help="Jobs cannot save, and lose the work of up to this time.")
    parser.add_argument("--assume", default="fungible=1", help="Assumptions, as in mirage schedule.")
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/exact_reclaim.json"))
    options = parser.parse_args()
    assumptions = Assumptions.of(options.assume.split(","))
    cluster = assumptions.cluster(scaled(options.scale))
    jobs = gang_jobs(round(JOBS * options.scale), options.stretch, options.seed)
    jobs = assumptions.jobs(jobs[jobs.submit_s < options.days * DAY_S], cluster, options.seed)
    demand = assumptions.daily_demand().over(cluster, (options.days + 1) * DAY_S, options.seed)
    way = "save" if options.checkpoint_s is None else "kill"
    rows: list[dict[str, float]] = []
    cpu_ms: list[float] = []

    def compared(world: Any, state: Any, buffer: Any) -> None:
        for pool in np.flatnonzero(buffer.memory[MISSING, : len(state.wanted)] > 0).tolist():
            problem = problem_of(world, state, buffer, pool)
            index = {server: k for k, server in enumerate(problem.servers.tolist())}
            row = {"servers": len(problem.servers), "jobs": len(problem.jobs), "wanted": problem.wanted}
            row["exact"] = problem.lost(least_loss_servers(problem))
            for name, weighs_loss in (("weighed", True), ("published", False)):
                chosen = greedy(world, state, buffer, problem.wanted, weighs_loss)
                row[name] = problem.lost([index[server] for server in chosen.tolist()])
            rows.append(row)
        began_s = time.process_time()
        answer(world, state, buffer)
        cpu_ms.append(1e3 * (time.process_time() - began_s))

    made = replace(make_scheduler("aryl-plus", reclaim="exact", preempt=way), answer=compared)
    checkpoint = None if options.checkpoint_s is None else jobs.gpus * options.checkpoint_s
    costs = LifeCosts.of(jobs, first_start_s=0.0, checkpoint_work=checkpoint)
    simulation = GpuSimulation(cluster, jobs, made, demand=demand, known="run-time", costs=costs, strict=True)
    log = simulation.run((options.days + 1) * DAY_S)
    if not rows:
        parser.exit(1, "no servers with jobs were reclaimed; give a larger --stretch\n")
    costly = [row for row in rows if row["exact"] > 0]
    sums = {name: sum(row[name] for row in costly) for name in ("exact", "weighed", "published")}
    found = {
        "reclaims": len(rows),
        "costly": len(costly),
        "largest": max((row["servers"] for row in rows), default=0),
        "weighed_of_exact": sums["weighed"] / sums["exact"] if costly else None,
        "published_of_exact": sums["published"] / sums["exact"] if costly else None,
        "cpu_ms_median": float(np.median(cpu_ms)),
        "cpu_ms_p95": float(np.percentile(cpu_ms, 95)),
        "breaches": log.breaches,
        "unmet_server_s": log.unmet_server_s,
    }
    print(json.dumps(found, indent=1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"found": found, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
