"""What is fitted to a world that is known is that world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.calibration.fidelity.judge_fidelity import judge
from mirage.calibration.fit_mechanisms import TraceSlice, choices, combinations, error, fit, judged
from mirage.calibration.inferred.capacity import queued
from mirage.calibration.inferred.shutdowns import Shutdown
from mirage.calibration.mechanism_shares import ALL, HELD, PLAIN, shares, waits
from mirage.calibration.mechanisms import Mechanisms, Site, Wfp
from mirage.calibration.wait_causes import LIMIT, UNEXPLAINED
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.made_up_histories import history
from tests.support.made_up_site import Row, table

SETTINGS = replace(SlurmSettings(), weight_age=1000.0)
TRUE = replace(SETTINGS, weight_age=500.0, recorded_priority=300.0, turnover_s=60)
FITTED, AFTER = TraceSlice(14 * DAY_S, 35 * DAY_S), TraceSlice(35 * DAY_S, 56 * DAY_S)


@pytest.fixture(scope="module")
def recorded() -> JobTable:
    """Eight weeks of 20 nodes, 16 from the sixth week on; a user runs four jobs at once."""
    dice = np.random.default_rng(11)
    batches, singles = (np.repeat(dice.integers(0, 56 * DAY_S, 170), 12), dice.integers(0, 56 * DAY_S, 1_600))
    users = (np.repeat(dice.integers(0, 8, 170), 12), dice.integers(8, 30, 1_600))
    submit_s, user = np.concatenate([batches, singles]), np.concatenate(users)
    order, n = np.argsort(submit_s, kind="stable"), len(submit_s)
    submit_s, user = submit_s[order], user[order]
    run_s = np.clip(dice.lognormal(8.7, 1.2, n), 30, DAY_S).astype(int)
    requested = JobTable.build(
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
    schedule = Simulation(cluster, workload(requested, cluster), "slurm", TRUE).run()
    return requested.with_columns(start_s=schedule.start_s, end_s=schedule.end_s)


@pytest.fixture(scope="module")
def site(recorded: JobTable) -> Site:
    return Site.of(queued(recorded), SETTINGS, FITTED.from_s, FITTED.until_s)


@pytest.mark.slow
def test_the_mechanisms_of_a_known_world_are_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.MOST_TRIES", 150)
    best = fit(site, FITTED)
    assert best.recorded
    assert best.user_jobs == 4
    assert 250 <= best.age <= 1000
    later = judged(site, best, AFTER)
    assert later.rank_correlation.value is not None
    assert later.rank_correlation.value > 0.7
    assert error(later) < 0.8 * error(judged(site, Mechanisms(age=1000.0), AFTER))


def test_shares_show_the_worth_of_each_mechanism(site: Site) -> None:
    best = Mechanisms(dip_s=24 * HOUR_S, recorded=True, age=500.0, user_jobs=4, turnover_s=60)
    rows = {row.name: row for row in shares(site, best, FITTED, AFTER, resamples=0)}
    assert set(rows) == {PLAIN, ALL, HELD, "dip_s", "recorded", "age", "user_jobs", "turnover_s"}
    missed = {name: error(row.judged) for name, row in rows.items()}
    assert missed[ALL] < min(missed["recorded"], missed["user_jobs"], missed["dip_s"], missed[PLAIN])


def test_the_nodes_that_left_are_found(site: Site) -> None:
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


def test_a_job_that_others_pass_by_is_held_where_that_is_requested() -> None:
    rows = (("ada", 0.0, 10.0, 1.0, 2), ("bob", 1.0, 7.0, 1.0, 2), ("eve", 2.0, 400.0, 0.5, 1))
    jobs = queued(table(*rows))
    site = Site(jobs, SETTINGS, 4, -1.0)
    freely, held = (site.replay(Mechanisms(), jobs, held) for held in (False, True))
    assert (freely.start_s[0], held.start_s[0]) == (0, 7 * HOUR_S)
    assert held.start_s[1] == HOUR_S


def test_until_a_replay_begins_all_goes_as_recorded() -> None:
    """One runs then and one waits, though the record held it next to idle nodes."""
    rows = (("ada", 0.0, 3.0, 9.0, 2), ("bob", 1.0, 12.0, 1.0, 2), ("eve", 7.0, 8.0, 1.0, 2))
    jobs = queued(table(*rows))
    site = Site(jobs, SETTINGS, 4, -1.0)
    played = site.replay(Mechanisms(), jobs, from_s=6 * HOUR_S)
    assert (played.start_s / HOUR_S).tolist() == [3, 6, 7]
    assert (played.submit_s / HOUR_S).tolist() == [0, 1, 7]
    assert (site.replay(Mechanisms(), jobs).start_s / HOUR_S).tolist() == [0, 1, 7]


WFP3 = Wfp(1.0, 3.0, 3.0)


@pytest.fixture(scope="module")
def ordered_by_wfp(recorded: JobTable) -> Site:
    """The same jobs on sixteen nodes in the order of WFP3, without users and priorities."""
    cluster = Cluster.pool(16)
    anonymous = JobTable.build(
        recorded.job_id,
        submit_s=recorded.submit_s,
        elapsed_s=recorded.end_s - recorded.start_s,
        limit_s=recorded.limit_s,
        nodes=recorded.nodes,
    )
    settings = replace(SETTINGS, priority="wfp")
    schedule = Simulation(cluster, workload(anonymous, cluster), "slurm", settings).run()
    jobs = queued(anonymous.with_columns(start_s=schedule.start_s, end_s=schedule.end_s))
    return Site.of(jobs, SETTINGS, FITTED.from_s, FITTED.until_s)


def test_jobs_that_went_by_wfp_are_replayed_by_it(ordered_by_wfp: Site) -> None:
    exact = judged(ordered_by_wfp, Mechanisms(wfp=WFP3), AFTER)
    assert exact.rank_correlation.value is not None
    assert exact.rank_correlation.value > 0.85
    others = (Mechanisms(), Mechanisms(age=1000.0, size=500.0), Mechanisms(wfp=Wfp(0.0, 3.0, 0.0)))
    assert error(exact) < 0.5 * min(error(judged(ordered_by_wfp, one, AFTER)) for one in others)


@pytest.mark.slow
def test_wfp_is_found(ordered_by_wfp: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.MOST_TRIES", 60)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.WFPS", (Wfp(0.0, 3.0, 1.5), WFP3, Wfp(3.0, 3.0, 1.5)))
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.DIPS_S", (None, DAY_S))
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.TURNOVERS_S", (0, 60))
    assert fit(ordered_by_wfp, FITTED).wfp == WFP3


def test_weights_have_no_effect_with_wfp() -> None:
    weights = Mechanisms(age=3.0, size=2.0, fairshare=1.0, recorded=True, turnover_s=5)
    assert replace(weights, wfp=WFP3).settled() == Mechanisms(wfp=WFP3, turnover_s=5)
    assert weights.settled() == weights


def test_wfp_and_sums_of_weights_are_tried_alike(ordered_by_wfp: Site) -> None:
    tried = combinations(choices(ordered_by_wfp, FITTED), 40)
    assert [one.wfp is None for one in tried].count(True) == 20
    assert len(set(tried)) == len(tried) == 40
    assert all(one == one.settled() for one in tried)


def test_the_scheduler_goes_by_wfp_as_it_was_fitted(site: Site) -> None:
    found = site.scheduler(Mechanisms(wfp=Wfp(2.0, 3.0, 1.5, DAY_S // 2)))
    assert (found.priority, found.wfp_size, found.wfp_wait, found.wfp_limit) == ("wfp", 2.0, 3.0, 1.5)
    assert found.wfp_longest_s == DAY_S // 2
    assert site.scheduler(Mechanisms()).priority == "multifactor"


def test_what_was_cancelled_while_it_waited_is_replayed_but_not_compared(recorded: JobTable, site: Site) -> None:
    gone = np.arange(len(recorded)) % 10 == 0
    jobs = queued(recorded.with_columns(end_s=np.where(gone, recorded.start_s, recorded.end_s)))
    found = judged(replace(site, jobs=jobs), Mechanisms(), AFTER)
    assert found.counts.only_simulated > 0
    assert found.counts.compared == int((~gone & (jobs.submit_s >= AFTER.from_s)).sum())


def test_a_replay_begins_two_weeks_before_its_slice(site: Site) -> None:
    """Days 35 to 56 are judged; what ran or waited on day 21 belongs to it."""
    jobs = AFTER.with_warm_up(site.jobs)
    assert (jobs.end_s > 21 * DAY_S).all()
    left_out = site.jobs[site.jobs.submit_s < 56 * DAY_S]
    assert len(jobs) + int((left_out.end_s <= 21 * DAY_S).sum()) == len(left_out)
    assert (jobs.submit_s < 21 * DAY_S).any()
    assert 55 < jobs.submit_s.max() / DAY_S < 56
    assert AFTER.within(site.jobs).submit_s.min() >= 35 * DAY_S


def test_a_job_that_runs_when_a_replay_begins_has_its_recorded_start() -> None:
    """Ada's job waited two weeks for no visible reason; it holds all nodes until bob's starts."""
    jobs = queued(table(("ada", 0, 13.9 * 24, 15.1 * 24, 4), ("bob", 28.5 * 24, 29 * 24, 1.0, 4), limit_h=20 * 24))
    found = judged(Site(jobs, SETTINGS, 4, -1.0), Mechanisms(), TraceSlice(28 * DAY_S, 42 * DAY_S))
    assert found.counts.compared == 1
    assert found.simulated_wait_s.mean == pytest.approx(12 * HOUR_S, abs=HOUR_S / 4)


def test_a_replay_is_judged_over_its_slice_with_intervals_where_they_are_wanted(site: Site) -> None:
    found = judged(site, Mechanisms(), FITTED, resamples=7)
    assert (found.from_s, found.until_s) == (FITTED.from_s, FITTED.until_s)
    assert found.rank_correlation.interval is not None
    assert judged(site, Mechanisms(), FITTED).rank_correlation.interval is None
    held = judged(site, Mechanisms(), FITTED, held=True)
    assert held.simulated_wait_s.mean > judged(site, Mechanisms(), FITTED).simulated_wait_s.mean


def test_only_what_the_trace_records_is_tried(site: Site, recorded: JobTable) -> None:
    assert choices(site, FITTED)["recorded"] == (False, True)
    assert choices(site, FITTED)["fairshare"] == (0.0,)
    assert choices(site, FITTED)["wfp"] == (None,)
    assert choices(site, FITTED)["shutdowns"] == (False,)
    stopped = Shutdown(20 * DAY_S, 21 * DAY_S, 0, True, 1)
    assert choices(replace(site, shutdowns=(stopped,)), FITTED)["shutdowns"] == (False, True)
    assert choices(replace(site, shutdowns=(stopped,)), AFTER)["shutdowns"] == (False,)
    bare = recorded.with_columns(priority=np.full(len(recorded), -1))
    found = choices(Site.of(queued(bare), SETTINGS, FITTED.from_s, FITTED.until_s), FITTED)
    assert found["recorded"] == (False,)
    assert None in found["wfp"]
    assert Wfp() in found["wfp"]
    assert len(found["fairshare"]) > 1
    assert min(found["size"]) < 0 < max(found["size"])


def test_the_candidates_of_a_site_with_users_and_without_priorities() -> None:
    """Five users; weights are multiples of the declared weight of age."""
    rows: list[Row] = [(f"u{k % 5}", 24.0 * k, 24.0 * k + 1, 5.0, 2) for k in range(40)]
    jobs = queued(table(*rows))
    known = Site.of(jobs, replace(SETTINGS, weight_age=16.0), FITTED.from_s, FITTED.until_s)
    found = choices(known, FITTED)
    weights = [0, 1, 2, 4, 8, 16, 32]
    assert (found["age"], found["fairshare"]) == (weights, weights)
    assert found["size"] == (-32, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32)
    assert found["user_jobs"] == (None,), "no user waits with one job while another one runs"
    assert found["think_time_s"] == (0, 1200)
    assert found["turnover_s"] == (0, 15, 30, 60, 120)
    assert found["dip_s"] == (None, *(hours * HOUR_S for hours in (12, 24, 48, 96, 168)))
    unweighted = choices(replace(known, settings=replace(SETTINGS, weight_age=0.0)), FITTED)
    assert unweighted["age"] == [62.5 * weight for weight in weights], "of 1,000 where none is declared"


def test_with_few_users_neither_fair_share_nor_think_times_are_tried() -> None:
    rows: list[Row] = [(f"u{k % 4}" if k % 5 else "", 24.0 * k, 24.0 * k + 1, 5.0, 2) for k in range(40)]
    found = choices(Site.of(queued(table(*rows)), SETTINGS, FITTED.from_s, FITTED.until_s), FITTED)
    assert (found["fairshare"], found["think_time_s"]) == ((0.0,), (0,))
    assert len(found["age"]) == 7


def test_a_shutdown_counts_in_the_slice_in_which_it_begins(site: Site) -> None:
    def begun(at_s: int) -> Site:
        return replace(site, shutdowns=(Shutdown(at_s, at_s + DAY_S, 0, True, 1),))

    tried = {at_s: choices(begun(at_s), FITTED)["shutdowns"] for at_s in (FITTED.from_s, FITTED.until_s)}
    assert tried == {FITTED.from_s: (False, True), FITTED.until_s: (False,)}


def test_a_fit_tries_every_value_of_each_mechanism_twice(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best age depends on the turnover: only the second round finds that of the best one."""
    values = {"age": (0.0, 100.0, 300.0), "turnover_s": (0, 15, 60), "user_jobs": (None, 2, 5)}
    of_turnover = {0: (100, 0.5), 15: (300, 0.0), 60: (0, 2.0)}

    def missed(chosen: Mechanisms) -> float:
        best_age, base = of_turnover[chosen.turnover_s]
        return abs(chosen.age - best_age) / 1000 + base + (chosen.user_jobs != 5)

    monkeypatch.setattr("mirage.calibration.fit_mechanisms.choices", lambda *_: values)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.combinations", lambda *_: [Mechanisms(age=300.0)])
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.judged", lambda site, chosen, stretch: chosen)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.error", missed)
    tries: list[tuple[int, int, float]] = []
    best = fit(site, FITTED, lambda *progress: tries.append(progress))
    assert best == Mechanisms(age=300.0, turnover_s=15, user_jobs=5)
    count, most, least = zip(*tries)
    assert list(count) == list(range(1, len(tries) + 1))
    assert set(most) == {1 + 2 * 9}
    assert len(tries) < 1 + 2 * 9, "what has been tried is not replayed again"
    assert least == tuple(np.minimum.accumulate(least))
    assert (least[0], least[-1]) == (pytest.approx(1.7), 0.0)


def test_weights_next_to_wfp_are_one_replay_and_not_in_the_result(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[Mechanisms] = []

    def judge_one(site: Site, chosen: Mechanisms, stretch: TraceSlice) -> Mechanisms:
        replayed.append(chosen)
        return chosen

    values = {"age": (0.0, 100.0, 200.0), "wfp": (None, WFP3)}
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.choices", lambda *_: values)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.judged", judge_one)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.error", lambda chosen: float(chosen.wfp is None))
    assert fit(site, FITTED) == Mechanisms(wfp=WFP3)
    assert sorted(replayed, key=lambda one: (one.wfp is None, one.age)) == [
        Mechanisms(wfp=WFP3), Mechanisms(), Mechanisms(age=100.0), Mechanisms(age=200.0)
    ]  # fmt: skip


def test_all_combinations_are_tried_where_they_are_few() -> None:
    values = {"age": (1.0, 2.0), "turnover_s": (0, 15, 30)}
    every = combinations(values, 6)
    assert [(one.age, one.turnover_s) for one in every] == [(a, t) for a in (1.0, 2.0) for t in (0, 15, 30)]
    drawn = combinations(values, 5)
    assert len(set(drawn)) == 5
    assert set(drawn) < set(every)
    assert combinations(values, 5) == drawn
    kinds = combinations(values | {"wfp": (None, WFP3), "recorded": (False, True), "size": (5.0,)}, 30)
    ordered = [one for one in kinds if one.wfp is not None]
    assert {(one.recorded, one.age, one.fairshare, one.size) for one in ordered} == {(False, 0.0, 0.0, 0.0)}
    assert [one.turnover_s for one in ordered] == [0, 15, 30]
    assert len(kinds) - len(ordered) == 2 * 3 * 2


def test_the_error_is_one_half_of_each_figure_and_the_worst_where_one_is_not_defined() -> None:
    submits = range(0, 16 * 24, 6)
    waits_h = [1 + k % 5 for k in submits]
    late = judge(history(submits, waits_h), history(submits, [2 * wait for wait in waits_h]), resamples=0)
    assert error(late) == pytest.approx(1.0 + 1 - 1)
    alike = judge(history(submits, [2] * 64), history(submits, [3] * 64), resamples=0)
    assert error(alike) == pytest.approx(0.5 + 1), "no order of equal waits"
    short = judge(history(range(5), range(5)), history(range(5), range(5, 0, -1)), resamples=0)
    assert error(short) == pytest.approx(1.0 + 2), "no window, and the order reversed"


def test_a_slice_is_two_weeks_long_at_least() -> None:
    with pytest.raises(ConfigurationError, match=r"a slice of 13\.0 days is too short to fit to"):
        TraceSlice(0, 13 * DAY_S)
    assert TraceSlice(5, 5 + 14 * DAY_S).replay_from_s == 5 - 14 * DAY_S


@pytest.mark.parametrize(("most_replayed", "tries"), [(10**9, 35), (1, 4)])
def test_of_very_many_jobs_fewer_combinations_are_tried(
    most_replayed: int, tries: int, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Enough(Exception):
        """After the first."""

    def stop(done: int, most: int, least: float) -> None:
        raise Enough(most)

    values = {"age": tuple(range(7)), "turnover_s": tuple(range(5))}
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.choices", lambda *_: values)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.MOST_REPLAYED", most_replayed)
    monkeypatch.setattr("mirage.calibration.fit_mechanisms.FEWEST_TRIES", 4)
    with pytest.raises(Enough) as raised:
        fit(site, FITTED, stop)
    assert raised.value.args == (tries + 2 * (7 + 5),)
