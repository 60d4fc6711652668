"""Power of the paired test: one policy against the others, on windows that were played.

    mirage evaluate TRACE ... --policies reactive,average,lead:4,what-if --resume journals
    python benchmarks/evaluation/paired_power.py journals/evaluation-*.jsonl --cost-ratio 3

For each policy: the difference of the cost, its interval from the jackknife alone and from the paired test, the verdict
of both, and the share of draws in which either calls the first policy better. Blocks of windows, two weeks long on
average, are drawn. Verdicts of the test are corrected for the number of policies in the table. The last columns are the
number of windows in which a policy is late by more than 4 h, and the correlation of this between neighbours.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import BOUNDS
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.paired import ComparedWindows, differences
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import ALL, outcome, submissions_s
from mirage.study.intervals import Interval, Stretches
from mirage.study.paired_test import ERROR, PossibleLoss, corrected, paired_test


def drawn(random: np.random.Generator, windows: int, days_apart: float) -> Ints:
    """Windows in stretches of two weeks on average (Politis & Romano 1994)."""
    jumps = random.random(windows) < days_apart / 14
    jumps[0] = True
    since = np.arange(windows) - np.maximum.accumulate(np.where(jumps, np.arange(windows), 0))
    return (random.integers(0, windows, windows)[np.arange(windows) - since] + since) % windows


def verdict(interval: Interval | None) -> str:
    """``better`` below zero, ``worse`` above it."""
    return "" if interval is None or interval[0] <= 0 <= interval[1] else "better" if interval[1] < 0 else "worse"


def late(result: PolicyOutcome) -> str:
    """Number of windows that are late by more than 4 h, and their lag-1 autocorrelation."""
    is_late = (result.interruption_s > 4 * HOUR_S).astype(float)
    centred = is_late - is_late.mean()
    spread = float((centred**2).sum())
    return f"{is_late.sum():5.0f} {float((centred[1:] * centred[:-1]).sum()) / spread:+.2f}" if spread else "    0"


def judged(trials: list[WindowTrial], policy: str, cost: Cost, draws: int) -> None:
    """Print the table of one size of link."""
    times_s, everyone, one = submissions_s(trials), np.full(len(trials), True), np.ones(len(trials))
    stretches, days_apart = Stretches.of(times_s), float(np.median(np.diff(times_s))) / DAY_S
    keys = sorted({key.partition("@")[0] for trial in trials for key in trial.chosen})
    names = [name for name in dict.fromkeys((REACTIVE, *keys)) if name not in (policy, *BOUNDS)]
    results = [outcome(name, trials, cost) for name in names]
    base, table = outcome(policy, trials, cost), ComparedWindows(trials, everyone, stretches)
    less = [base.costs(cost) - result.costs(cost) for result in results]
    losses = [(table.possible_loss(base, r, cost), table.possible_loss(r, base, cost)) for r in results]
    better = np.zeros((2, len(names)))
    random = np.random.default_rng(0)
    for _ in range(draws):
        k = drawn(random, len(trials), days_apart)
        before = [stretches.ratio(difference[k], one, everyone) for difference in less]
        tests = [
            paired_test(
                difference[k],
                *(PossibleLoss(loss.by_window[k], loss.worst, loss.beyond) for loss in pair),
                everyone,
                stretches,
            )
            for difference, pair in zip(less, losses)
        ]
        after = corrected([1.0 if test is None else test.p_value for test in tests])
        for i, (old, new, p) in enumerate(zip(before, tests, after)):
            better[:, i] += verdict(old) == "better", new is not None and new.interval[1] < 0 and p < ERROR
    print(f"\n{policy} against, {trials[0].episode.link.nodes} nodes, {cost.interruption:g}:1, {len(trials)} windows")
    heads = f"{'':16} {'difference':>10} {'jackknife':>19} {'':6} {'paired test':>19}"
    print(f"{heads} {'':6} {'draws: before':>13} {'now':>5} {'late':>5}")
    found = {
        d.policy: d for d in differences(trials, [*names, policy], policy, [cost]) if (d.load, d.month) == (ALL, ALL)
    }
    opposite = {"better": "worse", "worse": "better", "": ""}
    for i, name in enumerate(names):
        old, now = stretches.ratio(less[i], one, everyone), found[name]
        words = [f"({-b:+.2f} … {-a:+.2f})" if a is not None else "" for a, b in (now.cost_95 or (None, None),)]
        ends = f"({old[0]:+.2f} … {old[1]:+.2f})" if old else ""
        print(f"{name:16} {less[i].mean():+10.2f} {ends:>19} {verdict(old):6} {words[0]:>19}", end=" ")
        print(
            f"{opposite[now.verdict]:6} {better[0, i] / draws:13.0%} {better[1, i] / draws:5.0%} {late(results[i])}",
            flush=True,
        )
    print(f"{policy} {late(base).strip():>{105 - len(policy)}}")


def main() -> None:
    """Read journals and print a table for each size of link."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journals", type=Path, nargs="+")
    parser.add_argument("--policy", default="what-if")
    parser.add_argument("--cost-ratio", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=2000)
    options = parser.parse_args()
    for journal in options.journals:
        print(f"\n{journal}")
        lines = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
        trials = [WindowTrial.from_json(trial) for line in lines for trial in line["trials"]]
        for nodes in sorted({trial.episode.link.nodes for trial in trials}):
            of_link = [trial for trial in trials if trial.episode.link.nodes == nodes]
            of_link.sort(key=lambda trial: trial.episode.submitted_s)
            judged(of_link, options.policy, Cost(options.cost_ratio, 1.0), options.draws)


if __name__ == "__main__":
    main()
