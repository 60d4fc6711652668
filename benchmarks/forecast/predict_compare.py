"""``mirage predict --compare`` against the simulator's own truth.

    python benchmarks/forecast/predict_compare.py ls6-a100.log.gz --nodes 76 --moments 200

At random moments of a replay, a request drawn from the jobs submitted in the month before is compared with shorter and
narrower ones. Each of them is then submitted in a fork of the replay, which gives its true start. ``first`` is the
share of moments in which the recommended request starts as early as any, within a minute and within five. Two rules
without any forecast are compared with it: keep the request, and take the smallest. ``open`` moments are those in which
the requests do not all start within five minutes of each other: only there the choice matters. The coverage is that of
the ranges of the original request and of the recommended one; ``wide`` are those whose futures do not all agree within
12 minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.predict.start.offers import compare, limits_to_try
from mirage.predict.start.predictor import JobRequest, StartPrediction, StartPredictor
from mirage.predict.start.quantile_levels import HORIZON_S, SHARES, ends
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace

MONTH_S = 30 * DAY_S


def moments(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What was recommended, and when each of the offers really starts, at every moment."""
    cluster, settings = Cluster.pool(options.nodes), SlurmSettings.lonestar6()
    jobs = workload(read_trace(options.trace, on_error="skip").table, cluster)
    sim = Simulation(cluster, jobs, options.discipline, settings)
    branch, found = sim.fork(), []
    rng = np.random.default_rng(options.seed)
    for now_s in np.sort(rng.integers(options.from_s, options.until_s, options.moments)):
        sim.approach(int(now_s))
        request = drawn(jobs.jobs, int(now_s), rng)
        others = [
            JobRequest(nodes, limit_s, user=request.user)
            for nodes in {request.nodes, max(request.nodes // 2, 1)}
            for limit_s in limits_to_try(request.limit_s)
        ]
        began = time.perf_counter()
        offers = compare(StartPredictor(sim.view(), settings, discipline=options.discipline), request, others)
        row: dict[str, Any] = {"now_s": int(now_s), "took_s": time.perf_counter() - began, "offers": []}
        for offer in offers:
            branch.restore(sim)
            job = branch.inject(nodes=offer.request.nodes, limit_s=offer.request.limit_s, user=request.user)
            started_s = branch.run_until_started(job, int(now_s) + HORIZON_S)
            true_s = HORIZON_S if started_s is None else started_s - int(now_s)
            row["offers"].append(
                {
                    "nodes": offer.request.nodes,
                    "limit_s": offer.request.limit_s,
                    "asked": offer.request == request,
                    "true_s": true_s,
                    "mean_s": offer.prediction.mean_s,
                    "wide": float(np.ptp(offer.prediction.waits_s)) > 12 * MINUTE_S,
                    "inside": inside(offer.prediction, true_s),
                }
            )
        found.append(row)
        print(f"{len(found)} of {options.moments}", end="\r", file=sys.stderr)
    return found


def drawn(jobs: Any, now_s: int, rng: np.random.Generator) -> JobRequest:
    """The request of a job submitted in the month before."""
    late = np.flatnonzero((jobs.submit_s >= now_s - MONTH_S) & (jobs.submit_s < now_s))
    job = jobs[rng.choice(late)]
    return JobRequest(int(job.nodes), int(job.limit_s), user=int(job.user))


def inside(prediction: StartPrediction, true_s: int) -> list[bool]:
    """Whether the wait lies in each of the predicted ranges."""
    quantiles_s = prediction.quantiles_s()
    return [bool(quantiles_s[ends(share)[0]] <= true_s <= quantiles_s[ends(share)[1]]) for share in SHARES]


def report(rows: list[dict[str, Any]], name: str) -> None:
    """Print how often each rule starts first, and whether the ranges hold."""
    truth = [np.array([offer["true_s"] for offer in row["offers"]]) for row in rows]
    rules = {
        "recommended": [0] * len(rows),
        "as asked": [next(k for k, one in enumerate(row["offers"]) if one["asked"]) for row in rows],
        "the least": [
            min(range(len(row["offers"])), key=lambda k: row["offers"][k]["nodes"] * row["offers"][k]["limit_s"])
            for row in rows
        ],
    }
    choice = np.array([np.ptp(waits) > 5 * MINUTE_S for waits in truth])
    print(f"{name}: {len(rows)} moments, {choice.sum()} open; {np.median([row['took_s'] for row in rows]):.2f} s each")
    for rule, chosen in rules.items():
        lost_s = np.array([waits[k] - waits.min() for waits, k in zip(truth, chosen)])
        hours = np.array([row["offers"][k]["nodes"] * row["offers"][k]["limit_s"] for row, k in zip(rows, chosen)])
        at_once, soon = lost_s <= MINUTE_S, lost_s <= 5 * MINUTE_S
        print(
            f"  {rule:12} first {at_once.mean():.0%} ({soon.mean():.0%} within 5 min), "
            f"where open {at_once[choice].mean():.0%} ({soon[choice].mean():.0%}); "
            f"behind the first {lost_s.mean() / HOUR_S:.2f} h; {hours.mean() / HOUR_S:.0f} node hours"
        )
    for rule in ("as asked", "recommended"):
        chosen = [row["offers"][k] for row, k in zip(rows, rules[rule])]
        wide = [one for one in chosen if one["wide"]]
        shares = [np.mean([one["inside"] for one in of], axis=0) for of in (chosen, wide)]
        texts = [" ".join(f"{share:.0%}" for share in of) for of in shares]
        print(f"  inside 50/80/95 %, {rule}: {texts[0]}; of {len(wide)} wide ones {texts[1]}")


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--discipline", default="slurm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="from_s", type=_seconds, default=_seconds("2023-03-01"))
    parser.add_argument("--until", dest="until_s", type=_seconds, default=_seconds("2023-03-29"))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rows = moments(options)
    report(rows, options.discipline)
    if options.output:
        options.output.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
