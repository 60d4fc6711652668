"""A fortnight of chains with low-priority bulk jobs of their own or another user.

    python benchmarks/agent/fortnight.py -o fortnight.json
    python benchmarks/agent/fortnight.py --days 3 --kinds nice --policies what-if,holds
    python benchmarks/agent/fortnight.py --loads busy --policies what-if --limits 4h --spans 84

The agent keeps chains of several time limits alive on a simulated Slurm. In the queue are a realistic load of other
users and an endless supply of bulk jobs, which have less priority than the links by one of several means; they are jobs
of the user of the chains (``own``) or of another one (``other``). A forecast that takes the priority of a link from the
user's other jobs differs between the two. Reported are the links used, the least number that their limit allows,
interruption and overlap.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import Chain, ChainSpec
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.duration import DAY_S, HOUR_S, MINUTE_S, format_duration, parse_limit_s
from mirage.job_state import JobState
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.records import Submission
from mirage.trace.table import JobTable
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model

NODES = 24
WARM_UP_DAYS, MARGIN_DAYS = 4, 3
USER, OTHER = "me", "bulk"
NICE = 5_000

BULK_AHEAD = 1.5
"""Bulk jobs come in batches, each as much work as the nodes that others leave can do until the next; so many more are
in the queue to begin with."""

MOST_LINKS = 3
"""A run ends early once its chains have used so many times the links that they need."""

MEMORY = Path("/dev/shm")
"""The store lies in memory: a fortnight is tens of thousands of transactions."""

SETTINGS = AgentSettings(
    poll_s=30 * MINUTE_S, decide_s=30 * MINUTE_S, longest_sleep_s=DAY_S, lease_s=DAY_S, calibrate_every_s=0
)
"""The defaults, but for fewer polls while nothing is under way: a fortnight is to pass in two minutes."""


@dataclass(frozen=True)
class Kind:
    """A means by which bulk jobs have less priority than links.

    Attributes:
        weights: Of priorities, beyond those of age and size.
        partitions: The default one first.
        link: Options of a link.
        bulk: Columns of a bulk job.
        nice: Of a bulk job.
    """

    weights: dict[str, float] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = (Partition("main"),)
    link: dict[str, str | None] = field(default_factory=dict)
    bulk: dict[str, str] = field(default_factory=dict)
    nice: int = 0


KINDS = {
    "nice": Kind({"weight_partition": 20_000.0, "weight_fairshare": 500.0}, nice=NICE),
    "qos": Kind({"weight_qos": 10_000.0}, link={"qos": "normal"}, bulk={"qos": "low"}),
    "partition": Kind(
        {"weight_partition": 10_000.0},
        (Partition("main", job_factor=10.0), Partition("low", job_factor=1.0)),
        bulk={"partition": "low"},
    ),
    "tier": Kind(partitions=(Partition("main", tier=2), Partition("low", tier=1)), bulk={"partition": "low"}),
    "fair-share": Kind({"weight_fairshare": 10_000.0}),
    "age": Kind(),
}
"""``tier`` is ``PriorityTier`` of a partition, ``partition`` its ``PriorityJobFactor``. With ``fair-share`` the bulk
jobs are lower by the use of their user, which links share where they are of the same user; with ``age`` a bulk job
differs from a link by age and size alone."""

LOADS = {"busy": (0.7, 2 * HOUR_S, 6 * HOUR_S), "idle": (0.05, 10 * MINUTE_S, HOUR_S)}
"""Load by other users, the run time of a bulk job, and the time between two batches of them. On the idle machine a bulk
job ends every half minute, and a link that is first in the queue starts at once."""


@dataclass(frozen=True)
class Run:
    """One fortnight."""

    load: str
    kind: str
    owner: str
    policy: str
    limits: tuple[str, ...]
    days: float
    spans: int
    seed: int


def simulation(run: Run) -> tuple[Simulation, int]:
    """The machine at the beginning of the fortnight, to be used up, and that second."""
    sim, begin_s = _prepared(replace(run, policy=""))
    return sim.fork(), begin_s


@cache
def _prepared(run: Run) -> tuple[Simulation, int]:
    kind = KINDS[run.kind]
    share = LOADS[run.load][0]
    days = WARM_UP_DAYS + run.days + MARGIN_DAYS
    table = generate_workload(builtin_model("lonestar6-like"), days=days, seed=run.seed, load=share, nodes=NODES)
    n = len(table)
    begin_s = int(table.submit_s[0]) // DAY_S * DAY_S + WARM_UP_DAYS * DAY_S
    table = JobTable.build(
        range(n), submit_s=table.submit_s, elapsed_s=table.elapsed_s, limit_s=table.limit_s, nodes=table.nodes,
        user=table.user, name=table.name, state=np.full(n, JobState.COMPLETED), partition=["main"] * n,
        qos=["normal"] * n,
    )  # fmt: skip
    first_s, last_s = int(table.submit_s[0]), int(table.submit_s[-1])
    bulk = _bulk(run, kind, begin_s - DAY_S, last_s)
    known = JobTable.build(
        ["known"], submit_s=[first_s], elapsed_s=[60], limit_s=[60], nodes=[1], user=[USER], name=["known"],
        state=[JobState.COMPLETED], partition=["main"], qos=["normal"],
    )  # fmt: skip
    cluster = Cluster((NodeGroup("node", NODES),), kind.partitions, qos_factors={"normal": 1.0, "low": 0.0})
    jobs = workload(known.followed_by(table).followed_by(bulk), cluster)
    jobs.jobs.priority_offset[np.isin(jobs.table.name.codes, [jobs.table.name.names.index("bulk")])] = -kind.nice
    settings = SlurmSettings(
        weight_age=1_000.0, weight_size=100.0, bf_interval_s=60, bf_window_s=2 * DAY_S, max_job_test=500, **kind.weights
    )
    sim = Simulation(cluster, jobs, "slurm", settings)
    sim.approach(begin_s)
    return sim, begin_s


def _bulk(run: Run, kind: Kind, from_s: int, until_s: int) -> JobTable:
    """Bulk jobs of one node each, in batches."""
    share, run_s, every_s = LOADS[run.load]
    each = max(round(((1.0 - share) * NODES - len(run.limits)) * every_s / run_s), 1)
    moments = np.arange(from_s, until_s, every_s)
    counts = np.full(len(moments), each)
    counts[0] = round(each * (1.0 + BULK_AHEAD))
    submit_s = np.repeat(moments, counts)
    n = len(submit_s)
    stretch = np.random.default_rng(run.seed).uniform(0.5, 1.5, n)
    columns = {name: [value] * n for name, value in {"partition": "main", "qos": "normal", **kind.bulk}.items()}
    return JobTable.build(
        range(n), submit_s=submit_s, elapsed_s=(run_s * stretch).astype(np.int64), limit_s=np.full(n, 2 * run_s),
        nodes=np.ones(n), user=[USER if run.owner == "own" else OTHER] * n, name=["bulk"] * n,
        state=np.full(n, JobState.COMPLETED), **columns,
    )  # fmt: skip


def days_of(run: Run, limit_s: int) -> float:
    """Number of days a chain is watched, at most ``spans`` time limits.

    A fortnight of 25 minutes is 840 links.
    """
    return min(run.days, run.spans * limit_s / DAY_S)


def live(run: Run) -> list[dict[str, Any]]:
    """The chains of a run, one record each."""
    began_s = time.process_time()
    sim, begin_s = simulation(run)
    slurm = VirtualSlurm(sim, user=USER)
    needed = sum(least_links(days_of(run, limit_s) * DAY_S, limit_s) for limit_s in map(parse_limit_s, run.limits))
    end_s = begin_s + run.days * DAY_S
    with (
        tempfile.TemporaryDirectory(prefix="mirage-fortnight-", dir=MEMORY if MEMORY.is_dir() else None) as folder,
        closing(open_store(f"sqlite:///{folder}/store.db")) as store,
    ):
        script = Path(folder, "serve.sh")
        script.write_text("#!/bin/sh\n./serve --checkpoint-on USR2\n", encoding="utf-8")
        chains = [_submitted(store, run, script, text, begin_s) for text in run.limits]
        agent = Agent(
            store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="fortnight", settings=SETTINGS
        )
        most = MOST_LINKS * needed + len(chains)
        agent.run(slurm.sleep, lambda: slurm.now_s >= end_s or len(slurm.own) > most)
        stopped_s = min(slurm.now_s, int(end_s))
        found = [_record(store, run, chain, text, begin_s, stopped_s) for chain, text in zip(chains, run.limits)]
    cpu_s = time.process_time() - began_s
    return [{**one, "cpu_s": round(cpu_s / len(found), 2), "pending": len(sim.view().pending)} for one in found]


def _submitted(store: SqlStore, run: Run, script: Path, limit: str, begin_s: int) -> Chain:
    limit_s = parse_limit_s(limit)
    options = {"nodes": "1", "time": format_duration(limit_s), **KINDS[run.kind].link}
    until_s = int(begin_s + days_of(run, limit_s) * DAY_S)
    spec = ChainSpec(Submission(str(script), options), policy=run.policy, until_s=until_s)
    return store.add_chain(f"limit-{limit}", spec, begin_s)


def _record(store: SqlStore, run: Run, chain: Chain, limit: str, begin_s: int, stopped_s: int) -> dict[str, Any]:
    limit_s = parse_limit_s(limit)
    until_s = min(int(begin_s + days_of(run, limit_s) * DAY_S), stopped_s)
    decisions = store.decisions(chain.id)
    lived = chain_run(store.chain(chain.name), store.links(chain.id), decisions, until_s, nodes=1)
    links = [link for link in lived.links if 0 <= link.started_s < until_s]
    first_s = links[0].started_s if links else until_s
    least = least_links(until_s - first_s, limit_s)
    reasons: dict[str, int] = {}
    for one in decisions:
        if one.submits:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
    return {
        **{name: getattr(run, name) for name in ("load", "kind", "owner", "policy")},
        "limit_s": limit_s,
        "days": round((until_s - begin_s) / DAY_S, 2),
        "stopped": stopped_s < begin_s + run.days * DAY_S,
        "links": len(links),
        "least": least,
        "ratio": round(len(links) / max(least, 1), 3),
        "interruption_h": round(lived.interruption_s / HOUR_S, 3),
        "overlap_h": round(lived.overlap_s / HOUR_S, 3),
        "reasons": reasons,
    }


def least_links(alive_s: float, limit_s: int) -> int:
    """The least number of links of a chain in a time, each leaving its grace before its limit."""
    return math.ceil(alive_s / (limit_s - ChainSpec(Submission("")).grace_s))


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """The runs: every policy with the first kind, the first policy with every kind.

    That is on the busy machine.

    On the idle machine it is the first policy with the first kind.
    """
    kinds, policies = options.kinds.split(","), options.policies.split(",")
    limits = tuple(options.limits.split(","))
    for load in options.loads.split(","):
        every = load == "busy" or options.all
        for kind in kinds if every else kinds[:1]:
            for owner in ("own", "other"):
                for policy in policies if options.all or (every and kind == kinds[0]) else policies[:1]:
                    yield Run(load, kind, owner, policy, limits, options.days, options.spans, options.seed)


def show(found: list[dict[str, Any]]) -> None:
    """Print a table."""
    table = Table("machine", "bulk lower by", "bulk of", "policy", "limit", "days", "links", "least", "ratio",
                  "interrupted, h", "overlap, h", title="Chains with bulk jobs in the queue")  # fmt: skip
    for one in found:
        table.add_row(
            one["load"], one["kind"], one["owner"], one["policy"], format_duration(one["limit_s"]),
            f"{one['days']:g}{'*' if one['stopped'] else ''}", str(one["links"]), str(one["least"]),
            f"{one['ratio']:.2f}", f"{one['interruption_h']:.1f}", f"{one['overlap_h']:.1f}",
        )  # fmt: skip
    Console(width=130).print(table)
    print(f"* stopped early: the chains had used {MOST_LINKS} times the links that they need in all their days")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--spans", type=int, default=14, help="most time limits for which a chain is watched")
    parser.add_argument("--kinds", default=",".join(KINDS), help="means by which bulk jobs are lower")
    parser.add_argument("--policies", default="what-if,holds,reactive,average,lead:1")
    parser.add_argument("--limits", default="25m,4h,24h,48h", help="time limits, a chain each")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--all", action="store_true", help="every policy with every kind on every machine")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=1, help="runs at once")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if unknown := set(options.kinds.split(",")) - KINDS.keys():
        parser.error(f"unknown kinds {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    tasks, found = list(runs(options)), []
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        for k, records in enumerate(pool.map(live, tasks), 1):
            found += records
            one = records[0]
            cpu_s = sum(record["cpu_s"] for record in records)
            print(
                f"{k}/{len(tasks)} {one['load']} {one['kind']} {one['owner']} {one['policy']}: {cpu_s:.0f} CPU-s",
                flush=True,
            )
    show(found)
    if options.output:
        options.output.write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
