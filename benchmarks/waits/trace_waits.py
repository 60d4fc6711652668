"""Queue waits at the end of a trace, short ones included, predicted from accounting.

    python benchmarks/waits/trace_waits.py --timezone America/Chicago ls6-a100.log.gz -o trace-waits.json

The last fifth of the time is predicted as a stream, as `mirage train predict` does for its card. The references are the
median and the quantiles of the waits of the last seven days that were known at each submission.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from group_coverage import coverage_by
from mirage.duration import DAY_S
from mirage.predict.waits.rolling_forecast import LEVELS, RollingSettings
from mirage.predict.waits.wait_features import names_of, waits_at_submission
from mirage.predict.waits.wait_model import hold_out
from mirage.predict.waits.wait_score import interval_figures, point_figures
from mirage.trace.read_trace import read_trace
from queue_waits import print_intervals, print_points
from wait_references import constant_median, rolling_quantiles

SIZES = ("1 node", "2 to 7 nodes", "8 nodes and more")


def main() -> None:
    """Make the tables, print them, and write their figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--timezone", default="UTC")
    parser.add_argument("--share", type=float, default=0.2, help="of the time, held out")
    parser.add_argument("--refit-days", type=float, default=7)
    parser.add_argument("-o", default="benchmarks/results/trace_waits.json", metavar="FILE")
    chosen = parser.parse_args()
    table = read_trace(chosen.trace, timezone=chosen.timezone).table
    sample = waits_at_submission(table, names_of(table))
    settings = RollingSettings(refit_s=int(chosen.refit_days * DAY_S))
    held_out = hold_out(sample, chosen.share, settings, lambda done, total: print(done, total, file=sys.stderr))
    first, judged = held_out.forecast.first, held_out.judged
    quantiles, wait = held_out.forecast.quantiles[judged], held_out.log_wait
    recent = rolling_quantiles(sample, first, LEVELS)[judged]
    middle = len(LEVELS) // 2
    results: dict[str, Any] = {
        "points": {
            "constant median": point_figures(wait, constant_median(sample, first)[judged]),
            "last-7-day median": point_figures(wait, recent[:, middle]),
            "ours: mean of log10": point_figures(wait, held_out.forecast.mean[judged]),
            "ours: median": point_figures(wait, quantiles[:, middle]),
        },
        "intervals": {
            "last 7 days": (len(wait), interval_figures(wait, recent, LEVELS)),
            "ours": (len(wait), interval_figures(wait, quantiles, LEVELS)),
        },
    }
    size = sample.size_class[first:][judged] % len(SIZES)
    for each, figures in coverage_by(wait, quantiles, LEVELS, size).items():
        results["intervals"][f"ours, {SIZES[each]}"] = figures
    Path(chosen.o).parent.mkdir(parents=True, exist_ok=True)
    Path(chosen.o).write_text(json.dumps(results, indent=2))
    print(f"{len(sample):,} jobs; the last {chosen.share:.0%} of the time: {int(np.sum(judged)):,}\n")
    print_points(results["points"])
    print()
    print_intervals(results["intervals"])


if __name__ == "__main__":
    main()
