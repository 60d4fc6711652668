"""Passes every five minutes against a resident agent, on a simulated cluster.

    python benchmarks/agent/passes.py --days 6 --seeds 0,1 -o passes.json

One chain is kept alive three ways: by the policy reactive, by another policy with a resident agent, and by that
policy with passes of ``mirage agent once``, each with the knowledge of a new process. Reported is the share of the
reactive gap that each closes, and the passes' share of the agent's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.hosting.one_pass import OnePass, pass_settings
from mirage.agent.hosting.pass_memory import PassMemory
from mirage.agent.model import ChainSpec
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import DAY_S, HOUR_S, format_duration
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


def started(seed: int, days: int, load: float) -> Simulation:
    """The cluster after two weeks of its own work."""
    model = builtin_model("lonestar6-like")
    table = generate_workload(model, days=WARM_UP_DAYS + days + 3, seed=seed, load=load)
    cluster = Cluster.pool(model.nodes)
    sim = Simulation(cluster, workload(table, cluster), "slurm", SlurmSettings.lonestar6())
    sim.approach(int(table.submit_s[0]) // DAY_S * DAY_S + WARM_UP_DAYS * DAY_S)
    return sim


def keep_alive(sim: Simulation, policy: str, every_s: int, until_s: int, interruption_cost: float) -> dict[str, Any]:
    """The hours of interruption and overlap of a chain until a time."""
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

        def agent(settings: AgentSettings) -> Agent:
            return Agent(
                store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder=f"at {slurm.now_s}",
                settings=settings,
            )  # fmt: skip

        passes = 0
        if every_s:
            while slurm.now_s < until_s:
                slurm.sleep(every_s - slurm.now_s % every_s)
                one = agent(pass_settings(AgentSettings(), every_s))
                OnePass(one, PassMemory.read(memory), memory, every_s).run(slurm.sleep, lambda: False)
                passes += 1
        else:
            agent(AgentSettings(lease_s=DAY_S)).run(slurm.sleep, lambda: slurm.now_s >= until_s)
        run = chain_run(store.chain("service"), store.links(chain.id), (), until_s, nodes=NODES)
    return {
        "interruption_h": run.interruption_s / HOUR_S,
        "overlap_h": run.overlap_s / HOUR_S,
        "hand_overs": len(run.hand_overs),
        "passes": passes,
        "cpu_s": round(time.process_time() - began_s, 1),
    }


def main() -> None:
    """Play all ways of all seeds, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--policy", default="what-if:32")
    parser.add_argument("--interruption-cost", type=float, default=4.0)
    parser.add_argument("-o", "--out", default="passes.json")
    given = parser.parse_args()
    rows = []
    for seed in map(int, given.seeds.split(",")):
        sim = started(seed, given.days, given.load)
        until_s = sim.now_s + given.days * DAY_S
        for way in WAYS:
            policy, every_s = "reactive" if way == "reactive" else given.policy, EVERY_S if way == "passes" else 0
            figures = keep_alive(sim.fork(), policy, every_s, until_s, given.interruption_cost)
            row = {"seed": seed, "way": way, "policy": policy, **figures}
            rows.append(row)
            print(row, flush=True)
    gap_h = {way: sum(row["interruption_h"] for row in rows if row["way"] == way) for way in WAYS}
    closed = {way: 1 - gap_h[way] / gap_h["reactive"] for way in WAYS if gap_h["reactive"]}
    share = closed["passes"] / closed["agent"] if closed.get("agent") else None
    print(f"gap closed: agent {closed.get('agent')}, passes {closed.get('passes')}; passes / agent = {share}")
    Path(given.out).write_text(json.dumps({"rows": rows, "closed": closed, "passes_of_agent": share}, indent=2))


if __name__ == "__main__":
    main()
