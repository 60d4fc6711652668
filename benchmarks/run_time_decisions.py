"""Predictions of run times, judged by the forecasts of starts that are made of them.

    python benchmarks/run_time_decisions.py ls6-a100.log.gz --nodes 76 --discipline mirage-2023 --every-h 8

At every moment of a replay a link is submitted in a fork, which tells when it starts; beside it stands the forecast of
that start, from the same futures but for their run times. ``open`` is the share of moments whose futures do not all
agree within 12 minutes; coverage is that of these. Intervals of the difference from the first kind are from a bootstrap
over weeks. ``truth`` draws the run times that the jobs really have: what perfect knowledge would bring.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast import run_times as draws
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import TrueRunTimes
from mirage.forecast.use_history import History
from mirage.policy.view import Chain
from mirage.predict.run_times.accuracy import crps, pit
from mirage.predict.run_times.named_history import NamedHistory
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.trace.read import read_trace
from run_times import WEEK_S, difference

PATIENCE_S = 5 * DAY_S
LIMIT_S = 48 * HOUR_S


def moments(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The true wait and every kind's forecast of it, in hours, at each moment and for each size of a link."""
    cluster = Cluster.pool(options.nodes)
    sim = Simulation(cluster, workload(read_trace(options.trace, on_error="skip").table, cluster), options.discipline)
    kinds = {"history": History(), "named-history": NamedHistory(), "truth": TrueRunTimes(sim.workload.jobs.run_s)}
    casts = {k: Forecaster(64, discipline=options.discipline, run_times=kind) for k, kind in kinds.items()}
    branch, found = sim.fork(), []
    for now_s in range(options.from_s, options.until_s, round(options.every_h * HOUR_S)):
        sim.approach(now_s)
        for nodes in options.link_nodes:
            branch.restore(sim)
            started_s = branch.run_until_started(branch.inject(nodes=nodes, limit_s=LIMIT_S), now_s + PATIENCE_S)
            true_h = ((now_s + PATIENCE_S if started_s is None else started_s) - now_s) / HOUR_S
            chain = Chain(nodes, LIMIT_S, -1, now_s, now_s, now_s, 1800)
            view = sim.view(chain)
            row: dict[str, Any] = {"now_s": now_s, "nodes": nodes, "true_h": true_h}
            for name, cast in casts.items():
                played = cast.of(view).play(chain, np.zeros(1, dtype=np.int64), now_s + PATIENCE_S)
                row[name] = np.sort((played.starts_s[:, 0] - now_s) / HOUR_S).tolist()
            found.append(row)
        print(np.datetime64(now_s, "s"), end="\r", file=sys.stderr)
    return found


def report(rows: list[dict[str, Any]], kinds: list[str]) -> None:
    """Print what each kind's forecasts are worth."""
    truth = np.array([row["true_h"] for row in rows])
    week = np.array([row["now_s"] for row in rows]) // WEEK_S
    first = crps(np.array([row[kinds[0]] for row in rows]), truth)
    for kind in kinds:
        levels = np.array([row[kind] for row in rows])
        score = crps(levels, truth)
        _, low, high = difference(score, first, week)
        bias = (levels.mean(axis=1) - truth).mean()
        wide = np.ptp(levels, axis=1) > 0.2
        place = pit(levels[wide], truth[wide], np.random.default_rng(0))
        inside = [f"{(np.abs(place - 0.5) <= share / 2).mean():.0%}" for share in (0.5, 0.8, 0.95)]
        print(
            f"  {kind:14} CRPS {score.mean():.3f} h ({low:+.3f} {high:+.3f}), bias {bias:+.2f} h, "
            f"open {wide.mean():.0%}, inside 50/80/95: {' '.join(inside)}"
        )


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument("--link-nodes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--discipline", default="mirage-2023")
    parser.add_argument("--from", dest="from_s", type=_seconds, default=_seconds("2022-12-01"))
    parser.add_argument("--until", dest="until_s", type=_seconds, default=_seconds("2023-03-29"))
    parser.add_argument("--every-h", type=float, default=8.0)
    parser.add_argument("--shared", type=float, help="share of draws that like jobs of one user have in common")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.shared is not None:
        draws.SHARED = options.shared
    rows = moments(options)
    for nodes in options.link_nodes:
        print(f"{nodes} nodes, {options.discipline}")
        report([row for row in rows if row["nodes"] == nodes], ["history", "named-history", "truth"])
    if options.output:
        options.output.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
