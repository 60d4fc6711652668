"""Variation of known answers with the seeds of durations and of drawn decisions.

    python benchmarks/dag/known_answers.py tpch_profiles.json.gz [-o FILE.json]

Decima's published weights must be in the folder of the profiles. The references are the published means, each of one
run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from mirage.dag.decima.decima_schedulers import with_weights
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import decima_arrivals, poisson_arrivals
from mirage.dag.workload.tpch import read_tpch

REPETITIONS = 8
STREAM, POISSON = "decima-2019", "spark-sched-sim"
ROWS = (
    ("fair", 50, 5001, 1, STREAM, 62.71),
    ("decima", 50, 200, 4, POISSON, 51.3),
    ("decima-argmax", 50, 200, 4, POISSON, 60.9),
    ("decima", 10, 50, 8, POISSON, 636.2),
    ("decima-argmax", 10, 50, 8, POISSON, 514.3),
)
"""Policy, executors, jobs, seeds of arrivals, dynamics, and the published mean in seconds."""


def main() -> None:
    """Runs, prints and stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/known_answers.json"))
    options = parser.parse_args()
    templates, rows = read_tpch(options.profiles), []
    for policy, executors, jobs, seeds, dynamics, published_s in ROWS:
        scheduler = with_weights(policy, None, str(options.profiles))
        cluster, means_s = DagCluster(executors, environment=dynamics), []
        for repetition in range(REPETITIONS):
            episodes_s = []
            for seed in range(seeds):
                arrivals = decima_arrivals(jobs, 10_000_000) if dynamics == STREAM else poisson_arrivals(jobs, seed)
                drawn = seed + 1000 * repetition
                simulation = DagSimulation(templates, arrivals, cluster, seed=drawn)
                episodes_s.append(simulation.run(scheduler.decider, scheduler.parameters_for(drawn)).jct_s.mean())
            means_s.append(float(np.mean(episodes_s)))
        mean_s, deviation_s = float(np.mean(means_s)), float(np.std(means_s, ddof=1))
        name = f"{policy}, {executors}/{jobs}, {dynamics}"
        print(f"{name}: {mean_s:.2f} ± {deviation_s:.2f} s, {mean_s / published_s:.3f} of the published mean")
        rows.append({"row": name, "means_s": means_s, "published_s": published_s, "ratio": mean_s / published_s})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
