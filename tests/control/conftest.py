"""Fixtures of the tests of an executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.control.plan_executor import PlanExecutor
from mirage.control.verbs import FENCE
from tests.support.acting_cluster import ELASTIC, OWNED, WORDS, ActingCluster
from tests.support.control_cluster import loan, pending, running


@pytest.fixture
def cluster() -> ActingCluster:
    """Job 5 runs on t1, 6 on the lent i2; 7 and 8 wait; 9 and 10 do not take part."""
    jobs = [
        running(5, "t1"), running(6, "i2", Reservation="mirage-loan-i2", UserName="eve"),
        pending(7, PriorityLong=300, TimeLimit="30:00"),
        pending(8, PriorityLong=200, Reservation="mirage-loan-i2"), pending(9, Comment="", PriorityLong=900),
        pending(10, Partition="inference"),
    ]  # fmt: skip
    return ActingCluster(jobs=jobs, reservations=[loan("i2"), loan("i[1-3]", 9_000_000, name=FENCE)])


@pytest.fixture
def executor(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    made = PlanExecutor(cluster.slurm, OWNED, tmp_path / "state", cluster.clock)
    yield made
    made.close()


@pytest.fixture
def elastic(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    """An executor with elastic jobs: 11 runs, 12 waits."""
    cluster.jobs += [running(11, "t2", **WORDS), pending(12, PriorityLong=50, **WORDS)]
    made = PlanExecutor(cluster.slurm, ELASTIC, tmp_path / "elastic", cluster.clock)
    yield made
    made.close()
