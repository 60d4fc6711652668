"""Candidates are made with what the judged cluster is."""

from __future__ import annotations

from dataclasses import replace

from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.policies.what_if import WhatIf
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.workload.pool_workload import pool_workload


def test_what_if_knows_the_scheduler_and_the_limits_of_the_cluster_that_it_is_judged_on() -> None:
    cluster = replace(Cluster.pool(4), limits=(Limit("user", jobs=3), Limit("user", gpus=9)))
    scheduler = SlurmSettings(weight_age=77)
    scenario = Scenario(cluster, workload(pool_workload(8, processors=4), Cluster.pool(4)), "slurm", scheduler)
    made = Candidate("what-if", Cost(3, 1)).make(scenario, seed=5)
    assert isinstance(made, WhatIf)
    assert made.forecaster.limits == (Limit("user", jobs=3),)
    assert (made.forecaster.scheduler, made.forecaster.seed, made.cost) == (scheduler, 5, Cost(3, 1))
