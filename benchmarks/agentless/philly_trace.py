"""Writes the jobs of Microsoft Philly as a trace with time limits.

    python benchmarks/agentless/philly_trace.py philly_sia.csv.gz philly.swf.gz

Each GPU counts as a node. The log has no time limits, so these are made: a run time is cut at two days, divided by a
random share of 0.1 to 1 (uniform, seed 0), and rounded up to 1, 2, 4, 8, 12, 24 or 48 hours.
"""

from __future__ import annotations

import argparse
import csv
import gzip

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

LIMITS_S = np.array([1, 2, 4, 8, 12, 24, 48]) * HOUR_S


def philly_table(path: str, seed: int = 0) -> JobTable:
    """The jobs of the log, in order of submission, with limits."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [(row["timestamp"], float(row["duration"]), int(row["num_gpus"])) for row in csv.DictReader(file)]
    rows.sort()
    times = np.array([row[0].replace(" ", "T") for row in rows], dtype="datetime64[s]").astype(np.int64)
    run_s = np.clip(np.array([row[1] for row in rows]).astype(np.int64), 1, 2 * DAY_S)
    gpus = np.array([row[2] for row in rows], dtype=np.int64)
    requested_s = run_s / np.random.default_rng(seed).uniform(0.1, 1.0, len(rows))
    limit_s = LIMITS_S[np.minimum(np.searchsorted(LIMITS_S, requested_s), len(LIMITS_S) - 1)]
    return JobTable.build(
        np.arange(1, len(rows) + 1), submit_s=times, eligible_s=times, elapsed_s=run_s, limit_s=limit_s, nodes=gpus
    )


def main() -> None:
    """Writes the trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("trace")
    given = parser.parse_args()
    write_trace(philly_table(given.log), given.trace)


if __name__ == "__main__":
    main()
