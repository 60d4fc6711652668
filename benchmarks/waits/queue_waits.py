"""Queue waits of DRAC Graham, predicted by Mirage and by other methods.

    python benchmarks/waits/queue_waits.py -o queue-waits.json

The days are split in the order of time: all choices were made on the first 80 %; the table is made on the last 20 % (18
to 30 June 2021). Ours is a stream: trees are grown every other day and calibrated every day, from waits that had ended
by the poll and the ages of those that had not. Coverage by month is that of the stream from 17 May on. The table of
coverage by class also has the coverage that a forecast which is right by class could have (`shared_fates`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from graham import graham_sample, read_graham
from group_coverage import coverage_by
from mirage.array_types import Floats
from mirage.duration import DAY_S
from mirage.predict.waits.boosted_waits import BoostingSettings
from mirage.predict.waits.rolling_forecast import LEVELS, RollingForecast, RollingSettings, rolling_forecast
from mirage.predict.waits.wait_sample import WaitSample
from mirage.predict.waits.wait_score import interval_figures, point_figures
from shared_fates import NEAR, expected_coverage, print_expected
from wait_references import (
    boosted,
    constant_median,
    log_waits,
    qbets_bounds,
    ridge,
    rolling_median,
    rolling_quantiles,
    trout,
)  # fmt: skip

TRAINING_SHARE = 0.8
STREAM_FROM_DAY = 16
COUNTED = 500
"""Classes of fewer waits are not counted."""

SIZES = ("1 core", "2 to 32 cores", "more cores", "GPUs")


def main() -> None:
    """Make the tables, print them, and write their figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default="benchmarks/results/queue_waits.json", metavar="FILE")
    parser.add_argument("--data", default=os.environ.get("MIRAGE_DATA", "../shared/data"), metavar="FOLDER")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draws", type=int, default=2000, help="of polls, for what can be expected by class")
    chosen = parser.parse_args()
    columns = read_graham(Path(chosen.data))
    sample, published = graham_sample(columns), graham_sample(columns, published_only=True)
    days = (sample.request_s - sample.request_s[0]) // DAY_S
    first = int(np.searchsorted(days, int(TRAINING_SHARE * (days[-1] + 1))))
    settings = RollingSettings(refit_s=2 * DAY_S, boosting=BoostingSettings(threads=chosen.threads))
    wait = log_waits(sample)[first:]

    results: dict[str, Any] = {"training_rows": first, "test_rows": len(wait), "settings": asdict(settings)}
    points: dict[str, Callable[[], Floats]] = {
        "constant median": lambda: constant_median(published, first),
        "last-7-day median": lambda: rolling_median(published, first),
        "ridge, log10": lambda: ridge(published, first),
        "boosting, squared log10": lambda: boosted(published, first, "reg:squarederror"),
        "boosting, absolute log10": lambda: boosted(published, first, "reg:absoluteerror"),
        "trout-2024, boosted trees": lambda: trout(published, first),
        "boosting, squared log10, our features": lambda: boosted(sample, first, "reg:squarederror"),
    }
    if importlib.util.find_spec("torch"):
        from trout_networks import trout_networks

        points["trout-2024, networks"] = lambda: trout_networks(published, first)
    else:
        _print_progress("TROUT's networks need PyTorch, which is not installed (pip install torch): left out")
    results["points"] = {}
    for name, predict in points.items():
        begun_s = time.process_time()
        results["points"][name] = point_figures(wait, predict())
        _print_progress(f"{name}: {time.process_time() - begun_s:.0f} CPU-s")
    begun_s = time.process_time()
    begin_s = int(sample.request_s[0]) + STREAM_FROM_DAY * DAY_S
    stream = rolling_forecast(
        sample, begin_s, settings, progress=lambda done, total: _print_progress(f"stream: {done:,} of {total:,} waits")
    )
    results["stream_cpu_s"] = time.process_time() - begun_s
    tested = slice(first - stream.first, None)
    results["points"]["ours, stream: mean"] = point_figures(wait, stream.mean[tested])
    results["points"]["ours, stream: median"] = point_figures(wait, stream.quantiles[tested][:, len(LEVELS) // 2])
    results["intervals"] = _intervals(sample, first, stream)
    results["expected"] = _expected(sample, first, stream, chosen.draws)
    bounds = qbets_bounds(sample, first)
    results["qbets"] = {
        "below": float(np.mean(wait <= bounds)), "median_ratio": float(10 ** np.median(bounds - wait))
    }  # fmt: skip
    Path(chosen.o).parent.mkdir(parents=True, exist_ok=True)
    Path(chosen.o).write_text(json.dumps(results, indent=2))
    print_points(results["points"])
    print()
    print_intervals(results["intervals"])
    for days, prefix in (("last days", "ours, class"), ("whole stream", "ours, stream, class")):
        print(f"within 5 points by class, {days}: {near_by_class(results['intervals'], prefix)}")
    print()
    print_expected(results["expected"])
    below, ratio = results["qbets"]["below"], results["qbets"]["median_ratio"]
    print(f"\nQBETS, 95 % with 95 % confidence: {below:.1%} of the waits below, median bound ÷ wait {ratio:.0f}")


def _intervals(sample: WaitSample, first: int, stream: RollingForecast) -> dict[str, Any]:
    """Coverage and width, of the rolling window and of ours, by size, class and month."""
    waits = log_waits(sample)
    test, tested = slice(first, None), slice(first - stream.first, None)
    quantiles, streamed = stream.quantiles, waits[stream.first :]
    rows = len(waits) - first
    month = sample.request_s[stream.first :].astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    found: dict[str, Any] = {
        "last 7 days": (rows, interval_figures(waits[test], rolling_quantiles(sample, first, LEVELS), LEVELS)),
        "ours": (rows, interval_figures(waits[test], quantiles[tested], LEVELS)),
    }
    by_size = coverage_by(waits[test], quantiles[tested], LEVELS, sample.size_class[test] % 4)
    found |= {f"ours, {SIZES[size]}": figures for size, figures in by_size.items()}
    by_class = coverage_by(waits[test], quantiles[tested], LEVELS, sample.size_class[test])
    found |= {f"ours, class {each // 4}, {SIZES[each % 4]}": figures for each, figures in by_class.items()}
    found["ours, whole stream"] = (len(streamed), interval_figures(streamed, quantiles, LEVELS))
    for each, figures in coverage_by(streamed, quantiles, LEVELS, month).items():
        found[f"ours, stream, {np.datetime64(each, 'M')}"] = figures
    by_size = coverage_by(streamed, quantiles, LEVELS, sample.size_class[stream.first :] % 4)
    found |= {f"ours, stream, {SIZES[size]}": figures for size, figures in by_size.items()}
    by_class = coverage_by(streamed, quantiles, LEVELS, sample.size_class[stream.first :])
    found |= {f"ours, stream, class {each // 4}, {SIZES[each % 4]}": figures for each, figures in by_class.items()}
    return found


def _expected(sample: WaitSample, first: int, stream: RollingForecast, draws: int) -> list[dict[str, Any]]:
    """Expected coverage of a forecast that is right by class, on as many polls."""
    poll = sample.request_s[stream.first :]
    of_class = sample.size_class[stream.first :]
    return [
        expected_coverage(
            log_waits(sample)[stream.first :], stream.quantiles, poll, of_class, polls, least=COUNTED, draws=draws
        )
        for polls in (len(np.unique(sample.request_s[first:])), len(np.unique(poll)))
    ]


def near_by_class(intervals: dict[str, tuple[int, dict[str, float]]], prefix: str) -> str:
    """Number of classes within 5 points of their level, of those with 500 waits or more."""
    counted = [figures for name, (rows, figures) in intervals.items() if name.startswith(prefix) and rows >= COUNTED]
    near = [sum(abs(figures[f"coverage_{k}"] - k / 100) <= NEAR for figures in counted) for k in (50, 80, 95)]
    return f"{', '.join(map(str, near))} of {len(counted)}"


def print_points(points: dict[str, dict[str, float]]) -> None:
    """The table of errors, as in docs/explanation/prediction.md."""
    bands = "all | < 10 min | to 2 h | > 2 h"
    print(f"| model | MSE log10 | within ×2 | within ×3 | median error, min: {bands} | Spearman |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, figures in points.items():
        errors = [value for key, value in figures.items() if key.startswith("median_error")]
        cells = [f"{figures[key]:.3f}" for key in ("mse_log10", "within_x2", "within_x3")]
        print(f"| {name} | {' | '.join(cells + [f'{e:.3g}' for e in errors])} | {figures['spearman']:.2f} |")


def print_intervals(intervals: dict[str, tuple[int, dict[str, float]]]) -> None:
    """The table of coverage and width, as in docs/explanation/prediction.md."""
    print("| intervals | waits | 50 % | 80 % | 95 % | width: 50 % | 80 % | 95 % | CRPS |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, (rows, figures) in intervals.items():
        cells = [f"{figures[f'coverage_{k}'] * 100:.1f}" for k in (50, 80, 95)]
        cells += [f"×{figures[f'width_{k}']:.3g}" for k in (50, 80, 95)]
        print(f"| {name} | {rows:,} | {' | '.join(cells)} | {figures['crps_log10']:.3f} |")


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
