"""Coverage of 95 % intervals on simulated hand-overs, and errors of paired tests.

    python benchmarks/evaluation/interval_coverage.py  # ten minutes
    python benchmarks/evaluation/interval_coverage.py --trace ls6-a100.log.gz --nodes 76  # and of a real trace

The true means are known. There is a window every four hours. The cost of a hand-over is a skewed function of a hidden
load with a memory of a day (lag-1 autocorrelation of the costs 0.8), with a long tail, cut off at 36 h. The intervals
are of the means of a reactive chain and of a policy, of paired differences and of the gap closed. The reference is the
former method of Mirage: the percentile bootstrap over ISO weeks; differences also have the coverage of the paired test.
With ``--trace`` the windows are real: a reactive chain, constant leads of 4 and 8 h, and the lead that was best a day
before. Blocks of the trace of two weeks on average are drawn, so a season counts as chance.

Errors are those of two policies with equal means, one of which is rarely very late (or very early), the other always a
little early (or late): the share of draws in which the interval of the jackknife alone, and the paired test, call the
first better or worse; 2.5 % each are promised. ``only then``: a reactive chain waits only in windows in which the rare
policy is late; ``often``: it waits for 20 h or more in 15 % of the windows, and the rare policy is late in some of
these bursts; ``noisy``: both policies have usual costs as well; ``busy``: it waits for 2 to 6 h in all other windows;
``early``: the rare policy holds both links instead of being late.

Tables compare eleven policies with one: the share of tables with a wrong call if all means are equal, and the share of
wrong calls if five policies are dearer, without a correction, with that of Mirage, and with Holm's (1979).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.study.intervals import Interval, Stretches
from mirage.study.paired_test import PairedTest, PossibleLoss, corrected, paired_test

Floats = NDArray[np.float64]
EVERY_S = 4 * HOUR_S
PER_WEEK = WEEK_S // EVERY_S
BEGIN_S = 19_000 * DAY_S + 2 * DAY_S  # a Friday or so: ISO weeks at both ends are cut
WEEKS = (2.5, 3.7, 5.0, 8.0, 12.0, 20.0)
MEMORY = 0.865
"""Lag-1 autocorrelation of the hidden load; that of the costs it makes is 0.8."""
LIMIT_H = 48
SIZES = {"20 to 40 h": (20, 40), "40 h": (40, 40)}
SPANS = ((58, 48), (31, 48), (116, 48), (156, 4))
"""Windows, and hours between them."""
RATES = (0.02, 0.035, 0.05)
HEAVY = 0.15
"""Share of windows in which the reactive chain waits long, where this is often."""


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

    def tests(self, stretches: Stretches) -> dict[str, PairedTest | None]:
        """Name of a difference → its paired test."""
        pairs = {
            "policy - other policy": (self.policy, self.other),
            "policy - reactive": (self.policy, self.reactive),
            "policy - lead": (self.policy, self.lead),
        }
        return {name: tested(Pair(*pair, self.reactive), stretches) for name, pair in pairs.items()}


@dataclass(frozen=True)
class Pair:
    """Cost of two policies and wait of a reactive chain, shape (windows,) each.

    Attributes:
        lead: How early the first can be.
    """

    first: Floats
    second: Floats
    reactive: Floats
    lead: Floats | float = 0.0

    def losses(self) -> tuple[PossibleLoss, PossibleLoss]:
        """What each policy could have lost."""
        first = np.maximum(np.maximum(self.reactive, self.lead) - self.first, 0.0)
        is_reactive = self.second is self.reactive
        second = np.maximum(self.reactive - self.second, 0.0)
        beyond = max(LIMIT_H - float(self.reactive.max()), 0.0)
        worst = (0.0, 0.0) if is_reactive else (LIMIT_H, beyond)
        return PossibleLoss(first, *worst), PossibleLoss(second, LIMIT_H, beyond)


def tested(pair: Pair, stretches: Stretches) -> PairedTest | None:
    """The paired test of two policies over all windows."""
    everyone = np.full(len(pair.first), True)
    return paired_test(pair.first - pair.second, *pair.losses(), everyone, stretches)


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


def _remembered(random: np.random.Generator, windows: int, memory: float = MEMORY) -> Floats:
    """Standard normal values, each much like the one before."""
    noise = random.standard_normal(windows) * np.sqrt(1 - memory**2)
    values = np.empty(windows)
    value = random.standard_normal()
    for k in range(windows):
        value = values[k] = memory * value + noise[k]
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
    paired: dict[str, list[bool]] = {name: [] for name in true}
    for _ in range(repetitions):
        costs = make(random, len(submitted_s))
        for name, (above, below) in costs.statistics().items():
            found, old = stretches.ratio(above, below, everyone), bootstrap(submitted_s, above, below, random)
            if found is None:  # the whole gap lies in one stretch
                continue
            held[name].append(found[0] <= true[name] <= found[1])
            before[name].append(old[0] <= true[name] <= old[1])
            wider[name].append((found[1] - found[0]) / max(old[1] - old[0], 1e-9))
        for name, test in costs.tests(stretches).items():
            if test is not None:
                paired[name].append(test.interval[0] <= true[name] <= test.interval[1])
    for name in true:
        yield {
            "weeks": weeks, "stretches": stretches.count, "statistic": name, "coverage": float(np.mean(held[name])),
            "bootstrap": float(np.mean(before[name])), "times as wide": float(np.nanmedian(wider[name])),
            **({"paired test": float(np.mean(paired[name]))} if paired[name] else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class Null:
    """Two policies of equal mean.

    Attributes:
        rate: Share of windows in which the first is very late, or very early.
        size: A key of ``SIZES``.
        run: Mean number of such windows in a row.
    """

    world: str
    windows: int
    every_h: int
    rate: float
    size: str
    run: int

    def drawn(self, random: np.random.Generator) -> Pair:
        """Costs of a sample: the rare policy first."""
        low, high = SIZES[self.size]
        n, steady = self.windows, self.rate * (low + high) / 2
        wait = random.uniform(low, high, n)
        short = np.minimum(random.exponential(1.5, n), 8) * (random.random(n) < 0.5)
        if self.world in ("only then", "busy"):
            late = _in_runs(random, n, self.rate, self.run)
            others = random.uniform(2, 6, n) if self.world == "busy" else np.zeros(n)
            return Pair(np.where(late, wait, 0.0), np.full(n, steady), np.where(late, wait, others))
        heavy = _in_runs(random, n, HEAVY, self.run)
        reactive = np.where(heavy, wait, short)
        if self.world == "early":
            early = _in_runs(random, n, self.rate, self.run)
            lead = np.where(early | heavy, wait, 0.0)
            return Pair(np.where(early, wait, 0.0), np.full(n, steady), np.maximum(reactive, steady), lead)
        burst = np.cumsum(heavy & ~np.concatenate([[False], heavy[:-1]]))
        late = heavy & (random.random(burst[-1] + 1) < self.rate / HEAVY)[burst]
        if self.world == "often":
            return Pair(np.where(late, wait, 0.0), np.full(n, steady), reactive)
        usual, other = (0.25 * np.minimum(reactive, 12) * np.exp(0.5 * random.standard_normal(n)) for _ in range(2))
        missing = self.rate * 0.25 * 12 * np.exp(0.125)  # usual costs that a late window does not have
        return Pair(np.where(late, wait, usual), other + steady - missing, reactive)


def _in_runs(random: np.random.Generator, windows: int, rate: float, run: int) -> NDArray[np.bool_]:
    """Occurrences with a rate, in runs of geometric length."""
    if run == 1:
        return random.random(windows) < rate
    ends, begins = 1 / run, rate / (1 - rate) / run
    found, chance = np.empty(windows, dtype=np.bool_), random.random(windows + 1)
    now = chance[-1] < rate
    for k in range(windows):
        found[k] = now
        now = chance[k] >= ends if now else chance[k] < begins
    return found


def nulls() -> Iterator[Null]:
    """All pairs of policies of equal means."""
    for world in ("only then", "busy", "often", "noisy", "early"):
        for windows, every_h in SPANS:
            for run in (1, 3) if every_h > 24 else (5,):
                for size in SIZES:
                    for rate in RATES:
                        yield Null(world, windows, every_h, rate, size, run)


def errors(null: Null, repetitions: int, seed: int = 0) -> dict[str, float | str | int]:
    """Shares of draws in which the rare policy is called better, or worse."""
    random = np.random.default_rng([seed, 7])
    stretches = Stretches.of(BEGIN_S + null.every_h * HOUR_S * np.arange(null.windows))
    everyone, one = np.full(null.windows, True), np.ones(null.windows)
    count = dict.fromkeys(("jackknife better", "jackknife worse", "better", "worse"), 0)
    for _ in range(repetitions):
        pair = null.drawn(random)
        before, now = stretches.ratio(pair.first - pair.second, one, everyone), tested(pair, stretches)
        for found, prefix in ((before, "jackknife "), (now.interval if now else None, "")):
            if found is not None:
                count[f"{prefix}better"] += found[1] < 0
                count[f"{prefix}worse"] += found[0] > 0
    return asdict(null) | {name: times / repetitions for name, times in count.items()}


CORRECTIONS: dict[str, Callable[[list[float]], list[float]]] = {
    "uncorrected": lambda p: p, "corrected": corrected, "holm": lambda p: holm(p)
}  # fmt: skip


def table_errors(dear: int, repetitions: int, seed: int = 0) -> dict[str, float | int]:
    """Wrong calls in tables of eleven policies against one, and dearer ones found.

    All fail in 40 % of the windows, and then cost as much as a reactive chain; the dearer ones fail in every window.

    Args:
        dear: Number of these.
    """
    random, others, windows = np.random.default_rng([seed, 11, dear]), 11, 58
    stretches, everyone = Stretches.of(BEGIN_S + 2 * DAY_S * np.arange(windows)), np.full(windows, True)
    wrong: dict[str, list[float]] = {name: [] for name in ("jackknife", *CORRECTIONS)}
    found: dict[str, list[float]] = {name: [] for name in wrong}
    for _ in range(repetitions):
        load = _remembered(random, windows, MEMORY ** (2 * DAY_S // EVERY_S))
        reactive = np.clip(8 * np.exp(1.15 * load - 0.3) - 5, 0, 40)
        fails = [random.random(windows) < (1.0 if 0 < k <= dear else 0.4) for k in range(others + 1)]
        costs = [np.where(late, reactive, 0.3 * reactive * random.random(windows)) for late in fails]
        tests = [tested(Pair(cost, costs[0], reactive), stretches) for cost in costs[1:]]
        alone = [stretches.jackknife(cost - costs[0], np.ones(windows), everyone) for cost in costs[1:]]
        p_values = {"jackknife": [1.0 if one is None else one.p_value for one in alone]}
        paired = [1.0 if one is None else one.p_value for one in tests]
        p_values |= {name: correct(paired) for name, correct in CORRECTIONS.items()}
        for name, p in p_values.items():
            called = np.array(p) < 0.05
            false = int(called[dear:].sum())
            wrong[name].append(float(false > 0) if not dear else false / max(called.sum(), 1))
            found[name].append(float(called[:dear].mean()) if dear else 0.0)
    shares = {f"wrong, {name}": float(np.mean(each)) for name, each in wrong.items()}
    return {"dear": dear} | shares | {f"found, {name}": float(np.mean(each)) for name, each in found.items()}


def holm(p_values: list[float]) -> list[float]:
    """P-values corrected for any wrong call in a table (Holm 1979)."""
    p = np.array(p_values)
    order = np.argsort(p)
    after = np.empty_like(p)
    after[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return after.tolist()


def main() -> None:
    """Print tables, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000, help="draws of each cell of the coverage")
    parser.add_argument("--draws", type=int, default=2000, help="draws of each cell of the errors")
    parser.add_argument("--only", choices=("coverage", "errors", "tables"), help="one of the parts")
    parser.add_argument("--trace", help="a trace to take hand-overs from as well")
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).parents[1] / "results/interval_coverage.json"
    )
    options = parser.parse_args()
    parts = (options.only,) if options.only else ("coverage", "errors", "tables")
    found: dict[str, object] = {"repetitions": options.repetitions, "draws": options.draws}
    if "coverage" in parts:
        found["rows"] = print_coverage(options.trace, options.nodes, options.repetitions)
    if "errors" in parts:
        found["errors"] = print_errors(options.draws)
    if "tables" in parts:
        found["tables"] = print_tables(options.draws)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n")


def print_coverage(trace: str | None, nodes: int, repetitions: int) -> list[dict[str, float | str]]:
    """Print and return the coverage of intervals, in each world."""
    worlds: dict[str, tuple[Callable[[np.random.Generator, int], Costs], Costs]] = {
        "simulated": (simulated, simulated(np.random.default_rng(1), 1_500_000))
    }
    for link_nodes in (1, 8) if trace else ():
        real = played(trace, nodes, link_nodes)
        worlds[f"{Path(trace).name}, {link_nodes} nodes"] = (
            lambda random, windows, real=real: drawn(random, windows, real), real
        )  # fmt: skip
    rows = []
    for world, (make, truth) in worlds.items():
        print(
            f"\n{world}\n{'weeks':>6} {'stretches':>9}  {'statistic':<22} {'coverage':>8} {'bootstrap':>9} wider paired"
        )
        for weeks in WEEKS:
            for row in coverage(make, truth, weeks, repetitions):
                rows.append({"world": world, **row})
                print("{weeks:6} {stretches:9}  {statistic:<22} {coverage:8.1%} {bootstrap:9.1%}".format(**row), end="")
                paired = f"{row['paired test']:6.1%}" if "paired test" in row else ""
                print(f" {row['times as wide']:5.2f} {paired}", flush=True)
        of_world = [row for row in rows if row["world"] == world]
        for which in ("coverage", "bootstrap", "paired test"):
            shares = [float(row[which]) for row in of_world if which in row]
            print(f"{which}: {min(shares):.1%} to {max(shares):.1%}, mean {np.mean(shares):.1%}")
    return rows


def print_errors(draws: int) -> list[dict[str, float | str | int]]:
    """Print and return how often two policies of equal mean are called different."""
    print(
        f"\n{'world':<10} windows every  run   rate size        jackknife: better  worse   paired test: better  worse"
    )
    rows = []
    for null in nulls():
        row = errors(null, draws)
        rows.append(row)
        print("{world:<10} {windows:7} {every_h:3} h {run:4} {rate:6.1%} {size:<10}".format(**row), end="")
        print(" {jackknife better:18.1%} {jackknife worse:6.1%} {better:21.1%} {worse:6.1%}".format(**row), flush=True)
    for which in ("jackknife better", "better", "jackknife worse", "worse"):
        shares = [float(row[which]) for row in rows]
        print(f"{which}: {min(shares):.1%} to {max(shares):.1%}, mean {np.mean(shares):.1%}")
    return rows


def print_tables(draws: int) -> list[dict[str, float | int]]:
    """Print and return the wrong calls in tables of eleven policies."""
    rows = [table_errors(dear, draws) for dear in (0, 5)]
    print(f"\n{'':12} {'all equal: tables with a wrong call':>36} {'five dearer: wrong calls':>25} {'found':>6}")
    for name in ("jackknife", *CORRECTIONS):
        equal, some, found = rows[0][f"wrong, {name}"], rows[1][f"wrong, {name}"], rows[1][f"found, {name}"]
        print(f"{name:12} {equal:36.1%} {some:25.1%} {found:6.0%}", flush=True)
    return rows


if __name__ == "__main__":
    main()
