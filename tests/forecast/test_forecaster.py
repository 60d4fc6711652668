"""Roll-outs of a visible queue: starts of a link, and every reason to leave the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, PlanInfeasible
from mirage.forecast import forecaster
from mirage.forecast.forecaster import Forecaster
from mirage.forecast.run_times import TrueRunTimes
from mirage.kernel.compile import kernel
from mirage.policy.view import Nodes, QueuedLink, View
from mirage.sim.cluster import Limit
from mirage.sim.disciplines.discipline_registry import DISCIPLINES, PAUSED, DisciplineSpec
from mirage.sim.kernel.arrays import DISCIPLINE, Reference, dereference
from mirage.sim.kernel.plan_actions import START
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 40 * DAY_S
QUEUES = ["fcfs", "easy", "conservative", "slurm", "mirage-2023"]
NOW_ONLY = np.zeros(1, dtype=np.int64)


def full_machine(*, left_s: int, limit_s: int = 4 * HOUR_S) -> object:
    """Two nodes, both taken by a job that has ``left_s`` of its limit left."""
    job = {"nodes": 2, "limit_s": limit_s, "submit_s": NOW - limit_s, "start_s": NOW - limit_s + left_s, "width": 2}
    return view(NOW, 2, 0, running=jobs(job), chain=chain(NOW + 2 * DAY_S))


@pytest.mark.parametrize("discipline", QUEUES)
def test_without_history_every_job_runs_to_its_limit(discipline: str) -> None:
    left_s = 2 * HOUR_S
    starts_s = Forecaster(3, discipline=discipline).forecast(full_machine(left_s=left_s), NOW_ONLY).starts_s
    assert (starts_s == NOW + left_s).all()


@pytest.mark.parametrize("discipline", QUEUES)
def test_a_link_that_fits_starts_now(discipline: str) -> None:
    free = view(NOW, 4, 4, chain=chain(NOW + DAY_S))
    starts_s = Forecaster(3, discipline=discipline).forecast(free, np.array([0, 1800])).starts_s
    assert starts_s.tolist() == [[NOW, NOW + 1800]] * 3


@pytest.mark.parametrize("discipline", QUEUES)
def test_it_waits_for_the_queue(discipline: str) -> None:
    running = jobs({"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 2})
    queue = jobs(*({"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5} for _ in range(3)))
    crowded = view(NOW, 2, 0, running=running, pending=queue, chain=chain(NOW + DAY_S))
    start_s = Forecaster(1, discipline=discipline).forecast(crowded, NOW_ONLY).starts_s[0, 0]
    assert start_s == NOW + 4 * HOUR_S


def test_the_present_link_is_known_to_run_to_its_end() -> None:
    # The predecessor holds both nodes; others of its kind end at once, it does not: the next link starts at its end.
    rows = [(1, 2, DAY_S, NOW - DAY_S, NOW - DAY_S, NOW - DAY_S + 1)] * 50
    link = chain(NOW + 5 * HOUR_S, nodes=2, limit_s=DAY_S)
    mine = jobs({"id": 99, "nodes": 2, "limit_s": DAY_S, "start_s": link.started_s, "width": 2})
    starts_s = (
        Forecaster(8, discipline="easy")
        .forecast(view(NOW, 2, 0, running=mine, history=ended(*rows), chain=link), NOW_ONLY)
        .starts_s
    )
    assert (starts_s == link.ends_s).all()


# -- how the engine comes back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("discipline", QUEUES)
def test_a_burst_is_played_to_its_end(discipline: str) -> None:
    # 1,000 jobs of an hour on 76 nodes: far more segments end than a log holds to begin with.
    burst = jobs(*({"limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5} for _ in range(1000)))
    observed = view(NOW, 76, 76, pending=burst, chain=chain(NOW + 2 * DAY_S))
    forecast = Forecaster(2, discipline=discipline).forecast(observed, np.array([0, 6 * HOUR_S]))
    assert forecast.open_share == 0
    assert forecast.starts_s.tolist() == [[NOW + 13 * HOUR_S] * 2] * 2


def test_a_link_submitted_after_a_long_stretch_without_one_still_waits() -> None:
    # Delays are reached by playing the queue alone: there, too, more segments end than a log holds.
    burst = jobs(*({"limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5} for _ in range(2000)))
    observed = view(NOW, 20, 20, pending=burst, chain=chain(NOW + 9 * DAY_S))
    forecast = Forecaster(1, discipline="easy").forecast(observed, np.array([0, 90 * HOUR_S]))
    assert forecast.starts_s.tolist() == [[NOW + 100 * HOUR_S] * 2]


def test_no_arrival_is_dropped_however_many_come_a_day() -> None:
    # 700 jobs of 130 s a day are more than one node can do: the backlog of two days is two days' excess.
    rows = [(1, 1, 130, t, t, t + 130) for t in range(NOW - 2 * DAY_S, NOW, DAY_S // 700)]
    observed = view(NOW, 1, 1, history=ended(*rows), chain=chain(NOW + 3 * DAY_S, limit_s=DAY_S))
    forecast = Forecaster(4, discipline="fcfs").forecast(observed, np.array([0, 2 * DAY_S]))
    come = 2 * len([t for t in range(NOW - DAY_S, NOW, DAY_S // 700)])
    excess_s = come * 130 - 2 * DAY_S
    assert forecast.waits_s[:, 1] == pytest.approx(excess_s, abs=300)


@pytest.mark.parametrize("discipline", QUEUES)
def test_threads_play_the_same_futures(discipline: str) -> None:
    rows = [(1, 1, 4 * HOUR_S, t, t, t + (k * 997) % (4 * HOUR_S)) for k, t in enumerate(range(0, NOW - DAY_S, 7200))]
    waiting = ({"nodes": 1 + k % 2, "limit_s": HOUR_S * (1 + k % 4), "submit_s": NOW - 60 + k} for k in range(20))
    observed = replace(full_machine(left_s=2 * HOUR_S), ended=ended(*rows), pending=jobs(*waiting))
    delays = np.array([0, HOUR_S, 8 * HOUR_S])
    alone, together = (Forecaster(17, discipline=discipline, threads=k).forecast(observed, delays) for k in (1, 4))
    assert len(np.unique(alone.starts_s[:, 0])) > 5
    assert (together.starts_s == alone.starts_s).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_that_are_too_small_are_enlarged(threads: int) -> None:
    rows = [(1, 1, HOUR_S, t, t, t + HOUR_S) for t in range(NOW - 3 * DAY_S, NOW, 600)]
    observed = replace(full_machine(left_s=2 * HOUR_S), ended=ended(*rows))
    whole = Forecaster(3, discipline="easy").of(observed)
    short = Forecaster(3, discipline="easy", threads=threads).of(observed)
    room = {name: getattr(short.observed, name) for name in ("live", "queue", "running", "held", "heap")}
    short.observed = short.observed._replace(**{name: array[:8].copy() for name, array in room.items()})
    delays = np.array([0, HOUR_S, 8 * HOUR_S])
    expected = whole.play(observed.chain, delays, NOW + 4 * DAY_S).starts_s
    assert (short.play(observed.chain, delays, NOW + 4 * DAY_S).starts_s == expected).all()
    assert len(short.observed.live) > 8


def test_a_discipline_that_queries_a_policy_cannot_be_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISCIPLINES, "test-paused", PAUSED)
    with pytest.raises(ConfigurationError, match="queries a policy, and a forecast has none"):
        Forecaster(2, discipline="test-paused").forecast(full_machine(left_s=HOUR_S), NOW_ONLY)


@kernel(DISCIPLINE)
def overbook(situation: Reference) -> int:
    """Starts a running job once more."""
    _, state, scratch = dereference(situation)
    if state.clock[0].n_running == 0:
        return 0
    scratch.plan[0].kind = START
    scratch.plan[0].id = state.live[state.running[0]].id
    scratch.plan[0].nodes = 1
    scratch.plan[0].speed = 1.0
    return 1


def test_a_plan_that_is_refused_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DISCIPLINES, "test-overbook", DisciplineSpec(f"{__name__}:overbook", "for tests"))
    with pytest.raises(PlanInfeasible, match="overbook made an infeasible plan"):
        Forecaster(1, discipline="test-overbook").forecast(full_machine(left_s=HOUR_S), NOW_ONLY)


# -- what a forecast is --------------------------------------------------------------------------------------------


def test_a_link_that_still_waits_when_a_future_is_cut_off_starts_later_the_later_it_was_submitted() -> None:
    forecast = Forecaster(2, discipline="easy").forecast(
        full_machine(left_s=4 * DAY_S, limit_s=5 * DAY_S), np.array([0, HOUR_S]), beyond_s=DAY_S
    )
    assert forecast.open_share == 1
    assert forecast.starts_s.tolist() == [[forecast.until_s, forecast.until_s + HOUR_S]] * 2


def test_true_run_times_leave_nothing_to_chance() -> None:
    run_s = np.array([1234, 4000])
    running = jobs({"nodes": 2, "limit_s": HOUR_S, "start_s": NOW - 1000, "width": 2})
    pending = jobs({"id": 1, "nodes": 2, "limit_s": 2 * HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5})
    observed = view(NOW, 2, 0, running=running, pending=pending, chain=chain(NOW + DAY_S))
    forecast = Forecaster(3, discipline="fcfs", run_times=TrueRunTimes(run_s)).forecast(observed, NOW_ONLY)
    assert (forecast.waits_s == 234 + 4000).all()


def test_delays_that_are_not_played_are_near_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = [(1, 1, 4 * HOUR_S, int(t), int(t), int(t) + int(r)) for t, r in zip(
        np.sort(rng.integers(NOW - 9 * DAY_S, NOW, 700)), rng.integers(600, 4 * HOUR_S, 700)
    )]  # fmt: skip
    queue = [{"id": k, "limit_s": 4 * HOUR_S, "submit_s": NOW - 9, "eligible_s": NOW - 9} for k in range(1, 60)]
    running = jobs({"nodes": 8, "limit_s": HOUR_S, "start_s": NOW, "width": 8})
    observed = view(
        NOW, 8, 0, running=running, pending=jobs(*queue), history=ended(*rows), chain=chain(NOW + 2 * DAY_S, nodes=4)
    )
    delays = np.array([0, 1, 2, 4, 8, 16, 32, 64, 96]) * 1800
    monkeypatch.setattr(forecaster, "ANCHORS", 1)
    played = Forecaster(16, discipline="easy").forecast(observed, delays).starts_s
    monkeypatch.undo()
    read_off = Forecaster(16, discipline="easy").forecast(observed, delays).starts_s
    assert 0.1 < (played != read_off).mean() < 0.9
    assert np.abs(played - read_off).mean() < HOUR_S / 2


def test_a_future_is_followed_from_one_view_to_the_next() -> None:
    # Nothing ends or comes in between: ten minutes later the same futures say the same.
    rows = [(1, 2, 4 * HOUR_S, 0, NOW - DAY_S, NOW - DAY_S + 60 * k) for k in range(1, 200)]
    first = replace(full_machine(left_s=3 * HOUR_S), ended=ended(*rows))
    then = replace(first, now_s=NOW + 10)
    starts_s = [
        Forecaster(32, discipline="easy").forecast(observed, NOW_ONLY).starts_s[:, 0] for observed in (first, then)
    ]
    assert np.abs(starts_s[0] - starts_s[1]).max() < 600
    other = Forecaster(32, discipline="easy", seed=1).forecast(first, NOW_ONLY).starts_s[:, 0]
    assert np.abs(other - starts_s[0]).max() > 1800


def test_a_schedulers_parameters_of_another_type_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the scheduler's parameters must be SlurmSettings, got 'slurm'"):
        Forecaster(1, scheduler="slurm")  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"futures": 0}, {"futures": -1}, {"futures": 1, "threads": 0}])
def test_a_forecast_needs_a_future_and_a_thread(changed: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="a forecast needs a future and a thread, got"):
        Forecaster(**changed)


@pytest.mark.parametrize("delays_s", [[HOUR_S, 0], [-5]])
def test_delays_ascend_from_0(delays_s: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="delays must ascend from 0, got"):
        Forecaster(1).forecast(full_machine(left_s=HOUR_S), np.array(delays_s))


def test_a_view_without_a_chain_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"the view has no chain to forecast; use sim\.view\(chain\)"):
        Forecaster(1).forecast(view(NOW, 2, 2), NOW_ONLY)


def test_priorities_and_plans_are_computed_seldom_and_never_more_often_than_by_the_scheduler() -> None:
    usual = SlurmSettings(calc_period_s=300, bf_interval_s=30)
    slow = SlurmSettings(calc_period_s=7200, bf_interval_s=900)
    assert Forecaster(1, scheduler=usual).seldom == replace(usual, bf_interval_s=600)
    assert Forecaster(1, scheduler=slow).seldom == slow
    observed = full_machine(left_s=HOUR_S)
    assert observed.chain is not None
    short = replace(observed, chain=replace(observed.chain, limit_s=HOUR_S))
    fair = replace(usual, weight_fairshare=1000.0)
    assert [Forecaster(1, scheduler=one).ranked_every_s(short) for one in (usual, fair, slow)] == [3600, 300, 7200]
    assert Forecaster(1, scheduler=fair).ranked_every_s(observed) == HOUR_S, "hours are enough for long links"
    assert Forecaster(1, scheduler=fair).of(observed).are_of(short) is False
    assert Forecaster(1).scheduler == SlurmSettings()


def test_futures_belong_to_a_queue_and_a_moment_whatever_the_chain() -> None:
    queue = jobs({"id": 7, "submit_s": NOW - 5, "eligible_s": NOW - 5})
    held = jobs({"id": 9, "submit_s": NOW - 5, "eligible_s": -1})
    observed = replace(full_machine(left_s=HOUR_S), pending=queue, held=held)
    freely = Forecaster(1, discipline="fcfs").of(observed)
    limited = Forecaster(1, discipline="fcfs", limits=(Limit("user", jobs=3),)).of(observed)
    for futures in (freely, limited):
        assert futures.are_of(replace(observed, chain=None, ended=ended()))
        for changed in (
            {"now_s": NOW + 1}, {"nodes": replace(observed.nodes)}, {"pending": replace(queue)},
            {"running": replace(observed.running)},
        ):  # fmt: skip
            assert not futures.are_of(replace(observed, **changed)), changed
    other = replace(observed, held=replace(held))
    assert (freely.are_of(other), limited.are_of(other)) == (True, False)


def test_a_link_competes_with_its_limit_and_as_a_job_of_its_user() -> None:
    """One node is taken for two hours, then a job takes both: only a short link fits before."""
    running = jobs({"limit_s": 2 * HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 1, "user": 5})
    queue = jobs({"id": 7, "nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5, "user": 6})
    crowded = view(NOW, 2, 1, running=running, pending=queue, chain=chain(NOW + DAY_S, limit_s=5 * HOUR_S))

    def start_h(observed: View, *limits: Limit) -> float:
        found = Forecaster(2, discipline="easy", limits=limits).forecast(observed, NOW_ONLY).starts_s
        return float(found.max() - NOW) / HOUR_S

    assert start_h(crowded) == 3
    assert start_h(replace(crowded, chain=replace(crowded.chain, limit_s=HOUR_S))) == 0
    short = QueuedLink(job=98, submitted_s=NOW - 60, limit_s=HOUR_S, accrues_s=-1)
    assert start_h(replace(crowded, chain=replace(crowded.chain, queued=short))) == 0, "its present limit"
    small = replace(crowded, pending=jobs())
    for user, expected_h in ((5, 2), (6, 0)):
        assert start_h(replace(small, chain=replace(small.chain, user=user)), Limit("user", jobs=1)) == expected_h


@pytest.mark.parametrize(("gpus", "cpus", "start_h"), [(1, 6, 0), (2, 6, 2), (1, 7, 2), (4, 16, 3), (-1, -1, 3)])
def test_a_link_takes_as_many_gpus_and_cpus_of_a_shared_node_as_it_requests(gpus: int, cpus: int, start_h: int) -> None:
    """Two jobs have three of four GPUs and ten of 16 CPUs, one for two hours, one for three."""
    running = jobs(
        {"gpus": 2, "cpus": 3, "limit_s": 2 * HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 1},
        {"gpus": 1, "cpus": 7, "limit_s": 3 * HOUR_S, "submit_s": NOW - 8, "start_s": NOW, "width": 1},
    )
    shared = Nodes(False, np.array([[4, 16]]), np.array([[1, 6]]), np.ones((1, 1), dtype=np.bool_))
    link = replace(chain(NOW + DAY_S, limit_s=HOUR_S), gpus=gpus, cpus=cpus)
    observed = replace(view(NOW, 1, 0, running=running, chain=link), nodes=shared)
    found = Forecaster(2, discipline="easy").forecast(observed, NOW_ONLY)
    assert (found.starts_s == NOW + start_h * HOUR_S).all()


def test_arrivals_are_those_of_a_day_of_the_past_or_none() -> None:
    """Daily at this hour a job takes the only node for 5 hours; yesterday's took it for 9."""
    rows = [(1, 1, 10 * HOUR_S, t, t, t + run_h * HOUR_S) for t, run_h in (
        (NOW - 3 * DAY_S + 60, 5), (NOW - 2 * DAY_S + 60, 5), (NOW - DAY_S + 60, 9)
    )]  # fmt: skip
    observed = view(NOW, 1, 1, history=ended(*rows), chain=chain(NOW + DAY_S, limit_s=HOUR_S))
    delays = np.array([0, HOUR_S])
    free = Forecaster(40, discipline="fcfs", arrivals=False).forecast(observed, delays)
    assert (free.waits_s == 0).all()
    first, again, other = (
        Forecaster(40, discipline="fcfs", seed=seed).forecast(observed, delays).waits_s[:, 1] / HOUR_S
        for seed in (0, 0, 3)
    )
    assert set(first.round(1).tolist()) == {4.0, 8.0}
    assert (again == first).all()
    assert (other != first).any()


# -- a job that waits already --------------------------------------------------------------------------------------


@pytest.mark.parametrize("discipline", QUEUES)
def test_a_pending_job_starts_in_its_turn(discipline: str) -> None:
    running = jobs({"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 2})
    queue = jobs(
        *({"id": k, "nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5} for k in (7, 8, 9))
    )
    futures = Forecaster(2, discipline=discipline).of(view(NOW, 2, 0, running=running, pending=queue))
    starts_s = [futures.play_pending(job, NOW + DAY_S).starts_s.tolist() for job in (7, 8, 9)]
    assert starts_s == [[[NOW + turn * HOUR_S]] * 2 for turn in (1, 2, 3)]


def test_a_pending_job_that_does_not_start_in_time_is_open() -> None:
    queue = jobs({"id": 7, "nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5})
    forecast = Forecaster(2).of(replace(full_machine(left_s=4 * HOUR_S), pending=queue)).play_pending(7, NOW + HOUR_S)
    assert forecast.open_share == 1
    assert (forecast.starts_s == NOW + HOUR_S).all()


def test_a_job_that_is_not_in_view_cannot_be_played() -> None:
    with pytest.raises(ConfigurationError, match="job 7 is not among the pending jobs"):
        Forecaster(2).of(full_machine(left_s=HOUR_S)).play_pending(7, NOW + DAY_S)


# -- a link that is queued already -----------------------------------------------------------------------------------


def after_a_crowd(**queued: object) -> View:
    """A full machine of two nodes, three jobs that wait since a minute, and a queued link."""
    link = QueuedLink(job=7, submitted_s=NOW - DAY_S, limit_s=HOUR_S, **{"accrues_s": NOW - DAY_S, **queued})
    crowd = [{"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 60, "eligible_s": NOW - 60, "id": k} for k in range(3)]
    observed = full_machine(left_s=2 * HOUR_S)
    return replace(observed, pending=jobs(*crowd), chain=replace(chain(NOW + 2 * DAY_S, nodes=2), queued=link))


@pytest.mark.parametrize("discipline", ["slurm", "mirage-2023"])
def test_a_held_link_is_released_with_its_age(discipline: str) -> None:
    delays = np.array([0, 90 * 60])
    plays = Forecaster(2, discipline=discipline, scheduler=SlurmSettings(weight_age=1000.0))
    aged = plays.forecast(after_a_crowd(), delays)
    never = plays.forecast(after_a_crowd(accrues_s=-1), delays)
    assert aged.starts_s.tolist() == [[NOW + 2 * HOUR_S] * 2] * 2
    assert never.starts_s.tolist() == [[NOW + 5 * HOUR_S] * 2] * 2


def test_a_link_that_competes_counts_once() -> None:
    observed = after_a_crowd()
    link = {"id": 7, "nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 30 * DAY_S, "eligible_s": NOW - DAY_S}
    crowd = [{"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 60, "eligible_s": NOW - 60, "id": k} for k in range(3)]
    competes = replace(observed, pending=jobs(link, *crowd))
    plays = Forecaster(2, scheduler=SlurmSettings(weight_age=1000.0))
    delays = np.array([0, 4 * HOUR_S])
    assert plays.forecast(competes, delays).starts_s.tolist() == plays.forecast(observed, delays).starts_s.tolist()
    # where holding costs it its age, a delay puts it behind all three; to stay where it is does not
    slurm = SlurmSettings(weight_age=1000.0)
    for loses in (
        Forecaster(2, scheduler=replace(slurm, age_survives_hold=False)),
        Forecaster(2, scheduler=slurm, limits=[Limit("user", jobs=9, qos="high")]),
    ):
        assert loses.forecast(competes, delays).starts_s.tolist() == [[NOW + 2 * HOUR_S, NOW + 5 * HOUR_S]] * 2
    # held for four hours, it lets two of the three go first, and comes before the last of them
    assert plays.forecast(competes, delays).starts_s.tolist() == [[NOW + 2 * HOUR_S, NOW + 4 * HOUR_S]] * 2


@pytest.mark.parametrize(
    ("queued", "starts_h"),
    [({}, [2, 5]), ({"held": True}, [2, 2]), ({"begins_s": NOW + 1}, [2, 2]), ({"begins_s": NOW}, [2, 5])],
)
def test_only_a_link_that_competes_has_age_to_lose(queued: dict[str, object], starts_h: list[int]) -> None:
    loses = Forecaster(2, scheduler=SlurmSettings(weight_age=1000.0, age_survives_hold=False))
    found = loses.forecast(after_a_crowd(**queued), np.array([0, HOUR_S])).starts_s
    assert found.tolist() == [[NOW + hours * HOUR_S for hours in starts_h]] * 2


def test_a_link_of_a_higher_tier_comes_first_whatever_the_priorities() -> None:
    low = [
        {"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW - 60, "priority": 900.0, "partition": 1, "id": k}
        for k in range(3)
    ]
    observed = replace(full_machine(left_s=2 * HOUR_S), pending=jobs(*low), chain=chain(NOW + 2 * DAY_S, nodes=2))
    both = replace(observed, nodes=replace(observed.nodes, allowed=np.ones((2, 1), dtype=np.bool_)))
    plays = Forecaster(2, scheduler=SlurmSettings(weight_partition=10.0))
    assert plays.forecast(both, NOW_ONLY).starts_s.tolist() == [[NOW + 5 * HOUR_S]] * 2
    tiered = replace(both, tiers=(9, 1))
    assert plays.forecast(tiered, NOW_ONLY).starts_s.tolist() == [[NOW + 2 * HOUR_S]] * 2


def test_a_job_of_which_nice_leaves_nothing_does_not_precede_a_later_link() -> None:
    """Slurm shows 1 for it, and 1 a day later: its age counts for less than its nice."""
    niced = {"nodes": 2, "limit_s": HOUR_S, "submit_s": NOW, "eligible_s": NOW, "priority": 1.0}
    observed = full_machine(left_s=30 * HOUR_S, limit_s=40 * HOUR_S)
    plays = Forecaster(2, scheduler=SlurmSettings(weight_age=1000.0))
    for nice, start_h in ((10_000, 30), (0, 31)):
        crowded = replace(
            observed, pending=jobs({**niced, "nice": nice}), chain=chain(NOW + 2 * DAY_S, nodes=2, limit_s=HOUR_S)
        )
        found = plays.forecast(crowded, np.array([6 * HOUR_S])).starts_s
        assert found.tolist() == [[NOW + start_h * HOUR_S]] * 2
