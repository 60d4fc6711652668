"""Mechanisms: the facts of a site, its cluster and scheduler, and what its replays do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.calibration.inferred.capacity import queued
from mirage.calibration.inferred.shutdowns import Shutdown
from mirage.calibration.mechanisms import NAMES, Mechanisms, Site, Wfp
from mirage.calibration.wait_causes import CAUSES, LIMIT, ORDER, UNEXPLAINED
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.job_state import MISSING
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable
from tests.support.made_up_site import Row, table

PLAIN = SlurmSettings()


def idle_site(jobs: JobTable, nodes: int = 5, settings: SlurmSettings = PLAIN) -> Site:
    """A site of which only the number of nodes is known."""
    return Site(jobs, settings, nodes, float(MISSING))


def hours_by_user(jobs: JobTable, column: str = "start_s") -> dict[str, float]:
    """Start (or another instant) of the only job of each user, in hours."""
    return dict(zip(jobs.user.values(), (getattr(jobs, column) / HOUR_S).tolist()))


# -- orders and choices --------------------------------------------------------------------------------------------


def test_the_gain_of_wfp_is_the_root_of_nodes_over_limit() -> None:
    jobs = table(("ada", 0, 0, 1, 8), ("bob", 0, 0, 1, 3), limit_s=np.array([100, 20]))
    assert Wfp(2.0, 3.0, 1.0).gain(jobs) == pytest.approx([(64 / 100) ** (1 / 3), (9 / 20) ** (1 / 3)])
    assert Wfp(1.0, 2.0, 3.0, longest_s=50).gain(jobs) == pytest.approx([(8 / 50**3) ** 0.5, (3 / 20**3) ** 0.5])
    undeclared = jobs.with_columns(limit_s=np.array([-1, 0]))
    assert Wfp(1.0, 1.0, 3.0).gain(undeclared).tolist() == [8.0, 3.0], "an unknown limit counts as a second"


def test_a_mechanism_left_out_is_at_its_default_and_the_others_stay() -> None:
    whole = Mechanisms(DAY_S, True, 3.0, 4.0, -5.0, None, True, 6, 7, 8)
    off = {name: getattr(whole.without(name), name) for name in NAMES}
    assert off == {
        "dip_s": None, "recorded": False, "age": 0.0, "fairshare": 0.0, "size": 0.0, "wfp": None, "shutdowns": False,
        "user_jobs": None, "turnover_s": 0, "think_time_s": 0,
    }  # fmt: skip
    assert whole.without("age") == replace(whole, age=0.0)


# -- facts of a site -----------------------------------------------------------------------------------------------


def test_the_usual_priority_is_the_median_where_most_jobs_of_the_slice_have_one() -> None:
    rows: list[Row] = [("ada", float(k), float(k), 1.0, 2) for k in range(7)]
    slice_s = (HOUR_S, 6 * HOUR_S)
    most = table(*rows, priority=[9_000, 10, 80, -1, 30, -1, 9_000])
    assert Site.of(most, PLAIN, *slice_s).usual_priority == 30.0
    few = table(*rows, priority=[9_000, 10, 80, -1, -1, -1, 9_000])
    assert Site.of(few, PLAIN, *slice_s).usual_priority == MISSING
    zeros = table(*rows, priority=[9_000, 0, 0, 0, 6, -1, 9_000])
    assert Site.of(zeros, PLAIN, *slice_s).usual_priority == 0.0, "a priority of 0 is one"


def test_the_usual_number_of_nodes_is_the_one_that_lasted_longest_in_the_slice() -> None:
    rows: list[Row] = [("ada", 24.0 * k, 24.0 * k, 24.0, 8 if k < 10 else 13) for k in range(40)]
    jobs = queued(table(*rows))
    assert Site.of(jobs, PLAIN, 0, 16 * DAY_S).nodes == 8
    assert Site.of(jobs, PLAIN, 0, 40 * DAY_S).nodes == 13
    assert Site.of(jobs, PLAIN, 12 * DAY_S, 16 * DAY_S).nodes == 13


def test_a_site_has_its_jobs_settings_and_shutdowns() -> None:
    rows: list[Row] = [("ada", float(h), float(h), 2.0, 40) for h in (0, 2, 4, 6, 8, 22, 24)]
    jobs = queued(table(*rows, ("bob", 5.0, 20.5, 1.5, 8), limit_h=2.0))
    found = Site.of(jobs, PLAIN, 0, 30 * HOUR_S)
    assert (found.jobs, found.settings) == (jobs, PLAIN)
    assert [(one.start_s, one.end_s) for one in found.shutdowns] == [(10 * HOUR_S, 20.5 * HOUR_S)]


def test_capacity_is_constant_or_follows_the_nodes_in_use() -> None:
    rows: list[Row] = [("ada", float(h), float(h), 1.0, 9 if h < 30 else 4) for h in range(60)]
    known = replace(Site.of(queued(table(*rows)), PLAIN, 0, 60 * HOUR_S), nodes=7)
    constant = known.capacity(Mechanisms())
    assert (constant.times_s.tolist(), constant.nodes.tolist()) == ([0], [7])
    follows = known.capacity(Mechanisms(dip_s=6 * HOUR_S))
    assert (follows.times_s.tolist(), follows.nodes.tolist()) == ([0, 30 * HOUR_S], [9, 4])
    assert known.capacity(Mechanisms(dip_s=6 * HOUR_S, age=3.0)) is follows, "computed once"


def test_shutdowns_are_modelled_apart_from_capacity_only_where_they_are_chosen() -> None:
    rows: list[Row] = [("ada", float(h), float(h), 2.0, 40) for h in (0, 2, 4, 6, 8, 20, 22, 24)]
    jobs = queued(table(*rows))
    failure = Shutdown(10 * HOUR_S, 20 * HOUR_S, 3, False, 1)
    known = Site(jobs, PLAIN, 40, -1.0, (failure,))
    apart, within = (Mechanisms(dip_s=6 * HOUR_S, shutdowns=chosen) for chosen in (True, False))
    assert known.capacity(apart).nodes.tolist() == [40]
    assert known.capacity(within).nodes.min() < 40
    changes = known.cluster(Mechanisms(shutdowns=True)).changes
    assert [(one.time_s, one.nodes) for one in changes] == [(10 * HOUR_S, -37), (20 * HOUR_S, 37)]
    maintenance = replace(known, shutdowns=(replace(failure, known=True),))
    cluster = maintenance.cluster(Mechanisms(shutdowns=True))
    assert cluster.changes == ()
    assert [(one.start_s, one.end_s, one.nodes) for one in cluster.reservations] == [(10 * HOUR_S, 20 * HOUR_S, 37)]
    assert maintenance.cluster(Mechanisms()).reservations == ()


def test_changes_of_capacity_and_failures_are_in_order_of_time() -> None:
    rows: list[Row] = [("ada", 24.0 * day, 24.0 * day, 24.0, 9 if day < 5 else 4) for day in range(12)]
    late = Shutdown(210 * HOUR_S, 214 * HOUR_S, 0, False, 1)
    early = Shutdown(30 * HOUR_S, 33 * HOUR_S, 1, False, 1)
    known = Site(queued(table(*rows)), PLAIN, 9, -1.0, (early, late))
    changes = known.cluster(Mechanisms(dip_s=6 * HOUR_S, shutdowns=True)).changes
    assert [(one.time_s // HOUR_S, one.nodes) for one in changes] == [
        (30, -8), (33, 8), (120, -5), (210, -4), (214, 4),
    ]  # fmt: skip


def test_the_scheduler_has_the_chosen_weights_and_none_for_partitions() -> None:
    jobs = table(("ada", 0, 0, 1, 2))
    declared = replace(PLAIN, weight_partition=70.0, weight_qos=80.0, weight_age=90.0)
    small = idle_site(jobs, settings=declared).scheduler(
        Mechanisms(age=300.0, fairshare=20.0, size=-62.5, turnover_s=30, recorded=False)
    )
    assert (small.weight_age, small.weight_fairshare, small.weight_size, small.favor_small) == (300.0, 20.0, 62.5, True)
    assert (small.weight_partition, small.weight_qos, small.turnover_s) == (0.0, 0.0, 30)
    assert small.recorded_priority is None
    large = replace(idle_site(jobs), usual_priority=45.0).scheduler(Mechanisms(size=10.0, recorded=True))
    assert (large.weight_size, large.favor_small, large.recorded_priority) == (10.0, False, 45.0)
    assert not idle_site(jobs).scheduler(Mechanisms()).favor_small


# -- replays -------------------------------------------------------------------------------------------------------


def test_a_replay_on_idle_nodes_starts_every_job_at_once_with_its_recorded_run_time() -> None:
    jobs = table(("ada", 0, 7, 2, 2), ("bob", 1, 9, 3, 3))
    played = idle_site(jobs).replay(Mechanisms(), jobs)
    assert hours_by_user(played) == pytest.approx({"ada": 0, "bob": 1}, abs=0.1)
    assert (played.end_s - played.start_s).tolist() == [2 * HOUR_S, 3 * HOUR_S]
    assert played.submit_s.tolist() == jobs.submit_s.tolist()


def test_a_held_job_waits_until_the_last_that_passed_it_by_and_the_others_do_not() -> None:
    jobs = table(("ada", 0, 10, 1, 2), ("bob", 1, 3, 1, 3), ("eve", 11, 11.5, 1, 1))
    held = idle_site(jobs).replay(Mechanisms(), jobs, held=True)
    assert hours_by_user(held) == pytest.approx({"ada": 3, "bob": 1, "eve": 11}, abs=0.1)
    free = idle_site(jobs).replay(Mechanisms(), jobs)
    assert hours_by_user(free) == pytest.approx({"ada": 0, "bob": 1, "eve": 11}, abs=0.1)


def test_until_a_replay_begins_it_follows_the_record() -> None:
    """Ada's job had started by then, bob's had not, and eve's was submitted later."""
    jobs = table(("ada", 0, 5, 2, 1), ("bob", 2, 9, 1, 2), ("eve", 7, 12, 1, 1))
    played = idle_site(jobs).replay(Mechanisms(), jobs, from_s=6 * HOUR_S)
    assert hours_by_user(played) == pytest.approx({"ada": 5, "bob": 6, "eve": 7}, abs=0.1)


def test_a_limit_on_the_jobs_of_a_user_and_the_time_between_two_jobs_hold_in_a_replay() -> None:
    jobs = table(("ada", 0, 0, 2, 1), ("ada", 0, 0, 2, 1), ("bob", 0, 0, 3, 2))
    limited = idle_site(jobs).replay(Mechanisms(user_jobs=1), jobs)
    assert sorted((limited.start_s / HOUR_S).round(1).tolist()) == pytest.approx([0, 0, 2], abs=0.1)
    full = table(("ada", 0, 0, 2, 5), ("bob", 0, 2, 1, 5))
    starts_s = idle_site(full).replay(Mechanisms(turnover_s=20 * MINUTE_S), full).start_s
    assert starts_s[1] - starts_s[0] >= 2 * HOUR_S + 20 * MINUTE_S
    assert np.diff(idle_site(full).replay(Mechanisms(), full).start_s)[0] < 2 * HOUR_S + 10 * MINUTE_S


def test_with_a_think_time_a_reaction_moves_with_the_job_that_it_follows() -> None:
    jobs = table(("ada", 0, 5, 1, 2), ("bob", 3, 3, 0.5, 3), ("ada", 6.2, 8, 1, 1))
    moved = idle_site(jobs).replay(Mechanisms(think_time_s=1200), jobs)
    row = moved.job_id.tolist().index("j2")
    assert moved.submit_s[row] / HOUR_S == pytest.approx(1.2, abs=0.1)
    as_recorded = idle_site(jobs).replay(Mechanisms(), jobs)
    assert as_recorded.submit_s.tolist() == jobs.submit_s.tolist()


# -- the order behind the causes of waits --------------------------------------------------------------------------

CROWD: tuple[Row, ...] = (("ada", 0, 0, 5, 2), ("eve", 0.5, 6, 9, 2), ("bob", 1, 5, 1, 4), ("zoe", 40, 40, 1, 1))
"""Of four nodes two are idle; eve's job came first and fits on them, bob's later one needs all four."""


def eve_hours(chosen: Mechanisms, settings: SlurmSettings = PLAIN, priority: tuple[int, ...] = (0, 0, 0, 0)) -> float:
    """Hours that eve's job waits for one of higher priority, which is bob's."""
    jobs = queued(table(*CROWD, limit_h=5, priority=priority))
    found = idle_site(jobs, nodes=4, settings=settings).wait_causes(chosen, jobs)
    return float(found.hours[1, CAUSES.index(ORDER)])


ONE = 2 / 6
"""The head of the queue itself is in order for two samples of ten minutes, then unexplained."""


@pytest.mark.parametrize(
    ("chosen", "priority", "order_h"),
    [
        (Mechanisms(age=100.0), (0, 0, 0, 0), ONE),
        (Mechanisms(size=100.0), (0, 0, 0, 0), 4 + 2 / 6),
        (Mechanisms(size=-100.0), (0, 0, 0, 0), ONE),
        (Mechanisms(recorded=True), (0, 10, 500, 0), 4 + 2 / 6),
        (Mechanisms(recorded=True), (0, 500, 10, 0), ONE),
        (Mechanisms(wfp=Wfp(9.0, 3.0, 0.0)), (0, 0, 0, 0), 4 + 2 / 6),
        (Mechanisms(wfp=Wfp(0.0, 3.0, 0.0)), (0, 0, 0, 0), ONE),
    ],
)
def test_the_chosen_order_decides_which_job_idle_nodes_are_for(
    chosen: Mechanisms, priority: tuple[int, ...], order_h: float
) -> None:
    assert eve_hours(chosen, priority=priority) == pytest.approx(order_h, abs=0.2)


def test_age_beyond_the_oldest_no_longer_counts() -> None:
    both = Mechanisms(age=100.0, size=0.1)
    assert eve_hours(both) == pytest.approx(ONE, abs=0.2)
    capped = replace(PLAIN, max_age_s=HOUR_S)
    assert eve_hours(both, capped) == pytest.approx(3 + 2 / 6, abs=0.35), "from two hours on both are of the same age"


def test_the_limit_on_the_jobs_of_a_user_is_a_cause() -> None:
    jobs = queued(table(("ada", 0, 0, 5, 1), ("ada", 1, 5, 1, 1), ("zoe", 40, 40, 1, 1)))
    limited = idle_site(jobs).wait_causes(Mechanisms(user_jobs=1), jobs)
    assert limited.hours[1, CAUSES.index(LIMIT)] == pytest.approx(4, abs=0.2)
    assert idle_site(jobs).wait_causes(Mechanisms(), jobs).hours[1, CAUSES.index(UNEXPLAINED)] > 3
