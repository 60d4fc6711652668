"""Making a policy: with its parameter and the settings that it declares."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.errors import ConfigurationError
from mirage.policy.contract import Policy, PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan
from mirage.policy.policy_registry import POLICIES, make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View

SETTINGS = PolicySettings(Cost(3, 1), 7, "easy", ("bf_window", 60))


class Recorded:
    """Remembers what it was made with."""

    def __init__(self, *words: str, **settings: Any) -> None:
        self.words, self.settings = words, settings

    def decide(self, view: View) -> Plan:
        return Plan()


@pytest.mark.parametrize(
    ("parameter", "needs", "words", "settings"),
    [
        ("", (), (), {}),
        ("hours", (), ("4",), {}),
        ("", ("seed",), (), {"seed": 7}),
        ("hours", ("cost",), ("4",), {"cost": Cost(3, 1)}),
        ("", ("scheduler", "discipline"), (), {"scheduler": ("bf_window", 60), "discipline": "easy"}),
    ],
)
def test_it_gets_the_settings_it_needs_and_no_others(
    parameter: str, needs: tuple[str, ...], words: tuple[str, ...], settings: dict[str, Any]
) -> None:
    made = PolicySpec(f"{__name__}:Recorded", "remembers", parameter, needs).make("4", SETTINGS)
    assert isinstance(made, Recorded)
    assert (made.words, made.settings) == (words, settings)


def test_every_need_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigurationError) as refused:
        PolicySpec("a:B", "greedy", needs=("time", "cost", "money"))
    assert (
        str(refused.value)
        == "a:B needs money, time; known are cost, seed, discipline, scheduler, limits, bank_age, choices"
    )


def test_the_default_settings_of_a_policy() -> None:
    assert PolicySettings() == PolicySettings(Cost(1.0, 1.0), 0, "slurm", None, ())


@pytest.mark.parametrize(
    ("name", "needs", "takes_parameter"),
    [
        ("reactive", (), False),
        ("dependency", (), False),
        ("lead", (), True),
        ("average", (), False),
        ("quantile", (), True),
        ("slurm-estimate", ("discipline", "scheduler"), False),
        ("what-if", ("cost", "seed", "discipline", "scheduler", "limits"), True),
    ],
)
def test_a_built_in_policy_declares_what_it_takes(name: str, needs: tuple[str, ...], takes_parameter: bool) -> None:
    spec = policy_spec(f"{name}:4")
    assert spec is POLICIES[name]
    assert (spec.needs, bool(spec.parameter)) == (needs, takes_parameter)
    assert len(spec.summary) <= 60
    assert "\n" not in spec.summary


@pytest.mark.parametrize("name", [name for name, spec in POLICIES.items() if not spec.parameter])
def test_a_built_in_policy_without_a_parameter_refuses_one(name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_policy(f"{name}:4:5")
    assert str(refused.value) == f"policy '{name}' takes no parameter, got '4:5'"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lead", "lead takes hours, as in lead:4; got ''"),
        ("lead:soon", "lead takes hours, as in lead:4; got 'soon'"),
        ("lead:-1", "lead takes hours, as in lead:4; got '-1'"),
        ("lead:nan", "lead takes hours, as in lead:4; got 'nan'"),
        ("quantile:1", "quantile takes a share between 0 and 1, as in quantile:0.95; got '1'"),
        ("quantile:0", "quantile takes a share between 0 and 1, as in quantile:0.95; got '0'"),
    ],
)
def test_an_invalid_parameter_is_quoted_with_the_valid_form(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_policy(name)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("thing", "is_one"), [(Recorded(), True), (object(), False), (Plan(), False), (lambda view: Plan(), False)]
)
def test_a_policy_is_known_by_its_decide(thing: object, is_one: bool) -> None:
    assert isinstance(thing, Policy) is is_one
