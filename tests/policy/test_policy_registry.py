"""Policies by name: each gets the settings that it declares, built-in or not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.policy.contract import PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.policy_registry import known_policies, lasting_name, make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.provision.evaluation.candidate import candidates, weighs_cost

MODULE = '''
from mirage.policy import Plan, PolicySpec


class Plain:
    """Waits.

    For ever.
    """

    def decide(self, view):
        return Plan()


class Told(Plain):
    def __init__(self, parameter, *, cost, seed):
        self.parameter, self.cost, self.seed = parameter, cost, seed


class Hours(Plain):
    def __init__(self, parameter):
        self.hours = float(parameter)


HOURS = PolicySpec("{module}:Hours", "reads a number", "hours")
TOLD = PolicySpec("{module}:Told", "remembers what it is told", "any text", needs=("cost", "seed"))
NOTHING = 3
'''

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with entry points as pip does; returns its module's name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(module: str, **points: str) -> str:
        (tmp_path / f"{module}.py").write_text(MODULE.replace("{module}", module))
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in points.items()]
        found = tmp_path / f"{module}-1.0.dist-info"
        found.mkdir()
        (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (found / "entry_points.txt").write_text("\n".join(["[mirage.policies]", *lines, ""]))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    return installed


def test_a_class_of_another_package_is_a_policy(install: Install) -> None:
    install("quiet_pkg", quiet="quiet_pkg:Plain")
    assert "quiet" in known_policies()
    assert policy_spec("quiet").summary == "Waits."
    assert type(make_policy("quiet", PolicySettings(Cost(3, 1)))).__name__ == "Plain"
    with pytest.raises(ConfigurationError, match="'quiet' takes no parameter, got '4'"):
        make_policy("quiet:4")
    assert not weighs_cost("quiet")


def test_a_policy_of_another_package_gets_its_parameter_and_what_it_needs(install: Install) -> None:
    install("told_pkg", told="told_pkg:TOLD")
    assert weighs_cost("told:4")
    made = make_policy("told:a=1:b", PolicySettings(Cost(3, 1), seed=7, discipline="easy"))
    assert (made.parameter, made.cost, made.seed) == ("a=1:b", Cost(3, 1), 7)


def test_an_unreadable_parameter_of_a_plug_in_policy_is_reported(install: Install) -> None:
    install("hours_pkg", hours="hours_pkg:HOURS")
    assert make_policy("hours:4").hours == 4
    with pytest.raises(ConfigurationError, match="policy 'hours' takes hours, got 'x': could not convert string"):
        make_policy("hours:x")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_pkg:Plain", r"'poor' cannot be loaded from no_such_pkg:Plain: .*fix or uninstall"),
        ("poor_pkg:Absent", r"'poor' cannot be loaded from poor_pkg:Absent"),
        ("poor_pkg:NOTHING", r"'poor': poor_pkg:NOTHING is 3, not a class, a function or a PolicySpec"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_and_does_no_harm_to_others(
    install: Install, value: str, message: str
) -> None:
    install("poor_pkg", poor=value)
    assert "poor" in known_policies()
    assert make_policy("reactive")
    with pytest.raises(ConfigurationError, match=message):
        make_policy("poor")


def test_two_packages_cannot_have_one_name(install: Install) -> None:
    install("one_pkg", quiet="one_pkg:Plain", reactive="one_pkg:Plain")
    install("two_pkg", quiet="two_pkg:Plain")
    for name in ("quiet", "reactive"):
        with pytest.raises(ConfigurationError, match=f"the policy '{name}' is there twice: .* and .*_pkg:Plain"):
            make_policy(name)
    assert len(known_policies()) == len(set(known_policies()))


@pytest.mark.parametrize("bound", ["oracle", "exact-wait", "true-run-times"])
def test_a_package_cannot_have_the_name_of_a_bound(install: Install, bound: str) -> None:
    install("wise_pkg", **{bound: "wise_pkg:Plain"})
    with pytest.raises(
        ConfigurationError, match=f"'{bound}' is there twice: a bound .*; uninstall the package wise_pkg"
    ):
        candidates(["reactive", bound], [Cost()])


def test_an_unknown_name_lists_the_known_ones(install: Install) -> None:
    install("quiet_pkg", quiet="quiet_pkg:Plain")
    with pytest.raises(
        UnknownName, match=r"unknown policy 'quite'. Did you mean 'quiet'\? Known: auto, average, .*what-if"
    ):
        make_policy("quite:4")


def test_a_need_that_no_setting_meets_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a:B needs money; known are cost, seed, discipline, scheduler"):
        PolicySpec("a:B", "greedy", needs=("cost", "money"))


def test_names_are_listed_without_importing_any_policy() -> None:
    import subprocess

    script = (
        "import sys, mirage.policy.policy_registry as r; r.known_policies(); print('mirage.provision' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("both", [(-1, 1), (0, 0), (float("nan"), 1), (1, float("inf"))])
def test_costs_that_cannot_be_weighed_are_refused(both: tuple[float, float]) -> None:
    with pytest.raises(ConfigurationError, match="costs must not be negative, infinite or both zero"):
        Cost(*both)


def test_a_policy_named_in_a_parameter_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lasting_name("./model") == f"{tmp_path}/model"
    assert lasting_name("holds:bank=yes:by=./model") == f"holds:bank=yes:by={tmp_path}/model"
    assert lasting_name("holds:by=./a:b") == f"holds:by={tmp_path}/a:b"
    for name in ("holds", "holds:bank=yes", "holds:by=what-if:64", "lead:4", "unheard-of:by=./model"):
        assert lasting_name(name) == name
