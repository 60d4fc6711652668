"""What is fitted to a world that is known is that world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.calibration.capacity import queued
from mirage.calibration.fit import Slice, choices, error, fit, judged
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.calibration.shares import ALL, PLAIN, shares, waits
from mirage.calibration.wait_causes import LIMIT, UNEXPLAINED
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.settings import SlurmSettings
from mirage.trace.table import JobTable

SETTINGS = replace(SlurmSettings(), weight_age=1000.0)
TRUE = replace(SETTINGS, weight_age=500.0, recorded_priority=300.0, turnover_s=60)
FITTED, AFTER = Slice(14 * DAY_S, 35 * DAY_S), Slice(35 * DAY_S, 56 * DAY_S)


@pytest.fixture(scope="module")
def recorded() -> JobTable:
    """Eight weeks of a cluster of 20 nodes, 16 from the sixth week on, where a user runs four jobs at once."""
    dice = np.random.default_rng(11)
    batches, singles = (np.repeat(dice.integers(0, 56 * DAY_S, 170), 12), dice.integers(0, 56 * DAY_S, 1_600))
    users = (np.repeat(dice.integers(0, 8, 170), 12), dice.integers(8, 30, 1_600))
    submit_s, user = np.concatenate([batches, singles]), np.concatenate(users)
    order, n = np.argsort(submit_s, kind="stable"), len(submit_s)
    submit_s, user = submit_s[order], user[order]
    run_s = np.clip(dice.lognormal(8.7, 1.2, n), 30, DAY_S).astype(int)
    asked = JobTable.build(
        [f"j{k}" for k in range(n)],
        submit_s=submit_s,
        elapsed_s=run_s,
        limit_s=np.minimum(-(-run_s // HOUR_S) * 2 * HOUR_S, 2 * DAY_S),
        nodes=dice.choice([1, 2, 4, 8], n, p=[0.7, 0.17, 0.1, 0.03]),
        user=[f"u{one}" for one in user],
        priority=(user * 25).tolist(),
    )
    cluster = Cluster(
        (NodeGroup("node", 20),),
        limits=(Limit("user", jobs=4),),
        changes=(CapacityChange(40 * DAY_S, "node", -4),),
    )
    schedule = Simulation(cluster, workload(asked, cluster), "slurm", TRUE).run()
    return asked.with_columns(start_s=schedule.start_s, end_s=schedule.end_s)


@pytest.fixture(scope="module")
def site(recorded: JobTable) -> Site:
    return Site.of(queued(recorded), SETTINGS, FITTED.from_s, FITTED.until_s)


@pytest.mark.slow
def test_the_mechanisms_of_a_known_world_are_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.calibration.fit.MOST_TRIES", 150)
    best = fit(site, FITTED)
    assert best.recorded
    assert best.user_jobs == 4
    assert 250 <= best.age <= 1000
    later = judged(site, best, AFTER)
    assert later.rank_correlation.value is not None
    assert later.rank_correlation.value > 0.7
    assert error(later) < 0.8 * error(judged(site, Mechanisms(age=1000.0), AFTER))


def test_shares_tell_what_each_mechanism_is_worth(site: Site) -> None:
    best = Mechanisms(dip_s=24 * HOUR_S, recorded=True, age=500.0, user_jobs=4, turnover_s=60)
    rows = {row.name: row for row in shares(site, best, FITTED, AFTER, resamples=0)}
    assert set(rows) == {PLAIN, ALL, "dip_s", "recorded", "age", "user_jobs", "turnover_s"}
    missed = {name: error(row.judged) for name, row in rows.items()}
    assert missed[ALL] < min(missed["recorded"], missed["user_jobs"], missed["dip_s"], missed[PLAIN])


def test_the_nodes_that_left_are_seen(site: Site) -> None:
    changes = site.cluster(Mechanisms(dip_s=24 * HOUR_S)).changes
    level = np.cumsum([site.cluster(Mechanisms(dip_s=24 * HOUR_S)).nodes, *(change.nodes for change in changes)])
    times_s = np.array([0, *(change.time_s for change in changes)])
    assert level[np.searchsorted(times_s, 30 * DAY_S) - 1] == 20
    assert level[np.searchsorted(times_s, 50 * DAY_S) - 1] == 16
    assert site.cluster(Mechanisms()).changes == ()


def test_what_jobs_waited_for_is_explained_where_all_mechanisms_are_known(site: Site) -> None:
    known = Mechanisms(dip_s=48 * HOUR_S, recorded=True, age=500.0, user_jobs=4, turnover_s=60)
    found = waits(site, known, AFTER)
    assert found.recorded[UNEXPLAINED] < 0.05
    assert found.replayed[UNEXPLAINED] < 0.05
    assert found.recorded[LIMIT] > 0.05
    blind = waits(site, replace(known, user_jobs=None), AFTER)
    assert blind.recorded[LIMIT] == 0
    assert blind.recorded[UNEXPLAINED] > found.recorded[UNEXPLAINED] + 0.02, "what the limit kept waiting"
    assert blind.unexplained_moving_average is not None
    assert found.unexplained_moving_average is not None
    assert blind.unexplained_moving_average > found.unexplained_moving_average + 0.02


def test_what_was_cancelled_while_it_waited_is_replayed_but_not_compared(recorded: JobTable, site: Site) -> None:
    gone = np.arange(len(recorded)) % 10 == 0
    jobs = queued(recorded.with_columns(end_s=np.where(gone, recorded.start_s, recorded.end_s)))
    found = judged(replace(site, jobs=jobs), Mechanisms(), AFTER)
    assert found.counts.only_simulated > 0
    assert found.counts.compared == int((~gone & (jobs.submit_s >= AFTER.from_s)).sum())


def test_a_replay_begins_two_weeks_before_its_slice(site: Site) -> None:
    """Days 35 to 56 are looked at."""
    days = AFTER.with_warm_up(site.jobs).submit_s / DAY_S
    assert 21 <= days.min() < 22
    assert 55 < days.max() < 56
    assert AFTER.within(site.jobs).submit_s.min() >= 35 * DAY_S


def test_only_what_the_trace_tells_is_tried(site: Site, recorded: JobTable) -> None:
    assert choices(site, FITTED)["recorded"] == (False, True)
    assert choices(site, FITTED)["fairshare"] == (0.0,)
    bare = recorded.with_columns(priority=np.full(len(recorded), -1))
    found = choices(Site.of(queued(bare), SETTINGS, FITTED.from_s, FITTED.until_s), FITTED)
    assert found["recorded"] == (False,)
    assert len(found["fairshare"]) > 1
    assert min(found["size"]) < 0 < max(found["size"])


def test_a_slice_is_two_weeks_long_at_least() -> None:
    with pytest.raises(ConfigurationError, match=r"a slice of 13\.0 days is too short to fit to"):
        Slice(0, 13 * DAY_S)
