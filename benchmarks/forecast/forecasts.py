"""Measures the cost of forecasts: 64 futures with every delay, on real and made-up queues.

    python benchmarks/forecast/forecasts.py ls6-a100.log.gz

``plain`` plays every delay of every future for five days beyond the end of the link: the reference. ``forecast`` is the
one that decisions use, ``decision`` is all of ``what-if``, and ``features`` is the part that a data set stores of each
decision: 32 futures with two delays. ``of`` is the preparation before any future is played. Processor time in
milliseconds, the mean over moments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast import forecaster
from mirage.forecast.forecaster import BEYOND_S, Forecaster
from mirage.learn.features.forecast_features import FUTURES as FEATURE_FUTURES
from mirage.learn.features.forecast_features import forecast_of
from mirage.policy.view import ChainView, Ended, Nodes, QueueJobs, View
from mirage.provision.policies.what_if import FUTURES, WhatIf, delays_s
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace

NODES, STEP_S = 76, 1800
DISCIPLINES = ("mirage-2023", "slurm")


def moments_of_a_trace(trace: Path, discipline: str, count: int) -> list[View]:
    """Views at moments of February, each in the last day of a link of 8 nodes."""
    cluster = Cluster.pool(NODES)
    sim = Simulation(cluster, workload(read_trace(trace, on_error="skip").table, cluster, refuse=False), discipline)
    begin_s = int(np.datetime64("2023-02-02", "s").astype(int))
    views = []
    for now_s in range(begin_s, begin_s + 24 * DAY_S, 24 * DAY_S // count):
        sim.approach(now_s)
        left_s = (2 + 7 * len(views) % 24) * HOUR_S
        ends_s = now_s + left_s
        started_s = ends_s - 2 * DAY_S
        chain = ChainView(8, 2 * DAY_S, -1, started_s - HOUR_S, started_s, ends_s, STEP_S)
        views.append(sim.view(chain))
    return views


def long_queue(pending: int, seed: int) -> View:
    """A view of a full machine and a number of waiting jobs."""
    rng = np.random.default_rng(seed)
    now_s, history = 40 * DAY_S, 4000
    limits, sizes = np.array([1, 2, 5, 12, 24, 48]) * HOUR_S, np.array([1] * 8 + [2, 4, 8])

    def jobs(n: int, **columns: Any) -> QueueJobs:
        given = {"id": np.arange(n), "user": rng.integers(0, 40, n), "limit_s": rng.choice(limits, n)}
        names = [name for name in QueueJobs.__dataclass_fields__ if name not in given]
        full = {name: np.zeros(n, dtype=np.int64) for name in names} | given
        full |= {name: np.full(n, -1) for name in ("gpus", "start_s", "name", "account")} | {"cpus": np.ones(n, int)}
        full |= columns
        kinds = {name: np.float64 if name in ("done_s", "priority") else np.int64 for name in full}
        return QueueJobs(**{name: np.asarray(column, dtype=kinds[name]) for name, column in full.items()})

    run_s = (rng.uniform(0.02, 1.0, history) * (limit_s := rng.choice(limits, history))).astype(np.int64)
    end_s = np.sort(now_s - rng.integers(0, 14 * DAY_S, history))
    ended = {
        "user": rng.integers(0, 40, history), "nodes": rng.choice(sizes, history), "limit_s": limit_s,
        "submit_s": end_s - run_s - HOUR_S, "start_s": end_s - run_s, "end_s": end_s,
    }  # fmt: skip
    ended |= {name: np.full(history, -1) for name in Ended.__dataclass_fields__ if name not in ended}
    running = jobs(
        NODES,
        id=pending + np.arange(NODES),
        nodes=np.ones(NODES),
        width=np.ones(NODES),
        start_s=now_s - rng.integers(0, HOUR_S, NODES),
    )
    submit_s = now_s - 3 * DAY_S + np.sort(rng.integers(0, 3 * DAY_S, pending))
    return View(
        now_s=now_s,
        nodes=Nodes(True, np.array([[NODES, 0]]), np.array([[0, 0]]), np.ones((1, 1), dtype=np.bool_)),
        pending=jobs(pending, nodes=rng.choice(sizes, pending), submit_s=submit_s, eligible_s=submit_s),
        running=running,
        held=jobs(0),
        ended=Ended(**ended),
        chain=ChainView(8, 2 * DAY_S, -1, now_s - DAY_S, now_s - DAY_S, now_s + DAY_S, STEP_S),
    )


def cost_ms(views: list[View], work: Callable[[View], object]) -> float:
    """Processor time of some work, the mean over all views but the first.

    Forecasts of one view are shared, so no view is used twice.
    """
    work(views[0])
    begin = time.process_time()
    for view in views[1:]:
        work(view)
    return (time.process_time() - begin) / (len(views) - 1) * 1e3


def measured(views: list[View], discipline: str) -> tuple[float, ...]:
    """Milliseconds of forecasts (plain, ours), a decision, and features without and with play."""

    def forecast(beyond_s: int) -> Callable[[View], object]:
        return lambda view: cast.forecast(view, delays_s(view.chain.ends_s - view.now_s, STEP_S), beyond_s)  # type: ignore[union-attr]

    cast, usual = Forecaster(FUTURES, discipline=discipline), forecaster.ANCHORS
    ours = cost_ms(views, forecast(BEYOND_S))
    decision = cost_ms(views, lambda view: WhatIf(discipline=discipline).decide(view))
    few = Forecaster(FEATURE_FUTURES, discipline=discipline)
    revived = cost_ms(views, few.of)
    features = cost_ms(views, lambda view: forecast_of(few.of(view), view.chain))  # type: ignore[arg-type]
    forecaster.ANCHORS = 1
    try:
        return cost_ms(views, forecast(5 * DAY_S)), ours, decision, revived, features
    finally:
        forecaster.ANCHORS = usual


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--moments", type=int, default=24)
    parser.add_argument("--pending", type=int, nargs="*", default=[500, 5000])
    options = parser.parse_args()
    print(
        f"{'queue':28}{'plain ms':>10}{'forecast':>10}{'ratio':>8}{'decision':>10}{'of':>8}{'features':>10}{'ratio':>8}"
    )
    for discipline in DISCIPLINES:
        queues = {f"{options.moments} moments": moments_of_a_trace(options.trace, discipline, options.moments)}
        queues |= {f"{n} pending": [long_queue(n, seed) for seed in range(4)] for n in options.pending}
        for name, views in queues.items():
            plain, ours, decision, revived, features = measured(views, discipline)
            print(
                f"{discipline + ', ' + name:28}{plain:10.0f}{ours:10.0f}{ours / plain:8.2f}{decision:10.0f}"
                f"{revived:8.1f}{features:10.1f}{features / plain:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
