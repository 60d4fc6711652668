"""A small cluster with a queue, and data sets of it."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.learn.dataset.recipe import Recipe
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.table import JobTable


@pytest.fixture(scope="session")
def small_trace() -> JobTable:
    """Two weeks of two users on eight nodes, with waits of hours now and then."""
    random = np.random.default_rng(3)
    n = 300
    run_s = random.integers(600, 8 * HOUR_S, n)
    return JobTable.build(
        range(n),
        submit_s=np.sort(random.integers(0, 14 * DAY_S, n)),
        elapsed_s=run_s,
        limit_s=run_s * random.integers(1, 4, n),
        nodes=random.choice([1, 1, 1, 2, 4], n),
        user=[f"user{k % 2}" for k in range(n)],
    )


@pytest.fixture(scope="session")
def small_recipe(small_trace: JobTable) -> Recipe:
    """Five windows, a day apart, in four shards; no forecasts."""
    cluster = Cluster.pool(8)
    scenario = Scenario(cluster, workload(small_trace, cluster), "easy")
    protocol = EvaluationProtocol.warm(5 * DAY_S, windows=5, every_s=30 * HOUR_S, step_s=HOUR_S)
    links = (LinkSize(1, 6 * HOUR_S), LinkSize(2, 6 * HOUR_S))
    return Recipe(Study(scenario, protocol, links, ()), None, shard_s=2 * DAY_S)
