"""Where policies think: the same plan here and aside, and no harm from what a policy does there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from mirage.agent.policy_runner import ChildProcess, InProcess, PolicyFailed, PolicyRequest
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.virtual.slurm import VirtualSlurm
from mirage.policy.cost import Cost
from mirage.policy.view import Chain, View
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.settings import SlurmSettings
from mirage.slurm.view import Names, view_of
from mirage.trace.table import JobTable

REQUEST = PolicyRequest("what-if:8", 1.0, 1.0)


@pytest.fixture(scope="module")
def slurm() -> VirtualSlurm:
    cluster = Cluster.pool(4)
    rng = np.random.default_rng(1)
    columns = {"elapsed_s": rng.integers(600, 6 * HOUR_S, 60), "nodes": rng.integers(1, 4, 60)}
    table = JobTable.build(range(60), submit_s=np.arange(60) * 1800, limit_s=[8 * HOUR_S] * 60, **columns)
    slurm = VirtualSlurm(Simulation(cluster, workload(table, cluster), "slurm"))
    slurm.sleep(DAY_S)
    return slurm


@pytest.fixture
def seen(slurm: VirtualSlurm) -> View:
    return view_of(slurm.observe(), slurm.machine(), slurm.accounting(0), Names())


@pytest.fixture
def aside() -> Iterator[ChildProcess]:
    runner = ChildProcess()
    yield runner
    runner.rest()


def chain(view: View, left_s: int) -> Chain:
    started_s = view.now_s + left_s - 8 * HOUR_S
    return Chain(1, 8 * HOUR_S, -1, started_s, started_s, view.now_s + left_s, 300)


def test_a_plan_is_the_same_here_and_aside(slurm: VirtualSlurm, seen: View, aside: ChildProcess) -> None:
    here, options = InProcess(), slurm.configuration()
    for left_s in (HOUR_S, 4 * HOUR_S, 7 * HOUR_S):
        for request in (REQUEST, PolicyRequest("lead:2", 1.0, 1.0), PolicyRequest("average", 3.0, 1.0)):
            mine, its = (runner.decide(request, options, seen, chain(seen, left_s)) for runner in (here, aside))
            assert mine == its


@pytest.mark.parametrize("name", ["what-if:8", "what-if:8:tie=0:quick=no", "slurm-estimate", "average", "lead:2"])
def test_the_policy_that_runs_is_the_one_that_an_evaluation_judges(slurm: VirtualSlurm, seen: View, name: str) -> None:
    options = slurm.configuration()
    scheduler = SlurmSettings.from_options(options, "scontrol show config")
    scenario = Scenario(slurm.sim.cluster, slurm.sim.workload, "slurm", scheduler)
    judged = Candidate(name, Cost(3, 1)).make(scenario, seed=0)
    runner, reasons = InProcess(), []
    for left_s in (600, HOUR_S, 2 * HOUR_S, 4 * HOUR_S, 7 * HOUR_S):
        link = replace(chain(seen, left_s), nodes=4)
        plan = runner.decide(PolicyRequest(name, 3.0, 1.0), options, seen, link)
        assert plan == judged.decide(replace(seen, chain=link))
        reasons.append(plan.actions[0].reason)
    assert ("too-late-even-now" in reasons) == (name == "what-if:8")


def test_a_policy_is_made_anew_when_the_scheduler_is_set_otherwise(slurm: VirtualSlurm, seen: View) -> None:
    runner, options = InProcess(), slurm.configuration()
    for changed in ({}, {}, {"schedulerparameters": "bf_interval=60"}, {}):
        runner.decide(PolicyRequest("what-if:2", 1.0, 1.0), {**options, **changed}, seen, chain(seen, HOUR_S))
    intervals = [policy.forecast.scheduler.bf_interval_s for policy in runner.policies.values()]  # type: ignore[attr-defined]
    assert len(intervals) == 2
    assert intervals[1] == 60 != intervals[0]


def test_what_a_policy_raises_is_told_and_the_next_is_asked(
    slurm: VirtualSlurm, seen: View, aside: ChildProcess
) -> None:
    for runner in (aside, InProcess()):
        with pytest.raises(PolicyFailed, match=r"UnknownName: .*'nonsense'"):
            runner.decide(PolicyRequest("nonsense", 1.0, 1.0), {}, seen, chain(seen, HOUR_S))
        assert runner.decide(PolicyRequest("reactive", 1.0, 1.0), {}, seen, chain(seen, HOUR_S)).actions


@pytest.mark.slow
def test_a_policy_that_dies_or_stalls_takes_nobody_with_it(
    slurm: VirtualSlurm, seen: View, aside: ChildProcess
) -> None:
    ask = (REQUEST, slurm.configuration(), seen, chain(seen, HOUR_S))
    first = aside.decide(*ask)
    assert aside._child is not None
    aside._child[0].kill()
    with pytest.raises(PolicyFailed, match="its process ended with status -9"):
        aside.decide(*ask)
    assert aside.decide(*ask) == first
    aside.rest()
    aside.patience_s = 0.01
    with pytest.raises(PolicyFailed, match=r"no answer within 0\.01 s"):
        aside.decide(*ask)
    aside.patience_s = 240.0
    assert aside.decide(*ask) == first


def test_its_memory_is_given_back_when_there_is_nothing_to_decide(seen: View, aside: ChildProcess) -> None:
    aside.decide(PolicyRequest("reactive", 1.0, 1.0), {}, seen, chain(seen, HOUR_S))
    assert aside._child is not None
    number = aside._child[0].pid
    assert number is not None
    aside.rest()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    aside.rest()
