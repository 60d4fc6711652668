"""Compares forecasts of starts, as played and corrected, with the truth by size and month.

    python benchmarks/forecast/start_coverage.py ls6-a100.log.gz --nodes 76 --discipline mirage-2023 --until 2023-02-01
    python benchmarks/forecast/start_coverage.py ls6-a100.log.gz --nodes 76 --discipline slurm -o start-coverage.json

Every four hours of a replay, a link is submitted in a fork, which gives its true start. This start is compared with the
forecast of 64 futures. The correction learns online: from the wait of each link that has started, and from the wait so
far of each link that still waits. Moments whose futures all agree within 12 minutes are counted apart. If several
futures, or the truth and a future, are equal, their order is drawn, so ties do not improve the coverage. In brackets is
the 95 % interval of a coverage, from blocks of time. ``--journal`` stores what was played; a second run of the same
discipline resumes from there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.forecast.forecaster import Forecaster
from mirage.policy.start_forecast import StartForecast
from mirage.predict.conformal import CalibrationSettings
from mirage.predict.start.widened_ranges import PRIOR, SETTINGS, StartCorrection, agree, kind_of
from mirage.study.intervals import Stretches
from run_time_accuracy import crps, pit
from start_moments import PATIENCE_S, Row, moments, options_of_moments, replay

FUTURES = 64
LEVELS = (np.arange(FUTURES) + 0.5) / FUTURES
SHARES = (0.5, 0.8, 0.95)
RIGHT_H = 0.2


def corrected(rows: list[Row], correction: StartCorrection) -> NDArray[np.float64]:
    """Shape (rows, levels): hours, each row from what was known at its moment."""
    starts_s: dict[str, int] = {}
    found = np.empty((len(rows), FUTURES))
    for k, row in enumerate(rows):
        now_s = row["now_s"]
        for key in correction.awaited:
            if starts_s[key] <= now_s:
                correction.learn(key, starts_s.pop(key))
        forecast = _forecast(row)
        kind = kind_of("", row["nodes"])
        found[k] = correction.quantiles_s(forecast, LEVELS, kind) / HOUR_S
        starts_s[str(k)] = now_s + round(row["true_h"] * HOUR_S)
        correction.promise(str(k), forecast, kind)
    return found


def _forecast(row: Row) -> StartForecast:
    now_s = row["now_s"]
    starts_s = now_s + np.round(np.array(row["forecast"]) * HOUR_S).astype(np.int64)[:, None]
    return StartForecast(now_s, now_s, np.zeros(1, dtype=np.int64), starts_s, now_s + PATIENCE_S)


def figures(levels: NDArray[np.float64], truth: NDArray[np.float64], now_s: NDArray[np.int64]) -> dict[str, Any]:
    """CRPS, coverage with its 95 % interval, median widths and the PIT's histogram."""
    place = pit(levels, truth, np.random.default_rng(0))
    ends = [np.quantile(levels, [0.5 - share / 2, 0.5 + share / 2], axis=1) for share in SHARES]
    held = [(np.abs(place - 0.5) <= share / 2).astype(np.float64) for share in SHARES]
    stretches, everyone = Stretches.of(now_s), np.full(len(now_s), True)
    return {
        "crps_h": float(crps(levels, truth).mean()),
        "coverage": [float(each.mean()) for each in held],
        "between": [stretches.mean(each, everyone) for each in held],
        "width_h": [float(np.median(high - low)) for low, high in ends],
        "pit": np.histogram(place, 10, (0.0, 1.0))[0].tolist(),
    }


def report(rows: list[Row], better: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Print and return the figures of every size and month, and of all months."""
    raw, truth = np.array([row["forecast"] for row in rows]), np.array([row["true_h"] for row in rows])
    nodes, now_s = np.array([row["nodes"] for row in rows]), np.array([row["now_s"] for row in rows])
    month = np.array([str(np.datetime64(row["now_s"], "s"))[:7] for row in rows])
    agreeing = np.array([agree(_forecast(row)) for row in rows])
    found = []
    for size in np.unique(nodes):
        for when in [*np.unique(month), "all"]:
            inside = (nodes == size) & ((month == when) | (when == "all"))
            sure, wide = inside & agreeing, inside & ~agreeing
            off = np.abs(np.median(raw[sure], axis=1) - truth[sure])
            row: dict[str, Any] = {
                "nodes": int(size), "month": str(when), "moments": int(inside.sum()),
                "agree": float(agreeing[inside].mean()), "right": float((off <= RIGHT_H).mean()),
                "median_error_min": float(np.median(off) * 60), "open": int(wide.sum()),
                "raw": figures(raw[wide], truth[wide], now_s[wide]),
                "corrected": figures(better[wide], truth[wide], now_s[wide]),
            }  # fmt: skip
            found.append(row)
            print(_line(row))
    return found


def _line(row: dict[str, Any]) -> str:
    line = (
        f"| {row['nodes']} | {row['month']} | {row['moments']} | {row['agree']:.0%} | {row['right']:.1%} "
        f"| {row['median_error_min']:.2g} | {row['open']}"
    )
    for which in ("raw", "corrected"):
        one = row[which]
        line += f" | {one['crps_h']:.2f} | {' / '.join(map(_share, one['coverage'], one['between']))}"
        line += f" | {' / '.join(f'{width:.1f}' for width in one['width_h'])}"
    return line + " |"


def _share(share: float, between: tuple[float, float] | None) -> str:
    held = f"{100 * share:.0f}"
    if between is None or between[0] == between[1]:
        return held
    return f"{held} ({100 * between[0]:.0f}…{min(100 * between[1], 100):.0f})"


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options_of_moments(parser, every_h=4.0)
    parser.add_argument("--judge-from", help="the first month that is judged, as 2023-02; learning begins with --from")
    parser.add_argument("--half-life-days", type=float, default=SETTINGS.half_life_s / 86400)
    parser.add_argument("--others", type=float, default=SETTINGS.others)
    parser.add_argument("--prior", type=float, default=PRIOR)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    casts = {"forecast": Forecaster(FUTURES, discipline=options.discipline)}
    rows = list(moments(options, replay(options), casts, options.journal))
    settings = CalibrationSettings(options.half_life_days * 86400, options.others)
    better = corrected(rows, StartCorrection(settings, options.prior))
    judged = [k for k, row in enumerate(rows) if str(np.datetime64(row["now_s"], "s")) >= (options.judge_from or "")]
    print(
        "| nodes | month | moments | agree | of these right | median error, min | open | CRPS, h | inside 50 / 80 / 95 "
        "| width, h | CRPS, h | corrected: inside | width, h |\n|" + "---:|" * 13
    )
    found = report([rows[k] for k in judged], better[judged])
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
