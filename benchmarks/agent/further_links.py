r"""Two weeks of one chain with one waiting link and with several.

    python benchmarks/agent/further_links.py ls6-a100.log.gz --nodes 76 --slurm-conf fair.conf --link-nodes 8 \
        --link-limit 12 --start 2022-12-06,2023-01-06
    python benchmarks/agent/further_links.py --demo 0-15

The agent keeps a chain of a new user alive on a simulated Slurm, as in ``mirage demo``, from each start on: on a trace,
or in the demonstrations of some seeds. A row is one run: interruption and overlap, the links that started, and the time
in which links held nodes. The differences from one waiting link are paired, with intervals of Student's t.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mirage.chains import demonstration
from mirage.chains.demonstration import keep_alive
from mirage.duration import DAY_S, HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.study.intervals import interval_of_mean
from mirage.trace.read_trace import read_trace

COST = Cost(3.0, 1.0)


def main() -> None:
    """Run, print and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--demo", metavar="FIRST-LAST", help="seeds of demonstrations, in place of a trace")
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument("--slurm-conf", type=Path)
    parser.add_argument("--most-jobs", type=int, help="enforce this number of running jobs of a user")
    parser.add_argument("--link-nodes", type=int, default=8)
    parser.add_argument("--link-limit", type=float, default=12.0, help="hours")
    parser.add_argument("--start", default="", help="days, such as 2022-12-06, separated by commas")
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--waiting-links", default="1,3", help="numbers to compare; the first is the reference")
    parser.add_argument("-o", "--out", type=Path, help="append every run to this file, a JSON object per line")
    given = parser.parse_args()
    if (given.trace is None) == (given.demo is None):
        parser.error("give a trace, or --demo")
    link = LinkSize(given.link_nodes, round(given.link_limit * HOUR_S))
    numbers = [int(word) for word in given.waiting_links.split(",")]
    costs: dict[int, list[float]] = {number: [] for number in numbers}
    table = Table("start", "waiting links", "interruption, h", "overlap, h", "cost", "links", "held nodes, h")
    console = Console()
    for name, sim, until_s in demonstrations(given.demo) if given.demo else of_trace(given):
        for number in numbers:
            run = keep_alive(sim.fork(), link, given.policy, COST, until_s, number)
            held_s = sum(min(one.ends_s, run.until_s) - one.started_s for one in run.started)
            hours = [run.interruption_s / HOUR_S, run.overlap_s / HOUR_S, run.cost(COST)]
            costs[number].append(hours[-1])
            row = [*(f"{hour:.1f}" for hour in hours), str(len(run.started)), f"{held_s / HOUR_S:.1f}"]
            console.print(name, number, *row)
            table.add_row(name, str(number), *row)
            if given.out is not None:
                record = dict(zip(("interruption_h", "overlap_h", "cost"), hours), links=len(run.started))
                with given.out.open("a") as file:
                    print(json.dumps({**vars_of(given), "start": name, "waiting_links": number, **record}), file=file)
    console.print(table)
    for number in numbers[1:]:
        change = np.array(costs[number]) - np.array(costs[numbers[0]])
        low, high = interval_of_mean(change)
        means = f"{np.mean(costs[numbers[0]]):.1f} -> {np.mean(costs[number]):.1f}"
        within = f" ({low:.1f} … {high:.1f})" if low is not None else ""
        console.print(f"cost with {number} in place of {numbers[0]}: {means}, change {change.mean():.1f}{within}")


def vars_of(given: argparse.Namespace) -> dict[str, str]:
    """The options of a run, for its record."""
    return {name: str(value) for name, value in vars(given).items() if name not in ("out", "start", "waiting_links")}


def demonstrations(seeds: str) -> Iterator[tuple[str, Simulation, int]]:
    """The demonstrations of seeds ``0-15``, at their begin."""
    first, _, last = seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        _, begin_s = demonstration._setting(seed)
        yield f"seed {seed}", demonstration._at_begin(seed), begin_s + demonstration.SHOWN_DAYS * DAY_S


def of_trace(given: argparse.Namespace) -> Iterator[tuple[str, Simulation, int]]:
    """One replay of a trace, at each start."""
    limits = (Limit(per="user", jobs=given.most_jobs),) if given.most_jobs else ()
    cluster = replace(Cluster.pool(given.nodes), limits=limits)
    settings = SlurmSettings.from_slurm_conf(given.slurm_conf) if given.slurm_conf else SlurmSettings()
    sim = Scenario(cluster, workload(read_trace(given.trace).table, cluster), "slurm", settings).simulation()
    for day in given.start.split(","):
        at_s = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
        sim.approach(at_s)
        yield day, sim, at_s + given.days * DAY_S


if __name__ == "__main__":
    main()
