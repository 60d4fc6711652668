"""The choice of a policy by an evaluation on a site's own accounting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice
from mirage.provision.evaluation import site_choice
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.site_choice import LinkRequest, choose_policy, windows_of, without_links
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable

REQUEST = LinkRequest(2, 12 * HOUR_S, Cost(3, 1))


def within(setting: Scenario, days: float) -> Scenario:
    """The same cluster with the first days of its accounts."""
    last = int(np.searchsorted(setting.jobs.jobs.submit_s, days * DAY_S))
    jobs = setting.jobs
    return replace(setting, jobs=Workload(jobs.jobs[:last].copy().view(np.recarray), jobs.table[:last], jobs.left_out))


def test_windows_cover_the_last_weeks_and_leave_time_for_every_hand_over(busy_setting: Scenario) -> None:
    protocol = windows_of(busy_setting, 12 * HOUR_S)
    submit_s = busy_setting.jobs.jobs.submit_s
    assert protocol.windows == 10
    assert protocol.submits_s(0) >= submit_s[0] + 2 * WEEK_S
    assert protocol.hand_over == 5
    assert protocol.submits_s(protocol.windows - 1) + 12 * HOUR_S + 5 * DAY_S <= submit_s[-1]
    assert windows_of(busy_setting, 4 * DAY_S).hand_over == 4, "its chains begin in the warm-up"
    assert protocol.submits_s(1) - protocol.submits_s(0) >= 2 * DAY_S


def test_accounts_that_are_too_short_are_refused_with_what_is_needed(busy_setting: Scenario) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the accounts are 29 days long; .* at least 8 hand-overs .*: 3\d days"
    ):
        windows_of(within(busy_setting, 30), 12 * HOUR_S)


@pytest.fixture(scope="module")
def calm_setting() -> Scenario:
    """Three months of eight nodes with waits now and then."""
    random = np.random.default_rng(3)
    n = 700
    run_s = random.integers(600, 8 * HOUR_S, n)
    table = JobTable.build(
        range(n), submit_s=np.sort(random.integers(0, 90 * DAY_S, n)), elapsed_s=run_s, limit_s=2 * run_s,
        nodes=random.choice([1, 1, 2, 5], n), user=["ada"] * n,
    )  # fmt: skip
    cluster = Cluster.pool(8)
    return Scenario(cluster, workload(table, cluster), "easy")


def chosen(setting: Scenario, monkeypatch: pytest.MonkeyPatch, *stored: PolicyChoice) -> PolicyChoice:
    """The choice among policies without a forecast, which are played at once."""
    members = ("reactive", "lead:2", "lead:11")
    monkeypatch.setattr(site_choice.AutoParameters, "members", members)
    monkeypatch.setattr(
        site_choice, "default_choice", lambda settings, *, bank_age: PolicyChoice("lead:11", "by default")
    )
    return choose_policy(setting, REQUEST, stored)


def test_a_policy_that_is_surely_better_than_the_default_is_chosen(
    calm_setting: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven hours of overlap a hand-over are more than the queue costs."""
    found = chosen(calm_setting, monkeypatch)
    assert found.policy in ("reactive", "lead:2")
    assert found.reason.startswith("in 28 hand-overs of this site it cost ")
    assert (found.nodes, found.limit_s, found.cost_ratio, found.bank_age) == (2, 12 * HOUR_S, 3.0, False)


def test_the_stored_choice_stays_unless_another_is_surely_better(
    calm_setting: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = chosen(calm_setting, monkeypatch)
    other = "reactive" if first.policy == "lead:2" else "lead:2"
    found = chosen(calm_setting, monkeypatch, replace(first, policy=other))
    assert found.policy == other
    assert found.reason.startswith("none is better beyond doubt: cost of a hand-over reactive ")
    gone = chosen(calm_setting, monkeypatch, replace(first, policy="./gone"))
    assert gone == first


def test_earlier_links_of_the_chain_are_not_in_the_accounts_twice() -> None:
    table = JobTable.build(
        range(4), submit_s=[0, 1, 2, 3], elapsed_s=[5] * 4, limit_s=[12 * HOUR_S] * 3 + [HOUR_S], nodes=[2] * 4,
        user=["ada", "bob", "ada", "ada"],
    )  # fmt: skip
    assert without_links(table, replace(REQUEST, user="ada")).job_id.tolist() == ["1", "3"]
    assert without_links(table, replace(REQUEST, user="ada", nodes=4)).job_id.tolist() == ["0", "1", "2", "3"]
    assert without_links(table, replace(REQUEST, user="eve")).job_id.tolist() == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("user", "owner"), [("ada", "user:ada"), ("eve", "newcomer"), ("", "newcomer")])
def test_the_links_belong_to_the_user_of_the_chain(
    calm_setting: Scenario, monkeypatch: pytest.MonkeyPatch, user: str, owner: str
) -> None:
    protocols: list[EvaluationProtocol] = []

    def instead(scenario, protocol, links, policies, costs, **_):  # type: ignore[no-untyped-def]
        protocols.append(protocol)
        raise ConfigurationError("played elsewhere")

    monkeypatch.setattr(site_choice, "evaluate", instead)
    with pytest.raises(ConfigurationError, match="played elsewhere"):
        choose_policy(calm_setting, replace(REQUEST, user=user))
    assert [(one.link_user, one.hand_over) for one in protocols] == [(owner, 5)]


def test_what_may_be_chosen_follows_from_the_site(busy_setting: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real members; the limits of the site decide on the default."""
    played: list[tuple[str, ...]] = []

    def instead(scenario, protocol, links, policies, costs, **_):  # type: ignore[no-untyped-def]
        played.append(tuple(policies))
        raise ConfigurationError("played elsewhere")

    monkeypatch.setattr(site_choice, "evaluate", instead)
    limited = replace(busy_setting, cluster=replace(busy_setting.cluster, limits=(Limit("user", jobs=3),)))
    for bank_age in (False, True):
        with pytest.raises(ConfigurationError, match="played elsewhere"):
            choose_policy(limited, replace(REQUEST, bank_age=bank_age))
    assert played == [("reactive", "what-if", "holds"), ("reactive", "what-if", "holds", "hold", "holds:bank=yes")]
