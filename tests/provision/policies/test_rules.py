"""The provisioners that follow a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirage.provision  # noqa: F401  (registers them)
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.plan import Hold, Release, Submit, Wait
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import Nodes, QueuedLink
from mirage.provision.policies.lead_rules import RECENT_S, binomial_rank, paying_lead_s, recent_waits_s, starts_at_once
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 1_000_000


@pytest.mark.parametrize("name", ["reactive", "dependency", "average", "quantile", "lead:0", "lead:4"])
def test_a_link_that_has_ended_is_followed_at_once(name: str) -> None:
    plan = make_policy(name).decide(view(NOW, 4, 0, chain=chain(NOW)))
    assert plan.submits
    assert plan.actions[0].reason == "ended"


@pytest.mark.parametrize("name", ["reactive", "dependency"])
def test_the_reactive_ones_never_submit_ahead(name: str) -> None:
    assert not make_policy(name).decide(view(NOW, 4, 0, chain=chain(NOW + 1))).submits


def test_a_constant_lead_submits_its_hours_ahead() -> None:
    policy = make_policy("lead:4")
    assert not policy.decide(view(NOW, 4, 0, chain=chain(NOW + 4 * HOUR_S + 1))).submits
    assert policy.decide(view(NOW, 4, 0, chain=chain(NOW + 4 * HOUR_S))).submits


def decided(
    ends_h: float, name: str = "hold", free: int = 0, queued: QueuedLink | None = None, waiting: int = 1
) -> list[tuple[Any, ...]]:
    """Actions of a rule with their reasons and times, for a link of two of four nodes."""
    link = replace(chain(NOW + round(ends_h * HOUR_S), nodes=2), queued=queued)
    plan = make_policy(name).decide(view(NOW, 4, free, chain=link, pending=jobs(*[{}] * waiting)))
    return [(type(one), one.reason, *([one.until_s] if isinstance(one, Wait) else [])) for one in plan.actions]


def test_hold_submits_what_cannot_start_and_checks_it_soon() -> None:
    assert decided(30) == [(Submit, "gathers-age"), (Wait, "look-soon", NOW + 10)]
    assert decided(30, free=1) == decided(30)
    assert decided(30, free=2) == [(Wait, "would-start-now", None)]
    assert decided(30, waiting=0) == decided(30, free=2), "the next node that becomes free would be the link's"
    assert decided(0.25, "hold:0.125", free=2) == [(Wait, "would-start-now", NOW + 450)]
    assert decided(0.25, "hold:0.25", free=2) == [(Submit, "lead-reached")]


@pytest.mark.parametrize("waits", [{"held": True}, {"begins_s": NOW + 1}])
def test_hold_holds_its_link_and_releases_it_in_time(waits: dict[str, Any]) -> None:
    competes = QueuedLink(7, NOW - 60, NOW - 60, HOUR_S)
    held = replace(competes, **waits)
    assert decided(30, queued=competes) == [(Hold, "gathers-age"), (Wait, "lead-not-reached", None)]
    assert decided(30, queued=held) == [(Wait, "lead-not-reached", None)]
    assert decided(0, queued=held) == [(Release, "ended")]
    assert decided(0, queued=competes) == []
    assert decided(2, "hold:2", queued=held) == [(Release, "lead-reached")]
    assert decided(2.25, "hold:2", queued=held) == [(Wait, "lead-not-reached", NOW + 900)]


def test_hold_waits_until_slurm_counts_the_age_of_its_link() -> None:
    ageless = QueuedLink(7, NOW - 10, MISSING, HOUR_S)
    assert decided(30, queued=ageless) == [(Wait, "look-soon", NOW + 10)]
    assert decided(30, queued=replace(ageless, accrues_s=NOW - 9))[0] == (Hold, "gathers-age")
    assert decided(30, queued=replace(ageless, submitted_s=NOW - 60))[0] == (Hold, "gathers-age"), "a limit excludes it"
    assert decided(30, queued=replace(ageless, held=True)) == [(Wait, "lead-not-reached", None)]
    assert decided(0, queued=ageless) == []


@pytest.mark.parametrize(
    ("free", "gpus", "nodes", "starts"),
    [
        ([[4, 8], [4, 8], [1, 8]], -1, 2, True),
        ([[4, 8], [4, 7], [1, 8]], -1, 2, False),
        ([[1, 2], [2, 2], [0, 8]], 1, 2, True),
        ([[1, 2], [2, 1], [0, 8]], 1, 2, False),
        ([[1, 2], [2, 1], [1, 8]], 1, 2, False),
    ],
)
def test_on_shared_nodes_each_node_has_to_fit(free: list[list[int]], gpus: int, nodes: int, *, starts: bool) -> None:
    machine = Nodes(False, np.full((3, 2), (4, 8)), np.array(free), np.array([[True, True, False]]))
    observed = replace(view(NOW, 3, 0), nodes=machine)
    link = replace(chain(NOW + HOUR_S, nodes=nodes), gpus=gpus, cpus=2 if gpus > 0 else -1)
    assert starts_at_once(observed, link) == starts


def lead_by_user_waits_h(
    cost: Cost, user: int = 2, hours: tuple[tuple[int, ...], ...] = ((9,), (1,), (2,), (1,), (3,)), elsewhere: int = 7
) -> float:
    """The lead of ``user-waits`` in hours for a link of two nodes.

    User 2 has waited these hours on the last days, and 3 h with the present link today; 400 h and more long ago, with
    more nodes or with longer limits. User 3 has waited 90 h, and 500 h on each of the days elsewhere.
    """
    past = [(2, 2, ago, h) for ago, of_day in enumerate(hours, 1) for h in of_day]
    past += [(3, 1, ago, 500) for ago in range(1, elsewhere + 1)]
    started = [(u, n, NOW - 2 * HOUR_S - ago * DAY_S, h) for u, n, ago, h in past]
    rows = [(u, n, 3600, start_s - h * HOUR_S, start_s, NOW - 9) for u, n, start_s, h in started]
    begun_s, submitted_s = NOW - 15 * DAY_S, NOW - 40 * DAY_S
    rows += [(2, 3, 3600, submitted_s, begun_s, NOW), (2, 1, 100_001, submitted_s, begun_s, NOW)]
    old = (2, 1, 3600, submitted_s, begun_s, NOW - RECENT_S)
    present = {"user": 2, "nodes": 2, "submit_s": NOW - 5 * HOUR_S, "start_s": NOW - 2 * HOUR_S}
    others = {"user": 3, "submit_s": NOW - 91 * HOUR_S, "start_s": NOW - HOUR_S}
    wide = {"user": 2, "nodes": 3, "submit_s": submitted_s, "start_s": NOW - HOUR_S}
    link = replace(chain(NOW + 40 * HOUR_S, nodes=2), user=user)
    observed = view(NOW, 4, 0, chain=link, running=jobs(present, others, wide), history=ended(old, *rows))
    plan = make_policy("user-waits", PolicySettings(cost)).decide(observed)
    assert plan.submits == (plan.estimate["lead_s"] >= 40 * HOUR_S)
    return plan.estimate["lead_s"] / HOUR_S


def test_user_waits_leads_as_would_have_paid_in_the_users_own_waits() -> None:
    """At 3 : 1, leads of 1, 2 and 3 h save 3, 4.7 ± 0.8 and 5.7 ± 1.6 h in the waits."""
    assert lead_by_user_waits_h(Cost(3, 1)) == 2
    assert lead_by_user_waits_h(Cost()) == 1
    assert lead_by_user_waits_h(Cost(1, 0)) == 9, "a lead that costs nothing"
    assert lead_by_user_waits_h(Cost(0, 1)) == 0
    assert lead_by_user_waits_h(Cost(), user=3) == 500
    assert lead_by_user_waits_h(Cost(), user=5) == 0, "a user without jobs is reactive"


@pytest.mark.parametrize(
    ("hours", "lead_h"),
    [
        (4 * ((3,),), 0),
        (5 * ((3,),), 3),
        (((0,), (0,), (0,), (0,), (40,)), 0),
        (((0,), (20,), (40,), (0,), (20,)), 0),
        (((3, 3, 3, 3, 3), (3,), (3,), (3,)), 0),
        (((20, 20, 20, 20, 20, 20), *4 * ((0,),)), 0),
        (((0, 0, 0, 0, 0, 0), *5 * ((3,),)), 3),
    ],
)
def test_user_waits_needs_several_days_that_agree(hours: tuple[tuple[int, ...], ...], lead_h: int) -> None:
    assert lead_by_user_waits_h(Cost(), hours=hours) == lead_h
    assert lead_by_user_waits_h(Cost(), hours=tuple(2 * of_day for of_day in hours)) == lead_h, "many jobs of a day"


def test_a_free_lead_needs_several_days_as_well() -> None:
    assert lead_by_user_waits_h(Cost(1, 0), user=3, elsewhere=5) == 500
    assert lead_by_user_waits_h(Cost(1, 0), user=3, elsewhere=4) == 0


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), max_size=30),
    st.sampled_from([Cost(), Cost(3, 1), Cost(1, 5)]),
)
def test_a_paying_lead_has_cost_less_than_none_on_the_mean_day(waits: list[tuple[int, int]], cost: Cost) -> None:
    waits_s, days = np.array([w for w, _ in waits], np.int64), np.array([d for _, d in waits], np.int64)
    lead_s = paying_lead_s(waits_s, days, cost)
    if lead_s:
        saved = cost.of(waits_s.astype(float)) - cost.of(waits_s - lead_s)
        assert np.mean([saved[days == day].mean() for day in np.unique(days)]) > 0


@pytest.mark.parametrize("name", ["hold:-1", "hold:x", "hold:inf"])
def test_hours_that_hold_cannot_use_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="hold takes hours, as in hold:4; got"):
        make_policy(name)


@pytest.mark.parametrize(("name", "lead_s"), [("saia", 540), ("sml", 3 * HOUR_S), ("lead:0.15", 540)])
def test_named_practices_are_constant_leads(name: str, lead_s: int) -> None:
    policy = make_policy(name)
    assert not policy.decide(view(NOW, 4, 0, chain=chain(NOW + lead_s + 1))).submits
    assert policy.decide(view(NOW, 4, 0, chain=chain(NOW + lead_s))).submits


@pytest.mark.parametrize("name", ["singleton", "singleton:2", "singleton:links=3"])
def test_singletons_go_by_the_end_of_the_link_however_many_wait(name: str) -> None:
    for ends_s in (NOW, NOW + 1, NOW + HOUR_S):
        observed = view(NOW, 4, 0, chain=chain(ends_s))
        assert make_policy(name).decide(observed) == make_policy("dependency").decide(observed)


@pytest.mark.parametrize(
    ("name", "left_s", "named_s"),
    [
        ("saia", 540 + 1799, 1799),
        ("saia", 540 + 30_000, 30_000),  # a constant lead needs no decision before
        ("saia", 541, 1),
        ("lead:0.0001", 1000, 1000),  # a third of a second: at the end
        ("reactive", 1000, 1000),
        ("average", 3000 + 1799, 1799),
        ("average", 3001, 1),
        ("quantile:0.5", 3000 + 1799, 1799),
        ("quantile:0.5", 3000 + 1800, None),  # the next decision comes then anyway
        ("quantile:0.5", 3001, 300),  # the lead may be another by then, and need not be looked at every second
    ],
)
def test_a_rule_names_its_moment(name: str, left_s: int, named_s: int | None) -> None:
    link = chain(NOW + left_s, limit_s=10_000)
    history = ended(*[(1, 1, 60, link.started_s - 3010, link.started_s - 10, NOW)] * 20)
    (wait,) = make_policy(name).decide(view(NOW, 4, 0, history=history, chain=link)).actions
    assert isinstance(wait, Wait)
    assert wait.until_s == (None if named_s is None else NOW + named_s)


def test_the_average_is_taken_over_what_had_started_with_the_present_link() -> None:
    link = chain(NOW + 3000, limit_s=10_000)
    before, after = link.started_s - 10, link.started_s + 10
    history = ended((1, 1, 60, before - 2000, before, NOW), (1, 1, 60, before - 4000, before, NOW))
    late = jobs({"submit_s": after - 9000, "start_s": after, "width": 1})
    policy = make_policy("average")
    plan = policy.decide(view(NOW, 4, 0, history=history, running=late, chain=link))
    assert plan.submits
    assert plan.estimate["lead_s"] == 3000
    assert not policy.decide(view(NOW, 4, 0, history=history, chain=chain(NOW + 3001, limit_s=10_000))).submits


def test_recent_waits_are_those_of_the_latest_starts() -> None:
    history = ended((1, 1, 60, 0, 5, 9), (1, 1, 60, 0, 30, 40), (1, 1, 60, 0, 20, 50))
    assert recent_waits_s(view(NOW, 4, 4, history=history), NOW, 2).tolist() == [20, 30]


def test_without_history_no_policy_leads() -> None:
    for name in ("average", "quantile"):
        assert not make_policy(name).decide(view(NOW, 4, 0, chain=chain(NOW + 1))).submits


@given(st.integers(1, 300), st.floats(0.05, 0.99), st.floats(0.5, 0.99))
def test_the_binomial_rank_is_the_least_that_is_sure_enough(n: int, quantile: float, confidence: float) -> None:
    k = np.arange(n + 1)
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    log_choose = factorial[n] - factorial[k] - factorial[n - k]
    mass = np.exp(log_choose + k * np.log(quantile) + (n - k) * np.log1p(-quantile))
    below = np.cumsum(mass)  # below[k] = P(Bin <= k)
    rank = binomial_rank(n, quantile, confidence)
    if rank is None:
        assert below[n - 1] < confidence + 1e-9
        return
    assert 1 <= rank <= n
    assert below[rank - 1] >= confidence - 1e-9
    if rank > 1:
        assert below[rank - 2] < confidence + 1e-9


def test_known_rank() -> None:
    # The 59th of 59 samples is the first to bound the 0.95-quantile with 95 % confidence (1 - 0.95**59 = 0.9515).
    assert binomial_rank(59, 0.95, 0.95) == 59
    assert binomial_rank(58, 0.95, 0.95) is None
    assert 1 - 0.95**59 > 0.95 > 1 - 0.95**58


@pytest.mark.parametrize("name", ["lead", "lead:soon", "lead:-1", "quantile:2", "reactive:3", "saia:3", "singleton:0"])
def test_a_parameter_that_cannot_be_used_is_an_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name.split(":")[0]):
        make_policy(name)


def test_an_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'reactive'.*average.*what-if"):
        make_policy("reactiv")


def test_a_provisioner_needs_a_chain() -> None:
    with pytest.raises(ConfigurationError, match="chain"):
        make_policy("reactive").decide(view(NOW, 4, 4))
