"""With known limits and recorded priorities a forecast foresees what happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.forecast import forecaster
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import TrueRunTimes
from mirage.policy.view import ChainView
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SETTINGS = SlurmSettings(bf_interval_s=60, weight_age=500.0, recorded_priority=300.0)
LIMITED = replace(Cluster.pool(20), limits=(Limit("user", jobs=4),))
SINCE_S, LIMIT_S = 8 * DAY_S, 12 * HOUR_S


@pytest.fixture(scope="module")
def requested() -> JobTable:
    """Eight days of batches of a few users, with priorities on both sides of the usual one."""
    dice = np.random.default_rng(4)
    submit_s = np.sort(np.repeat(dice.integers(0, SINCE_S, 55), 12))
    user = np.repeat(dice.integers(0, 9, 55), 12)
    n = len(submit_s)
    run_s = np.clip(dice.lognormal(8.6, 1.0, n), 60, DAY_S).astype(int)
    return JobTable.build(
        [f"j{k}" for k in range(n)],
        submit_s=submit_s,
        elapsed_s=run_s,
        limit_s=np.minimum(-(-run_s // HOUR_S) * 2 * HOUR_S, 2 * DAY_S),
        nodes=dice.choice([1, 2, 4, 8], n, p=[0.6, 0.2, 0.15, 0.05]),
        user=[f"u{one}" for one in user],
        priority=(user * 75).tolist(),
    )


def starts_s(requested: JobTable, now_s: int) -> tuple[int, int, int]:
    """True start of a link, its forecast with the limits known, and without; no jobs follow."""
    jobs = workload(requested[requested.submit_s < now_s], LIMITED)
    sim = Simulation(LIMITED, jobs, "slurm", SETTINGS)
    sim.advance(now_s - HOUR_S)
    present = sim.inject(nodes=1, limit_s=LIMIT_S, run_s=LIMIT_S, watched=False)
    sim.advance(now_s)
    chain = ChainView(4, LIMIT_S, present, now_s - HOUR_S, now_s - HOUR_S, now_s + LIMIT_S, 1800)
    view = sim.view(chain)
    played = [
        Forecaster(
            1, scheduler=SETTINGS, arrivals=False, run_times=TrueRunTimes(jobs.jobs.run_s), limits=limits
        ).forecast(view, np.zeros(1, dtype=np.int64))
        for limits in (LIMITED.limits, ())
    ]
    known_s, unknown_s = (int(forecast.starts_s[0, 0]) for forecast in played)
    return sim.run_until_started(sim.inject(nodes=4, limit_s=LIMIT_S)), known_s, unknown_s


def test_with_all_limits_known_it_foresees_the_start_of_a_link(
    requested: JobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecaster, "PLANNED_EVERY_S", 1)
    monkeypatch.setattr(forecaster, "RANKED_EVERY_S", 1)
    found = np.array([starts_s(requested, now_s) for now_s in range(3 * DAY_S, SINCE_S, 8 * HOUR_S)])
    really, known, unknown = found.T
    wrong = np.abs(known - really) > 10 * MINUTE_S  # who is held has a priority that no view tells: it is the user's
    assert wrong.sum() <= 1
    assert (np.abs(unknown - really) > HOUR_S).sum() >= 3
