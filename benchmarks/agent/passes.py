"""Passes every five minutes against a resident agent, on a simulated cluster.

    python benchmarks/agent/passes.py --hand-overs 14 --seeds 1 -o passes.json

Every few hours a chain begins on a copy of the cluster, and one hand-over is played three ways: by the policy reactive,
by another policy with a resident agent, and by that policy with passes of ``mirage agent once``, each with the
knowledge of a new process. The first link begins in the same second each way, so the hand-overs differ by the way
alone. Reported are the cost of each way, and the share that passes have of what the agent avoids of the cost of
``reactive``, with a 95 % interval over hand-overs (a paired bootstrap).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mirage.agent.agent import Agent
from mirage.agent.chain.submission import submit_link
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.hosting.one_pass import OnePass, pass_settings
from mirage.agent.hosting.pass_memory import PassMemory
from mirage.agent.model import ChainSpec, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.array_types import Floats
from mirage.duration import DAY_S, HOUR_S, format_duration
from mirage.job_state import MISSING
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.records import Submission
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model

WARM_UP_DAYS = 14
NODES, LIMIT_S = 8, 12 * HOUR_S
WAYS = ("reactive", "agent", "passes")
EVERY_S = 300
BETWEEN_S = 7 * HOUR_S + 1_234
"""Between two beginnings: no multiple of the interval of passes."""

DRAWS = 20_000
"""Of the bootstrap."""


def started(seed: int, days: int, load: float) -> Simulation:
    """The cluster after two weeks of its own work."""
    model = builtin_model("lonestar6-like")
    table = generate_workload(model, days=WARM_UP_DAYS + days + 3, seed=seed, load=load)
    cluster = Cluster.pool(model.nodes)
    sim = Simulation(cluster, workload(table, cluster), "slurm", SlurmSettings.lonestar6())
    sim.approach(int(table.submit_s[0]) // DAY_S * DAY_S + WARM_UP_DAYS * DAY_S)
    return sim


def hand_over(sim: Simulation, policy: str, every_s: int, interruption_cost: float) -> dict[str, Any]:
    """The hours of interruption and overlap of a chain's first hand-over."""
    slurm, began_s = VirtualSlurm(sim), time.process_time()
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        closing(open_store(f"sqlite:///{folder}/s.db")) as store,
    ):
        script, memory = Path(folder) / "serve.sh", Path(folder) / "agent.pass"
        script.write_text("#!/bin/sh\n./serve\n")
        options: dict[str, str | None] = {"nodes": str(NODES), "time": format_duration(LIMIT_S)}
        spec = ChainSpec(Submission(str(script), options), policy=policy, interruption_cost=interruption_cost)
        chain = store.add_chain("service", spec, slurm.now_s)
        submit_link(store, slurm, chain, store.links(chain.id)[0], None, slurm.now_s)
        until_s = slurm.now_s + 6 * LIMIT_S

        def agent(settings: AgentSettings) -> Agent:
            return Agent(
                store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder=f"at {slurm.now_s}",
                settings=settings,
            )  # fmt: skip

        def is_over() -> bool:
            links = store.links(chain.id)
            handed_over = len(links) > 1 and links[1].started_s != MISSING and links[0].state is LinkState.ENDED
            return handed_over or slurm.now_s >= until_s

        polls = 0
        if every_s:
            while not is_over():
                slurm.sleep(every_s - slurm.now_s % every_s)
                one = agent(pass_settings(AgentSettings(), every_s))
                polls += OnePass(one, PassMemory.read(memory), memory, every_s).run(slurm.sleep, lambda: False).polls
        else:
            agent(AgentSettings(lease_s=DAY_S)).run(slurm.sleep, is_over)
        before, after = store.links(chain.id)[:2]
        gap_h = ((after.started_s if after.started_s != MISSING else until_s) - before.ended_s) / HOUR_S
    return {
        "interruption_h": round(max(gap_h, 0.0), 4),
        "overlap_h": round(max(-gap_h, 0.0), 4),
        "released_h": round((before.started_s + LIMIT_S - after.released_s) / HOUR_S, 4),
        "polls": polls,
        "cpu_s": round(time.process_time() - began_s, 1),
    }


def costs_h(rows: list[dict[str, Any]], interruption: float, overlap: float) -> Floats:
    """The cost of each hand-over."""
    return np.array([interruption * row["interruption_h"] + overlap * row["overlap_h"] for row in rows])


def share(by_way: dict[str, Floats]) -> tuple[float, float, float]:
    """The share of what the agent avoids that passes avoid, and its 95 % interval.

    Args:
        by_way: Shape (hand-overs,), in the same order each way.
    """
    by_agent, by_passes = (by_way["reactive"] - by_way[way] for way in ("agent", "passes"))
    rows = np.random.default_rng(0).integers(0, len(by_agent), (DRAWS, len(by_agent)))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = by_passes[rows].sum(axis=1) / by_agent[rows].sum(axis=1)
        low, high = np.percentile(drawn, [2.5, 97.5])
        return float(by_passes.sum() / by_agent.sum()), float(low), float(high)


def main() -> None:
    """Play all ways of all seeds, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hand-overs", type=int, default=14, help="for each seed")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--policy", default="what-if:32")
    parser.add_argument("--interruption-cost", type=float, default=1.0)
    parser.add_argument("-o", "--out", default="passes.json")
    given = parser.parse_args()
    rows = []
    for seed in map(int, given.seeds.split(",")):
        sim = started(seed, given.hand_overs * BETWEEN_S // DAY_S + 3, given.load)
        for number in range(given.hand_overs):
            sim.advance(sim.now_s + BETWEEN_S)
            for way in WAYS:
                policy, every_s = "reactive" if way == "reactive" else given.policy, EVERY_S if way == "passes" else 0
                figures = hand_over(sim.fork(), policy, every_s, given.interruption_cost)
                rows.append({"seed": seed, "number": number, "way": way, "policy": policy, **figures})
                print(rows[-1], flush=True)
    shares = {}
    for name, weights in (("interruption", (1.0, 0.0)), ("cost", (given.interruption_cost, 1.0))):
        by_way = {way: costs_h([row for row in rows if row["way"] == way], *weights) for way in WAYS}
        of_agent, low, high = shares[name] = share(by_way)
        total = {way: round(float(cost_h.sum()), 2) for way, cost_h in by_way.items()}
        print(f"{name}: {total}; passes / agent = {of_agent:.3f} ({low:.3f} to {high:.3f})")
    Path(given.out).write_text(json.dumps({"rows": rows, "passes_of_agent": shares}, indent=2))


if __name__ == "__main__":
    main()
