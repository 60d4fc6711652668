"""Demonstration: two weeks of a service on a shared cluster, reactive and with forecasts.

The agent keeps the chains alive, as it would on a real cluster; only Slurm is simulated.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from mirage.agent.agent import Agent
from mirage.agent.chain.history import chain_run
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import WAITING_LINKS, ChainSpec
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S, MINUTE_S, format_duration
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.cost import Cost
from mirage.process import die_with
from mirage.provision.chain_record import ChainRun
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.records import Submission
from mirage.trace.statistics.summary import ValueSummary
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model

MODEL, DISCIPLINE = "lonestar6-like", "slurm"
WARM_UP_DAYS, SHOWN_DAYS, MARGIN_DAYS = 21, 14, 5
SAMPLE_S = 30 * MINUTE_S
LOAD = 0.8
"""Less than that of the model: with seed 0, two weeks have 23 to 28 hand-overs."""

POLICIES = {"reactive": "reactive", "what-if": "what-if:{futures}", "auto": "auto"}
"""Names as shown, and the policy that the agent runs: what most people do, and the default of the agent last."""

LINKS = (LinkSize(8, 12 * HOUR_S),)
FUTURES = 32
"""Fewer than the default of ``what-if``, so that the demonstration is short."""

StageReport = Callable[[str], None]

NAME = "service"
SETTINGS = AgentSettings(
    poll_s=HOUR_S,
    busy_poll_s=MINUTE_S,
    longest_poll_s=HOUR_S,
    notice_s=2 * MINUTE_S,
    decide_s=HOUR_S,
    decisions_per_link=12,
    sight_s=HOUR_S,
    longest_sleep_s=DAY_S,
    lease_s=DAY_S,
    calibrate_every_s=0,
)
"""An hour between polls and decisions: two weeks are to pass in a few seconds. The start or end of a link ends the
agent's sleep."""

MEMORY = Path("/dev/shm")
"""The store lies in memory if possible: thousands of transactions are more than a slow disk writes in a minute."""

SCRIPT = "#!/bin/sh\n./serve --checkpoint-on USR2\n"


@dataclass(frozen=True, slots=True)
class Load:
    """Load of the cluster without the chains, sampled: shape (k,) each.

    Attributes:
        busy: Nodes in use.
        queued: Nodes requested by pending jobs.
        jobs: Jobs submitted in the time shown.
        wait_s: Their waits.
    """

    time_s: Ints
    busy: Ints
    queued: Ints
    jobs: int
    wait_s: ValueSummary


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Result of the demonstration.

    Attributes:
        nodes: Of the cluster.
        cost: The cost that the policies minimise.
        runs: (nodes of a link, policy) → what became of the chain.
    """

    seed: int
    nodes: int
    discipline: str
    begin_s: int
    until_s: int
    cost: Cost
    load: Load
    runs: dict[tuple[int, str], ChainRun]


def demonstrate(seed: int, cost: Cost, workers: int, progress: StageReport) -> Demonstration:
    """Play the demonstration.

    Args:
        seed: Of the workload and of the policies.
        cost: What hours of interruption and overlap cost.
        workers: Processes at once.
        progress: Called with what is being done.
    """
    progress("loading the simulator")
    scenario, begin_s = _setting(seed)
    sim = _at_begin(seed)
    until_s = begin_s + SHOWN_DAYS * DAY_S
    progress("replaying two weeks of the cluster")
    load = _load(sim.fork(), begin_s, until_s)
    progress(f"keeping a chain alive for two weeks with each of {', '.join(POLICIES)}")
    tasks = [(seed, cost, link.nodes, policy) for policy in reversed(POLICIES) for link in LINKS]
    done = dict(zip([task[2:] for task in tasks], _run_all(tasks, workers)))
    runs = {(link.nodes, policy): done[link.nodes, policy] for link in LINKS for policy in POLICIES}
    return Demonstration(seed, scenario.cluster.nodes, scenario.discipline, begin_s, until_s, cost, load, runs)


@cache
def _setting(seed: int) -> tuple[Scenario, int]:
    """The cluster with its workload, and the second at which the time shown begins."""
    model = builtin_model(MODEL)
    table = generate_workload(model, days=WARM_UP_DAYS + SHOWN_DAYS + MARGIN_DAYS, seed=seed, load=LOAD)
    cluster = Cluster.pool(model.nodes)
    scenario = Scenario(cluster, workload(table, cluster), DISCIPLINE, SlurmSettings.lonestar6())
    return scenario, int(table.submit_s[0]) // DAY_S * DAY_S + WARM_UP_DAYS * DAY_S


@cache
def _at_begin(seed: int) -> Simulation:
    """Simulation of the cluster after three weeks of its own work; to be forked, not used."""
    scenario, begin_s = _setting(seed)
    sim = scenario.simulation()
    sim.approach(begin_s)
    return sim


def _load(sim: Simulation, begin_s: int, until_s: int) -> Load:
    times = np.arange(begin_s, until_s, SAMPLE_S)
    busy, queued = np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=np.int64)
    for k, now_s in enumerate(times):
        sim.approach(int(now_s))
        view = sim.view()
        busy[k] = (view.nodes.capacity - view.nodes.free)[:, 0].sum()
        queued[k] = view.pending.nodes.sum()
    schedule = sim.run()
    shown = (schedule.table.submit_s >= begin_s) & (schedule.table.submit_s < until_s) & (schedule.start_s >= 0)
    waits = ValueSummary.of((schedule.start_s - schedule.table.submit_s)[shown])
    assert waits is not None
    return Load(times, busy, queued, int(shown.sum()), waits)


Task = tuple[int, Cost, int, str]


def _run_all(tasks: list[Task], workers: int) -> list[ChainRun]:
    """Run the first tasks in other processes, and the last ones in this one.

    This one has the simulator loaded.
    """
    others = min(workers, len(tasks)) - 1
    if others < 1:
        return [_run(task) for task in tasks]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(others, spawn, initializer=die_with, initargs=(os.getpid(),)) as pool:
        first = [pool.submit(_run, task) for task in tasks[:others]]
        rest = [_run(task) for task in tasks[others:]]
        return [*(one.result() for one in first), *rest]


def _run(task: Task) -> ChainRun:
    seed, cost, nodes, name = task
    _, begin_s = _setting(seed)
    link = next(link for link in LINKS if link.nodes == nodes)
    policy = POLICIES[name].format(futures=FUTURES)
    return keep_alive(_at_begin(seed).fork(), link, policy, cost, begin_s + SHOWN_DAYS * DAY_S)


def keep_alive(
    sim: Simulation, link: LinkSize, policy: str, cost: Cost, until_s: int, waiting_links: int = WAITING_LINKS
) -> ChainRun:
    """The record of a chain that the agent manages from now until a time.

    Args:
        sim: The simulation; it is consumed.
        link: Size of every link.
        policy: Name of the provisioner.
        cost: The cost that the policy minimises.
        waiting_links: Maximum number of links that wait at once.
    """
    slurm = VirtualSlurm(sim)
    with ExitStack() as opened:
        memory = MEMORY if MEMORY.is_dir() else None
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="mirage-", dir=memory))
        store = opened.enter_context(closing(open_store(f"sqlite:///{folder}/store.db")))
        script = Path(folder) / "serve.sh"
        script.write_text(SCRIPT, encoding="utf-8")
        options: dict[str, str | None] = {"nodes": str(link.nodes), "time": format_duration(link.limit_s)}
        spec = ChainSpec(
            Submission(str(script), options),
            policy=policy,
            interruption_cost=cost.interruption,
            overlap_cost=cost.overlap,
            waiting_links=waiting_links,
        )
        chain = store.add_chain(NAME, spec, slurm.now_s)
        agent = Agent(
            store, slurm, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="demo", settings=SETTINGS
        )
        agent.run(slurm.sleep_until_change, lambda: slurm.now_s >= until_s)
        return chain_run(store.chain(NAME), store.links(chain.id), store.decisions(chain.id), until_s, nodes=link.nodes)
