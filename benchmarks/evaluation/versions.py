"""Two versions of the code compared: results of one policy on common windows.

    git worktree add ../before COMMIT
    (cd ../before && mirage evaluate TRACE ... --policies reactive,what-if --resume ../journals-before)
    mirage evaluate TRACE ... --policies reactive,what-if --resume ../journals
    python benchmarks/evaluation/versions.py ../journals-before/evaluation-*.jsonl ../journals/evaluation-*.jsonl

Windows are paired by the time of submission of their predecessor. Brackets are 95 % intervals of the difference; they
include a rare loss that the windows may have missed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.paired import ComparedWindows
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import outcome
from mirage.study.intervals import Stretches


def journal(path: Path) -> dict[tuple[int, int], WindowTrial]:
    """The trials of a journal by the size of their links and the time of their window."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    trials: Iterator[WindowTrial] = (WindowTrial.from_json(trial) for line in lines for trial in line["trials"])
    return {(trial.episode.link.nodes, trial.episode.submitted_s): trial for trial in trials}


def printed(result: PolicyOutcome) -> str:
    """Mean hours of interruption and overlap."""
    return f"{result.interruption_s.mean() / 3600:.2f} / {result.overlap_s.mean() / 3600:.2f}"


def main() -> None:
    """Read, pair and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--policy", default="what-if")
    parser.add_argument("--cost-ratio", type=float, default=1.0)
    options = parser.parse_args()
    before, after, cost = journal(options.before), journal(options.after), Cost(options.cost_ratio, 1.0)
    for path, trials in ((options.before, before), (options.after, after)):
        played = sorted({key for trial in trials.values() for key in trial.chosen})
        if not {Candidate(options.policy, cost).key, options.policy} & set(played):
            parser.error(f"{path} has {', '.join(played) or 'nothing'}, not {Candidate(options.policy, cost).key}")
    print(f"{'nodes':>6}{'windows':>9}{'before':>15}{'after':>15}{'difference of the cost':>34}")
    for nodes in sorted({nodes for nodes, _ in before}):
        both = sorted(key for key in before if key[0] == nodes and key in after)
        old, new = (outcome(options.policy, [of[key] for key in both], cost) for of in (before, after))
        difference = new.costs(cost) - old.costs(cost)
        times = Stretches.of(np.array([submitted_s for _, submitted_s in both], dtype=np.int64))
        windows = ComparedWindows([after[key] for key in both], np.ones(len(both), dtype=np.bool_), times)
        test = windows.test(new, old, cost)
        interval = f"({test.interval[0]:+.2f} … {test.interval[1]:+.2f})" if test else "(too few windows)"
        print(f"{nodes:6}{len(both):9}{printed(old):>15}{printed(new):>15}{difference.mean():+16.2f} {interval}")


if __name__ == "__main__":
    main()
