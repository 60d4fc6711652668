"""Run of one chain that the agent keeps alive on a simulated Slurm."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import ChainSpec
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import DAY_S, MINUTE_S, format_duration
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun
from mirage.provision.link_size import LinkSize
from mirage.sim.simulation import Simulation
from mirage.slurm.records import Submission

NAME = "service"
SETTINGS = AgentSettings(
    poll_s=10 * MINUTE_S,
    busy_poll_s=10 * MINUTE_S,
    decide_s=30 * MINUTE_S,
    longest_sleep_s=DAY_S,
    lease_s=DAY_S,
)
"""Ten minutes between looks and half an hour between decisions: two weeks are to pass in a minute or two."""

SCRIPT = "#!/bin/sh\n./serve --checkpoint-on USR2\n"


def keep_alive(sim: Simulation, link: LinkSize, policy: str, cost: Cost, until_s: int) -> ChainRun:
    """The record of a chain that the agent manages from now until a time.

    Args:
        sim: The simulation; it is consumed.
        link: Size of every link.
        policy: Name of the provisioner.
        cost: The cost that the policy minimises.
    """
    slurm = VirtualSlurm(sim)
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="mirage-"))
        store = opened.enter_context(closing(open_store(f"sqlite:///{folder}/store.db")))
        script = Path(folder) / "serve.sh"
        script.write_text(SCRIPT, encoding="utf-8")
        options: dict[str, str | None] = {"nodes": str(link.nodes), "time": format_duration(link.limit_s)}
        spec = ChainSpec(
            Submission(str(script), options),
            policy=policy,
            interruption_cost=cost.interruption,
            overlap_cost=cost.overlap,
        )
        chain = store.add_chain(NAME, spec, slurm.now_s)
        agent = Agent(
            store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="demo", settings=SETTINGS
        )
        agent.run(slurm.sleep, lambda: slurm.now_s >= until_s)
        return chain_run(store.chain(NAME), store.links(chain.id), store.decisions(chain.id), until_s, nodes=link.nodes)
