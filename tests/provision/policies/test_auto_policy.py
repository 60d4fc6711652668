"""auto: the policy that suits the site, and what it does with a queued link."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, ModelFileError, UnknownName
from mirage.policy.auto_parameters import AutoParameters
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Release, Submit, Wait
from mirage.policy.policy_choice import PolicyChoice
from mirage.policy.policy_registry import make_policy, policy_named_by
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.provision.policies.test_holds_policy import NOW, full, queued

AGE = PolicySettings(scheduler=SlurmSettings(weight_age=100_000.0))
FAIR = PolicySettings(scheduler=SlurmSettings(weight_age=1_000.0, weight_fairshare=10_000.0))
LIMITED = replace(AGE, limits=(Limit("user", jobs=99),))


def chosen(settings: PolicySettings, name: str = "auto") -> str:
    plan = make_policy(name, settings).decide(full(ends_h=40))
    assert plan.choice is not None
    return plan.choice.policy


@pytest.mark.parametrize(
    ("settings", "name", "policy"),
    [
        (AGE, "auto", "holds"),
        (AGE, "auto:bank=yes", "holds:bank=yes"),
        (replace(AGE, bank_age=True), "auto", "holds:bank=yes"),
        (FAIR, "auto", "holds"),
        (FAIR, "auto:bank=yes", "holds:bank=yes"),
        (LIMITED, "auto", "what-if"),
        (LIMITED, "auto:bank=yes", "what-if"),
        (PolicySettings(), "auto", "holds"),
    ],
)
def test_without_an_evaluation_the_settings_of_the_site_decide(
    settings: PolicySettings, name: str, policy: str
) -> None:
    assert chosen(settings, name) == policy


def test_age_is_gathered_with_the_permission_of_the_user_alone() -> None:
    full_queue = full(ends_h=40)
    assert not make_policy("auto", AGE).decide(full_queue).submits
    assert make_policy("auto:bank=yes", AGE).decide(full_queue).actions[0] == Submit(reason="gathers-age")


def evaluated(policy: str, **changed: Any) -> PolicyChoice:
    link = full(ends_h=40).chain
    assert link is not None
    choice = PolicyChoice(policy, "it was better", nodes=link.nodes, limit_s=link.limit_s)
    return replace(choice, **changed)


@pytest.mark.parametrize(
    ("changed", "policy"),
    [
        ({}, "reactive"), ({"nodes": 9}, "holds"), ({"limit_s": 9 * DAY_S}, "holds"), ({"cost_ratio": 3.0}, "holds"),
        ({"bank_age": True}, "holds"),
    ],
)  # fmt: skip
def test_an_evaluation_decides_for_links_like_those_that_it_played(changed: dict[str, Any], policy: str) -> None:
    assert chosen(replace(AGE, choices=(evaluated("reactive", **changed),))) == policy


def test_it_decides_as_the_chosen_policy_does() -> None:
    settings = replace(AGE, cost=Cost(3, 1), seed=5)
    for observed in (full(ends_h=40), full(ends_h=14), full(ends_h=9, queued=queued(held=False))):
        plan = make_policy("auto", settings).decide(observed)
        assert replace(plan, choice=None) == make_policy("holds", settings).decide(observed)


def decided(observed: View) -> Plan:
    return make_policy("auto", LIMITED).decide(observed)


def test_a_policy_without_revisions_lets_a_queued_link_compete() -> None:
    assert decided(full(ends_h=9, queued=queued(held=False))).actions == (Wait(reason="competes"),)
    assert decided(full(ends_h=9, queued=queued(held=True))).actions == (Release(reason="competes"),)
    begins = replace(queued(held=False), begins_s=NOW + HOUR_S)
    assert decided(full(ends_h=9, queued=begins)).actions == (Release(reason="competes"),)


def test_members_that_gather_age_need_permission_and_a_model_a_file() -> None:
    assert AutoParameters.of("").members == ("reactive", "what-if", "holds")
    assert AutoParameters.of("bank=yes").members == ("reactive", "what-if", "holds", "hold", "holds:bank=yes")
    assert AutoParameters.of("model=./m:x").members == ("reactive", "what-if", "holds", "./m:x")
    assert policy_named_by("auto:model=./m") == "./m"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("auto:bank=maybe", ConfigurationError),
        ("auto:model=", ConfigurationError),
        ("auto:what=1", ConfigurationError),
        ("auto:model=./missing", ModelFileError),
        ("auto:model=nosuch", UnknownName),
    ],
)
def test_a_wrong_parameter_is_reported(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        make_policy(name)


def test_a_chosen_policy_that_is_gone_is_named() -> None:
    policy = make_policy("auto", replace(AGE, choices=(evaluated("./gone"),)))
    with pytest.raises((ConfigurationError, ModelFileError), match="gone"):
        policy.decide(full(ends_h=40))
