r"""Forecasts of starts against recorded waits: no job is replayed.

    python benchmarks/waits/recorded_starts.py ls6-a100.log.gz --timezone America/Chicago --nodes 76 \
        --settings lonestar6 --from 2022-11-15 --judge-from 2023-02-01 --until 2023-03-29
    python benchmarks/waits/recorded_starts.py theta_2022.swf.gz --nodes 4360 --cluster theta.toml \
        --from 2022-02-15 --judge-from 2022-07-01 --until 2022-12-01

Every job with a limit of 8 hours or more, which a chain could have submitted, is forecast from the queue as it was
recorded when the job was submitted. A forecast knows nothing later: run times and waits of jobs that had ended or
started by then, ages of the others. Waits of more than 14 days count as 14 days, as in the forecasts.

`queue-forward` is the simulated queue of `mirage predict --job`, `corrected` its ranges after the outcomes so far,
`tabular` the model of waits, refitted every week. `rule` is five lines: the quantiles of the last 50 known waits of
jobs of the same size class and limit class. `slurm-like` is one estimate: all jobs run until their limits, and no more
arrive. `leader` is the one of `corrected` and `tabular` that was better lately, `mean` their mean, `blend` their blend;
`stretched` is the blend of `corrected` alone, which can only stretch it. `hindsight` uses for each level the candidate
of the blend that was best on the judged jobs: no fixed weights could have had less loss.

A link is submitted ahead of the end of its predecessor by a quantile of its forecast wait: by the median where an hour
of interruption costs as much as an hour of overlap, by the 75 % quantile where it costs three times as much. From a
cluster file only the scheduler and the limits are taken: its changes of capacity are known afterwards only.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.use_history import like_limit
from mirage.policy.view import Ended
from mirage.predict.start.blended_ranges import QuantileBlend
from mirage.predict.start.quantile_levels import HORIZON_S, SHARES, forecast_of
from mirage.predict.start.widened_ranges import StartCorrection, kind_of
from mirage.predict.waits.rolling_forecast import LEVELS, RollingSettings, rolling_forecast
from mirage.predict.waits.wait_features import names_of, waits_at_submission
from mirage.predict.waits.wait_score import interval
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.study.intervals import Stretches
from mirage.trace.read_trace import read_trace
from recorded_queue import NEVER_S, RecordedQueue

FUTURES = 64
RECENT = 50
COST_LEVELS = {1: 0.5, 3: 0.75}
"""Cost of an hour of interruption in hours of overlap → the quantile of the wait that costs least."""

PARTS = ("queue-forward", "corrected", "tabular")
Forecasts = dict[str, Floats]


@dataclass(frozen=True)
class Jobs:
    """The forecast jobs, by submission.

    Attributes:
        rows: Shape (n,), rows of the recorded queue.
        now_s: Shape (n,), when each began to wait.
        wait_s: Shape (n,), its wait, at most the horizon; so far, if it left the queue without a start.
        known_s: Shape (n,), when its wait was known; ``NEVER_S`` if it left the queue without a start.
        nodes: Shape (n,).
        limit_s: Shape (n,).
    """

    rows: Ints
    now_s: Ints
    wait_s: Ints
    known_s: Ints
    nodes: Ints
    limit_s: Ints

    @classmethod
    def of(cls, queue: RecordedQueue, chosen: NDArray[np.bool_]) -> Jobs:
        """Returns some jobs of a queue."""
        rows = np.flatnonzero(chosen)
        now_s = queue.request_s[rows]
        waited_s = queue.left_s[rows] - now_s
        known = (queue.start_s[rows] < NEVER_S) | (waited_s >= HORIZON_S)
        wait_s = np.minimum(waited_s, HORIZON_S)
        known_s = np.where(known, now_s + wait_s, NEVER_S)
        return cls(rows, now_s, wait_s, known_s, queue.table.nodes[rows], queue.table.limit_s[rows])

    def __len__(self) -> int:
        return len(self.rows)

    def in_time(self, waits_known: bool = True) -> Iterator[tuple[int, list[int]]]:
        """Yields each job, after the jobs that were known or gone since the one before."""
        waiting: list[tuple[int, int]] = []
        leave_s = self.known_s if waits_known else self.now_s + self.wait_s
        for k, now_s in enumerate(self.now_s.tolist()):
            known = []
            while waiting and waiting[0][0] <= now_s:
                known.append(heapq.heappop(waiting)[1])
            yield k, known
            if leave_s[k] < NEVER_S:
                heapq.heappush(waiting, (int(leave_s[k]), k))


def by_queue(queue: RecordedQueue, jobs: Jobs, limits: tuple[Limit, ...]) -> tuple[Ints, Floats]:
    """Waits in all futures, shape (n, futures), and Slurm's estimate, shape (n,)."""
    forward = Forecaster(FUTURES, scheduler=queue.settings, limits=limits)
    literal = Forecaster(1, scheduler=queue.settings, limits=limits, arrivals=False)
    waits_s, estimates_s = np.empty((len(jobs), FUTURES), dtype=np.int64), np.empty(len(jobs))
    for k, row in enumerate(jobs.rows.tolist()):
        view = queue.at(row)
        until_s = view.now_s + HORIZON_S
        waits_s[k] = forward.of(view).play_pending(row, until_s).waits_s[:, 0]
        without_history = replace(view, ended=Ended.nothing())  # every job then runs until its limit
        estimates_s[k] = literal.of(without_history).play_pending(row, until_s).waits_s[0, 0]
        print(k, len(jobs), end="\r", file=sys.stderr)
    return waits_s, estimates_s


def corrected(jobs: Jobs, waits_s: Ints, every: int = 1) -> Floats:
    """Quantiles of the futures, corrected by the known outcomes of every Nth job."""
    correction, found = StartCorrection(), np.empty((len(jobs), len(LEVELS)))
    for k, gone in jobs.in_time(waits_known=False):
        for j in (j for j in gone if j % every == 0):
            left_s = int(jobs.now_s[j] + jobs.wait_s[j])
            correction.learn(str(j), left_s, started=bool(jobs.known_s[j] < NEVER_S))
        forecast = forecast_of(int(jobs.now_s[k]), waits_s[k], HORIZON_S)
        kind = kind_of("", int(jobs.nodes[k]))
        found[k] = correction.quantiles_s(forecast, LEVELS, kind)
        if k % every == 0:
            correction.promise(str(k), forecast, kind)
    return found


def rule(jobs: Jobs) -> Floats:
    """Quantiles of the last known waits of jobs of the same size class and limit class."""
    kind = np.log2(jobs.nodes).astype(int) * 100 + like_limit(jobs.limit_s)
    known: dict[int, list[int]] = {}
    found = np.zeros((len(jobs), len(LEVELS)))
    for k, news in jobs.in_time():
        for j in news:
            for group in (int(kind[j]), -1):
                known.setdefault(group, []).append(int(jobs.wait_s[j]))
        own = known.get(int(kind[k]), [])
        waits_s = (own if len(own) >= RECENT // 5 else known.get(-1, [0]))[-RECENT:]
        found[k] = np.quantile(waits_s, LEVELS)
    return found


def blended(jobs: Jobs, parts: list[Floats], every: int = 1) -> Forecasts:
    """The blend of parts, and the part with the least loss lately."""
    blend = QuantileBlend(LEVELS, len(parts))
    stacked = np.stack(parts, axis=1)
    loss, at_s = np.zeros(len(parts)), 0
    found = {name: np.empty_like(parts[0]) for name in ("leader", "blend")}
    losses = np.stack([pinball_h(jobs.wait_s, part) for part in parts], axis=1)
    for k, news in jobs.in_time():
        for j in (j for j in news if j % every == 0):
            known_s = int(jobs.known_s[j])
            blend.learn(stacked[j], float(jobs.wait_s[j]), known_s)
            loss = loss * 0.5 ** ((known_s - at_s) / blend.settings.half_life_s) + losses[j]
            at_s = known_s
        found["leader"][k] = stacked[k, loss.argmin()]
        found["blend"][k] = blend.quantiles_s(stacked[k], int(jobs.now_s[k]))
    return found


def hindsight(jobs: Jobs, parts: list[Floats], judged: NDArray[np.bool_]) -> Floats:
    """For each level the candidate of the blend with the least loss on the judged jobs."""
    stacked, wait_s = np.stack(parts, axis=1), jobs.wait_s[judged, None]
    factors = QuantileBlend(LEVELS, len(parts)).candidates
    loss = np.empty((len(factors), len(LEVELS)))
    for k, each in enumerate(factors):
        error_s = wait_s - np.tensordot(stacked[judged], each, (1, 0))
        loss[k] = np.maximum(LEVELS * error_s, (LEVELS - 1.0) * error_s).mean(axis=0)
    best = factors[loss.argmin(axis=0)]  # shape (levels, parts)
    return np.minimum(np.sort(np.einsum("npk,kp->nk", stacked, best), axis=1), HORIZON_S)


def all_forecasts(
    queue: RecordedQueue, jobs: Jobs, tabular_s: Floats, limits: tuple[Limit, ...], every: int
) -> Forecasts:
    """Quantiles of the wait by each forecast, shape (n, levels), in seconds."""
    waits_s, estimates_s = by_queue(queue, jobs, limits)
    found = {
        "slurm-like": np.repeat(estimates_s[:, None], len(LEVELS), axis=1),
        "rule": rule(jobs),
        "queue-forward": np.quantile(waits_s, LEVELS, axis=1).T,
        "corrected": np.minimum(corrected(jobs, waits_s, every), HORIZON_S),
        "tabular": np.minimum(tabular_s, HORIZON_S),
    }
    found["mean"] = (found["corrected"] + found["tabular"]) / 2.0
    both = blended(jobs, [found["corrected"], found["tabular"]], every)
    alone = blended(jobs, [found["corrected"]], every)["blend"]
    found |= {"leader": both["leader"], "stretched": alone, "blend": both["blend"]}
    return {name: np.minimum(made_s, HORIZON_S) for name, made_s in found.items()}


def tabular(queue: RecordedQueue, jobs: Jobs) -> Floats:
    """Quantiles of the model of waits, refitted every week on what was known then."""
    sample = waits_at_submission(queue.table, names_of(queue.table))
    forecast = rolling_forecast(sample, int(jobs.now_s[0]), RollingSettings(refit_s=7 * DAY_S))
    made: Floats = 10.0 ** forecast.quantiles[jobs.rows - forecast.first]
    return made


def pinball_h(wait_s: Ints, quantiles_s: Floats) -> Floats:
    """Twice the mean pinball loss of the quantiles, in hours, shape (n,); near the CRPS."""
    error_h = (wait_s[:, None] - quantiles_s) / HOUR_S
    return np.asarray(2.0 * np.maximum(LEVELS * error_h, (LEVELS - 1.0) * error_h).mean(axis=1))


def figures(jobs: Jobs, quantiles_s: Floats, judged: NDArray[np.bool_]) -> dict[str, Any]:
    """Loss, coverage to the minute, and hours of interruption and overlap per hand-over."""
    wait_s, made_s = jobs.wait_s[judged], quantiles_s[judged]
    row: dict[str, Any] = {"crps_h": float(pinball_h(wait_s, made_s).mean())}
    log = np.log10(MINUTE_S + wait_s)[:, None] - np.log10(MINUTE_S + made_s)
    row["crps_log10"] = float(2.0 * np.maximum(LEVELS * log, (LEVELS - 1.0) * log).mean())
    ends = [interval(made_s, LEVELS, share) for share in SHARES]
    row["coverage"] = [float(((low - MINUTE_S < wait_s) & (wait_s < high + MINUTE_S)).mean()) for low, high in ends]
    for cost, level in COST_LEVELS.items():
        gap_h = (wait_s - made_s[:, np.searchsorted(LEVELS, level)]) / HOUR_S
        row[f"hand_over_{cost}"] = [float(np.maximum(gap_h, 0).mean()), float(np.maximum(-gap_h, 0).mean())]
    return row


def report(jobs: Jobs, forecasts: Forecasts, judged: NDArray[np.bool_]) -> dict[str, Any]:
    """Print and return the figures of all forecasts, by month and in total."""
    month = np.array([str(np.datetime64(int(now_s), "s"))[:7] for now_s in jobs.now_s])
    months = np.unique(month[judged]).tolist()
    losses = {name: pinball_h(jobs.wait_s, made_s) for name, made_s in forecasts.items()}
    best = min(PARTS, key=lambda name: float(losses[name][judged].mean()))
    stretches, everyone = Stretches.of(jobs.now_s[judged]), np.full(int(judged.sum()), True)
    print(f"{judged.sum():,} jobs, mean wait {jobs.wait_s[judged].mean() / HOUR_S:.2f} h, best part: {best}")
    print(f"intervals: {stretches.words}\n")
    heads = ["forecast", "CRPS, h", f"÷ {best}", "CRPS, log10", "50 / 80 / 95 %"]
    print_heads(*heads, *(f"cost at {cost}:1 = interruption × {cost} + overlap, h" for cost in COST_LEVELS))
    found: dict[str, Any] = {"best part": best, "jobs": int(judged.sum()), "intervals": stretches.words}
    for name, made_s in forecasts.items():
        row = figures(jobs, made_s, judged)
        row["months"] = {each: float(losses[name][judged & (month == each)].mean()) for each in months}
        row["ratio"] = float(losses[name][judged].sum() / losses[best][judged].sum())
        between = stretches.ratio(losses[name][judged], losses[best][judged], everyone)
        row["between"] = None if between is None or name == best else (max(between[0], 0.0), between[1])
        found[name] = row
        print(_line(name, row))
    print()
    print_heads("CRPS, h", *months)
    for name in forecasts:
        print("| " + " | ".join([name, *(f"{value:.3g}" for value in found[name]["months"].values())]) + " |")
    return found


def print_heads(*heads: str) -> None:
    """Print the heading of a table."""
    print("| " + " | ".join(heads) + " |\n|---|" + "---:|" * (len(heads) - 1))


def _line(name: str, row: dict[str, Any]) -> str:
    between = "" if row["between"] is None else " ({:.2f} … {:.2f})".format(*row["between"])
    cells = [name, f"{row['crps_h']:.3g}", f"{row['ratio']:.2f}{between}", f"{row['crps_log10']:.3f}"]
    cells.append(" / ".join(f"{100 * share:.0f}" for share in row["coverage"]))
    for cost in COST_LEVELS:
        down_h, twice_h = row[f"hand_over_{cost}"]
        cells.append(f"{cost * down_h + twice_h:.1f} = {down_h:.2f} × {cost} + {twice_h:.2f}")
    return "| " + " | ".join(cells) + " |"


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))


def main() -> None:
    """Forecast, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--timezone", default="UTC")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--settings", choices=("slurm-default", "lonestar6"), default="slurm-default")
    parser.add_argument("--cluster", help="a cluster file of `mirage calibrate`: its scheduler and limits")
    parser.add_argument("--least-limit-h", type=float, default=8.0)
    parser.add_argument("--from", dest="from_s", type=_seconds, required=True, help="forecasts and learning begin")
    parser.add_argument("--judge-from", type=_seconds, required=True)
    parser.add_argument("--until", type=_seconds, default=NEVER_S)
    parser.add_argument("--learn-every", type=int, default=1, metavar="N", help="outcomes of every Nth job are known")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    settings, limits = SlurmSettings.lonestar6() if options.settings == "lonestar6" else SlurmSettings(), ()
    if options.cluster:
        read = read_cluster_file(options.cluster)
        settings, limits = read.settings, read.cluster.limits
    table = read_trace(options.trace, timezone=options.timezone, on_error="skip").table
    queue = RecordedQueue(table, options.nodes, settings)
    submitted = (queue.request_s >= options.from_s) & (queue.request_s < options.until)
    jobs = Jobs.of(queue, submitted & (queue.table.limit_s >= options.least_limit_h * HOUR_S))
    forecasts = all_forecasts(queue, jobs, tabular(queue, jobs), limits, options.learn_every)
    judged = (jobs.now_s >= options.judge_from) & (jobs.known_s < NEVER_S)
    forecasts["hindsight"] = hindsight(jobs, [forecasts["corrected"], forecasts["tabular"]], judged)
    found = report(jobs, forecasts, judged)
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
