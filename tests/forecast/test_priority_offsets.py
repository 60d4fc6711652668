"""Priority offsets of future jobs: of the user's jobs in view, else by the user's use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast.priority_offsets import FRESH_S, PriorityOffsets, medians, ranks, use_by_user
from mirage.policy.view import ChainView, Nodes, View
from mirage.sim.cluster import Cluster
from mirage.sim.contract.from_view import priority_offsets
from mirage.sim.disciplines.priority import share_after, sum_by_account
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 40 * DAY_S
FAIR = SlurmSettings(weight_fairshare=1000.0)


def waits(user: int, priority: float, account: int = -1) -> dict[str, object]:
    return {"user": user, "priority": priority, "account": account, "submit_s": NOW, "eligible_s": NOW}


def ran(user: int, hours: float, account: int = -1, days_ago: float = 0.0) -> tuple[int, ...]:
    end_s = round(NOW - days_ago * DAY_S)
    start_s = round(end_s - hours * HOUR_S)
    return (user, 1, DAY_S, start_s, start_s, end_s, -1, account)


def line(used_h: list[float], priorities: dict[int, float]) -> View:
    """Users with these node hours of use; jobs of some of them wait."""
    history = ended(*(ran(user, hours) for user, hours in enumerate(used_h)))
    pending = jobs(*(waits(user, priority) for user, priority in priorities.items()))
    return view(NOW, 4, 0, pending=pending, history=history)


def link_of(user: int, **known: object) -> ChainView:
    """The chain of a user; its next link takes a node."""
    return replace(chain(NOW + DAY_S), user=user, **known)


def of(observed: View, *users: int, settings: SlurmSettings = FAIR) -> list[float]:
    return PriorityOffsets(observed, settings).of_users(np.array(users)).tolist()


def test_a_user_with_waiting_jobs_has_their_offset() -> None:
    assert of(line([9, 8, 7], {0: 100.0, 1: 700.0}), 0, 1) == [100.0, 700.0]


def test_users_differ_where_priorities_are_those_of_a_record() -> None:
    recorded = SlurmSettings(weight_fairshare=0.0, weight_qos=0.0, recorded_priority=150.0)
    observed = line([9, 8, 7], {0: 100.0, 1: 700.0, 2: 200.0})
    assert of(observed, 0, 1, 5, settings=recorded) == [100.0, 700.0, 200.0], (
        "who is not seen stands where the median does"
    )
    assert of(observed, 0, 1, settings=replace(recorded, recorded_priority=None)) == [200.0, 200.0]


def test_a_user_with_less_use_has_a_higher_offset() -> None:
    observed = line([60, 50, 40, 30, 20, 10], {0: 100.0, 1: 200.0, 3: 400.0, 4: 500.0})
    assert of(observed, 2, 5, 9) == pytest.approx([300.0, 600.0, 700.0]), "a user without jobs is ahead of all"


def test_a_user_with_more_usage_is_never_ahead_for_it() -> None:
    observed = line([60, 50, 40, 30, 20, 10], {0: 500.0, 1: 400.0, 3: 200.0, 4: 100.0})
    assert of(observed, 2, 5) == [300.0, 300.0], "a line that falls is laid level"


def test_one_user_out_of_line_bends_nothing() -> None:
    observed = line([60, 50, 40, 30, 20, 10, 5], {0: 100.0, 1: 200.0, 2: 900.0, 3: 400.0, 4: 500.0})
    assert of(observed, 5) == pytest.approx([600.0], abs=1.0)


def test_with_few_users_the_weight_is_spread_evenly_over_the_ranks() -> None:
    assert of(line([40, 30, 20, 10], {0: 250.0}), 1, 3) == pytest.approx([500.0, 1000.0])


def test_where_priorities_do_not_weigh_users_all_stand_alike() -> None:
    observed = line([40, 30, 20, 10], {0: 250.0, 1: 350.0})
    assert of(observed, 0, 1, 3, settings=SlurmSettings()) == [300.0] * 3
    assert of(observed, 0, 1, 3, settings=SlurmSettings(weight_qos=9.0)) == [250.0, 350.0, 300.0]
    assert of(view(NOW, 4, 4), 0, 7, settings=SlurmSettings()) == [0.0, 0.0]


def test_without_any_known_priority_use_alone_orders_the_users() -> None:
    assert of(line([40, 30, 20, 10], {}), 0, 2, 3, 9) == pytest.approx([250.0, 750.0, 1000.0, 1250.0])


@pytest.mark.parametrize(("ago_s", "counts"), [(FRESH_S, True), (FRESH_S + 1, False)])
def test_where_fair_share_counts_the_priority_of_a_start_long_ago_is_ignored(ago_s: int, *, counts: bool) -> None:
    running = jobs({"user": 1, "priority": 800.0, "start_s": NOW - ago_s, "eligible_s": NOW - ago_s, "width": 1})
    observed = view(NOW, 4, 3, running=running, pending=jobs(waits(2, 500.0)))
    constant = replace(FAIR, weight_fairshare=0.0, weight_qos=1.0)
    assert of(observed, 1, settings=constant) == [800.0]
    assert (of(observed, 1) == [800.0]) == counts
    link = PriorityOffsets(observed, FAIR).of_link(link_of(1), 1, seed=1).tolist()
    assert (link == [800.0]) == counts


def test_few_known_users_give_the_slope_by_their_own_rank() -> None:
    # The site has more users than the view: its ranks are divided by a larger number.
    assert of(line([40, 30, 20, 10], {1: 200.0, 2: 300.0}), 0, 3) == pytest.approx([100.0, 400.0])
    weighed = replace(FAIR, weight_qos=100.0)
    assert of(line([40, 30, 20, 10], {1: 600.0}), 0, 3, settings=weighed) == pytest.approx([350.0, 1100.0])


def test_the_part_of_the_rank_is_the_rest_s_complement() -> None:
    observed = PriorityOffsets(line([60, 50, 40, 30, 20, 10], {0: 100.0, 1: 200.0, 3: 450.0, 4: 500.0}), FAIR)
    assert observed.by_rank(np.array([0, 3, 5, 40])) == pytest.approx([100.0, 400.0, 600.0, 700.0])
    assert observed.fair_share is not None
    assert observed.fair_share.weight == pytest.approx(700.0)
    assert PriorityOffsets(line([2, 1], {0: 1.0}), SlurmSettings()).fair_share is None
    assert PriorityOffsets(line([2, 1], {0: 1.0}), replace(FAIR, priority="wfp")).fair_share is None


def test_a_guess_varies_from_future_to_future_and_what_is_known_does_not() -> None:
    observed = PriorityOffsets(line([60, 50, 40, 30, 20, 10], {0: 100.0, 1: 260.0, 3: 380.0, 4: 500.0}), FAIR)
    guessed = observed.of_link(link_of(2), 64, seed=1)
    assert len(np.unique(guessed)) == 4, "as many as users are off the line, each by so much"
    assert np.ptp(guessed) < 100
    assert np.ptp(observed.of_link(link_of(1), 64, seed=1)) == 0
    assert (observed.of_link(link_of(2), 64, seed=1) == guessed).all()


BULK = tuple({"user": 1, "priority": 1.0, "nice": 900, "submit_s": NOW, "eligible_s": NOW} for _ in range(9))


@pytest.mark.parametrize("settings", [FAIR, SlurmSettings(weight_age=100.0)])
def test_a_link_has_the_priority_of_its_own_job_whatever_else_its_user_has(settings: SlurmSettings) -> None:
    observed = view(NOW, 4, 0, pending=jobs(*BULK, waits(1, 40.0), waits(2, 70.0)))
    offsets = PriorityOffsets(observed, settings)
    assert set(offsets.of_link(link_of(1, priority=350.0), 8, seed=1)) == {350.0}
    half = settings.max_age_s / 2
    aged = link_of(1, priority=350.0, accrues_s=round(NOW - half))
    assert offsets.of_link(aged, 1, seed=1) == pytest.approx([350.0 - settings.weight_age / 2])


@pytest.mark.parametrize(("nice", "offset"), [(0, 200.0), (30, 170.0), (-5, 205.0)])
def test_without_a_job_a_link_shares_all_but_nice_with_its_user_s_jobs(nice: int, offset: float) -> None:
    niced = waits(1, 120.0) | {"nice": 80}
    observed = view(NOW, 4, 0, pending=jobs(*BULK, niced, niced, waits(1, 200.0), waits(2, 700.0), waits(2, 650.0)))
    assert PriorityOffsets(observed, FAIR).of_link(link_of(1, nice=nice), 2, seed=1).tolist() == [offset] * 2


@pytest.mark.parametrize(("priority", "offset"), [(1.0, 500.0), (2.0, (500.0 + 902.0) / 2)])
def test_with_nice_the_least_priority_shows_no_offset_and_any_other_does(priority: float, offset: float) -> None:
    niced = {"user": 1, "priority": priority, "nice": 900, "submit_s": NOW, "eligible_s": NOW}
    observed = view(NOW, 4, 0, pending=jobs(niced, waits(2, 500.0)))
    alike = PriorityOffsets(observed, SlurmSettings())
    assert alike.of_link(link_of(9), 1, seed=1).tolist() == [offset], "the median of what is known"


def test_nothing_is_known_of_a_user_with_the_least_priority_for_all_jobs() -> None:
    observed = view(NOW, 4, 0, pending=jobs(*BULK, waits(2, 700.0), waits(3, 500.0)))
    alike = SlurmSettings(weight_age=100.0)
    assert PriorityOffsets(observed, alike).of_link(link_of(1), 1, seed=1).tolist() == [600.0], (
        "the median of the others"
    )


def test_a_waiting_job_of_which_nice_leaves_nothing_is_lower_than_slurm_shows() -> None:
    """Users 1 and 3 have a job without nice, user 4 has none; 1 is shown for three jobs."""
    niced = {"nice": 900, "submit_s": NOW, "eligible_s": NOW}
    pending = jobs(
        *({"user": user, "priority": 1.0, **niced} for user in (1, 3, 4)),
        {"user": 1, "priority": 20.0, **niced}, waits(1, 920.0), waits(3, 400.0), {"user": 1, "priority": 0.0},
    )  # fmt: skip
    observed = view(NOW, 4, 0, pending=pending)
    settings = SlurmSettings(weight_qos=1.0)
    found = PriorityOffsets(observed, settings)
    shown = priority_offsets(pending, observed, settings)
    assert found.of_waiting(pending, shown).tolist() == [1.0, -500.0, found.typical - 900, 20.0, 920.0, 400.0, 0.0]
    plain = jobs(waits(1, 5.0), waits(2, 0.0))
    assert found.of_waiting(plain, shown[:2]) is not None
    assert found.of_waiting(plain, np.array([5.0, 0.0])).tolist() == [5.0, 0.0]


def test_jobs_of_another_qos_count_as_far_as_it_is_known_how_far_apart_they_are() -> None:
    weighed = SlurmSettings(weight_qos=1000.0, weight_fairshare=10.0)
    low = [waits(1, 150.0) | {"qos": 2}] * 5
    observed = view(NOW, 4, 0, pending=jobs(*low, waits(1, 640.0) | {"qos": 1}, waits(2, 90.0) | {"qos": 2}))
    assert PriorityOffsets(observed, weighed).of_link(link_of(1, qos=1), 1, seed=1).tolist() == [640.0]
    unlike = view(NOW, 4, 0, pending=jobs(*low, waits(2, 90.0) | {"qos": 2}))
    known = replace(unlike, qos_factor=(0.0, 0.6, 0.1))
    assert PriorityOffsets(known, weighed).of_link(link_of(1, qos=1), 1, seed=1) == pytest.approx([650.0])


def placed(observed: View, half_life_s: float = 2.0 * DAY_S) -> list[int]:
    """Ranks of all users of a view, then that of a user without jobs."""
    return ranks(*use_by_user(observed, half_life_s)).tolist()


def test_usage_fades_and_accounts_come_first() -> None:
    def places(*history: tuple[int, ...]) -> list[int]:
        return placed(view(NOW, 4, 4, history=ended(*history)))

    assert places(ran(0, 10), ran(1, 9)) == [1, 2, 3]
    assert places(ran(0, 10, days_ago=4), ran(1, 9)) == [2, 1, 3]
    assert places(ran(0, 10, account=5), ran(1, 9, account=3), ran(2, 8, account=3)) == [3, 1, 2, 4]
    assert places(ran(0, 5), ran(1, 5), ran(2, 1)) == [2, 2, 3, 4]


def test_ranks_are_those_of_the_simulator() -> None:
    # Few values, so that users and accounts tie.
    dice = np.random.default_rng(3)
    for _ in range(40):
        used, account = dice.integers(0, 4, 9).astype(np.float64), dice.integers(0, 4, 9)
        cluster = Cluster.pool(1)
        table = JobTable.build(
            range(9), submit_s=[0] * 9, elapsed_s=[9] * 9, limit_s=[9] * 9, nodes=[1] * 9,
            user=[f"u{k}" for k in range(9)], account=[f"a{code}" for code in account],
        )  # fmt: skip
        sim = Simulation(cluster, workload(table, cluster), "slurm", FAIR)
        sim.state.usage[1:] = used
        sum_by_account(sim.world, sim.state, sim.scratch)
        shares = [share_after(sim.world, sim.state, sim.scratch, user) * 10 for user in range(10)]
        with_newcomer = ranks(np.append(0.0, used), np.append(9, account))
        assert with_newcomer.tolist() == [round(share) for share in shares]


def test_all_users_of_accounts_without_use_have_the_highest_rank() -> None:
    """As ``sshare`` shows it on 22.05.8: a fair-share of 1."""
    used, account = np.array([0.0, 0, 0, 19, 0, 0, 7, 7]), np.array([0, 0, 0, 1, 2, 1, 3, 4])
    assert ranks(used, account).tolist() == [8, 8, 8, 1, 8, 2, 4, 4]


def test_medians_are_by_user() -> None:
    users, values = np.array([3, 1, 3, 1, 3, 8]), np.array([5.0, 2.0, 1.0, 4.0, 9.0, -7.0])
    assert medians(users, values) == {1: 3.0, 3: 5.0, 8: -7.0}
    assert medians(users[:0], values[:0]) == {}


def test_a_user_s_account_is_that_of_the_latest_job_that_has_one() -> None:
    moved = ended(ran(0, 10, account=5), ran(1, 9, account=3), ran(2, 2, account=3), ran(0, 1, account=3))
    assert placed(view(NOW, 4, 4, history=moved)) == [1, 2, 3, 4]
    link = jobs({"user": 0, "start_s": NOW, "width": 1})
    assert placed(view(NOW, 4, 4, history=moved, running=link)) == [1, 2, 3, 4], "a link shows no account"
    requests = jobs(waits(2, 0.0, account=5), waits(4, 0.0, account=3))
    two = ended(ran(0, 10, account=5), ran(1, 9, account=3))
    assert placed(view(NOW, 4, 4, pending=requests, history=two)) == [1, 3, 2, 6, 4, 6], "no job of user 3 is in view"
    assert placed(view(NOW, 4, 4)) == [1]


def test_users_without_an_account_share_one() -> None:
    history = ended(ran(0, 10), ran(1, 9, account=3), ran(2, 8))
    assert placed(view(NOW, 4, 4, history=history)) == [1, 4, 2, 3], "a user without jobs is in the heavier account"


def test_wider_jobs_use_more() -> None:
    wide = (0, 3, DAY_S, NOW - 5 * HOUR_S, NOW - 5 * HOUR_S, NOW)
    history = ended(wide, ran(1, 14), ran(2, 16))
    assert placed(view(NOW, 4, 4, history=history), 90.0 * DAY_S)[:-1] == [2, 3, 1]


def test_running_jobs_count_by_what_they_have_used() -> None:
    running = jobs(*({"user": user, "start_s": NOW - hours * HOUR_S, "width": 1} for user, hours in ((0, 2), (1, 9))))
    assert placed(view(NOW, 4, 2, running=running), DAY_S)[:-1] == [2, 1]


def test_the_simulator_s_own_fair_share_is_found() -> None:
    # Twelve users keep a node busy in turn, for ever shorter; those of the even ones submit a second job that waits.
    users = list(range(12))
    settings = replace(FAIR, half_life_s=2.0 * DAY_S, calc_period_s=60)
    table = JobTable.build(
        range(1, 26),
        submit_s=[*(k for k in users), *(40 * HOUR_S + k for k in range(13))],
        elapsed_s=[*((14 - k) * HOUR_S for k in users), *[9 * HOUR_S] * 13],
        limit_s=[20 * HOUR_S] * 25,
        nodes=[1] * 12 + [12] * 13,
        user=[*(f"u{k:02}" for k in users), "u00", *(f"u{k:02}" for k in users)],
    )
    cluster = Cluster.pool(12)
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings)
    sim.advance(41 * HOUR_S)
    whole = sim.view()
    even = whole.pending.user % 2 == 0
    columns = {name: getattr(whole.pending, name)[even] for name in whole.pending.__slots__}
    observed = replace(whole, pending=type(whole.pending)(**columns))
    own = dict(zip(whole.pending.user.tolist(), whole.pending.priority.tolist()))
    assert len(own) == 12
    missing = [user for user in own if user % 2]
    assert of(observed, *missing, settings=settings) == pytest.approx([own[user] for user in missing], abs=1.5)


def test_use_is_cpu_time_where_nodes_are_shared() -> None:
    """Nodes of 8 and 16 CPUs; partition 1 has only the former."""
    nodes = Nodes(
        False, np.array([[0, 8], [0, 16]]), np.zeros((2, 2), np.int64), np.array([[True, True], [True, False]])
    )
    begun = {"start_s": NOW - HOUR_S, "width": 1}
    observed = replace(
        view(
            NOW, 4, 4,
            history=ended((*ran(0, 1), 3), (*ran(1, 1), -1)),
            running=jobs(
                {"user": 2, "nodes": 2, "gpus": 1, "cpus": 5, **begun},
                {"user": 3, "gpus": -1, "cpus": -1, "partition": 1, **begun},
            ),
        ),
        nodes=nodes,
    )  # fmt: skip
    used, _ = use_by_user(observed, 1e12)
    assert (used / HOUR_S).tolist() == pytest.approx([3, 16, 10, 8, 0])
    of_pools, _ = use_by_user(replace(observed, nodes=view(NOW, 4, 4).nodes), 1e12)
    assert (of_pools / HOUR_S).tolist() == pytest.approx([1, 1, 2, 1, 0])
