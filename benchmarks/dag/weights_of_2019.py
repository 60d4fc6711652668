"""Decima's published weights of 2019 against fair shares, at light and heavy load.

    python benchmarks/dag/weights_of_2019.py WEIGHTS.npz ... --profiles tpch_profiles.json.gz [-o FILE.json]

The reference is ``fair`` on the same jobs in the same run. The first stream is that of the published figures. Also
reported: the number of updates that made each file, by the counter of the optimiser in it, and the similarity of the
weights of two files.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np

from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import decima_arrivals
from mirage.dag.workload.tpch import read_tpch

SEED = 10_000_000
STREAMS = ((50, 5001, 25.0, 1), (100, 2000, 12.5, 1), (100, 2000, 15.0, 1), (100, 201, 25.0, 5))
"""Executors, jobs, mean gap in seconds, and how many such streams."""

_BETA_2 = 0.999
"""How much of its mean square Adam keeps in an update."""


def main() -> None:
    """Runs, prints and stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", nargs="+", type=Path)
    parser.add_argument("--profiles", required=True, type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/weights_of_2019.json"))
    options = parser.parse_args()
    origins = _origins(options.weights)
    templates = read_tpch(options.profiles)
    names = ["fair", *(f"{kind}:{path}" for path in options.weights for kind in ("decima", "decima-argmax"))]
    rows = []
    for executors, jobs, gap_s, streams in STREAMS:
        fair_s = math.nan
        for name in names:
            scheduler = make_scheduler(name)
            outcomes = [
                DagSimulation(
                    templates,
                    decima_arrivals(jobs, SEED + stream, gap_s=gap_s),
                    DagCluster(executors, environment="decima-2019"),
                ).run(scheduler.decider, scheduler.parameters_for(0))
                for stream in range(streams)
            ]
            mean_s = float(np.mean([outcome.jct_s.mean() for outcome in outcomes]))
            moves = float(np.mean([outcome.moves for outcome in outcomes]))
            fair_s = mean_s if name == "fair" else fair_s
            rows.append({"executors": executors, "jobs": jobs, "gap_s": gap_s, "streams": streams, "policy": name,
                         "mean_jct_s": mean_s, "of_fair": mean_s / fair_s, "moves": moves})  # fmt: skip
            kind, _, path = name.partition(":")
            reported = f"{kind}:{Path(path).name}" if path else kind
            print(
                f"{executors} executors, {gap_s} s, {jobs} jobs: {reported} {mean_s:.1f} s, {mean_s / fair_s:.3f} of "
                f"fair, {moves:.0f} moves",
                flush=True,
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"origins": origins, "rows": rows}, indent=1) + "\n")


def _origins(paths: list[Path]) -> dict[str, float]:
    """Updates that made each file, and the correlation of the weights of each two."""
    reported, weights = dict[str, float](), dict[str, np.ndarray]()
    for path in paths:
        with np.load(path, allow_pickle=False) as held:
            reported[path.name] = math.log(float(held["beta2_power_1"])) / math.log(_BETA_2)
            matrices = [name for name in sorted(held.files) if held[name].ndim == 2]
            weights[path.name] = np.concatenate([held[name].ravel() for name in matrices])
        print(f"{path.name}: {reported[path.name]:.0f} updates")
    for one, other in combinations(weights, 2):
        alike = reported[f"{one} and {other}"] = float(np.corrcoef(weights[one], weights[other])[0, 1])
        print(f"{one} and {other}: correlation {alike:.2f}")
    return reported


if __name__ == "__main__":
    main()
