"""Where fair-share dominates, a forecast follows the use of the link's user and of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.forecast import forecaster
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import TrueRunTimes
from mirage.policy.view import ChainView
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable
from tests.support.made_up_views import chain, ended, jobs, view

CLUSTER = Cluster.pool(20)
FAIR = SlurmSettings(bf_interval_s=60, weight_age=100.0, weight_fairshare=10_000.0, half_life_s=2.0 * DAY_S)
SINCE_S, LIMIT_S = 10 * DAY_S, 24 * HOUR_S
NOW_ONLY = np.zeros(1, dtype=np.int64)


@pytest.fixture(scope="module")
def busy() -> Workload:
    """Ten days of users of unequal use in three accounts, more than the machine can run."""
    dice = np.random.default_rng(6)
    batches = 110
    submit_s = np.sort(np.repeat(dice.integers(0, SINCE_S, batches), 4))
    user = np.repeat(dice.choice(12, batches, p=np.arange(1, 13) / 78), 4)
    n = len(submit_s)
    run_s = np.clip(dice.lognormal(9.6, 0.9, n), 600, 2 * DAY_S).astype(int)
    table = JobTable.build(
        [f"j{k}" for k in range(n)],
        submit_s=submit_s,
        elapsed_s=run_s,
        limit_s=np.minimum(-(-run_s // HOUR_S) * 2 * HOUR_S, 2 * DAY_S),
        nodes=dice.choice([1, 2, 4], n, p=[0.5, 0.3, 0.2]),
        user=[f"u{one}" for one in user],
        account=[f"a{one % 3}" for one in user],
    )
    return workload(table, CLUSTER)


def foreseen_and_real_s(busy: Workload, now_s: int, user: int, age_s: int) -> tuple[int, int, int]:
    """A moment, and the forecast (with true run times) and real start of a user's next link."""
    jobs = workload(busy.table[busy.table.submit_s < now_s], CLUSTER)
    sim = Simulation(CLUSTER, jobs, "slurm", FAIR)
    sim.advance(now_s - age_s)
    present = sim.inject(nodes=8, limit_s=LIMIT_S, run_s=LIMIT_S, user=user)
    started_s = sim.run_until_started(present)
    now_s = max(now_s, started_s + 4 * HOUR_S)
    sim.advance(now_s)
    link = ChainView(8, LIMIT_S, present, now_s - age_s, started_s, started_s + LIMIT_S, 1800, user=user)
    forecast = Forecaster(1, scheduler=FAIR, arrivals=False, run_times=TrueRunTimes(jobs.jobs.run_s))
    expected_s = int(forecast.forecast(sim.view(link), NOW_ONLY).starts_s[0, 0])
    return now_s, expected_s, sim.run_until_started(sim.inject(nodes=8, limit_s=LIMIT_S, user=user))


@pytest.mark.parametrize("user", [0, 1, 7, 11])
def test_with_true_run_times_the_start_of_every_user_s_link_is_foreseen(
    busy: Workload, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(forecaster, "PLANNED_EVERY_S", 60)
    monkeypatch.setattr(forecaster, "RANKED_EVERY_S", 300)
    moments = range(4 * DAY_S, SINCE_S, 51_000)
    now_s, foreseen_s, real_s = np.array([foreseen_and_real_s(busy, at_s, user, 12 * HOUR_S) for at_s in moments]).T
    near = np.abs(foreseen_s - real_s) <= np.maximum(0.1 * (real_s - now_s), 10 * MINUTE_S)
    assert len(near) > 9
    assert near.sum() >= len(near) - 1, "where two users have nearly the same use, a second can decide"


def test_the_present_link_uses_its_nodes_until_it_ends() -> None:
    """User 1 has used less than user 2 now, and more when the present link has ended."""
    now_s = 40 * DAY_S
    mine = {"id": 99, "user": 1, "nodes": 2, "limit_s": 9 * HOUR_S, "start_s": now_s - HOUR_S, "width": 2}
    waits = {"submit_s": now_s - 60, "eligible_s": now_s - 60, "priority": 5_000.0}
    other = {"id": 5, "user": 2, "nodes": 2, "limit_s": 12 * HOUR_S, **waits}
    history = ended((2, 2, DAY_S, now_s - 6 * HOUR_S, now_s - 6 * HOUR_S, now_s - HOUR_S))
    link = replace(chain(now_s + 8 * HOUR_S, nodes=2, limit_s=9 * HOUR_S), user=1)
    observed = view(now_s, 2, 0, running=jobs(mine), pending=jobs(other), history=history, chain=link)
    forecast = Forecaster(1, scheduler=FAIR, arrivals=False, run_times=TrueRunTimes(np.zeros(1, dtype=np.int64)))
    assert forecast.forecast(observed, NOW_ONLY).starts_s.tolist() == [[now_s + 20 * HOUR_S]]
    short = replace(observed, chain=replace(link, ends_s=now_s + HOUR_S), running=jobs(mine | {"limit_s": 2 * HOUR_S}))
    assert forecast.forecast(short, NOW_ONLY).starts_s.tolist() == [[now_s + HOUR_S]]


@pytest.mark.parametrize(("limit_min", "start_min"), [(30, 60), (24, 24)])
def test_a_short_link_is_passed_within_minutes(limit_min: int, start_min: int) -> None:
    """User 1 has used more than user 2 after 25 minutes.

    That is before the end of a link of 30 minutes, and after the end of one of 24.
    """
    now_s, limit_s = 40 * DAY_S, limit_min * MINUTE_S
    mine = {"id": 99, "user": 1, "nodes": 2, "limit_s": limit_s, "start_s": now_s, "width": 2}
    waits = {"submit_s": now_s - 60, "eligible_s": now_s - 60, "priority": 5_000.0}
    other = {"id": 5, "user": 2, "nodes": 2, "limit_s": 30 * MINUTE_S, **waits}
    link = replace(chain(now_s + limit_s, nodes=2, limit_s=limit_s), user=1)
    observed = view(
        now_s, 2, 0, running=jobs(mine), pending=jobs(other), chain=link,
        history=ended((2, 2, now_s - HOUR_S, now_s - HOUR_S, now_s - HOUR_S, now_s - 35 * MINUTE_S)),
    )  # fmt: skip
    forecast = Forecaster(1, scheduler=FAIR, arrivals=False, run_times=TrueRunTimes(np.zeros(1, dtype=np.int64)))
    assert forecast.forecast(observed, NOW_ONLY).starts_s.tolist() == [[now_s + start_min * MINUTE_S]]


def test_a_link_of_a_user_without_jobs_in_view_is_that_of_a_newcomer() -> None:
    now_s = 40 * DAY_S
    other = {"id": 5, "user": 2, "nodes": 2, "limit_s": 12 * HOUR_S, "start_s": now_s - HOUR_S, "width": 2}
    waits = {"submit_s": now_s - 60, "eligible_s": now_s - 60, "priority": 5_000.0, "user": 2, "nodes": 2}
    link = replace(chain(now_s + 8 * HOUR_S, nodes=2, limit_s=9 * HOUR_S), user=900)
    observed = view(now_s, 2, 0, running=jobs(other), pending=jobs(waits), chain=link)
    forecast = Forecaster(1, scheduler=FAIR, arrivals=False, run_times=TrueRunTimes(np.zeros(1, dtype=np.int64)))
    assert forecast.forecast(observed, NOW_ONLY).starts_s.tolist() == [[now_s + 11 * HOUR_S]]
