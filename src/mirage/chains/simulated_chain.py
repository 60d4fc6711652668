"""A chain that the agent keeps alive on a simulated Slurm, in virtual time.

The agent is that of a real cluster, with all its rules; only Slurm is simulated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import WAITING_LINKS, ChainSpec
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question
from mirage.agent.policy_runner.site_knowledge import KnownSite, SiteKnowledge
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.duration import DAY_S, HOUR_S, MINUTE_S, format_duration
from mirage.errors import MirageError
from mirage.lab.virtual.queries import DEFAULT_USER
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.cost import Cost
from mirage.policy.view import View
from mirage.provision.chain_record import ChainRun
from mirage.provision.link_size import LinkSize
from mirage.sim.simulation import Simulation
from mirage.slurm.records import Submission

NAME = "service"
SETTINGS = AgentSettings(
    busy_poll_s=MINUTE_S,
    notice_s=2 * MINUTE_S,
    decisions_per_link=12,
    longest_sleep_s=DAY_S,
    lease_s=DAY_S,
    calibrate_every_s=0,
)
"""Polls and decisions are rare: weeks are to pass in seconds. The start or end of a link ends the agent's sleep."""


@dataclass
class WatchedPolicies(InProcess):
    """Policies in this process; the first failure is recorded.

    After it, the agent decides by recent waits, which must not be judged under the name of the policy.
    """

    failure: str = ""

    def answer(self, question: Question, options: Mapping[str, str], view: View) -> Answer:
        """The answer to one question."""
        answer = super().answer(question, options, view)
        self.failure = self.failure or answer.failure
        return answer


def keep_alive(
    sim: Simulation,
    link: LinkSize,
    policy: str,
    cost: Cost,
    until_s: int,
    waiting_links: int = WAITING_LINKS,
    *,
    user: str = "",
    step_s: int = HOUR_S,
) -> ChainRun:
    """The record of a chain that the agent manages from now until a time.

    Args:
        sim: The simulation; it is consumed.
        link: Size of every link.
        policy: Name of the provisioner.
        cost: The cost that the policy minimises.
        waiting_links: Maximum number of links that wait at once.
        user: Owner of the links, a user of the trace; empty for a newcomer.
        step_s: Time between polls, and between decisions.

    Raises:
        MirageError: The policy failed.
    """
    users = sim.workload.table.user.names
    newcomer = next(name for n in count() if (name := DEFAULT_USER + "-" * n) not in users)
    slurm = VirtualSlurm(sim, user=user or newcomer)
    settings = replace(SETTINGS, poll_s=step_s, longest_poll_s=step_s, decide_s=step_s, sight_s=step_s)
    options = {"nodes": str(link.nodes), "time": format_duration(link.limit_s), "exclusive": None}
    spec = ChainSpec(
        Submission(os.devnull, options),  # a simulated job runs no script
        policy=policy,
        interruption_cost=cost.interruption,
        overlap_cost=cost.overlap,
        waiting_links=waiting_links,
    )
    with closing(open_store("sqlite://")) as store:  # in memory: no end of the process leaves a file
        chain = store.add_chain(NAME, spec, slurm.now_s)
        site = SiteKnowledge(None, KnownSite(limits=sim.cluster.limits))  # as after a calibration
        policies = WatchedPolicies(site=site)
        agent = Agent(
            store,
            slurm,
            SystemShell(),
            runner=policies,
            clock=slurm.clock,
            monotonic=slurm.clock,
            holder="simulation",
            settings=settings,
        )
        agent.run(slurm.sleep_until_change, lambda: slurm.now_s >= until_s or bool(policies.failure))
        if policies.failure:
            raise MirageError(f"policy {policy} failed: {policies.failure}; mend it, or leave it out")
        return chain_run(store.chain(NAME), store.links(chain.id), store.decisions(chain.id), until_s, nodes=link.nodes)
