"""The demonstration in small: a day of four nodes, not two weeks of 76; no real chain."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from mirage.chains import demonstration
from mirage.chains.demonstration import demonstrate
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.real.cluster_processes import lives, with_children
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.statistics.summary import ValueSummary
from mirage.trace.table import JobTable
from tests.support.waiting import until

BEGIN_S = 2 * HOUR_S
LINKS = (LinkSize(2, 6 * HOUR_S), LinkSize(1, 6 * HOUR_S))


def scenario(seed: int) -> tuple[Scenario, int]:
    """A job before the time shown, three in it, and one after it."""
    table = JobTable.build(
        range(5),
        submit_s=[0, BEGIN_S, BEGIN_S, BEGIN_S + 600, BEGIN_S + DAY_S],
        elapsed_s=[3 * HOUR_S, 3600, 1800, 3600, 60],
        limit_s=[4 * HOUR_S] * 5,
        nodes=[1, 2, 2, 3, 1],
    )
    cluster = Cluster.pool(4)
    return Scenario(cluster, workload(table, cluster), "fcfs", SlurmSettings()), BEGIN_S


def at_begin(seed: int) -> Simulation:
    sim = scenario(seed)[0].simulation()
    sim.approach(BEGIN_S)
    return sim


ChainRequest = tuple[LinkSize, str, Cost, int, int]


@pytest.fixture(autouse=True)
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ChainRequest]:
    """Which chains were to be kept alive: form, policy, cost, from when, until when."""
    requests: list[ChainRequest] = []

    def keep_alive(sim: Simulation, link: LinkSize, policy: str, cost: Cost, until_s: int) -> str:
        requests.append((link, policy, cost, sim.view().now_s, until_s))
        sim.run()
        return f"{policy} on {link.nodes}"

    for name, value in {
        "_setting": scenario, "_at_begin": cache(at_begin), "keep_alive": keep_alive, "SHOWN_DAYS": 1, "FUTURES": 2,
        "LINKS": LINKS, "POLICIES": {"reactive": "reactive", "ahead": "lead:{futures}"},
    }.items():  # fmt: skip
        monkeypatch.setattr(demonstration, name, value)
    return requests


def test_every_chain_is_kept_alive_for_the_time_shown_with_every_policy(requests: list[ChainRequest]) -> None:
    printed: list[str] = []
    shown = demonstrate(7, Cost(3, 1), 1, printed.append)
    assert [line.split(" (")[0] for line in printed] == [
        "loading the simulator",
        "replaying two weeks of the cluster",
        "keeping a chain alive for two weeks with each of reactive, ahead",
    ]
    assert (shown.seed, shown.nodes, shown.discipline, shown.cost) == (7, 4, "fcfs", Cost(3, 1))
    assert (shown.begin_s, shown.until_s) == (BEGIN_S, BEGIN_S + DAY_S)
    assert list(shown.runs.items()) == [
        ((2, "reactive"), "reactive on 2"), ((2, "ahead"), "lead:2 on 2"), ((1, "reactive"), "reactive on 1"),
        ((1, "ahead"), "lead:2 on 1"),
    ]  # fmt: skip
    assert requests == [
        (link, policy, Cost(3, 1), BEGIN_S, BEGIN_S + DAY_S) for policy in ("lead:2", "reactive") for link in LINKS
    ], "each from the same moment, whatever the others did"


def test_the_load_is_that_of_the_cluster_without_the_chains() -> None:
    load = demonstrate(7, Cost(3, 1), 1, lambda line: None).load
    assert load.time_s.tolist() == [BEGIN_S + 1_800 * k for k in range(48)]
    # until 3 h one node is the first job's; job 1 ends at 3 h, then job 2 runs half an hour, and job 3 follows
    assert load.busy[:8].tolist() == [1, 3, 3, 2, 3, 3, 0, 0]
    assert load.queued[:8].tolist() == [0, 5, 5, 3, 0, 0, 0, 0]
    assert not load.busy[6:].any()
    waits = np.array([0, 3600, 3600 + 1800 - 600])
    assert (load.jobs, load.wait_s) == (3, ValueSummary.of(waits)), "of what was submitted in the time shown"


PARENT = """
from mirage.chains.demonstration import LINKS, _run_all
from mirage.policy.cost import Cost
_run_all([(7, Cost(), LINKS[0].nodes, "reactive")] * 2, 2)
"""


def test_workers_end_with_a_parent_that_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        found: set[int] = set()

        def work() -> bool:
            found.update(with_children({parent.pid}))
            return len(found) == 3  # the parent, which works too, another worker, and what tidies up behind them

        until(work, 60, "the workers run")
        parent.terminate()
    until(lambda: not any(map(lives, found)), 20, "they end")
    assert parent.returncode == -signal.SIGTERM, "nothing but the signal ended them"
