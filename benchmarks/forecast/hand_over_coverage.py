"""Forecasts of the next link of a chain against the truth, for links of any user.

    python benchmarks/forecast/hand_over_coverage.py ls6-a100.log.gz --nodes 76 --slurm-conf fair.conf
    python benchmarks/forecast/hand_over_coverage.py ls6-a100.log.gz --cluster ls6.toml --link-user median --hand-over 5

The windows are those of ``mirage evaluate``. Every few hours of a link the next one is submitted in a fork, which shows
when it starts, and forecast in 64 futures of the view that a policy gets then. Reported are the shares of the truth in
the ranges of the futures, raw and corrected by the outcomes known by then, the CRPS, and the fair-share factor of the
link: the one that the forecast assumed and the one that the scheduler computed. Moments at which all futures agree
within 12 minutes are counted apart. If several futures, or the truth and a future, are equal, their order is drawn.
Brackets are 95 % intervals, from blocks of time.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.forecast.forecaster import BEYOND_S, Forecaster, QueueFutures
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView
from mirage.predict.start.widened_ranges import StartCorrection, agree, kind_of
from mirage.provision.evaluation.episode import Scenario, play
from mirage.provision.evaluation.evaluation_protocol import LINK_USERS, EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Player, Study
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.contract.from_view import priority_offsets
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.study.intervals import Stretches
from mirage.trace.read_trace import read_trace
from run_time_accuracy import crps, pit

FUTURES = 64
LEVELS = (np.arange(FUTURES) + 0.5) / FUTURES
SHARES = (0.5, 0.8, 0.95)
HEAVIEST = 3


@dataclass
class Moments:
    """Forecasts at moments of links of one size, and the truth.

    Attributes:
        now_s: When each was made.
        starts_s: Starts in all futures, a row for each moment.
        true_s: The true start.
        factors: Fair-share factors of the link: assumed (the median of the futures), and computed by the scheduler.
        window: Number of the window.
    """

    now_s: list[int] = field(default_factory=list)
    starts_s: list[Any] = field(default_factory=list)
    true_s: list[int] = field(default_factory=list)
    factors: list[tuple[float, float]] = field(default_factory=list)
    window: list[int] = field(default_factory=list)

    @property
    def waits_h(self) -> Floats:
        """Shape (moments, futures), in hours, ascending."""
        waits: Floats = (np.sort(np.array(self.starts_s), axis=1) - np.array(self.now_s)[:, None]) / HOUR_S
        return waits

    @property
    def true_h(self) -> Floats:
        """Shape (moments,), in hours."""
        return (np.array(self.true_s) - np.array(self.now_s)) / HOUR_S


def watch(found: Moments, forecaster: Forecaster, settings: SlurmSettings, every_s: int) -> Any:
    """Returns what an episode calls at its decisions; it forecasts every ``every_s``."""

    def on_decision(sim: Simulation, chain: ChainView) -> None:
        left_s = chain.ends_s - sim.now_s
        if left_s % every_s >= chain.step_s or left_s < chain.step_s:
            return
        view = sim.view(chain)
        futures = forecaster.of(view)
        forecast = futures.play(chain, np.zeros(1, dtype=np.int64), chain.ends_s + BEYOND_S)
        found.now_s.append(sim.now_s)
        found.starts_s.append(forecast.starts_s[:, 0])
        found.factors.append((_assumed(futures, chain, settings), _computed(sim, chain, settings)))

    return on_decision


def _assumed(futures: QueueFutures, chain: ChainView, settings: SlurmSettings) -> float:
    offsets = futures.offsets.of_link(chain, FUTURES, futures.seed)
    return float(np.median(offsets)) / max(settings.weight_fairshare, 1.0)


def _computed(sim: Simulation, chain: ChainView, settings: SlurmSettings) -> float:
    branch = sim.fork()
    job = branch.inject(nodes=chain.nodes, limit_s=chain.limit_s, user=chain.user)
    branch.approach(sim.now_s + settings.calc_period_s + 1)
    view = branch.view()
    for jobs in (view.pending, view.running):
        mine = jobs[jobs.id == job]
        if len(mine):
            return float(priority_offsets(mine, view, settings)[0]) / max(settings.weight_fairshare, 1.0)
    return float("nan")


def played(options: argparse.Namespace, scenario: Scenario) -> dict[int, Moments]:
    """Forecasts and truth by nodes of a link."""
    links = tuple(LinkSize(nodes, round(options.limit_h * HOUR_S)) for nodes in options.link_nodes)
    protocol = EvaluationProtocol.warm(
        options.start_s, windows=options.windows, every_s=round(options.every_h * HOUR_S)
    )
    protocol = replace(protocol, link_user=options.link_user, hand_over=options.hand_over)
    player = Player(Study(scenario, protocol, links, ()))
    found = {link.nodes: Moments() for link in links}
    forecaster = Forecaster(FUTURES, scheduler=scenario.settings, limits=scenario.cluster.limits)
    for window in range(options.windows):
        for link, sim in player.worlds(window):
            of = found[link.nodes]
            on_decision = watch(of, forecaster, scenario.settings, round(options.ahead_h * HOUR_S))
            episode = play(sim, protocol, link, window, None, on_decision)
            truth = dict(zip(episode.decisions_s.tolist(), (episode.outcome_s + episode.ends_s).tolist()))
            new = of.now_s[len(of.true_s) :]
            of.true_s += [min(truth[now_s], episode.ends_s + BEYOND_S) for now_s in new]
            of.window += [window] * len(new)
        print(f"window {window + 1} of {options.windows}", flush=True)
    return found


def corrected_h(of: Moments, nodes: int) -> Floats:
    """Shape (moments, futures): hours, each row corrected by what was known at its moment."""
    correction, found = StartCorrection(), np.empty((len(of.now_s), FUTURES))
    kind, true_s = kind_of("", nodes), dict(enumerate(of.true_s))
    for k, now_s in enumerate(of.now_s):
        for key in correction.awaited:
            if true_s[int(key)] <= now_s:
                correction.learn(key, true_s[int(key)])
        starts_s = np.sort(np.array(of.starts_s[k]))[:, None]
        forecast = StartForecast(now_s, now_s, np.zeros(1, dtype=np.int64), starts_s, now_s + 9 * BEYOND_S)
        found[k] = correction.quantiles_s(forecast, LEVELS, kind) / HOUR_S
        correction.promise(str(k), forecast, kind)
    return found


def figures(levels_h: Floats, true_h: Floats, now_s: Any) -> dict[str, Any]:
    """CRPS, and coverage with its interval."""
    place = pit(levels_h, true_h, np.random.default_rng(0))
    held = [(np.abs(place - 0.5) <= share / 2).astype(np.float64) for share in SHARES]
    stretches, everyone = Stretches.of(now_s), np.full(len(now_s), True)
    between = [stretches.mean(each, everyone) for each in held]
    return {"crps_h": float(crps(levels_h, true_h).mean()), "coverage": [float(x.mean()) for x in held],
            "between": between}  # fmt: skip


def report(of: Moments, nodes: int) -> dict[str, Any]:
    """Print and return the figures of one size of link."""
    waits_h, true_h, now_s = of.waits_h, of.true_h, np.array(of.now_s)
    starts = [np.array(row)[:, None] for row in of.starts_s]
    none = np.zeros(1, dtype=np.int64)
    sure = np.array([agree(StartForecast(n, n, none, row, n + 9 * BEYOND_S)) for n, row in zip(of.now_s, starts)])
    wide = ~sure
    factors = np.array(of.factors)
    known = np.isfinite(factors).all(axis=1) & (factors[:, 1] > 0)
    off = np.abs(factors[known, 0] / factors[known, 1] - 1.0)
    row: dict[str, Any] = {
        "nodes": nodes, "moments": len(true_h), "agree": float(sure.mean()),
        "right": float((np.abs(np.median(waits_h[sure], axis=1) - true_h[sure]) <= 0.2).mean()) if sure.any() else None,
        "forecast_h": float(np.median(waits_h, axis=1).mean()), "true_h": float(true_h.mean()),
        "raw": figures(waits_h[wide], true_h[wide], now_s[wide]),
        "corrected": figures(corrected_h(of, nodes)[wide], true_h[wide], now_s[wide]),
        "factor_off": float(np.median(off)) if len(off) else None,
    }  # fmt: skip
    for which in ("raw", "corrected"):
        one = row[which]
        inside = " / ".join(map(_share, one["coverage"], one["between"]))
        print(f"{nodes} nodes, {which}: {wide.sum()} of {len(true_h)} moments open, CRPS {one['crps_h']:.2f} h, "
              f"inside 50 / 80 / 95: {inside}")  # fmt: skip
    print(f"{nodes} nodes: mean forecast {row['forecast_h']:.2f} h, truth {row['true_h']:.2f} h; fair-share factor off "
          f"by {'-' if row['factor_off'] is None else format(row['factor_off'], '.0%')} in the median")  # fmt: skip
    row["heaviest"] = _heaviest(of, waits_h, true_h, factors)
    for one in row["heaviest"]:
        print(f"  window {one['window']}: factor assumed {one['assumed']:.4f}, computed {one['computed']:.4f}; "
              f"forecast {one['low_h']:.1f} … {one['high_h']:.1f} h, truth {one['true_h']:.1f} h")  # fmt: skip
    return row


def _heaviest(of: Moments, waits_h: Floats, true_h: Floats, factors: Floats) -> list[dict[str, float]]:
    """The last moment of the windows with the longest waits."""
    window = np.array(of.window)
    last = [int(np.flatnonzero(window == each)[-1]) for each in np.unique(window)]
    found = sorted(last, key=lambda k: -float(true_h[k]))[:HEAVIEST]
    return [
        {"window": int(window[k]), "assumed": float(factors[k, 0]), "computed": float(factors[k, 1]),
         "low_h": float(np.quantile(waits_h[k], 0.1)), "high_h": float(np.quantile(waits_h[k], 0.9)),
         "true_h": float(true_h[k])}
        for k in found
    ]  # fmt: skip


def _share(share: float, between: tuple[float, float] | None) -> str:
    if between is None:
        return f"{100 * share:.0f}"
    return f"{100 * share:.0f} ({100 * between[0]:.0f} … {min(100 * between[1], 100):.0f})"


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))


def main() -> None:
    """Forecast, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--slurm-conf", type=Path)
    parser.add_argument("--cluster", type=Path, help="a cluster file in place of --nodes and --slurm-conf")
    parser.add_argument("--link-nodes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--limit-h", type=float, default=48.0)
    parser.add_argument("--link-user", choices=list(LINK_USERS), default="newcomer")
    parser.add_argument("--hand-over", type=int, default=1)
    parser.add_argument("--start", dest="start_s", type=_seconds, default=_seconds("2022-12-02"))
    parser.add_argument("--windows", type=int, default=58)
    parser.add_argument("--every-h", type=float, default=48.0, help="between two windows")
    parser.add_argument("--ahead-h", type=float, default=6.0, help="between two forecasts of a link")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.cluster is not None:
        read = read_cluster_file(options.cluster)
        cluster, settings = read.cluster, read.settings
    elif options.nodes is not None and options.slurm_conf is not None:
        cluster, settings = Cluster.pool(options.nodes), SlurmSettings.from_slurm_conf(options.slurm_conf)
    else:
        parser.error("give --cluster, or --nodes and --slurm-conf")
    table = read_trace(options.trace, on_error="skip").table
    scenario = Scenario(cluster, workload(table, cluster, refuse=False), "slurm", settings)
    found = [report(of, nodes) for nodes, of in played(options, scenario).items()]
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
