"""Chances: numbers of jobs in futures, the same in every view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import SHARED, chances
from mirage.kernel.random import uniform
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.slurm_view import Names
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from tests.support.made_up_views import chain, jobs, view
from tests.support.two_worlds import slurm_view

PENDING = [{"id": 7, "user": 3, "limit_s": 3600}, {"id": 9, "user": 3, "limit_s": 3600}]
RUNNING = [{"id": 2**40 + 5, "user": 70_000, "limit_s": 172_800}]


@pytest.mark.parametrize("seed", [0, 3, 2**61 + 5])
def test_they_are_the_numbers_of_three_streams_to_the_bit(seed: int) -> None:
    found = chances(view(0, 4, 4, pending=jobs(*PENDING), running=jobs(*RUNNING)), 40, seed)
    together = [*PENDING, *RUNNING]
    ids, user, limit_s = (
        np.array([job[name] for job in together], dtype=np.uint64) for name in ("id", "user", "limit_s")
    )
    future = np.arange(40, dtype=np.uint64)[:, None]
    shared = uniform(seed, future, user * np.uint64(1_000_003) + limit_s, 2)
    expected = np.where(uniform(seed, future, ids, 3) < SHARED, shared, uniform(seed, future, ids, 1))
    np.testing.assert_array_equal(found, expected)
    assert 0.0 <= found.min() < found.max() < 1.0


def test_a_job_has_the_same_numbers_with_any_other_jobs() -> None:
    alone = chances(view(0, 4, 4, pending=jobs(PENDING[1])), 8, 1)
    together = chances(view(0, 4, 4, pending=jobs(*PENDING), running=jobs(*RUNNING)), 8, 1)
    np.testing.assert_array_equal(alone[:, 0], together[:, 1])
    assert chances(view(0, 4, 4), 8, 1).shape == (8, 0)


def test_a_forecast_is_the_same_whatever_the_codes_of_users() -> None:
    """Each process numbers users as it meets them."""
    cluster = Cluster.pool(20)
    table = generate_workload(builtin_model("lonestar6-like"), days=2, seed=4, load=1.0)
    sim = Simulation(cluster, workload(table, cluster, refuse=False), discipline="easy")
    sim.advance(int(table.submit_s[0]) + DAY_S)
    slurm, another = VirtualSlurm(sim), Names()
    for job in reversed(slurm.observe().jobs):
        another.code("user", job.user)
    one, other = slurm_view(slurm, Names()), slurm_view(slurm, another)
    assert len({*one.pending.user}) > 3
    assert one.pending.user.tolist() != other.pending.user.tolist()
    link = chain(one.now_s + HOUR_S)
    starts_s = [Forecaster(16).forecast(replace(each, chain=link), np.array([0, HOUR_S])).starts_s
                for each in (one, other)]  # fmt: skip
    assert len(np.unique(starts_s[0])) > 4, "the futures differ"
    np.testing.assert_array_equal(*starts_s)
