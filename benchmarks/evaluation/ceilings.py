"""Ceilings of ``what-if``: what it would do if it knew more, window by window beside what it does.

    python benchmarks/evaluation/ceilings.py ls6-a100.log.gz --discipline mirage-2023 --start 2022-12-01 --windows 117

``true run times``: every visible job has the run time that it will have; what arrives is still drawn. ``exact wait``: a
link submitted now is known to wait so long, to the second, and is submitted when that is no less than what remains of
the present one; nothing is known of later. Neither can be had on a real cluster. ``oracle`` is the best moment in
hindsight.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mirage.duration import HOUR_S
from mirage.forecast.run_times import TrueRunTimes
from mirage.policy.cost import Cost
from mirage.policy.settings import PolicySettings
from mirage.provision.chain import Link
from mirage.provision.evaluation.candidate import ORACLE, Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import assess
from mirage.provision.evaluation.protocol import Protocol
from mirage.provision.evaluation.study import Study, Trial
from mirage.provision.evaluation.workers import play_windows
from mirage.provision.policies.what_if import WhatIf
from mirage.report.terminal.evaluation import print_evaluation, progress_bar
from mirage.sim.cluster import Cluster
from mirage.sim.disciplines.registry import discipline_spec
from mirage.sim.jobs import to_minutes, workload
from mirage.trace.read import read_trace

TRUE, EXACT = "true run times", "exact wait"


@dataclass(frozen=True, slots=True)
class Knowing(Candidate):
    """``what-if`` that knows the run times of the jobs it sees."""

    weighs: Cost = Cost()  # noqa: RUF009  frozen

    def make(self, scenario: Scenario, seed: int) -> WhatIf:
        """The policy itself."""
        settings = PolicySettings(self.weighs, seed, scenario.discipline, scenario.settings)
        policy = WhatIf(cost=settings.cost, seed=seed, discipline=settings.discipline, scheduler=settings.scheduler)
        policy.forecaster.run_times = TrueRunTimes(run_times_s(scenario))
        return policy


def run_times_s(scenario: Scenario) -> Any:
    """Run times as the simulation has them, by job id."""
    jobs = scenario.jobs.jobs
    if discipline_spec(scenario.discipline).minutes:
        jobs = to_minutes(jobs.copy().view(np.recarray), int(jobs.submit_s[0]) // 60 * 60)
    return jobs.run_s


def with_exact_wait(trial: Trial) -> Trial:
    """The trial with the first decision at which the link would not have started before the end of the present one."""
    late = trial.episode.outcome_s >= 0
    first = int(np.argmax(late)) if late.any() else len(late) - 1
    return replace(trial, chosen={**trial.chosen, EXACT: first})


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument("--link-nodes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--link-limit-h", type=float, default=48.0)
    parser.add_argument("--discipline", default="slurm")
    parser.add_argument("--start", default="2022-12-01")
    parser.add_argument("--windows", type=int, default=117)
    parser.add_argument("--every-h", type=float, default=24.0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cluster = Cluster.pool(options.nodes)
    jobs = workload(read_trace(options.trace, on_error="skip").table, cluster, refuse=False)
    scenario = Scenario(cluster, jobs, options.discipline)
    begin_s = int(np.datetime64(options.start, "s").astype(int))
    protocol = Protocol.warm(begin_s, windows=options.windows, every_s=round(options.every_h * HOUR_S))
    links = tuple(Link(nodes, round(options.link_limit_h * HOUR_S)) for nodes in options.link_nodes)
    study = Study(scenario, protocol, links, (Candidate("what-if", Cost()), Knowing(TRUE)))
    played: dict[int, tuple[Trial, ...]] = {}
    with progress_bar("windows") as told:
        for done, (window, trials) in enumerate(play_windows(study, list(range(options.windows)), options.workers), 1):
            played[window] = tuple(with_exact_wait(trial) for trial in trials)
            told(done, options.windows)
    by_link = {link.nodes: tuple(played[w][k] for w in range(options.windows)) for k, link in enumerate(links)}
    evaluation = assess(by_link, ["reactive", "what-if", TRUE, EXACT, ORACLE], [Cost()], against="what-if")
    provenance = {
        "trace": options.trace.name, "windows": options.windows, "start": options.start, "protocol": "warm",
        "discipline": options.discipline, "nodes": options.nodes, "settings": "default", "seed": study.seed,
    }  # fmt: skip
    print_evaluation(evaluation, provenance, Console(width=160), by_month=True)


if __name__ == "__main__":
    main()
