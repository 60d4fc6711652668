"""Predictions of run times, judged by the forecasts of starts that are made of them.

    python benchmarks/forecast/run_time_decisions.py ls6-a100.log.gz --nodes 76 --discipline mirage-2023 --every-h 8

At every moment of a replay, a link is submitted in a fork, which gives its true start. This start is compared with
forecasts whose futures differ only in their run times. ``open`` is the share of moments whose futures do not all agree
within 12 minutes; coverage is that of these moments. Intervals of the difference from the first kind come from a
bootstrap over weeks. ``truth`` draws the run times that the jobs really have: the value of perfect knowledge.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from mirage.forecast import run_times as draws
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import TrueRunTimes
from mirage.forecast.use_history import HistoryRunTimes
from mirage.predict.run_times.named_history import NamedHistory
from run_time_accuracy import crps, pit
from run_times import WEEK_S, difference
from start_moments import moments, options_of_moments, replay


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


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options_of_moments(parser, every_h=8.0)
    parser.add_argument("--shared", type=float, help="share of draws that like jobs of one user have in common")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.shared is not None:
        draws.SHARED = options.shared
    sim = replay(options)
    kinds = {
        "history": HistoryRunTimes(),
        "named-history": NamedHistory(),
        "truth": TrueRunTimes(sim.workload.jobs.run_s),
    }
    casts = {name: Forecaster(64, discipline=options.discipline, run_times=kind) for name, kind in kinds.items()}
    rows = list(moments(options, sim, casts))
    for nodes in options.link_nodes:
        print(f"{nodes} nodes, {options.discipline}")
        report([row for row in rows if row["nodes"] == nodes], list(kinds))
    if options.output:
        options.output.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
