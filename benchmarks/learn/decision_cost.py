"""What a decision takes, its forecast and all: policies and models on moments of a trace, and where many jobs wait.

    PYTHONPATH=benchmarks/forecast python benchmarks/learn/decision_cost.py ls6-a100.log.gz what-if holds ./model

Processor time in milliseconds. The first policy is the reference of the ratios, which are of medians. *Itself* is the
share of decisions that a model takes itself; the others are those of ``what-if``, as something is unlike its training.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from forecasts import moments_of_a_trace
from mirage.policy.registry import make_policy
from mirage.policy.settings import PolicySettings
from mirage.policy.view import View

DISCIPLINE = "mirage-2023"


def decisions(name: str, views: list[View]) -> tuple[np.ndarray, float]:
    """Milliseconds of each decision, and the share that the policy took itself."""
    policy = make_policy(name, PolicySettings(discipline=DISCIPLINE))
    policy.decide(views[0])
    took, itself = [], 0
    for view in views:
        begin = time.process_time()
        plan = policy.decide(view)
        took.append((time.process_time() - begin) * 1e3)
        itself += not any(action.reason.startswith("outside-training") for action in plan.actions)
    return np.array(took), itself / len(views)


def _short(name: str) -> str:
    """A policy's name without the folder of a file in it."""
    return f"holds:by={Path(name).name}" if name.startswith("holds:by=") else Path(name).name


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("policies", nargs="+")
    parser.add_argument("--moments", type=int, default=120)
    parser.add_argument("--busy", type=int, default=70, help="pending jobs from which a moment counts as busy")
    options = parser.parse_args()
    every = moments_of_a_trace(options.trace, DISCIPLINE, options.moments)
    busy = [view for view in every if len(view.pending) >= options.busy]
    most = max(len(view.pending) for view in every)
    queues = {f"{len(every)} moments": every, f"{len(busy)} with {options.busy} to {most} jobs waiting": busy}
    for queue, views in queues.items():
        print(f"\n{queue:40}{'median':>8}{'95 %':>8}{'most':>8}{'ratio':>8}{'itself':>8}")
        reference = None
        for name in options.policies:
            took, itself = decisions(name, views)
            median = float(np.median(took))
            reference = reference or median
            high, highest = float(np.percentile(took, 95)), float(took.max())
            print(
                f"{_short(name):40}{median:8.1f}{high:8.1f}{highest:8.1f}{median / reference:8.2f}{itself:8.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
