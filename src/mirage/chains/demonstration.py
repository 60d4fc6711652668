"""Demonstration: two weeks of a service on a shared cluster, reactive and with forecasts.

The agent keeps the chains alive, as it would on a real cluster; only Slurm is simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from mirage.array_types import Ints
from mirage.chains.simulated_chain import keep_alive
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.statistics.summary import ValueSummary
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from mirage.worker_processes import WorkerProcesses

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


def _run_all(tasks: list[Task], processes: int) -> list[ChainRun]:
    """Run the first tasks in other processes, and the last ones in this one.

    This one has the simulator loaded.
    """
    others = min(processes, len(tasks)) - 1
    if others < 1:
        return [_run(task) for task in tasks]
    with WorkerProcesses(others) as workers:
        first = [workers.submit(_run, task) for task in tasks[:others]]
        rest = [_run(task) for task in tasks[others:]]
        return [*(one.result() for one in first), *rest]


def _run(task: Task) -> ChainRun:
    seed, cost, nodes, name = task
    _, begin_s = _setting(seed)
    link = next(link for link in LINKS if link.nodes == nodes)
    policy = POLICIES[name].format(futures=FUTURES)
    return keep_alive(_at_begin(seed).fork(), link, policy, cost, begin_s + SHOWN_DAYS * DAY_S)
