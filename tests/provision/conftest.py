"""A small cluster with a queue, and evaluations of it."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.provision.evaluation.episode import Scenario
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.table import JobTable


@pytest.fixture(scope="session")
def busy_setting() -> Scenario:
    """Forty days of two users on eight nodes, with waits of hours now and then."""
    random = np.random.default_rng(3)
    n = 1400
    submit_s = np.sort(random.integers(0, 40 * DAY_S, n))
    run_s = random.integers(600, 8 * HOUR_S, n)
    table = JobTable.build(
        range(n),
        submit_s=submit_s,
        elapsed_s=run_s,
        limit_s=run_s * random.integers(1, 4, n),
        nodes=random.choice([1, 1, 1, 2, 4], n),
        user=[f"user{k % 2}" for k in range(n)],
    )
    cluster = Cluster.pool(8)
    return Scenario(cluster, workload(table, cluster), "easy")
