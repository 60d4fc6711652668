"""Coverage of 95 % intervals on simulated hand-overs with a known true mean.

    python benchmarks/evaluation/interval_coverage.py  # two minutes
    python benchmarks/evaluation/interval_coverage.py --trace ls6-a100.log.gz --nodes 76  # and of a real trace

A window every four hours. The cost of a hand-over is a skewed function of a hidden load that is remembered for a day
(lag-1 autocorrelation of the costs 0.8), with a long tail, and cut off at 36 h. Judged are the means of a reactive
chain and of a policy, paired differences and the gap closed. The reference is what Mirage did before: the percentile
bootstrap over ISO weeks. With ``--trace`` the windows are real: a reactive chain, constant leads of 4 and 8 h, and the
lead that was best a day ago; what is drawn are stretches of the trace of two weeks on average, so that a season counts
as chance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.study.intervals import Interval, Stretches

Floats = NDArray[np.float64]
EVERY_S = 4 * HOUR_S
PER_WEEK = WEEK_S // EVERY_S
BEGIN_S = 19_000 * DAY_S + 2 * DAY_S  # a Friday or so: ISO weeks at both ends are cut
WEEKS = (2.5, 3.7, 5.0, 8.0, 12.0, 20.0)
MEMORY = 0.865
"""Lag-1 autocorrelation of the hidden load; that of the costs it makes is 0.8."""


@dataclass(frozen=True)
class Costs:
    """Cost of every window, shape (windows,) each, of five policies."""

    reactive: Floats
    oracle: Floats
    policy: Floats
    other: Floats
    lead: Floats

    def statistics(self) -> dict[str, tuple[Floats, Floats]]:
        """Name → what is summed above and below the line."""
        one = np.ones_like(self.reactive)
        return {
            "mean, reactive": (self.reactive, one),
            "mean, policy": (self.policy, one),
            "policy - other policy": (self.policy - self.other, one),
            "policy - reactive": (self.policy - self.reactive, one),
            "policy - lead": (self.policy - self.lead, one),
            "gap closed, policy": (self.reactive - self.policy, self.reactive - self.oracle),
            "gap closed, lead": (self.reactive - self.lead, self.reactive - self.oracle),
        }


def simulated(random: np.random.Generator, windows: int) -> Costs:
    """Hand-overs of a made-up world."""
    load, luck, other_luck = (_remembered(random, windows) for _ in range(3))
    reactive = np.clip(4 * np.exp(1.15 * load - 0.3) - 2.5, 0, 36)
    return Costs(
        reactive=reactive,
        oracle=np.minimum(reactive, 0.12 * reactive * np.exp(0.5 * other_luck - 0.12) + 0.1),
        policy=np.clip(0.30 * reactive * np.exp(0.5 * luck - 0.12) + 0.6 * np.exp(0.8 * other_luck - 0.32), 0, 30),
        other=np.clip(0.45 * reactive * np.exp(0.5 * other_luck - 0.12) + 0.4 * np.exp(0.8 * luck - 0.32), 0, 30),
        lead=np.abs(reactive - 4),
    )


def _remembered(random: np.random.Generator, windows: int) -> Floats:
    """Standard normal values, each much like the one before."""
    noise = random.standard_normal(windows) * np.sqrt(1 - MEMORY**2)
    values = np.empty(windows)
    value = random.standard_normal()
    for k in range(windows):
        value = values[k] = MEMORY * value + noise[k]
    return values


def drawn(random: np.random.Generator, windows: int, real: Costs, days: float = 14.0) -> Costs:
    """Stretches of real hand-overs, of geometric length (Politis & Romano 1994)."""
    n = len(real.reactive)
    jumps = random.random(windows) < EVERY_S / (days * DAY_S)
    jumps[0] = True
    since = np.arange(windows) - np.maximum.accumulate(np.where(jumps, np.arange(windows), 0))
    chosen = (random.integers(0, n, windows)[np.arange(windows) - since] + since) % n
    return Costs(*(getattr(real, name)[chosen] for name in Costs.__dataclass_fields__))


def played(trace: str, nodes: int, link_nodes: int) -> Costs:
    """Hand-overs of a trace, under the simulator's ``slurm``, from a third of it on."""
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
    from mirage.provision.evaluation.evaluation_study import Player, Study
    from mirage.provision.link_size import LinkSize
    from mirage.sim.cluster import Cluster
    from mirage.sim.workload import workload
    from mirage.trace.read_trace import read_trace

    table = read_trace(trace).table
    cluster = Cluster.pool(nodes)
    first_s, last_s = int(table.submit_s.min()), int(table.submit_s.max())
    begin_s = first_s + (last_s - first_s) // 3
    count = (last_s - begin_s - 3 * DAY_S) // EVERY_S
    protocol = EvaluationProtocol.warm(begin_s, windows=count, every_s=EVERY_S, step_s=2 * HOUR_S)
    scenario = Scenario(cluster, workload(table, cluster, refuse=False), "slurm")
    player = Player(Study(scenario, protocol, (LinkSize(link_nodes),), ()))
    cost = np.array([np.abs(player.play(k)[0].episode.outcome_s) / HOUR_S for k in range(count)])
    best = cost.argmin(axis=1)
    yesterday = np.roll(best, DAY_S // EVERY_S)
    rows = np.arange(count)
    return Costs(cost[:, -1], cost[rows, best], cost[rows, yesterday], cost[:, -5], cost[:, -3])


def bootstrap(submitted_s: NDArray[np.int64], above: Floats, below: Floats, random: np.random.Generator) -> Interval:
    """The reference: whole ISO weeks drawn again, percentiles of the ratio."""
    week = np.unique((submitted_s + 3 * DAY_S) // WEEK_S, return_inverse=True)[1]
    over, under = np.bincount(week, weights=above), np.bincount(week, weights=below)
    times = random.multinomial(len(over), np.full(len(over), 1 / len(over)), size=500)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = np.nanpercentile((times @ over) / (times @ under), (2.5, 97.5))
    return float(low), float(high)


def coverage(
    make: Callable[[np.random.Generator, int], Costs], truth: Costs, weeks: float, repetitions: int, seed: int = 0
) -> Iterator[dict[str, float | str]]:
    """Shares of intervals that hold the truth, a row for each statistic."""
    random = np.random.default_rng([seed, round(weeks * 10)])
    submitted_s = BEGIN_S + EVERY_S * np.arange(round(weeks * PER_WEEK))
    stretches, everyone = Stretches.of(submitted_s), np.full(len(submitted_s), True)
    true = {name: above.mean() / below.mean() for name, (above, below) in truth.statistics().items()}
    held: dict[str, list[bool]] = {name: [] for name in true}
    before: dict[str, list[bool]] = {name: [] for name in true}
    wider: dict[str, list[float]] = {name: [] for name in true}
    for _ in range(repetitions):
        for name, (above, below) in make(random, len(submitted_s)).statistics().items():
            found, old = stretches.ratio(above, below, everyone), bootstrap(submitted_s, above, below, random)
            if found is None:  # the whole gap lies in one stretch
                continue
            held[name].append(found[0] <= true[name] <= found[1])
            before[name].append(old[0] <= true[name] <= old[1])
            wider[name].append((found[1] - found[0]) / max(old[1] - old[0], 1e-9))
    for name in true:
        yield {
            "weeks": weeks, "stretches": stretches.count, "statistic": name, "coverage": float(np.mean(held[name])),
            "bootstrap": float(np.mean(before[name])), "times as wide": float(np.nanmedian(wider[name])),
        }  # fmt: skip


def main() -> None:
    """Print a table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--trace", help="a trace to take hand-overs from as well")
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).parents[1] / "results/interval_coverage.json"
    )
    options = parser.parse_args()
    worlds: dict[str, tuple[Callable[[np.random.Generator, int], Costs], Costs]] = {
        "simulated": (simulated, simulated(np.random.default_rng(1), 1_500_000))
    }
    for link_nodes in (1, 8) if options.trace else ():
        real = played(options.trace, options.nodes, link_nodes)
        worlds[f"{Path(options.trace).name}, {link_nodes} nodes"] = (
            lambda random, windows, real=real: drawn(random, windows, real), real
        )  # fmt: skip
    rows = []
    for world, (make, truth) in worlds.items():
        print(f"\n{world}\n{'weeks':>6} {'stretches':>9}  {'statistic':<22} {'coverage':>8} {'bootstrap':>9} wider")
        for weeks in WEEKS:
            for row in coverage(make, truth, weeks, options.repetitions):
                rows.append({"world": world, **row})
                print("{weeks:6} {stretches:9}  {statistic:<22} {coverage:8.1%} {bootstrap:9.1%}".format(**row), end="")
                print(f" {row['times as wide']:5.2f}", flush=True)
        of_world = [row for row in rows if row["world"] == world]
        for which in ("coverage", "bootstrap"):
            shares = [float(row[which]) for row in of_world]
            print(f"{which}: {min(shares):.1%} to {max(shares):.1%}, mean {np.mean(shares):.1%}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"repetitions": options.repetitions, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
