"""Candidates are made with what the judged cluster is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import Candidate, OwnJobsOnly, candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.policies.what_if import WhatIf
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.workload.pool_workload import pool_workload
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 1_000_000


@pytest.fixture
def scenario() -> Scenario:
    return Scenario(Cluster.pool(4), workload(pool_workload(8, processors=4), Cluster.pool(4)))


def of_two_users(**changes: Any) -> View:
    """A view with jobs of users 1 and 2 in every part; the chain is user 1's."""
    waits = ({"user": 1, "submit_s": NOW - 7}, {"user": 2, "submit_s": NOW - 70, "nodes": 3})
    runs = tuple({**one, "submit_s": NOW - 100 - 3600 * one["user"], "start_s": NOW - 100} for one in waits)
    past = ended((1, 1, 60, NOW - 9000, NOW - 300, NOW - 99), (2, 1, 60, NOW - 90_000, NOW - 300, NOW - 98))
    link = replace(chain(NOW + 30 * HOUR_S), user=1)
    return view(NOW, 4, 0, pending=jobs(*waits), running=jobs(*runs), held=jobs(*waits), history=past, chain=link)


def test_a_private_candidate_sees_the_jobs_of_its_user_only() -> None:
    class Recorder:
        def decide(self, view: View) -> Plan:
            self.view = view
            return Plan(())

    recorder, observed = Recorder(), of_two_users()
    OwnJobsOnly(recorder).decide(observed)
    parts = (recorder.view.pending, recorder.view.running, recorder.view.held, recorder.view.ended)
    assert [part.user.tolist() for part in parts] == [[1]] * 4
    assert recorder.view.ended.submit_s.tolist() == [NOW - 9000]
    assert (recorder.view.chain, recorder.view.nodes) == (observed.chain, observed.nodes)


def test_auto_is_judged_as_the_agent_decides_where_jobs_are_hidden(scenario: Scenario) -> None:
    hidden = candidates(["auto", "lead:1"], [Cost(1, 1), Cost(3, 1)], private=True)
    assert [(one.key, one.private, one.members) for one in hidden] == [
        ("auto@1:1", True, ()), ("auto@3:1", True, ()), ("lead:1", True, ()),
    ]  # fmt: skip
    for one in hidden[:2]:
        expected = make_policy("user-waits", PolicySettings(one.cost or Cost())).decide(of_two_users())
        assert one.make(scenario, 0).decide(of_two_users()) == expected
    open_to_all = [one.policy for one in candidates(["auto"], [Cost()])]
    assert open_to_all == ["auto", "reactive", "what-if", "holds"]


@pytest.mark.parametrize(("policy", "hidden"), [("quantile", True), ("slurm-estimate", False), ("shell-tree", False)])
def test_slurms_own_estimates_know_all_jobs(scenario: Scenario, policy: str, *, hidden: bool) -> None:
    open_to_all, private = (Candidate(policy, private=one).make(scenario, 0) for one in (False, True))
    assert (open_to_all.decide(of_two_users()) != private.decide(of_two_users())) == hidden


def test_what_if_knows_the_scheduler_and_the_limits_of_the_cluster_that_it_is_judged_on() -> None:
    cluster = replace(Cluster.pool(4), limits=(Limit("user", jobs=3), Limit("user", gpus=9)))
    scheduler = SlurmSettings(weight_age=77)
    scenario = Scenario(cluster, workload(pool_workload(8, processors=4), Cluster.pool(4)), "slurm", scheduler)
    made = Candidate("what-if", Cost(3, 1)).make(scenario, seed=5)
    assert isinstance(made, WhatIf)
    assert made.forecaster.limits == (Limit("user", jobs=3),)
    assert (made.forecaster.scheduler, made.forecaster.seed, made.cost) == (scheduler, 5, Cost(3, 1))
