"""Repeats of users: known answers, and no shares for too few jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.learn.features.repeats import LEAST_JOBS, REPEATS, repeats_of
from mirage.learn.ranges import REPEATS_BEYOND, Ranges
from mirage.policy.view import View
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from mirage.trace.workload.workload_model import DEFAULT_START_S
from tests.support.made_up_views import ended, view

DECEMBER_S = 1_669_852_800
ALICE, BOB, UNKNOWN = 3, 0, -1


def after(*jobs: tuple[int, int, int]) -> View:
    """A view after some jobs: (user, nodes, limit)."""
    rows = [(user, nodes, limit, 0, 0, k) for k, (user, nodes, limit) in enumerate(jobs)]
    return view(10_000, 8, 8, history=ended(*rows))


def test_a_job_is_compared_with_the_one_of_its_user_that_ended_before() -> None:
    six = ((ALICE, 1, 60), (BOB, 2, 60), (ALICE, 1, 90), (BOB, 3, 60), (ALICE, 1, 90), (BOB, 4, 60))
    rounds = 50
    # Alice goes from 60 to 90 in every round and back in the next one; Bob never asks for as many nodes again.
    limit_share, nodes_share = repeats_of(after(*six * rounds)).tolist()
    assert limit_share == np.float32(1 - (2 * rounds - 1) / (6 * rounds - 2))
    assert nodes_share == 0.5


def test_jobs_of_unknown_users_do_not_count() -> None:
    known = [(ALICE, 1, 60)] * 2 * LEAST_JOBS
    mixed = [job for one in known for job in (one, (UNKNOWN, 5, 5))]
    assert repeats_of(after(*mixed)).tolist() == repeats_of(after(*known)).tolist() == [1, 1]
    assert np.isnan(repeats_of(after(*[(UNKNOWN, 1, 60)] * 1000))).all()


def test_too_few_jobs_have_no_shares() -> None:
    assert np.isnan(repeats_of(after())).all()
    assert np.isnan(repeats_of(after(*[(ALICE, 1, 60)] * LEAST_JOBS))).all()  # the first has none before it
    assert repeats_of(after(*[(ALICE, 1, 60)] * (LEAST_JOBS + 1))).tolist() == [1, 1]


@pytest.mark.slow
def test_a_cluster_repeats_itself_alike_in_all_months_and_one_made_after_it_less(
    shared_data: Path,
) -> None:
    table = read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz").table
    own = daily_repeats(table, DECEMBER_S, 4 * 30)
    months = [own[k : k + 30] for k in range(0, len(own), 30)]
    for k, month in enumerate(months):
        others = Ranges.of(np.concatenate([*months[:k], *months[k + 1 :]]), REPEATS, REPEATS_BEYOND)
        assert all(others.outside(row) is None for row in month)
    trained = Ranges.of(np.concatenate(months[:2]), REPEATS, REPEATS_BEYOND)
    made = generate_workload(builtin_model("lonestar6-like"), days=60, nodes=76, load=0.8, seed=7)
    for row in daily_repeats(made, DEFAULT_START_S + 30 * DAY_S, 30):
        outside = trained.outside(row)
        assert outside is not None
        assert outside.feature == "repeated_limit_share"


def daily_repeats(table: JobTable, begin_s: int, days: int) -> np.ndarray:
    """Shape (days, ``REPEATS``): shares at the start of each day of a replay on 76 nodes."""
    cluster = Cluster.pool(76)
    sim = Simulation(cluster, workload(table, cluster, refuse=False), "mirage-2023")
    found = []
    for day in range(days):
        sim.approach(begin_s + day * DAY_S)
        found.append(repeats_of(sim.view()))
    return np.stack(found)
