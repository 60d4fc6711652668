"""Time of a decision with its forecast, of policies and models, on moments of a trace.

    PYTHONPATH=benchmarks/forecast python benchmarks/learn/decision_cost.py ls6-a100.log.gz what-if holds ./model

Processor time in milliseconds. The first policy is the reference of the ratios, which are of medians. *Itself* is the
share of decisions that a model takes itself; the others are those of ``what-if``, as something is unlike its training.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from forecasts import moments_of_a_trace
from mirage.policy.policy_registry import is_policy_file, make_policy, policy_named_by, with_policy_named
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View

DISCIPLINE = "mirage-2023"


@dataclass(frozen=True, slots=True)
class Took:
    """Time of a policy's decisions in milliseconds, and a model's own share of it."""

    policy: str
    median_ms: float
    high_ms: float
    most_ms: float
    ratio: float
    itself: float | None


def decisions(name: str, views: list[View], reference_ms: float | None) -> Took:
    """Times a policy on every view; the first is repeated at the end, as it warmed it up."""
    policy = make_policy(name, PolicySettings(discipline=DISCIPLINE))
    policy.decide(views[0])
    took, itself = [], 0
    for view in (*views[1:], views[0]):
        begin = time.process_time()
        plan = policy.decide(view)
        took.append((time.process_time() - begin) * 1e3)
        itself += not any(action.reason.startswith("outside-training") for action in plan.actions)
    median = float(np.median(took))
    share = itself / len(views) if is_policy_file(name) else None
    high, most = float(np.percentile(took, 95)), max(took)
    return Took(_short(name), median, high, most, median / (reference_ms or median), share)


def _short(name: str) -> str:
    """A policy's name without the folder of a file in it."""
    inner = policy_named_by(name)
    return Path(name).name if inner is None else with_policy_named(name, Path(inner).name)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("policies", nargs="+")
    parser.add_argument("--moments", type=int, default=120)
    parser.add_argument("--busy", type=int, default=70, help="pending jobs from which a moment counts as busy")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/decision_cost.json"))
    options = parser.parse_args()
    every = moments_of_a_trace(options.trace, DISCIPLINE, options.moments)
    busy = [view for view in every if len(view.pending) >= options.busy]
    queues = {f"{len(every)} moments": every}
    if len(busy) > 1:
        queues[f"{len(busy)} with {options.busy} to {max(len(view.pending) for view in busy)} jobs waiting"] = busy
    found: dict[str, list[Took]] = {}
    for queue, views in queues.items():
        print(f"\n{queue:40}{'median':>8}{'95 %':>8}{'most':>8}{'ratio':>8}{'itself':>8}")
        rows = found.setdefault(queue, [])
        for name in options.policies:
            row = decisions(name, views, rows[0].median_ms if rows else None)
            rows.append(row)
            own = "" if row.itself is None else f"{row.itself:.0%}"
            print(
                f"{row.policy:40}{row.median_ms:8.1f}{row.high_ms:8.1f}{row.most_ms:8.1f}{row.ratio:8.2f}{own:>8}",
                flush=True,
            )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({queue: [asdict(row) for row in rows] for queue, rows in found.items()}))


if __name__ == "__main__":
    main()
